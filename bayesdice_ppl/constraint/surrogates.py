"""Surrogates: bounds on the probability that the constraint fails, used in its place.

P_q(ell > epsilon) itself has no useful gradient. Each surrogate is a cost of X = ell / epsilon
whose mean bounds it. Markov's cost is X. The conditional value at risk and Bernstein's have a level
t that is fitted along with q. The smoothed distribution function is no bound, but comes closest.

P(X > 1) <= cvar <= min(1, markov, bernstein) for every q; Markov's and Bernstein's are not ordered.
To add a surrogate, write its cost, its bound from draws and from a quadratic loss, and the function
that makes it, and put that into `SURROGATES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesdice_ppl import checks
from bayesdice_ppl.choices import read_choice
from bayesdice_ppl.constraint import chi_square
from bayesdice_ppl.constraint.chi_square import LevelBound, QuadraticLoss
from bayesdice_ppl.errors import SettingsError

_STEEPEST = 50.0
"""Exponent past which Bernstein's cost is linear."""


class _Family(NamedTuple):
    """How surrogates of one name work.

    Attributes
    ----------
    cost
        Function of X and the level.
    bound
        The surrogate's bound on P(X > 1), from draws of X, at a level or (NaN) the best one.
    exact_bound
        The same if ell is a known quadratic form of a Gaussian: a function of the loss, epsilon and
        the level.
    levels
        Open interval of the level; None if it has no level.
    start
        Where a fitted level starts.
    fitted
        Whether a level that is not given is fitted. Otherwise it is `start`.
    linear
        Whether the cost is X itself.
    """

    cost: Callable[[Array, Array], Array]
    bound: Callable[[np.ndarray, float], float]
    exact_bound: Callable[[QuadraticLoss, float, float | None], LevelBound]
    levels: tuple[float, float] | None = None
    start: float = 0.0
    fitted: bool = False
    linear: bool = False


@final
class Surrogate(NamedTuple):
    """A surrogate as it is asked for; make one with the functions of this module.

    Attributes
    ----------
    name
        What it is called.
    family
        How it works.
    level
        Its level t (for `cdf`, the width of the step). None: it has no level, or fits it.
    """

    name: str
    family: _Family
    level: float | None = None

    @property
    def linear(self) -> bool:
        """Whether the cost is X itself, so that the best multipliers do not depend on it."""
        return self.family.linear

    @property
    def fitted(self) -> bool:
        """Whether a level is to be fitted along with q."""
        return self.level is None and self.family.fitted

    @property
    def levels(self) -> tuple[float, float]:
        """Open interval in which a fitted level lies."""
        return self.family.levels or (0.0, 1.0)

    @property
    def start(self) -> float:
        """The level that was given, or where its fit starts."""
        return self.family.start if self.level is None else self.level

    def cost(self, excess: Float[Array, "*b"], level: Float[Array, ""]) -> Float[Array, "*b"]:
        """The cost in units of lambda.

        Parameters
        ----------
        excess
            X = ell / epsilon.
        level
            The level t.
        """
        return self.family.cost(excess, level)

    def bound(self, excess: Float[np.ndarray, " S"]) -> float:
        """Bound on P(X > 1) from draws of X, at most 1; the best level unless one was given."""
        draws = np.asarray(excess, dtype=np.float64)
        level = math.nan if self.level is None else self.level
        return min(1.0, self.family.bound(draws, level))

    def exact_bound(self, loss: QuadraticLoss, epsilon: float) -> LevelBound:
        """Bound on P(ell > epsilon), at most 1, if ell is half a weighted sum of chi-squares."""
        return self.family.exact_bound(loss, epsilon, self.level)

    def __repr__(self) -> str:
        return self.name if self.level is None else f"{self.name}({self.level:g})"


def _markov_cost(excess: Array, level: Array) -> Array:
    return excess


def _markov_bound(excess: np.ndarray, level: float) -> float:
    return float(excess.mean())


def _cvar_cost(excess: Array, level: Array) -> Array:
    return jnp.maximum(excess - level, 0.0) / (1.0 - level)


def _cvar_bound(excess: np.ndarray, level: float) -> float:
    if math.isfinite(level):
        return float(np.maximum(excess - level, 0.0).mean() / (1.0 - level))
    # Between two draws the bound is a ratio of linear functions of t. So its least value over t
    # is at a draw or at 0.
    points = np.concatenate([[0.0], np.sort(excess[(excess > 0.0) & (excess < 1.0)])])
    ordered = np.sort(excess)
    tail = np.concatenate([np.cumsum(ordered[::-1])[::-1], [0.0]])
    above = np.searchsorted(ordered, points, side="right")
    mean = (tail[above] - (excess.size - above) * points) / excess.size
    return float(np.min(mean / (1.0 - points)))


def _bernstein_cost(excess: Array, level: Array) -> Array:
    scaled = (excess - 1.0) / level
    # Past `_STEEPEST` the cost follows its tangent. Squares of larger slopes overflow, and a
    # sampler with infinite energies accepts everything.
    within = jnp.minimum(scaled, _STEEPEST)
    return jnp.exp(within) * (1.0 + scaled - within)


