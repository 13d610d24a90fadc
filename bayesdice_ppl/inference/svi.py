"""Stochastic variational inference on the NumPyro program, all candidates in one compiled call.

This engine finds the posterior by optimizing the ELBO of the public model and guide. It starts far
off, in coordinates made from the scales of the frozen Sigma and its nearly exact constraints. It
continues in windows, each in the coordinates that the guide has learned so far, as a sampler adapts
its metric. The correlations of the residual, which decide the posterior's shape, are not given.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bayesdice_ppl import checks
from bayesdice_ppl.constraint import ChanceConstraint, Surrogate, surrogates
from bayesdice_ppl.inference.engine import Solution, nothing_but
from bayesdice_ppl.inference.problem import FitForm, Problem
from bayesdice_ppl.models import Coordinates, GaussianPosterior, Ratio, Start
from bayesdice_ppl.models.program import with_implied_value

_WIDE = 20.0
_STEPS, _STEPS_PER_LATENT = 500, 4
GUIDE_FEATURES = 512
"""Rows of the residual past which multipliers are fitted only with inner='guide'."""


@final
class Svi(NamedTuple):
    """SVI as an engine, and how it optimizes (hashable, fixed at compilation).

    Attributes
    ----------
    windows
        Number of windows; each starts in the coordinates learned so far.
    steps
        Adam steps in each window; the rate falls to zero along a cosine. None: 500, or 4 for each
        latent number if that is more.
    learning_rate
        First learning rate, in the guide's coordinates. For the guide's matrices it is multiplied
        by 20 over their number of columns, if that is below 1.
    particles
        Draws per step.
    start_offset, start_scale
        Mean and scale of the guide in its first coordinates: far off, so that SVI has to find the
        posterior.
    """

    windows: int = 5
    steps: int | None = None
    learning_rate: float = 0.05
    particles: int = 4
    start_offset: float = 3.0
    start_scale: float = 3.0

    @property
    def name(self) -> str:
        """What it is called."""
        return "svi"

    @property
    def guided(self) -> bool:
        """It moves in coordinates."""
        return True

    @property
    def tangent(self) -> bool:
        """It takes the ratio as it is."""
        return False

    def check(self, form: FitForm, draws: int) -> None:
        """Refuse settings out of range, and multipliers that the guide cannot hold."""
        checks.whole("svi.windows", self.windows)
        if self.steps is not None:
            checks.whole("svi.steps", self.steps)
        checks.whole("svi.particles", self.particles)
        checks.positive("svi.learning_rate", self.learning_rate)

    def solve(self, problem: Problem, rng_key: PRNGKeyArray, form: FitForm, draws: int) -> Solution:
        """The guide's own Gaussian for every candidate."""
        chosen = form.constraint
        inner = chosen.inner
        if inner is None:
            wide = problem.n_rows > GUIDE_FEATURES
            inner = "guide" if form.affine_multipliers and not wide else "exact"
        found = _solve(problem, rng_key, self, inner, chosen.value_constraint, chosen.surrogate)
        return nothing_but(found.posterior, problem, form)._replace(**found._asdict())


class SviResult(NamedTuple):
    """The result of SVI for one policy.

    Attributes
    ----------
    posterior
        The guide's own Gaussian.
    elbo
        The ELBO's estimate at each step of all windows, shape (steps,).
    drift
        How far the value's mean (in its sds) and sd (relative) moved in the last window, shape
        (2,). If it is not small, SVI has not converged.
    level
        The surrogate's level, scalar.
    """

    posterior: GaussianPosterior
    elbo: Float[Array, " steps"]
    drift: Float[Array, " 2"]
    level: Float[Array, ""]


