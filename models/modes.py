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

from bayesdice_ppl.models.gaussian import WIDE_STEP, ConditionedValue, condition_value

_DAMPINGS = tuple(10.0**power for power in range(-1, 5))
"""Dampings of a step that are tried where the full step disappoints; the best is taken."""
_KEPT = 0.5
"""Share of the fall that a full step promised, from which on it is taken as it is."""
_STEPS = 60
_ENOUGH = 1e-3
"""Fall of the cost, in nats, that a last step promises."""
_NEAR = 0.05
"""The same, below which the point is called a mode where rounding allows no further step."""
_LOOSE, _TIGHT = 1e-2, 1e-12
"""Added to the noise in the search, as a share of its mean: at first, and at the end."""


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
        Whether the cost is finite and a further step promises to lower it by next to nothing.
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
    level = jnp.mean(diagonal) + jnp.finfo(noise.dtype).tiny
    pivots = jnp.diagonal(jnp.linalg.cholesky(noise + _TIGHT * level * jnp.eye(len(noise)))) ** 2
    # Where every row has noise of its own there is no exact constraint.
    free = jnp.all(pivots > _LOOSE * diagonal) & jnp.all(diagonal > 0.0)

    def step(state: _Search) -> _Search:
        latent = state.latent
        # An exact constraint allows no step off a curved surface, however short. Loose at first,
        # the search comes near the mode, from where full steps reach the surface.
        added = level * jnp.where(state.tight, _TIGHT, _LOOSE)
        softened = noise + added * jnp.eye(len(noise))
        root = jnp.linalg.cholesky(softened)

        def cost(left: Float[Array, " R"], latent: Float[Array, " L"]) -> Float[Array, ""]:
            scaled = jax.scipy.linalg.solve_triangular(root, left, lower=True)
            return 0.5 * (scaled @ scaled + jnp.sum(((latent - prior_mean) / prior_scale) ** 2))

        def cost_at(latent: Float[Array, " L"]) -> Float[Array, ""]:
            return cost(residual(latent[:-1]).at[-1].add(-latent[-1]), latent)

        matrix, offset = linearized(residual, jacobian, latent)

        def damped(damping: Float[Array, ""]) -> Float[Array, " L"]:
            # A second prior, around the point, holds the step where the linear form is right.
            share = (damping / (1.0 + damping)) * jnp.ones_like(latent).at[-1].set(0.0)
            mean = prior_mean + share * (latent - prior_mean)
            scale = prior_scale * jnp.sqrt(1.0 - share)
            return condition_value(matrix, offset, softened, mean, scale, wide=WIDE_STEP).mean

        full, now = damped(jnp.zeros(())), cost_at(latent)
        full_cost = cost_at(full)
        promised = now - cost(matrix @ full + offset, full)

        def damp() -> tuple[Float[Array, " L"], Float[Array, ""]]:
            tried = jnp.concatenate([full[None], jax.lax.map(damped, jnp.asarray(_DAMPINGS))])
            costs = jax.vmap(cost_at)(tried)
            costs = jnp.where(jnp.isfinite(costs), costs, jnp.inf)
            return tried[jnp.argmin(costs)], jnp.min(costs)

        kept = now - full_cost >= _KEPT * jnp.maximum(promised, 0.0)
        found, least = jax.lax.cond(kept, lambda: (full, full_cost), damp)
        better = least < now
        return _Search(
            latent=jnp.where(better, found, latent),
            cost=jnp.where(better, least, now),
            promised=promised,
            # Not a number ends the search too.
            last=(promised <= _ENOUGH) | ~better,
            tight=state.tight,
            taken=state.taken + 1,
        )

    def tightened(state: _Search) -> _Search:
        over = state.last & ~state.tight
        return state._replace(last=state.last & ~over, tight=state.tight | over)

    begin = _Search(
        latent=start,
        cost=jnp.asarray(jnp.inf),
        promised=jnp.asarray(jnp.inf),
        last=jnp.asarray(False),
        tight=free,
        taken=jnp.asarray(0),
    )
    found = jax.lax.while_loop(
        lambda state: ~state.last & (state.taken < _STEPS),
        lambda state: tightened(step(state)),
        begin,
    )
    converged = jnp.isfinite(found.cost) & (found.promised <= _NEAR) & found.tight
    return Mode(found.latent, found.cost, found.taken, converged)


class _Search(NamedTuple):
    latent: Float[Array, " L"]
    cost: Float[Array, ""]
    promised: Float[Array, ""]
    last: Bool[Array, ""]
    tight: Bool[Array, ""]
    taken: Int[Array, ""]


def estimate_at_mode(
    residual: Callable[[Float[Array, " L"]], Float[Array, " R"]],
    jacobian: Callable[[Float[Array, " L"]], Float[Array, "R L"]],
    noise: Float[Array, "R R"],
    prior_mean: Float[Array, " L"],
    prior_scale: Float[Array, " L"],
    start: Float[Array, " L"],
) -> tuple[Float[Array, " L"], Float[Array, " R"]]:
    """The mode, and how a row of the residual moves the value there.

    Parameters
    ----------
    residual, jacobian, noise, prior_mean, prior_scale, start
        As for `find_mode`.

    Returns
    -------
    (Array, Array)
        Latent numbers and value, shape (L + 1,); and the slope of
        `bayesdice_ppl.models.FirstEstimate`, shape (R,).
    """
    found = find_mode(residual, jacobian, noise, prior_mean, prior_scale, start)
    at_mode = condition_at(residual, jacobian, noise, prior_mean, prior_scale, found.latent)
    # The gain's row for the value is minus the action values, and minus one for the reward.
    return found.latent, at_mode.gain / at_mode.gain[-1]


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
