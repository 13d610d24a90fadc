"""The law of a weighted sum of independent mean rewards, on a lattice.

A value is the sum of its pairs' means, each times the candidate's share of steps there, and of what
does not come from rewards. Characteristic functions multiply, so that the law of the sum is one
Fourier transform, as exact as the lattice is fine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Complex, Float

from bayesdice_ppl.constraint import Curve
from bayesdice_ppl.moments import MeanPosteriors

POINTS, STEPS = 4096, 48
"""Points of the lattice, and how many of them make one standard deviation of the sum."""
MOST_PAIRS = 64
"""Pairs whose law is taken as it is, those with the largest variances; the others together have a
Gamma of their first three cumulants."""
_LEAST = 1e-10
_SCORES = np.linspace(-8.0, 8.0, 321)
_NEARLY_NONE = 1e-3
NO_REST = 1e-4
"""Share of the variance below which the rest is that of rounding and of the ratio's prior."""


class Rest(NamedTuple):
    """Second and third cumulant of what does not come from known means."""

    variance: float
    third: float


def sum_curve(
    posterior: MeanPosteriors, weight: Float[np.ndarray, " P"], rest: Rest
) -> Curve | None:
    """Quantiles of a weighted sum of means, from its mean, in its standard deviation.

    Parameters
    ----------
    posterior
        Of the P means, which are independent.
    weight
        Of each, shape (P,).
    rest
        What is added, with mean 0.

    Returns
    -------
    Curve or None
        None where nothing varies.
    """
    from scipy.special import ndtri

    each = weight**2 * posterior.variance
    whole = float(each.sum()) + rest.variance
    if not whole > 0.0:
        return None
    sd = float(np.sqrt(whole))
    order = np.argsort(-each)
    matter = int(np.count_nonzero(each > NO_REST**2 * whole))
    taken, others = np.split(order, [min(matter, MOST_PAIRS)])
    left = Rest(
        rest.variance + float(each[others].sum()),
        rest.third + float(weight[others] ** 3 @ posterior.third[others]),
    )
    if left.variance < NO_REST * whole:
        left = Rest(0.0, 0.0)
    mean = posterior.mean
    low, high = -np.inf, np.inf
    if left.variance == 0.0:
        ends = (np.array(posterior.ends)[:, None] - mean[taken]) * weight[taken]
        low, high = float(ends.min(axis=0).sum()) / sd, float(ends.max(axis=0).sum()) / sd
    if len(taken) == 1 and left.variance == 0.0:
        one, side = float(weight[taken[0]]), float(np.sign(weight[taken[0]]))
        found = posterior.at(int(taken[0]), side * _SCORES) - mean[taken[0]]
        return _rising(_SCORES, one * found / sd, low, high)
    step = sd / STEPS
    edges = (np.arange(POINTS + 1) - POINTS / 2 - 0.5) * step
    frequency = 2.0 * np.pi * np.fft.rfftfreq(POINTS, step)
    law = _characteristic(left, frequency)
    for pair in taken:
        one = float(weight[pair])
        below = posterior.below(int(pair), mean[pair] + edges / one)
        mass = np.diff(below) if one > 0.0 else -np.diff(below)
        law = law * np.fft.rfft(np.fft.ifftshift(mass))
    mass = np.maximum(np.fft.fftshift(np.fft.irfft(law, POINTS)), 0.0)
    lower, upper = np.cumsum(mass), np.cumsum(mass[::-1])[::-1]
    total = lower[-1]
    # At each edge between two points: what is below, and what is above.
    under, over, at = lower[:-1] / total, upper[1:] / total, edges[1:-1] / sd
    kept = (under > _LEAST) & (over > _LEAST)
    score = np.where(under < over, ndtri(under), -ndtri(over))[kept]
    return _rising(score, at[kept], low, high)


def _rising(
    score: Float[np.ndarray, " K"], at: Float[np.ndarray, " K"], low: float, high: float
) -> Curve:
    """The curve without points that rounding has at one place."""

    def new(x: Float[np.ndarray, " K"]) -> np.ndarray:
        found: np.ndarray = np.r_[True, np.diff(np.maximum.accumulate(x)) > 0.0]
        return found

    kept = new(score) & new(at)
    return Curve(score[kept], at[kept], low, high)


def _characteristic(rest: Rest, frequency: Float[np.ndarray, " K"]) -> Complex[np.ndarray, " K"]:
    """Of a Gamma with mean 0 and these cumulants, or of a normal without skewness."""
    if not rest.variance > 0.0:
        return np.ones(len(frequency), dtype=complex)
    lean = rest.third / rest.variance**1.5
    if abs(lean) < _NEARLY_NONE:
        return np.exp(-0.5 * rest.variance * frequency**2).astype(complex)
    shape, scale = 4.0 / lean**2, rest.third / (2.0 * rest.variance)
    # The transform that NumPy takes has exp(-i w x).
    turn = -1j * frequency * scale
    found: np.ndarray = np.exp(-turn * shape - shape * np.log1p(-turn))
    return found
