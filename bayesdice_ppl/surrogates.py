"""Bounds on the probability that the constraint fails, which stand in for it in the objective.

P_q(ell > epsilon) itself has no useful gradient. Each surrogate is a cost of X = ell / epsilon
whose mean bounds it: Markov's is X; the conditional value at risk and Bernstein's have a level t
that is fitted along with q; the smoothed distribution function bounds nothing but comes closest.

P(X > 1) <= cvar <= min(1, markov, bernstein) for every q; Markov's and Bernstein's are not ordered.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesdice_ppl.errors import SettingsError

_STEEPEST = 50.0
"""Exponent past which Bernstein's cost is linear."""


class _Family(NamedTuple):
    """How surrogates of one name work.

    Attributes
    ----------
    cost
        Of X and the level.
    bound
        The surrogate's bound on P(X > 1) over draws of X, its level at its best.
    levels
        Open interval of the level, or None where there is none.
    start
        Where a fitted level starts.
    fitted
        Whether a level that is not given is fitted; otherwise it is the start.
    """

    cost: Callable[[Array, Array], Array]
    bound: Callable[[np.ndarray, float], float]
    levels: tuple[float, float] | None
    start: float
    fitted: bool


@final
class Surrogate(NamedTuple):
    """A surrogate as it is asked for; make one with the functions of this module.

    Attributes
    ----------
    name
        Which family.
    level
        Its level t (for `cdf`, the width of the step), or None where it has none or fits it.
    """

    name: str
    level: float | None = None

    @property
    def fitted(self) -> bool:
        """Whether a level is to be fitted along with q."""
        return self.level is None and _FAMILIES[self.name].fitted

    @property
    def levels(self) -> tuple[float, float]:
        """Open interval in which a fitted level lies."""
        return _FAMILIES[self.name].levels or (0.0, 1.0)

    @property
    def start(self) -> float:
        """The level that was given, or where its fit starts."""
        return _FAMILIES[self.name].start if self.level is None else self.level

    def cost(self, excess: Float[Array, "*b"], level: Float[Array, ""]) -> Float[Array, "*b"]:
        """What is paid, in units of lambda.

        Parameters
        ----------
        excess
            X = ell / epsilon.
        level
            The level t.
        """
        return _FAMILIES[self.name].cost(excess, level)

    def bound(self, excess: Float[np.ndarray, " S"]) -> float:
        """Bound on P(X > 1) from draws of X, at most 1; the level, unless given, at its best."""
        draws = np.asarray(excess, dtype=np.float64)
        level = math.nan if self.level is None else self.level
        return min(1.0, _FAMILIES[self.name].bound(draws, level))

    def __str__(self) -> str:
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
    # Between two draws the bound is a ratio of linear functions of t, so its least value over t is
    # at a draw or at 0.
    points = np.concatenate([[0.0], np.sort(excess[(excess > 0.0) & (excess < 1.0)])])
    ordered = np.sort(excess)
    tail = np.concatenate([np.cumsum(ordered[::-1])[::-1], [0.0]])
    above = np.searchsorted(ordered, points, side="right")
    mean = (tail[above] - (excess.size - above) * points) / excess.size
    return float(np.min(mean / (1.0 - points)))


def _bernstein_cost(excess: Array, level: Array) -> Array:
    scaled = (excess - 1.0) / level
    # Far off it goes on along its tangent: squares of larger slopes overflow, and a sampler whose
    # energies are infinite accepts anything.
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


_FAMILIES = {
    "markov": _Family(_markov_cost, _markov_bound, None, 0.0, False),
    "cvar": _Family(_cvar_cost, _cvar_bound, (0.0, 1.0), 0.1, True),
    "bernstein": _Family(_bernstein_cost, _bernstein_bound, (0.0, math.inf), 1.0, True),
    "cdf": _Family(_cdf_cost, _cdf_bound, (0.0, math.inf), 0.1, False),
}


def markov() -> Surrogate:
    """Markov's bound, E[X]: the default and the paper's, and the only calibrated one."""
    return Surrogate("markov")


def cvar(t: float | None = None) -> Surrogate:
    """The conditional value at risk, inf over 0 <= t < 1 of E[(X - t)_+] / (1 - t).

    Parameters
    ----------
    t
        A level in [0, 1) to keep, at 0 Markov's bound; None: it is fitted.

    Raises
    ------
    SettingsError
        The level is out of range.

    Notes
    -----
    Nemirovski and Shapiro, "Convex approximations of chance constrained programs" (2006). The
    paper's appendix, read literally, has infimum 0. With t below 0 as well the bound would never
    exceed 1, which is its limit there; `Surrogate.bound` takes that into account.
    """
    return _with_level("cvar", t)


def bernstein(t: float | None = None) -> Surrogate:
    """Bernstein's bound, inf over t > 0 of E[exp((X - 1) / t)].

    Parameters
    ----------
    t
        A level above 0 to keep; None: it is fitted. For Gaussian q and quadratic ell the mean is
        infinite for small t.

    Raises
    ------
    SettingsError
        The level is not positive.
    """
    return _with_level("bernstein", t)


def cdf(width: float | None = None) -> Surrogate:
    """The probability P(X > 1) itself, its step smoothed into a logistic curve.

    Parameters
    ----------
    width
        Scale of the curve, above 0; 0.1 if None. Smaller comes closer and is harder to fit.

    Raises
    ------
    SettingsError
        The width is not positive.
    """
    return _with_level("cdf", width)


def surrogate_choice(given: Surrogate | str) -> Surrogate:
    """Read a choice, or the text of one such as ``"cvar"`` or ``"cvar(0.3)"``.

    Raises
    ------
    SettingsError
        There is no such surrogate, or its level is out of range.
    """
    if isinstance(given, Surrogate):
        return given
    found = re.fullmatch(r"([a-z]+)(?:\(([^()]*)\))?", str(given).strip())
    if found is None or found[1] not in _FAMILIES:
        raise SettingsError(
            f"surrogate: expected one of {', '.join(_FAMILIES)} (or cvar(t), bernstein(t), "
            f"cdf(width)), found {given!r}."
        )
    if found[2] is None:
        return Surrogate(found[1])
    try:
        return _with_level(found[1], float(found[2]))
    except ValueError as cause:
        raise SettingsError(
            f"surrogate: expected a number in brackets, found {given!r}."
        ) from cause


def _with_level(name: str, level: Any) -> Surrogate:
    if level is None:
        return Surrogate(name)
    levels = _FAMILIES[name].levels
    if levels is None:
        raise SettingsError(f"surrogate {name}: it has no level, found {level}.")
    low, high = levels
    # Level 0 of the conditional value at risk is Markov's bound, and allowed.
    inside = low < level < high or (name == "cvar" and level == 0.0)
    if isinstance(level, bool) or not (math.isfinite(level) and inside):
        raise SettingsError(
            f"surrogate {name}: expected a level between {low:g} and {high:g}, found {level}."
        )
    return Surrogate(name, float(level))
