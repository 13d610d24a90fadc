"""The mode of a posterior whose ratio is not linear, by Gauss-Newton steps in gain form.

Each step conditions the prior on the residual as it is linear around the last point: the iterated
Kalman filter. It needs no inverse of the noise, so that redundant rows drop out and exact
constraints bind, as they do for a linear ratio.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Bool, Float, Int

from bayesdice_ppl.arrays import (
    added,
    cholesky,
    each,
    either,
    library_of,
    one_by_one,
    repeated,
    replaced,
    solve_lower,
)
from bayesdice_ppl.models.gaussian import WIDE_STEP, ConditionedValue, condition_value
from bayesdice_ppl.moments import VALUE_ROW

_DAMPINGS = tuple(10.0**power for power in range(-1, 5))
"""Dampings of a step that are tried where the full step disappoints; the best is taken."""
_HEAVY_DAMPINGS = tuple(10.0**power for power in range(5, 11))
"""Those that are tried where none of them is better than no step. A damping is in units of the
prior, and few weights under a wide prior are known a million times better than that."""
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

    latent: Float[Any, " L"]
    cost: Float[Any, ""]
    steps: Int[Any, ""]
    converged: Bool[Any, ""]


def linearized(
    residual: Callable[[Float[Any, " L"]], Float[Any, " R"]],
    jacobian: Callable[[Float[Any, " L"]], Float[Any, "R L"]],
    latent: Float[Any, " L"],
) -> tuple[Float[Any, "R L"], Float[Any, " R"]]:
    """Matrix and offset of the residual around a point of (latent numbers, value).

    Parameters
    ----------
    residual, jacobian
        Of the latent numbers at a value of zero: shapes (R,) and (R, L).
    latent
        Latent numbers and value, shape (L + 1,).
    """
    xp = library_of(latent)
    by_latent = xp.asarray(jacobian(latent[:-1]))
    value = replaced(xp.zeros((by_latent.shape[0], 1), by_latent.dtype), (VALUE_ROW, 0), -1.0)
    offset = xp.asarray(residual(latent[:-1])) - by_latent @ latent[:-1]
    return xp.concatenate([by_latent, value], axis=1), offset


def find_mode(
    residual: Callable[[Float[Any, " L"]], Float[Any, " R"]],
    jacobian: Callable[[Float[Any, " L"]], Float[Any, "R L"]],
    noise: Float[Any, "R R"],
    prior_mean: Float[Any, " L"],
    prior_scale: Float[Any, " L"],
    start: Float[Any, " L"],
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
    xp = library_of(noise, start)
    diagonal = xp.diagonal(noise)
    level = xp.mean(diagonal) + xp.finfo(noise.dtype).tiny
    pivots = xp.diagonal(cholesky(noise + _TIGHT * level * xp.eye(len(noise)))) ** 2
    # Where every row has noise of its own there is no exact constraint.
    free = xp.all(pivots > _LOOSE * diagonal) & xp.all(diagonal > 0.0)

    def step(state: _Search) -> _Search:
        latent = state.latent
        # An exact constraint allows no step off a curved surface, however short. Loose at first,
        # the search comes near the mode, from where full steps reach the surface.
        jitter = level * xp.where(state.tight, _TIGHT, _LOOSE)
        softened = noise + jitter * xp.eye(len(noise))
        root = cholesky(softened)

        def cost(left: Float[Any, " R"], latent: Float[Any, " L"]) -> Float[Any, ""]:
            scaled = solve_lower(root, left)
            return 0.5 * (scaled @ scaled + xp.sum(((latent - prior_mean) / prior_scale) ** 2))

        def cost_at(latent: Float[Any, " L"]) -> Float[Any, ""]:
            return cost(added(xp.asarray(residual(latent[:-1])), VALUE_ROW, -latent[-1]), latent)

        matrix, offset = linearized(residual, jacobian, latent)

        def damped(damping: Float[Any, ""]) -> Float[Any, " L"]:
            # A second prior, around the point, holds the step where the linear form is right.
            share = (damping / (1.0 + damping)) * replaced(xp.ones_like(latent), -1, 0.0)
            mean = prior_mean + share * (latent - prior_mean)
            scale = prior_scale * xp.sqrt(1.0 - share)
            return condition_value(matrix, offset, softened, mean, scale, wide=WIDE_STEP).mean

        full, now = damped(xp.zeros((), latent.dtype)), cost_at(latent)
        full_cost = cost_at(full)
        promised = now - cost(matrix @ full + offset, full)

        def best(dampings: tuple[float, ...]) -> tuple[Float[Any, " L"], Float[Any, ""]]:
            tried = xp.concatenate([full[None], one_by_one(damped, xp.asarray(dampings))])
            costs = each(cost_at, tried)
            costs = xp.where(xp.isfinite(costs), costs, xp.inf)
            return tried[xp.argmin(costs)], xp.min(costs)

        def damp() -> tuple[Float[Any, " L"], Float[Any, ""]]:
            found, least = best(_DAMPINGS)
            better = xp.asarray(least < now)
            return either(better, lambda: (found, least), lambda: best(_HEAVY_DAMPINGS))

        kept = now - full_cost >= _KEPT * xp.maximum(promised, 0.0)
        found, least = either(kept, lambda: (full, full_cost), damp)
        better = least < now
        return _Search(
            latent=xp.where(better, found, latent),
            cost=xp.where(better, least, now),
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
        cost=xp.asarray(xp.inf),
        promised=xp.asarray(xp.inf),
        last=xp.asarray(False),
        tight=free,
        taken=xp.asarray(0),
    )
    found = repeated(
        lambda state: ~state.last & (state.taken < _STEPS),
        lambda state: tightened(step(state)),
        begin,
    )
    converged = xp.isfinite(found.cost) & (found.promised <= _NEAR) & found.tight
    return Mode(found.latent, found.cost, found.taken, converged)


class _Search(NamedTuple):
    latent: Float[Any, " L"]
    cost: Float[Any, ""]
    promised: Float[Any, ""]
    last: Bool[Any, ""]
    tight: Bool[Any, ""]
    taken: Int[Any, ""]


def estimate_at_mode(
    residual: Callable[[Float[Any, " L"]], Float[Any, " R"]],
    jacobian: Callable[[Float[Any, " L"]], Float[Any, "R L"]],
    noise: Float[Any, "R R"],
    prior_mean: Float[Any, " L"],
    prior_scale: Float[Any, " L"],
    start: Float[Any, " L"],
) -> tuple[Float[Any, " L"], Float[Any, " R"]]:
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
    residual: Callable[[Float[Any, " L"]], Float[Any, " R"]],
    jacobian: Callable[[Float[Any, " L"]], Float[Any, "R L"]],
    noise: Float[Any, "R R"],
    prior_mean: Float[Any, " L"],
    prior_scale: Float[Any, " L"],
    latent: Float[Any, " L"],
) -> ConditionedValue:
    """Condition the prior on the residual as it is linear around a point; see `find_mode`."""
    matrix, offset = linearized(residual, jacobian, latent)
    return condition_value(matrix, offset, noise, prior_mean, prior_scale)
