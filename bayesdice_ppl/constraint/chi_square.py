"""The loss of a Gaussian q under a quadratic penalty: half a weighted sum of chi-squares, exactly.

If the residual is affine in Gaussian latent numbers, ell = residual' W residual / 2 has a moment
generating function in closed form. It gives Markov's and Bernstein's bounds directly. Its numerical
inversion gives P(ell > epsilon) and the conditional value at risk.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Complex, Float

_SLOPE = 0.5
"""Slope of the contour far out. Below 1 no factor of the integrand grows along it."""
_STEP = 0.25
_HALVINGS = 8
_ACCURACY = 1e-6
"""Relative change at the last halving of the step; the remaining error is about its square."""
_NEGLIGIBLE = 1e-17
"""The contour ends where the integrand is this share of its value at the saddle point."""
_NEVER = -50.0
"""Log of a probability that is lost in rounding beside 1."""
_VANISHING = -700.0
"""Log of a probability that is 0."""
_LEAST_REST = 1e-15
"""Least 1 - t that is tried."""


class QuadraticLoss(NamedTuple):
    """ell = constant + 1/2 sum_j weights_j (z_j + shifts_j)^2 with z_j iid standard normal.

    Attributes
    ----------
    weights
        lambda, positive, the largest first, shape (J,), in units of ell; J = 0 if ell does not
        vary.
    shifts
        delta, shape (J,).
    constant
        The part of ell that does not vary: half the squared length of the whitened mean residual
        outside the range of its covariance.
    """

    weights: Float[np.ndarray, " J"]
    shifts: Float[np.ndarray, " J"]
    constant: float


class LevelBound(NamedTuple):
    """A bound on P(ell > epsilon), at most 1.

    Attributes
    ----------
    value
        The bound.
    level
        The surrogate's level t at which it is taken.
    """

    value: float
    level: float


def loss_of_gaussian(
    mean: Float[np.ndarray, " K"],
    factor: Float[np.ndarray, "K L"],
    matrix: Float[np.ndarray, "R K"],
    offset: Float[np.ndarray, " R"],
    whitening: Float[np.ndarray, "R R"],
) -> QuadraticLoss:
    """The distribution of f(matrix x + offset) for Gaussian x.

    Parameters
    ----------
    mean, factor
        Mean of x, shape (K,), and a root of its covariance, shape (K, L): covariance = factor
        factor'.
    matrix, offset
        The residual, shapes (R, K) and (R,).
    whitening
        V with f(residual) = |V residual|^2 / 2, shape (R, R).
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    center = whitening @ (matrix @ np.asarray(mean) + np.asarray(offset))
    root = whitening @ (matrix @ np.asarray(factor))
    # Singular values of the root keep the digits that eigenvalues of the covariance would lose.
    left, sd, _ = np.linalg.svd(root, full_matrices=False)
    kept = sd > max(root.shape) * np.finfo(np.float64).eps * sd.max(initial=0.0)
    along = left[:, kept].T @ center
    outside = center - left[:, kept] @ along
    return QuadraticLoss(sd[kept] ** 2, along / sd[kept], 0.5 * float(outside @ outside))


def mean(loss: QuadraticLoss) -> float:
    """E[ell]; divided by epsilon it is Markov's bound."""
    return loss.constant + 0.5 * float(loss.weights @ (1.0 + loss.shifts**2))


def log_mgf(loss: QuadraticLoss, s: float) -> float:
    """Logarithm of E[exp(s ell)], infinite from s = 1 / max lambda on."""
    if s * loss.weights.max(initial=0.0) >= 1.0:
        return math.inf
    left = 1.0 - s * loss.weights
    terms = loss.weights * loss.shifts**2 * s / left - np.log1p(-s * loss.weights)
    return s * loss.constant + 0.5 * float(terms.sum())


def exceedance(loss: QuadraticLoss, epsilon: float) -> float:
    """P(ell > epsilon), with absolute error 1e-9; above the mean of ell, relative error 1e-9.

    If ell has little variance, the digits of epsilon set the limit: 1e-16 E[ell] / sd(ell).

    Parameters
    ----------
    loss
        The distribution of ell.
    epsilon
        In units of ell.

    Raises
    ------
    ArithmeticError
        The numerical inversion did not converge.

    Notes
    -----
    A generalized chi-square probability by numerical inversion of the characteristic function, as
    in Imhof, "Computing the distribution of quadratic forms in normal variables" (Biometrika,
    1961). His integral along the imaginary axis oscillates and decays like a power: slowly for few
    terms, and without relative accuracy in the tails. Here the contour goes through the saddle
    point (Rice, "Distribution of quadratic forms in normal random variables: evaluation by
    numerical integration", SIAM J. Sci. Stat. Comput., 1980). It is a hyperbola that bends around
    the singularities. On it the integrand decays exponentially, and the trapezoidal rule converges
    geometrically.
    """
    return _tail(loss, epsilon)[0]


