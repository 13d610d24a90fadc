"""The mode of a posterior whose ratio is not linear, by Gauss-Newton steps in gain form.

Each step conditions the prior on the residual as it is linear around the last point: the iterated
Kalman filter. It needs no inverse of the noise, so that redundant rows drop out and exact
constraints bind, as they do for a linear ratio.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bayesdice_ppl.models.gaussian import ConditionedValue, condition_value

_LENGTHS = tuple(0.5**halving for halving in range(12))
"""Lengths of a step that are tried at once; the best is taken."""
_STEPS = 60
_ENOUGH = 1e-3
"""Fall of the cost, in nats, below which a step is the last."""
_RIDGE, _FLOOR = 1e-9, 1e-12
"""Added to the noise where the cost is compared: a share of each row's own, and of their mean."""


class Mode(NamedTuple):
    """The mode, and the residual as it is linear around it.

    Attributes
    ----------
    latent
        The latent numbers and the value, shape (L + 1,).
    cost
        Half the squared, scaled residual plus half the squared distance to the prior's mean, in
        nats.
    steps
        How many steps were taken.
    converged
        Whether the cost is finite and the last step lowered it by next to nothing.
    """

    latent: Float[Array, " L"]
    cost: Float[Array, ""]
    steps: Int[Array, ""]
    converged: Bool[Array, ""]


def linearized(
    residual: Callable[[Float[Array, " L"]], Float[Array, " R"]],
    jacobian: Callable[[Float[Array, " L"]], Float[Array, "R L"]],
    latent: Float[Array, " L"],
) -> tuple[Float[Array, "R L"], Float[Array, " R"]]:
    """Matrix and offset of the residual around a point of (latent numbers, value).

    Parameters
    ----------
    residual, jacobian
        Of the latent numbers at a value of zero: shapes (R,) and (R, L).
    latent
        Latent numbers and value, shape (L + 1,).
    """
    by_latent = jacobian(latent[:-1])
    value = jnp.zeros((by_latent.shape[0], 1), by_latent.dtype).at[-1, 0].set(-1.0)
    offset = residual(latent[:-1]) - by_latent @ latent[:-1]
    return jnp.concatenate([by_latent, value], axis=1), offset


def find_mode(
    residual: Callable[[Float[Array, " L"]], Float[Array, " R"]],
    jacobian: Callable[[Float[Array, " L"]], Float[Array, "R L"]],
    noise: Float[Array, "R R"],
    prior_mean: Float[Array, " L"],
    prior_scale: Float[Array, " L"],
    start: Float[Array, " L"],
) -> Mode:
    """Find the mode of a Gaussian prior on (latent numbers, value) and a residual near zero.

    Parameters
    ----------
    residual, jacobian
        Of the latent numbers at a value of zero.
    noise
        Covariance of the residual, shape (R, R), possibly singular.
    prior_mean, prior_scale
        Of (latent numbers, value), independent normals, shape (L + 1,).
    start
        Where to start, shape (L + 1,).
    """
    diagonal = jnp.diagonal(noise)
    floor = _RIDGE * diagonal + _FLOOR * jnp.mean(diagonal) + jnp.finfo(noise.dtype).tiny
    root = jnp.linalg.cholesky(noise + jnp.diag(floor))

    def cost(latent: Float[Array, " L"]) -> Float[Array, ""]:
        left = residual(latent[:-1]).at[-1].add(-latent[-1])
        scaled = jax.scipy.linalg.solve_triangular(root, left, lower=True)
        return 0.5 * (scaled @ scaled + jnp.sum(((latent - prior_mean) / prior_scale) ** 2))

    def step(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        latent, now, _, taken = state
        matrix, offset = linearized(residual, jacobian, latent)
        there = condition_value(matrix, offset, noise, prior_mean, prior_scale).mean
        tried = latent + jnp.asarray(_LENGTHS)[:, None] * (there - latent)
        costs = jax.vmap(cost)(tried)
        costs = jnp.where(jnp.isfinite(costs), costs, jnp.inf)
        best = jnp.argmin(costs)
        better = costs[best] < now
        fall = jnp.where(better, now - costs[best], 0.0)
        moved = jnp.where(better, tried[best], latent)
        return moved, jnp.where(better, costs[best], now), fall, taken + 1

    def unfinished(state: tuple[Array, Array, Array, Array]) -> Array:
        return (state[2] > _ENOUGH) & (state[3] < _STEPS)

    at_start = cost(start)
    state = (start, at_start, jnp.asarray(jnp.inf, at_start.dtype), jnp.asarray(0))
    latent, reached, fall, taken = jax.lax.while_loop(unfinished, step, state)
    return Mode(latent, reached, taken, jnp.isfinite(reached) & (fall <= _ENOUGH))


def condition_at(
    residual: Callable[[Float[Array, " L"]], Float[Array, " R"]],
    jacobian: Callable[[Float[Array, " L"]], Float[Array, "R L"]],
    noise: Float[Array, "R R"],
    prior_mean: Float[Array, " L"],
    prior_scale: Float[Array, " L"],
    latent: Float[Array, " L"],
) -> ConditionedValue:
    """Condition the prior on the residual as it is linear around a point; see `find_mode`."""
    matrix, offset = linearized(residual, jacobian, latent)
    return condition_value(matrix, offset, noise, prior_mean, prior_scale)
