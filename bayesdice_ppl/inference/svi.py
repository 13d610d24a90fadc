"""Stochastic variational inference on the NumPyro program, all candidates in one compiled call.

This engine finds the posterior by optimizing the ELBO of the public model and guide. It starts far
off, in coordinates made from the frozen Sigma's scales and nearly exact constraints, and continues
in windows, each in the coordinates that the guide itself has learned, as a sampler adapts its
metric. The residual's correlations, which decide the posterior's shape, are left for it to find.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bayesdice_ppl import surrogates
from bayesdice_ppl.constraint import ChanceConstraint
from bayesdice_ppl.inference.exact import GaussianPosterior, with_implied_value
from bayesdice_ppl.inference.gain import condition
from bayesdice_ppl.models import Coordinates, Start, weight_of
from bayesdice_ppl.moments import Moments
from bayesdice_ppl.surrogates import Surrogate

_TIGHT = 0.05
_JITTER = 1e-10
_WIDE = 20.0
_LIFT, _LEAST_RATIO = 0.5, 1e-3
_STEPS, _STEPS_PER_LATENT = 500, 4


class SviSettings(NamedTuple):
    """How to optimize (hashable, fixed at compilation).

    Attributes
    ----------
    windows
        How often to start again in the coordinates that were learned so far, as a sampler adapts
        its metric.
    steps
        Adam steps in each window; the rate falls to zero along a cosine. None: 500, or 4 for each
        latent number where that is more.
    learning_rate
        Its first value, in the guide's coordinates; for the guide's matrices it is smaller by 20
        over their number of columns.
    particles
        Draws per step.
    start_offset, start_scale
        Where the guide starts in its first coordinates: far off, so that the answer is found.
    """

    windows: int = 5
    steps: int | None = None
    learning_rate: float = 0.05
    particles: int = 4
    start_offset: float = 3.0
    start_scale: float = 3.0


class SviResult(NamedTuple):
    """What SVI found for one policy.

    Attributes
    ----------
    posterior
        The guide's own Gaussian.
    elbo
        The ELBO's estimate at each step of all windows, shape (steps,).
    drift
        How far the value's mean (in its sds) and sd (relative) moved in the last window, shape
        (2,): not small means not converged.
    level
        The surrogate's level, scalar.
    """

    posterior: GaussianPosterior
    elbo: Float[Array, " steps"]
    drift: Float[Array, " 2"]
    level: Float[Array, ""]


def flat_coordinates(
    moments: Moments,
    covariance: Float[Array, "R R"],
    rows: Float[Array, " R"],
    price: Float[Array, ""],
    *,
    tight: bool,
    value_constraint: bool = True,
) -> Coordinates:
    """Coordinates for the guide, from the frozen Sigma's scales and nearly exact constraints.

    Parameters
    ----------
    moments
        What the log says of one policy.
    covariance
        Sigma at the pilot's ratio, invertible, shape (R, R), whatever the penalty is.
    rows
        1 for the live rows, shape (R,).
    price
        lambda / epsilon.
    tight
        Whether nearly exact constraints bind, as they do with the Mahalanobis penalty.
    value_constraint
        Whether the value is a latent of its own.

    Notes
    -----
    Directions in which the residual hardly varies make the problem stiff (a condition of 1e5 on
    small worlds). With the Mahalanobis penalty the residual's correlation matrix keeps its
    eigenvalues below 0.05, and all others are set to one: what is left to find are the
    correlations, and with them the posterior's shape. The squared penalty has no such directions;
    it is given Sigma's scales, which are not its own. The center is where residuals weighted so
    roughly vanish: another point would be hundreds of standard deviations off along a nearly exact
    constraint. `bayesdice_ppl.models.Start` puts the guide far from it.
    """
    scale = jnp.sqrt(jnp.diagonal(covariance))
    both = rows[:, None] * rows
    if tight:
        correlation = jnp.where(both > 0.0, covariance / scale[:, None] / scale, jnp.eye(len(rows)))
        values, vectors = jnp.linalg.eigh(correlation)
        flattened = (vectors * jnp.where(values < _TIGHT, values, 1.0)) @ vectors.T
    else:
        flattened = jnp.eye(len(rows))
        # In the squared penalty's units: scales relative to their geometric mean.
        scale = scale / jnp.exp(jnp.sum(rows * jnp.log(scale)) / jnp.sum(rows))
    rough = both * flattened * scale[:, None] * scale / price
    size = None if value_constraint else -1
    found = condition(
        (moments.matrix * rows[:, None])[:, :size],
        moments.offset * rows,
        rough,
        moments.prior_mean[:size],
        moments.prior_scale[:size],
    )
    spread = found.covariance
    jitter = _JITTER * jnp.diagonal(spread) + jnp.finfo(spread.dtype).tiny
    return Coordinates(found.mean, jnp.linalg.cholesky(spread + jnp.diag(jitter)))


def through_link(
    coordinates: Coordinates, link: str, *, value_constraint: bool = True
) -> Coordinates:
    """Carry coordinates of the ratio over to the weights behind a link, to first order.

    A ratio near zero is a weight far below it, where the softplus is flat: in the ratio's own
    units it would be hundreds of steps away.

    Parameters
    ----------
    coordinates
        Of the ratio and, with the value constraint, the value.
    link
        As for `bayesdice_ppl.models.ratio_of`.
    value_constraint
        Whether the last coordinate is the value, which has no link.
    """
    if link == "identity":
        return coordinates
    center, factor = coordinates
    sd = jnp.sqrt(jnp.sum(factor**2, axis=1))
    # What may be zero is placed half a standard deviation above it, where there is a slope.
    ratio = jnp.maximum(center, jnp.maximum(_LIFT * sd, _LEAST_RATIO))
    is_value = jnp.arange(center.shape[0]) == center.shape[0] - (1 if value_constraint else 0)
    slope = 1.0 / -jnp.expm1(-ratio)
    moved = jnp.where(is_value, center, weight_of(ratio, link))
    return Coordinates(moved, factor * jnp.where(is_value, 1.0, slope)[:, None])


def run_svi(
    moments: Moments,
    constraint: ChanceConstraint,
    coordinates: Coordinates,
    rng_key: PRNGKeyArray,
    settings: SviSettings,
    *,
    inner: str = "guide",
    value_constraint: bool = True,
    surrogate: Surrogate = surrogates.markov(),  # noqa: B008  an immutable NamedTuple
    link: str = "identity",
) -> SviResult:
    """Fit the guide to one policy; `jax.vmap` over the leading axis fits them all at once.

    Parameters
    ----------
    moments, constraint, coordinates
        The policy's problem.
    rng_key
        Key of the optimizer's draws.
    settings
        Steps, rate, particles, start.
    inner, value_constraint, surrogate, link
        As for `bayesdice_ppl.models.model`.
    """
    import optax
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.optim import optax_to_numpyro

    from bayesdice_ppl.models import guide, model

    options: dict[str, Any] = {
        "inner": inner,
        "value_constraint": value_constraint,
        "link": link,
    }
    n_latent = coordinates.center.shape[0]
    steps = settings.steps or max(_STEPS, _STEPS_PER_LATENT * n_latent)
    # Adam moves every entry of a matrix at its rate, so a step's length grows with the number of
    # columns; without this the game with the multipliers diverges in a hundred dimensions.
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
    problem = (moments, constraint)

    def window(
        given_surrogate: Surrogate, carry: tuple[Coordinates, Array], given: tuple[Array, ...]
    ) -> tuple[tuple[Coordinates, Array], tuple[Coordinates, Array]]:
        coordinates, level = carry
        key, offset, scale = given
        svi = SVI(
            partial(model, level=level, surrogate=given_surrogate, **options),
            partial(guide, coordinates=coordinates, start=Start(offset, scale), **options),
            optimizer,
            Trace_ELBO(num_particles=settings.particles),
        )

        def step(state: Any, _: None) -> tuple[Any, Array]:
            state, loss = svi.update(state, *problem)
            return state, -loss

        state, elbo = jax.lax.scan(step, svi.init(key, *problem), None, length=steps)
        found = svi.get_params(state)
        # What was found becomes the coordinates of the next window.
        center = coordinates.center + coordinates.factor @ found["loc"]
        learned = Coordinates(center, coordinates.factor @ found["scale_tril"])
        return (learned, found.get("level", level)), (learned, elbo)

    # Far off, the other surrogates hardly slope; Markov's leads the way to where they do.
    leading = 0 if surrogate == surrogates.markov() else settings.windows
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
        return with_implied_value(moments, mean, factor)

    posterior, before = gaussian(-1), gaussian(max(n_windows - 2, 0))
    sd = posterior.sd[-1]
    moved = jnp.abs(posterior.mean[-1] - before.mean[-1]), jnp.abs(sd - before.sd[-1])
    drift = jnp.stack(moved) / jnp.where(sd > 0.0, sd, 1.0)
    return SviResult(posterior, elbo.reshape(-1), drift, level)
