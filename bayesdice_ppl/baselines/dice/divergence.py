"""The least of a linear function over weights in a ball around the log's own.

The ball is that of an f-divergence, summed over samples with weights of their own: transitions, and
starts of episodes. Such balls are the confidence regions of empirical likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

DIVERGENCES = ("kl", "reverse_kl", "chi_square")
_FARTHEST = 25.0
"""The multiplier is sought within exp of this, up or down from a first guess."""
_NOTHING = 1e-300


@final
class Members(NamedTuple):
    """One sample; equal members are counted together.

    Attributes
    ----------
    slope
        The linear function's slope in the weight of each kind of member, shape (C,).
    counts
        How many members are of each kind, shape (C,).
    """

    slope: Float[np.ndarray, " C"]
    counts: Float[np.ndarray, " C"]


def least(
    samples: tuple[Members, ...], radius: float, divergence: str
) -> tuple[Float[np.ndarray, " C"], ...]:
    """Weights, of sum 1 in each sample, at which a linear function is least.

    Parameters
    ----------
    samples
        The samples.
    radius
        Bound on the sum over samples and members of f(n w), n the sample's size.
    divergence
        ``"kl"``, f(x) = x log x - x + 1; ``"reverse_kl"``, -log x + x - 1; ``"chi_square"``,
        (x - 1)^2 / 2.

    Notes
    -----
    The weights are n w = f'^-1((mu - slope / n) / eta). One mu in each sample makes the sum 1, and
    one eta for all puts them on the ball's edge. If the whole simplex lies within the ball, all
    weight is on the least slopes.
    """
    scaled = [(s.slope / s.counts.sum(), s.counts) for s in samples]
    spread = sum(
        float(count @ (slope - (count @ slope) / count.sum()) ** 2) for slope, count in scaled
    )
    if spread <= 0.0:
        return tuple(s.counts / s.counts.sum() for s in samples)
    tilt, size = _FORMS[divergence]

    def beyond(log_eta: float) -> float:
        eta = np.exp(log_eta)
        total = sum(float(count @ size(tilt(slope, count, eta))) for slope, count in scaled)
        return float(np.log(max(total, _NOTHING) / radius))

    # Near the center every f is (x - 1)^2 / 2, and the logarithm falls by 2 in that of eta.
    low = high = 0.5 * np.log(spread / (2.0 * radius))
    guess, at_low = low, beyond(low)
    at_high = at_low
    while at_high > 0.0 and high < guess + _FARTHEST:
        high += 0.1 + at_high
        at_high = beyond(high)
    while at_low < 0.0 and low > guess - _FARTHEST:
        low -= 0.1 - at_low
        at_low = beyond(low)
    inside = at_low < 0.0
    eta = np.exp(low if inside else brentq(beyond, low, high, xtol=1e-10))
    return tuple(count * tilt(slope, count, eta) / count.sum() for slope, count in scaled)


type _Array = Float[np.ndarray, " C"]


def _tilt_kl(slope: _Array, count: _Array, eta: float) -> _Array:
    tilted = np.exp((slope.min() - slope) / eta)
    return tilted * (count.sum() / (count @ tilted))


def _tilt_reverse(slope: _Array, count: _Array, eta: float) -> _Array:
    # n w = eta / (gap + nu): the sum over members is convex and decreasing in nu, so Newton's steps
    # from the left never pass the root.
    gap, n = slope - slope.min(), count.sum()
    nu = eta * float(count[gap == 0.0].sum()) / n
    for _ in range(100):
        each = eta / (gap + nu)
        excess = count @ each - n
        if excess <= 1e-13 * n:
            break
        nu += excess / (count @ (each / (gap + nu)))
    each = eta / (gap + nu)
    return each * (n / (count @ each))


def _tilt_chi_square(slope: _Array, count: _Array, eta: float) -> _Array:
    # n w = (1 + (mu - slope) / eta)_+: the k least slopes in use give mu, and k is the largest
    # number for which the weight of the last is positive.
    order = np.argsort(slope, kind="stable")
    used, total = np.cumsum(count[order]), np.cumsum((count * slope)[order])
    level = (total + eta * count.sum()) / used
    k = int(np.flatnonzero(level > slope[order])[-1])
    return np.maximum((level[k] - slope) / eta, 0.0)


def _size_kl(x: _Array) -> _Array:
    return x * np.log(np.where(x > 0.0, x, 1.0)) - x + 1.0


def _size_reverse(x: _Array) -> _Array:
    return x - 1.0 - np.log(x)


def _size_chi_square(x: _Array) -> _Array:
    return 0.5 * (x - 1.0) ** 2


_FORMS: dict[str, tuple[Callable[[_Array, _Array, float], _Array], Callable[[_Array], _Array]]] = {
    "kl": (_tilt_kl, _size_kl),
    "reverse_kl": (_tilt_reverse, _size_reverse),
    "chi_square": (_tilt_chi_square, _size_chi_square),
}