def _bernstein_bound(excess: np.ndarray, level: float) -> float:
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    def log_mean(log_level: float) -> float:
        scaled = (excess - 1.0) / math.exp(log_level)
        return float(logsumexp(scaled) - math.log(excess.size))

    if math.isfinite(level):
        return math.exp(min(log_mean(math.log(level)), 700.0))
    # Convex in 1 / t; beyond these ends the bound is 1, or that of the largest draw.
    found = minimize_scalar(log_mean, bounds=(-9.0, 9.0), method="bounded")
    return math.exp(min(float(found.fun), 0.0))


def _cdf_cost(excess: Array, level: Array) -> Array:
    return jax.nn.sigmoid((excess - 1.0) / level)


def _cdf_bound(excess: np.ndarray, level: float) -> float:
    return float(np.mean(excess > 1.0))


def _markov_exact(loss: QuadraticLoss, epsilon: float, _: float | None) -> LevelBound:
    return LevelBound(min(chi_square.mean(loss) / epsilon, 1.0), math.nan)


def _cvar_exact(loss: QuadraticLoss, epsilon: float, level: float | None) -> LevelBound:
    return chi_square.cvar_bound(loss, epsilon, level=level)


def _bernstein_exact(loss: QuadraticLoss, epsilon: float, level: float | None) -> LevelBound:
    return chi_square.bernstein_bound(loss, epsilon, level=level)


def _cdf_exact(loss: QuadraticLoss, epsilon: float, _: float | None) -> LevelBound:
    return LevelBound(chi_square.exceedance(loss, epsilon), math.nan)


_MARKOV = _Family(_markov_cost, _markov_bound, _markov_exact, linear=True)
_CVAR = _Family(_cvar_cost, _cvar_bound, _cvar_exact, (0.0, 1.0), 0.1, fitted=True)
_BERNSTEIN = _Family(
    _bernstein_cost, _bernstein_bound, _bernstein_exact, (0.0, math.inf), 1.0, fitted=True
)
_CDF = _Family(_cdf_cost, _cdf_bound, _cdf_exact, (0.0, math.inf), 0.1)


def markov() -> Surrogate:
    """Markov's bound, E[X]: the default and the paper's, and the only calibrated one."""
    return Surrogate("markov", _MARKOV)


def cvar(t: float | None = None) -> Surrogate:
    """The conditional value at risk, inf over 0 <= t < 1 of E[(X - t)_+] / (1 - t).

    Parameters
    ----------
    t
        A fixed level in [0, 1); 0 gives Markov's bound. None: the level is fitted.

    Raises
    ------
    SettingsError
        The level is out of range.

    Notes
    -----
    Nemirovski and Shapiro, "Convex approximations of chance constrained programs" (2006). The
    formula in the paper's appendix, read literally, has infimum 0. If t could be below 0, the bound
    would never exceed 1, its limit there. `Surrogate.bound` takes that into account.
    """
    return _with_level("cvar", _CVAR, t)


def bernstein(t: float | None = None) -> Surrogate:
    """Bernstein's bound, inf over t > 0 of E[exp((X - 1) / t)].

    Parameters
    ----------
    t
        A fixed level above 0. None: the level is fitted. For Gaussian q and quadratic ell the mean
        is infinite for small t.

    Raises
    ------
    SettingsError
        The level is not positive.
    """
    return _with_level("bernstein", _BERNSTEIN, t)


def cdf(width: float | None = None) -> Surrogate:
    """The probability P(X > 1) itself, with its step smoothed into a logistic curve.

    Parameters
    ----------
    width
        Scale of the curve, above 0; 0.1 if None. A smaller one is closer, and harder to fit.

    Raises
    ------
    SettingsError
        The width is not positive.
    """
    return _with_level("cdf", _CDF, width)


SURROGATES: dict[str, Callable[..., Surrogate]] = {
    "markov": markov,
    "cvar": cvar,
    "bernstein": bernstein,
    "cdf": cdf,
}
"""Every surrogate by name."""


def surrogate_choice(given: Surrogate | str) -> Surrogate:
    """Read a choice, or the text of one such as ``"cvar"`` or ``"cvar(0.3)"``.

    Raises
    ------
    SettingsError
        There is no such surrogate, or its level is out of range.
    """
    return given if isinstance(given, Surrogate) else read_choice("surrogate", given, SURROGATES)


def _with_level(name: str, family: _Family, level: Any) -> Surrogate:
    if level is None:
        return Surrogate(name, family)
    low, high = family.levels or (0.0, math.inf)
    # Level 0 of the conditional value at risk is Markov's bound, and allowed.
    inside = checks.is_number(level) and (low < level < high or (family is _CVAR and level == 0.0))
    if not inside:
        raise SettingsError(
            f"surrogate {name}: expected a level between {low:g} and {high:g}, found {level!r}."
        )
    return Surrogate(name, family, float(level))
