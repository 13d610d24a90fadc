"""The no-U-turn sampler on the same NumPyro model: the judge where there is no closed form.

It knows nothing of Gaussians: it draws from the model itself, with the multipliers at their
maximum, in the coordinates from which SVI starts too (nearly exact constraints would make it crawl
in any others). All candidates and chains are one compiled call.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from bayesdice_ppl import surrogates
from bayesdice_ppl.constraint import ChanceConstraint
from bayesdice_ppl.models import Coordinates
from bayesdice_ppl.moments import Moments
from bayesdice_ppl.surrogates import Surrogate


class NutsSettings(NamedTuple):
    """How to sample (hashable, fixed at compilation).

    Attributes
    ----------
    chains
        Number of chains, at least 2, so that they can be held against each other.
    warmup
        Steps of each in which step size and metric are adapted, and which are not kept.
    target_accept
        Acceptance probability that the step size is adapted to.
    max_tree_depth
        At most 2^depth leapfrog steps a draw.
    start_scale
        Where chains start: normal with this standard deviation in the coordinates.
    """

    chains: int = 4
    warmup: int = 500
    target_accept: float = 0.9
    max_tree_depth: int = 10
    start_scale: float = 2.0


class NutsResult(NamedTuple):
    """Draws for one policy.

    Attributes
    ----------
    latent
        Weights and, with the value constraint, the value, shape (chains, draws, L).
    diverging
        Whether a draw's trajectory diverged, shape (chains, draws).
    """

    latent: Float[Array, "chains draws L"]
    diverging: Float[Array, "chains draws"]


def run_nuts(
    moments: Moments,
    constraint: ChanceConstraint,
    coordinates: Coordinates,
    rng_key: PRNGKeyArray,
    settings: NutsSettings,
    *,
    draws: int,
    value_constraint: bool = True,
    surrogate: Surrogate = surrogates.markov(),  # noqa: B008  an immutable NamedTuple
    link: str = "identity",
) -> NutsResult:
    """Sample one policy's posterior; `jax.vmap` over the leading axis samples them all at once.

    Parameters
    ----------
    moments, constraint, coordinates
        The policy's problem.
    rng_key
        Key of starts and draws.
    settings
        Chains, warm-up and step size.
    draws
        Kept draws of each chain.
    value_constraint, surrogate, link
        As for `bayesdice_ppl.models.model`. A surrogate's level must be given: q is drawn from
        here, and not optimized.
    """
    from numpyro.infer.hmc import hmc
    from numpyro.infer.util import log_density

    from bayesdice_ppl.models import model

    def latent_of(y: Float[Array, " L"]) -> Float[Array, " L"]:
        return coordinates.center + coordinates.factor @ y

    def potential(y: Float[Array, " L"], chosen: Surrogate) -> Float[Array, ""]:
        latent = latent_of(y)
        sites = {"zeta": latent[:-1], "value": latent[-1]} if value_constraint else {"zeta": latent}
        program = partial(
            model, inner="exact", value_constraint=value_constraint, surrogate=chosen, link=link
        )
        density, _ = log_density(program, (moments, constraint), {}, sites)
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
        if surrogate != surrogates.markov():
            # Far off, other costs are too flat or too steep to move, and a chain that hardly moves
            # adapts to that; Markov's leads near, and leaves its metric and step size.
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