def expected_excess(loss: QuadraticLoss, level: float) -> float:
    """E[(ell - level)_+], by the inversion of `exceedance`."""
    probability, excess = _tail(loss, level)
    return probability * excess


def bernstein_bound(
    loss: QuadraticLoss, epsilon: float, *, level: float | None = None
) -> LevelBound:
    """Bernstein's bound, inf over t > 0 of E[exp((X - 1) / t)] with X = ell / epsilon.

    Parameters
    ----------
    loss
        The distribution of ell.
    epsilon
        In units of ell, positive.
    level
        A fixed level t; None: the best one.

    Returns
    -------
    LevelBound
        If E[X] >= 1, the best level is infinite and the bound is 1. If ell is constant and below
        epsilon, the best level and the bound are 0.
    """
    if level is not None:
        exponent = log_mgf(loss, 1.0 / (level * epsilon)) - 1.0 / level
        return LevelBound(math.exp(min(exponent, 0.0)), level)
    if not loss.weights.size:
        return LevelBound(1.0, math.inf) if loss.constant >= epsilon else LevelBound(0.0, 0.0)
    law = _law(loss, epsilon)
    if 0.5 * float(np.sum(law.weights + law.energies)) >= law.above:
        return LevelBound(1.0, math.inf)
    saddle = _saddle(law, order=0, upper=True)
    return LevelBound(math.exp(min(saddle.value, 0.0)), law.unit / (saddle.s * epsilon))


def cvar_bound(loss: QuadraticLoss, epsilon: float, *, level: float | None = None) -> LevelBound:
    """The conditional value at risk, inf over 0 <= t < 1 of E[(X - t)_+] / (1 - t).

    Parameters
    ----------
    loss
        The distribution of ell.
    epsilon
        In units of ell, positive.
    level
        A fixed level t in [0, 1); None: the best one.

    Returns
    -------
    LevelBound
        The bound is at most 1, its limit for t below zero. If E[X] >= 1, the bound is 1, and the
        best level within [0, 1) is 0.

    Raises
    ------
    ArithmeticError
        As `exceedance`.
    """
    from scipy.optimize import brentq

    rest = 1.0 if level is None else 1.0 - level
    if level is None and mean(loss) < epsilon:
        if not loss.weights.size:
            return LevelBound(0.0, loss.constant / epsilon)

        # The bound is convex in 1 / (1 - t); its slope has the sign of E[X - 1 | X > t]. An error
        # in the level changes the bound by its square.
        def slope(rest: float) -> float:
            return _tail(loss, (1.0 - rest) * epsilon)[1] / epsilon - rest

        rest = _LEAST_REST
        if slope(rest) > 0.0:
            rest = brentq(slope, rest, 1.0, xtol=_LEAST_REST, rtol=1e-4)
    value = expected_excess(loss, (1.0 - rest) * epsilon) / epsilon / rest
    plain = mean(loss) / epsilon
    if level is None and plain < value:
        # Where the best level is nearly 0, the search for it costs more than it gains.
        return LevelBound(min(plain, 1.0), 0.0)
    return LevelBound(min(value, 1.0), 1.0 - rest)


class _Law(NamedTuple):
    """A distribution and a point above its constant, in units of the largest weight."""

    unit: float
    weights: Float[np.ndarray, " J"]
    energies: Float[np.ndarray, " J"]
    above: float


def _law(loss: QuadraticLoss, x: float) -> _Law:
    unit = float(loss.weights.max())
    weights = loss.weights / unit
    return _Law(unit, weights, weights * loss.shifts**2, (x - loss.constant) / unit)


class _Saddle(NamedTuple):
    """A real s, 1 - w s for each weight w, log E[exp(s (ell - x))] and its first derivative."""

    s: float
    left: Float[np.ndarray, " J"]
    value: float
    slope: float


