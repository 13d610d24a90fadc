"""The no-U-turn sampler on the same NumPyro model: the check of SVI without a closed form.

It assumes no Gaussian. It draws from the model itself, with the multipliers at their maximum, in
the coordinates in which SVI starts. In other coordinates nearly exact constraints would make it
very slow. All candidates and chains are one compiled call.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bayesdice_ppl import checks
from bayesdice_ppl.constraint import ChanceConstraint, Surrogate, surrogates
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.inference.engine import Solution, nothing_but
from bayesdice_ppl.inference.problem import FitForm, Problem
from bayesdice_ppl.models import Coordinates, GaussianPosterior, Ratio
from bayesdice_ppl.models.gaussian import square_root
from bayesdice_ppl.moments import VALUE_ROW


@final
class Nuts(NamedTuple):
    """The no-U-turn sampler as an engine, and how it samples (hashable, fixed at compilation).

    Attributes
    ----------
    chains
        Number of chains, at least 2, so that they can be compared.
    warmup
        Steps of each chain that adapt step size and metric, and are not kept.
    target_accept
        Acceptance probability for which the step size is adapted.
    max_tree_depth
        At most 2^depth leapfrog steps a draw.
    start_scale
        Standard deviation of the normal from which chains start, in the coordinates.
    """

    chains: int = 4
    warmup: int = 500
    target_accept: float = 0.9
    max_tree_depth: int = 10
    start_scale: float = 2.0

    @property
    def name(self) -> str:
        """What it is called."""
        return "nuts"

    @property
    def guided(self) -> bool:
        """It moves in coordinates."""
        return True

    @property
    def tangent(self) -> bool:
        """It takes the ratio as it is."""
        return False

    def check(self, form: FitForm, draws: int) -> None:
        """Refuse a level to be fitted, a guide's multipliers, and settings out of range."""
        surrogate = form.constraint.surrogate
        if surrogate.fitted:
            raise SettingsError(
                f"inference='nuts': the sampler fits no level, found the surrogate {surrogate} "
                f"without one. Give one, such as {surrogate}(0.5), or use 'svi'."
            )
        if form.constraint.inner == "guide":
            raise SettingsError(
                "inference='nuts': the sampler has no guide, found inner='guide'. "
                "Use inner='exact'."
            )
        checks.whole("nuts.chains", self.chains, 2)
        checks.whole("nuts.warmup", self.warmup)
        checks.whole("nuts.max_tree_depth", self.max_tree_depth)
        if draws < 2 * self.chains:
            raise SettingsError(
                f"draws: expected at least 2 for each of {self.chains} chains, found {draws}."
            )

    def solve(self, problem: Problem, rng_key: PRNGKeyArray, form: FitForm, draws: int) -> Solution:
        """Draws for every candidate, with their mean and covariance."""
        chosen = form.constraint
        posterior, latent, diverging = _solve(
            problem,
            rng_key,
            self,
            draws // self.chains,
            chosen.value_constraint,
            chosen.surrogate,
        )
        return nothing_but(posterior, problem, form)._replace(sampled=latent, diverging=diverging)


class NutsResult(NamedTuple):
    """Draws for one policy.

    Attributes
    ----------
    latent
        The ratio's latent numbers and, with the value constraint, the value, shape (chains, draws,
        L).
    diverging
        Whether a draw's trajectory diverged, shape (chains, draws).
    """

    latent: Float[Array, "chains draws L"]
    diverging: Float[Array, "chains draws"]


