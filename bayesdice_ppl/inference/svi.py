"""Stochastic variational inference on the NumPyro program, all candidates in one compiled call.

This engine finds the posterior by optimizing the ELBO of the public model and guide, and knows
nothing of the closed form. It may move in coordinates suited to the frozen Sigma: that matrix's
scales and its nearly exact constraints are used, its correlations and the posterior are not.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bayesdice_ppl.constraint import ChanceConstraint
from bayesdice_ppl.inference.exact import GaussianPosterior, with_implied_value
from bayesdice_ppl.inference.gain import condition
from bayesdice_ppl.models import Coordinates, Start
from bayesdice_ppl.moments import Moments

_TIGHT = 0.05
_JITTER = 1e-10
_WIDE = 20.0


class SviSettings(NamedTuple):
    """How to optimize (hashable, fixed at compilation).

    Attributes
    ----------
    steps
        Number of Adam steps; the rate falls to zero along a cosine.
    learning_rate
        Its first value, in the guide's coordinates; for the guide's matrices it is smaller by 20
        over their number of columns.
    particles
        Draws per step.
    start_offset, start_scale
        Where the guide starts in its coordinates: far off, so that the answer is found.
    """

    steps: int = 2000
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
        The ELBO's estimate at each step, shape (steps,).
    """

    posterior: GaussianPosterior
    elbo: Float[Array, " steps"]


def tight_coordinates(
    moments: Moments,
    covariance: Float[Array, "R R"],
    rows: Float[Array, " R"],
    price: Float[Array, ""],
    *,
    value_constraint: bool = True,
) -> Coordinates:
    """Coordinates for the guide, from the frozen Sigma's scales and nearly exact constraints.

    Parameters
    ----------
    moments
        What the log says of one policy.
    covariance
        The penalty's metric, invertible, shape (R, R).
    rows
        1 for the live rows, shape (R,).
    price
        lambda / epsilon.
    value_constraint
        Whether the value is a latent of its own.

    Notes
    -----
    Directions in which the residual hardly varies make the problem stiff (a condition of 1e5 on
    small worlds). The residual's correlation matrix keeps its eigenvalues below 0.05, and all
    others are set to one: what is left to find are the correlations and the location. The
    coordinates are centered where the nearly exact constraints hold; anywhere else would be
    hundreds of standard deviations off along them.
    """
    scale = jnp.sqrt(jnp.diagonal(covariance))
    both = rows[:, None] * rows
    correlation = jnp.where(both > 0.0, covariance / scale[:, None] / scale, jnp.eye(len(rows)))
    values, vectors = jnp.linalg.eigh(correlation)
    flattened = (vectors * jnp.where(values < _TIGHT, values, 1.0)) @ vectors.T
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


def run_svi(
    moments: Moments,
    constraint: ChanceConstraint,
    coordinates: Coordinates,
    rng_key: PRNGKeyArray,
    settings: SviSettings,
    *,
    inner: str = "guide",
    value_constraint: bool = True,
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
    inner, value_constraint
        As for `bayesdice_ppl.models.model`.
    """
    import optax
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.optim import optax_to_numpyro

    from bayesdice_ppl.models import guide, model

    options: dict[str, Any] = {"inner": inner, "value_constraint": value_constraint}
    # Adam moves every entry of a matrix at its rate, so a step's length grows with the number of
    # columns; without this the game with the multipliers diverges in a hundred dimensions.
    shrink = min(1.0, _WIDE / coordinates.center.shape[0])
    rates = dict.fromkeys(("loc", "beta_level"), settings.learning_rate)
    rates |= dict.fromkeys(("scale_tril", "beta_slope"), settings.learning_rate * shrink)
    adam = {
        name: optax.adam(optax.cosine_decay_schedule(rate, settings.steps), b1=0.9, b2=0.99)
        for name, rate in rates.items()
    }
    start = Start(settings.start_offset, settings.start_scale)
    svi = SVI(
        partial(model, **options),
        partial(guide, coordinates=coordinates, start=start, **options),
        optax_to_numpyro(optax.partition(adam, lambda params: {name: name for name in params})),
        Trace_ELBO(num_particles=settings.particles),
    )
    problem = (moments, constraint)
    state = svi.init(rng_key, *problem)

    def step(state: Any, _: None) -> tuple[Any, Array]:
        state, loss = svi.update(state, *problem)
        return state, -loss

    state, elbo = jax.lax.scan(step, state, None, length=settings.steps)
    found = svi.get_params(state)
    mean = coordinates.center + coordinates.factor @ found["loc"]
    factor = coordinates.factor @ found["scale_tril"]
    if value_constraint:
        return SviResult(GaussianPosterior(mean, factor), elbo)
    return SviResult(with_implied_value(moments, mean, factor), elbo)