def _saddle(law: _Law, *, order: int, upper: bool) -> _Saddle:
    """The real s at which the convex log E[exp(s (ell - x))] - order log|s| is least.

    If ``upper``, s lies between 0 and the first singularity at 1; else below 0.
    """
    from scipy.optimize import brentq

    def place(at: float) -> tuple[float, Float[np.ndarray, " J"]]:
        # The distance from the singularity is kept, because 1 - s may lose it to rounding.
        s, gap = -math.exp(-at), 1.0 + math.exp(-at)
        if upper:
            s, gap = 1.0 / (1.0 + math.exp(-at)), 1.0 / (1.0 + math.exp(at))
        return s, (1.0 - law.weights) + law.weights * gap

    def slope(s: float, left: Float[np.ndarray, " J"]) -> float:
        return 0.5 * float(np.sum(law.weights / left + law.energies / left**2)) - law.above

    def excess(at: float) -> float:
        s, left = place(at)
        return slope(s, left) - order / s

    low, high, reach = -1.0, 1.0, 1.0
    while excess(low) > 0.0:
        low, reach = low - reach, 2.0 * reach
    while excess(high) < 0.0:
        high, reach = high + reach, 2.0 * reach
    s, left = place(brentq(excess, low, high, xtol=1e-3 if order else 1e-9))
    value = 0.5 * float(np.sum(law.energies * s / left - np.log(left))) - s * law.above
    return _Saddle(s, left, value, slope(s, left))


def _tail(loss: QuadraticLoss, x: float) -> tuple[float, float]:
    """P(ell > x), and E[ell - x | ell > x], to leading order if the probability is 0."""
    over = mean(loss) - x
    if x <= loss.constant or not loss.weights.size:
        return (1.0, over) if over > 0.0 else (0.0, 0.0)
    law = _law(loss, x)
    # Integrate on the side of the mean on which x lies: its probability is the smaller one.
    saddle = _saddle(law, order=1, upper=over <= 0.0)
    if over > 0.0 and saddle.value < _NEVER:
        return 1.0, over
    if saddle.value < _VANISHING:
        return 0.0, law.unit / saddle.s
    first, second = _invert(law, saddle)
    scale = math.exp(saddle.value)
    if over <= 0.0:
        return scale * first, law.unit * second / first
    probability = 1.0 + scale * first
    return probability, (over + law.unit * scale * second) / probability


def _invert(law: _Law, saddle: _Saddle) -> tuple[float, float]:
    """Integrals of E[exp(s (ell - x))] / s and / s^2 over 2 pi i, divided by exp(saddle.value).

    The contour goes from -i to +i infinity. To the right of 0 the integrals are P(ell > x) and
    E[(ell - x)_+]. To its left they are less by the residues at 0, which are 1 and E[ell] - x.
    """
    ratio = law.weights / saddle.left
    bend = law.energies * law.weights / saddle.left**3
    width = 1.0 / math.sqrt(float(np.sum(0.5 * ratio**2 + bend)) + saddle.s**-2)

    def at(y: Float[np.ndarray, " n"]) -> Complex[np.ndarray, "2 n"]:
        move = width * (_SLOPE * (np.cosh(y) - 1.0) + 1j * np.sinh(y))
        speed = _SLOPE * np.sinh(y) + 1j * np.cosh(y)
        inverse = 1.0 / (1.0 + move / saddle.s)
        # Measured from the saddle point, so that no large numbers cancel.
        turn = ratio * move[:, None]
        terms = bend * (move[:, None] ** 2 / (1.0 - turn)) - np.log1p(-turn) - turn
        density = np.exp(0.5 * terms.sum(axis=1) + saddle.slope * move) * speed * inverse
        return np.stack([density, density * inverse])

    # Near the saddle the integrand falls like a normal density of unit width. Far out it falls
    # like exp(-s above), ever faster.
    end = 2.5
    while np.abs(at(np.array([end]))).max() > _NEGLIGIBLE:
        end += 0.5
    nodes = math.ceil(end / _STEP)
    step = end / nodes
    total = at(step * np.arange(nodes + 1)).imag
    total = step * (total.sum(axis=1) - 0.5 * total[:, 0])
    for _ in range(_HALVINGS):
        between = step * at(step * (np.arange(nodes) + 0.5)).imag.sum(axis=1)
        change, total = between - total, 0.5 * (total + between)
        nodes, step = 2 * nodes, 0.5 * step
        if np.all(np.abs(change) <= 2.0 * _ACCURACY * np.abs(total)):
            first, second = total * width / (math.pi * saddle.s)
            return float(first), float(second) / saddle.s
    raise ArithmeticError(
        "the numerical inversion of the distribution of ell did not converge at "
        f"{law.above:g} times its largest weight."
    )