def run_nuts(
    ratio: Ratio,
    constraint: ChanceConstraint,
    coordinates: Coordinates,
    rng_key: PRNGKeyArray,
    settings: Nuts,
    *,
    draws: int,
    value_constraint: bool = True,
    surrogate: Surrogate = surrogates.markov(),  # noqa: B008  an immutable NamedTuple
) -> NutsResult:
    """Sample one policy's posterior; `jax.vmap` over the leading axis samples them all at once.

    Parameters
    ----------
    ratio, constraint, coordinates
        The policy's problem.
    rng_key
        Key of starts and draws.
    settings
        Chains, warm-up and step size.
    draws
        Kept draws of each chain.
    value_constraint, surrogate
        As for `bayesdice_ppl.models.model`. A surrogate's level must be given: sampling does not
        optimize it.
    """
    from numpyro.infer.hmc import hmc
    from numpyro.infer.util import log_density

    def latent_of(y: Float[Array, " L"]) -> Float[Array, " L"]:
        return coordinates.center + coordinates.factor @ y

    def potential(y: Float[Array, " L"], chosen: Surrogate) -> Float[Array, ""]:
        latent = latent_of(y)
        sites = {"zeta": latent[:-1], "value": latent[-1]} if value_constraint else {"zeta": latent}
        program = partial(
            ratio.model, inner="exact", value_constraint=value_constraint, surrogate=chosen
        )
        density, _ = log_density(program, (constraint,), {}, sites)
        return -density

    def run(
        key: PRNGKeyArray, start: Array, chosen: Surrogate, kept: int, **adapted: Any
    ) -> tuple[Any, tuple[Array, Array]]:
        begin, advance = hmc(partial(potential, chosen=chosen))
        state = begin(
            start,
            settings.warmup,
            dense_mass=True,
            target_accept_prob=settings.target_accept,
            max_tree_depth=settings.max_tree_depth,
            rng_key=key,
            **adapted,
        )
        state, _ = jax.lax.scan(lambda s, _: (advance(s), None), state, None, settings.warmup)

        def step(state: Any, _: None) -> tuple[Any, tuple[Array, Array]]:
            state = advance(state)
            return state, (state.z, state.diverging)

        return jax.lax.scan(step, state, None, kept)

    def chain(key: PRNGKeyArray) -> tuple[Array, Array]:
        key_start, key_lead, key_draws = jax.random.split(key, 3)
        size = coordinates.center.shape
        start = settings.start_scale * jax.random.normal(key_start, size, coordinates.center.dtype)
        adapted: dict[str, Any] = {}
        if not surrogate.linear:
            # Far from the posterior other costs are too flat or too steep, and a chain would adapt
            # to that. Markov's cost leads the chain near, and leaves its metric and step size.
            led, _ = run(key_lead, start, surrogates.markov(), 1)
            start = led.z
            adapted = {
                "step_size": led.adapt_state.step_size,
                "inverse_mass_matrix": led.adapt_state.inverse_mass_matrix,
            }
        _, drawn = run(key_draws, start, surrogate, draws, **adapted)
        return drawn

    y, diverging = jax.vmap(chain)(jax.random.split(rng_key, settings.chains))
    return NutsResult(jax.vmap(jax.vmap(latent_of))(y), diverging)


@partial(jax.jit, static_argnames=("settings", "draws", "value_constraint", "surrogate"))
def _solve(
    problem: Problem,
    rng_key: PRNGKeyArray,
    settings: Nuts,
    draws: int,
    value_constraint: bool,
    surrogate: Surrogate,
) -> tuple[GaussianPosterior, Float[Array, "N chains draws K"], Float[Array, " N"]]:
    sample: Any = partial(
        run_nuts,
        rng_key=rng_key,
        settings=settings,
        draws=draws,
        value_constraint=value_constraint,
        surrogate=surrogate,
    )
    drawn = jax.vmap(sample)(problem.ratio, problem.constraint, problem.coordinates)
    latent = drawn.latent
    if not value_constraint:
        # The value that each draw's ratio implies, mean_i zeta_i sigma(r_i).
        value = jax.vmap(lambda ratio, z: ratio.residual(z)[..., VALUE_ROW])(problem.ratio, latent)
        latent = jnp.concatenate([latent, value[..., None]], axis=-1)
    return jax.vmap(_moments_of)(latent), latent, drawn.diverging.mean(axis=(1, 2))


def _moments_of(latent: Float[Array, "chains draws K"]) -> GaussianPosterior:
    """Mean and a root of the covariance of draws."""
    flat = latent.reshape(-1, latent.shape[-1])
    mean = flat.mean(axis=0)
    centered = flat - mean
    return GaussianPosterior(mean, square_root(centered.T @ centered / (flat.shape[0] - 1)))
