"""Empirical likelihood: the value's row measured by the log's own weights, and not by Sigma.

How far must the log be reweighted until its mean error is zero at another value? Owen's log ratio
says it, and the multiplier that answers it is the beta of the value's row: the Fenchel form of the
constraint with another f*. Values beyond every reweighting are impossible.

References
----------
Owen, "Empirical likelihood", 2001. Lazar, "Bayesian empirical likelihood", 2003.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.constraint.quantile_curves import Curve

LEAST_SHOWN = 0.5
"""Share of a belief's variance that errors must show. With less the likelihood is nearly flat, and
the ends of the log's errors, of which few visits show little, would decide."""
_FARTHEST = 64.0
"""Twice the log ratio up to which values are tabulated: 8 standard deviations."""
_POINTS = 96
_BISECTIONS = 6


class _Path(NamedTuple):
    """Points on one side of the estimate: their distance, log ratio, and its slope."""

    distance: Float[np.ndarray, " K"]
    ratio: Float[np.ndarray, " K"]
    slope: Float[np.ndarray, " K"]


def log_ratio(
    error: Float[np.ndarray, " I"], count: Float[np.ndarray, " I"], distance: float
) -> float:
    """Owen's log ratio of a value at a distance from the estimate.

    Parameters
    ----------
    error
        What each of N independent items adds to the error of the value; sums to 0, shape (I,).
    count
        How many items have it, shape (I,); N in all.
    distance
        Value less estimate, in the unit of the sum of the errors.

    Returns
    -------
    float
        max over lambda of sum log(1 + lambda (N error - distance)), which is -sum log(N w) of the
        best weights w whose sum of w N error is the distance; infinite outside of the convex hull.
    """
    if distance == 0.0:
        return 0.0
    side = float(np.sign(distance))
    items = float(count.sum())
    top = items * float((side * error).max())
    if not abs(distance) < top:
        return float("inf")
    low, high = 0.0, 1.0
    while _path(error, count, side, np.array([high])).distance[0] < abs(distance):
        low, high = high, 2.0 * high
        if high > 700.0:
            return float("inf")
    for _ in range(60):
        middle = 0.5 * (low + high)
        short = _path(error, count, side, np.array([middle])).distance[0] < abs(distance)
        low, high = (middle, high) if short else (low, middle)
    return float(_path(error, count, side, np.array([high])).ratio[0])


def likelihood_curve(
    error: Float[np.ndarray, " I"], count: Float[np.ndarray, " I"], variance: float
) -> Curve | None:
    """Quantiles of a value whose density is exp(-c ell), in units of its standard deviation.

    Parameters
    ----------
    error, count
        As for `log_ratio`.
    variance
        Of the belief. The log ratio is multiplied by c = sum error^2 / variance, so that what few
        visits hide and errors cannot show is not lost (Rao and Scott, 1984): near the estimate the
        belief is as wide as the variance says.

    Returns
    -------
    Curve or None
        None where errors show less than half of the variance, or all have one sign.
    """
    from scipy.special import ndtri

    square = float(count @ error**2)
    shown = variance > 0.0 and square > 0.0 and square >= LEAST_SHOWN * variance
    if not (shown and error.min() < 0.0 < error.max()):
        return None
    scale, unit = square / variance, float(np.sqrt(variance))
    sides = []
    for side in (-1.0, 1.0):
        depth = _depth(error, count, side, _FARTHEST / (2.0 * scale))
        sides.append(_path(error, count, side, np.linspace(0.0, depth, _POINTS + 1)))
    below, above = sides
    at = np.r_[-below.distance[:0:-1], above.distance] / unit
    fall = np.r_[-below.slope[:0:-1], above.slope] * unit * scale
    density = np.exp(-scale * np.r_[below.ratio[:0:-1], above.ratio])
    step = np.diff(at)
    # Trapezoids, with the slopes of the density taken into account.
    drop = -fall * density
    mass = step * (density[1:] + density[:-1]) / 2.0 + step**2 * (drop[:-1] - drop[1:]) / 12.0
    tails = density[[0, -1]] / np.abs(fall[[0, -1]])
    lower = np.cumsum(np.r_[tails[0], mass])
    upper = np.cumsum(np.r_[tails[1], mass[::-1]])[::-1]
    total = lower[-1] + tails[1]
    score = np.where(lower < upper, ndtri(lower / total), -ndtri(upper / total))
    items = float(count.sum())
    kept = np.isfinite(score)
    kept &= np.r_[True, np.diff(np.maximum.accumulate(score)) > 0.0] & np.r_[True, step > 0.0]
    return Curve(
        score[kept], at[kept], items * float(error.min()) / unit, items * float(error.max()) / unit
    )


def _depth(
    error: Float[np.ndarray, " I"], count: Float[np.ndarray, " I"], side: float, ratio: float
) -> float:
    """How far to go along the path until the log ratio is this large."""
    high = 1e-6
    while _path(error, count, side, np.array([high])).ratio[0] < ratio and high < 350.0:
        high *= 2.0
    low = 0.5 * high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if _path(error, count, side, np.array([middle])).ratio[0] < ratio:
            low = middle
        else:
            high = middle
    return high


def _path(
    error: Float[np.ndarray, " I"],
    count: Float[np.ndarray, " I"],
    side: float,
    depth: Float[np.ndarray, " K"],
) -> _Path:
    """The best weights w proportional to 1 / (1 + t x), t from 0 to where the largest has all.

    With x = N error, z = x / max x, t = -(1 - e) / max x and e = exp(-depth), the factors are 1 - z
    + e z. With A the mean of 1 / factor: distance = max x (1 - e) mean(z^2 / factor) / A, the log
    ratio is N log A + sum log factor, and its slope -N t A, which needs no root.
    """
    items = float(count.sum())
    top = items * float((side * error).max())
    z = side * items * error / top
    found = np.empty((3, len(depth)))
    for k, each in enumerate(depth):
        left, rest = np.exp(-each), -np.expm1(-each)
        factor = (1.0 - z) + left * z
        mean = float(count @ (1.0 / factor)) / items
        distance = top * rest * float(count @ (z**2 / factor)) / items / mean
        ratio = items * np.log(mean) + float(count @ np.log(factor))
        found[:, k] = distance, max(ratio, 0.0), items * rest * mean / top
    return _Path(*found)