def run_svi(
    ratio: Ratio,
    constraint: ChanceConstraint,
    coordinates: Coordinates,
    rng_key: PRNGKeyArray,
    settings: Svi,
    *,
    inner: str = "guide",
    value_constraint: bool = True,
    surrogate: Surrogate = surrogates.markov(),  # noqa: B008  an immutable NamedTuple
) -> SviResult:
    """Fit the guide to one policy; `jax.vmap` over the leading axis fits them all at once.

    Parameters
    ----------
    ratio, constraint, coordinates
        The policy's problem.
    rng_key
        Key of the optimizer's draws.
    settings
        Steps, rate, particles, start.
    inner, value_constraint, surrogate
        As for `bayesdice_ppl.models.model`.
    """
    import optax
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.optim import optax_to_numpyro

    options: dict[str, Any] = {"inner": inner, "value_constraint": value_constraint}
    n_latent = coordinates.center.shape[0]
    steps = settings.steps or max(_STEPS, _STEPS_PER_LATENT * n_latent)
    # Adam moves every entry of a matrix at its rate, so a step's length grows with the number of
    # columns. With a constant rate the multipliers diverge in a hundred dimensions.
    shrink = min(1.0, _WIDE / n_latent)
    rates = dict.fromkeys(("loc", "beta_level"), settings.learning_rate)
    rates |= dict.fromkeys(("scale_tril", "beta_slope"), settings.learning_rate * shrink)
    rates["level"] = settings.learning_rate
    adam = {
        name: optax.adam(optax.cosine_decay_schedule(rate, steps), b1=0.9, b2=0.99)
        for name, rate in rates.items()
    }
    optimizer = optax_to_numpyro(
        optax.partition(adam, lambda params: {name: name for name in params})
    )
    problem = (ratio, constraint)

    def window(
        given_surrogate: Surrogate, carry: tuple[Coordinates, Array], given: tuple[Array, ...]
    ) -> tuple[tuple[Coordinates, Array], tuple[Coordinates, Array]]:
        coordinates, level = carry
        key, offset, scale = given
        start = Start(offset, scale)
        svi = SVI(
            lambda r, c: r.model(c, level=level, surrogate=given_surrogate, **options),
            lambda r, c: r.guide(c, coordinates=coordinates, start=start, **options),
            optimizer,
            Trace_ELBO(num_particles=settings.particles),
        )

        def step(state: Any, _: None) -> tuple[Any, Array]:
            state, loss = svi.update(state, *problem)
            return state, -loss

        state, elbo = jax.lax.scan(step, svi.init(key, *problem), None, length=steps)
        found = svi.get_params(state)
        # The result gives the coordinates of the next window.
        center = coordinates.center + coordinates.factor @ found["loc"]
        learned = Coordinates(center, coordinates.factor @ found["scale_tril"])
        return (learned, found.get("level", level)), (learned, elbo)

    # Far from the posterior the other surrogates are nearly flat. Markov's leads near it first.
    leading = 0 if surrogate.linear else settings.windows
    n_windows = leading + settings.windows
    keys = jax.random.split(rng_key, n_windows)
    dtype = coordinates.center.dtype
    offsets = jnp.zeros(n_windows, dtype).at[0].set(settings.start_offset)
    scales = jnp.ones(n_windows, dtype).at[0].set(settings.start_scale)
    carry = (coordinates, jnp.asarray(surrogate.start, dtype))
    given = (keys, offsets, scales)
    stages = []
    for chosen, part in (
        (surrogates.markov(), slice(0, leading)),
        (surrogate, slice(leading, n_windows)),
    ):
        if part.stop > part.start:
            some = jax.tree.map(lambda x, part=part: x[part], given)
            carry, found = jax.lax.scan(partial(window, chosen), carry, some)
            stages.append(found)
    learned, elbo = jax.tree.map(lambda *parts: jnp.concatenate(parts), *stages)
    level = carry[1]

    def gaussian(which: int) -> GaussianPosterior:
        mean, factor = learned.center[which], learned.factor[which]
        if value_constraint:
            return GaussianPosterior(mean, factor)
        return with_implied_value(ratio, mean, factor)

    posterior, before = gaussian(-1), gaussian(max(n_windows - 2, 0))
    sd = posterior.sd[-1]
    moved = jnp.abs(posterior.mean[-1] - before.mean[-1]), jnp.abs(sd - before.sd[-1])
    drift = jnp.stack(moved) / jnp.where(sd > 0.0, sd, 1.0)
    return SviResult(posterior, elbo.reshape(-1), drift, level)


@partial(jax.jit, static_argnames=("settings", "inner", "value_constraint", "surrogate"))
def _solve(
    problem: Problem,
    rng_key: PRNGKeyArray,
    settings: Svi,
    inner: str,
    value_constraint: bool,
    surrogate: Surrogate,
) -> SviResult:
    fit: Any = partial(
        run_svi,
        rng_key=rng_key,
        settings=settings,
        inner=inner,
        value_constraint=value_constraint,
        surrogate=surrogate,
    )
    return jax.vmap(fit)(problem.ratio, problem.constraint, problem.coordinates)
