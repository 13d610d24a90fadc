"""Statistics of the one-step reward under a policy: what a value may be instead of a mean.

The ratio gives the whole distribution of the reward that a policy earns in a step: its quantiles,
its CVaR and its variance as well as its mean. It does *not* give the distribution of returns: two
policies with the same one-step rewards may differ widely in the spread of their sums.

All but the quantile are means of a transform sigma(r, c). The number c is profiled: it is set to
its best under the first estimate of the ratio. The statistic is the largest (or smallest) such mean
over c, so an error in c matters only to second order (Rockafellar and Uryasev, 2000, for CVaR).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl import checks
from bayesdice_ppl.choices import read_choice
from bayesdice_ppl.errors import SettingsError


class Distribution(NamedTuple):
    """A reward distribution as weighted atoms.

    Attributes
    ----------
    reward
        Atoms in ascending order, shape (K,).
    cumulative
        Mass at or below each atom, ascending and ending at 1, shape (K,).
    """

    reward: Float[np.ndarray, " K"]
    cumulative: Float[np.ndarray, " K"]

    @property
    def mass(self) -> Float[np.ndarray, " K"]:
        """Mass of each atom, shape (K,)."""
        return np.diff(self.cumulative, prepend=0.0)

    def quantile(self, alpha: float) -> float:
        """The least atom at or below which the mass is at least alpha."""
        # Sums of masses may be short of alpha by rounding.
        place = int(np.searchsorted(self.cumulative, alpha - 1e-12))
        return float(self.reward[min(place, len(self.reward) - 1)])

    def mean(self) -> float:
        """Mean reward."""
        return float(self.mass @ self.reward)


def weighted_distribution(
    reward: Float[np.ndarray, " n"], mass: Float[np.ndarray, " n"]
) -> Distribution:
    """Distribution of rewards with given masses, some of which may be negative.

    Parameters
    ----------
    reward, mass
        Shape (n,). The masses are scaled to sum to 1. If their sum is not positive (a candidate
        that visits none of the log), all rewards have equal mass.

    Notes
    -----
    With negative masses the cumulative mass may decrease. Its values are then sorted (monotone
    rearrangement; Chernozhukov, Fernandez-Val, Galichon, 2010) and kept within [0, 1].
    """
    if not mass.sum() > 0.0:
        mass = np.ones_like(mass)
    atoms, code = np.unique(reward, return_inverse=True)
    cumulative = np.cumsum(np.bincount(code.ravel(), mass))
    cumulative = np.sort(cumulative / cumulative[-1])
    cumulative = np.clip(cumulative, 0.0, 1.0)
    cumulative[-1] = 1.0
    return Distribution(atoms, cumulative)


class _Family(NamedTuple):
    """How statistics of one name work.

    Attributes
    ----------
    center
        The profiled number, from the distribution and the parameter.
    transform
        sigma(r), from rewards, the profiled number and the parameter.
    reward_units
        Whether the statistic is in units of the reward.
    inverted
        Whether the mean of the transform is the distribution function, which the fit inverts.
    tail
        Share of the rewards in its tail, from the parameter. None: it has no tail.
    shift
        How far it moves if one is added to all rewards.
    """

    center: Callable[[Distribution, float], float]
    transform: Callable[[np.ndarray, float, float], np.ndarray]
    reward_units: bool = True
    inverted: bool = False
    tail: Callable[[float], float] | None = None
    shift: float = 1.0


@final
class Statistic(NamedTuple):
    """A statistic as it is asked for; make one with the functions of this module.

    Attributes
    ----------
    name
        What it is called.
    family
        How it works.
    parameter
        Its number (alpha, or the weight of the variance), or None if it has none.
    function
        The transform of `mean`, or None.
    """

    name: str
    family: _Family
    parameter: float | None = None
    function: Callable[[Any], Any] | None = None

    @property
    def plain(self) -> bool:
        """Whether it is the mean of the reward itself."""
        return self.family is _MEAN and self.function is None

    @property
    def reward_units(self) -> bool:
        """Whether the statistic is in units of the reward."""
        return self.function is None and self.family.reward_units

    @property
    def inverted(self) -> bool:
        """Whether it is fitted as a distribution function that is then inverted."""
        return self.family.inverted

    @property
    def shift(self) -> float | None:
        """How far it moves if one is added to all rewards; None if nobody knows."""
        return None if self.function is not None else self.family.shift

    @property
    def tail_share(self) -> float | None:
        """Share of the rewards in its tail; None if it has no tail."""
        return None if self.family.tail is None else self.family.tail(self.parameter or 0.0)

    def center(self, distribution: Distribution) -> float:
        """The best c for a distribution."""
        return self.family.center(distribution, self.parameter or 0.0)

    def transform(self, reward: Float[np.ndarray, "*b"], center: float) -> Float[np.ndarray, "*b"]:
        """sigma(r, c), whose mean is the statistic at the best c.

        Raises
        ------
        SettingsError
            The user's function does not return one finite number for each reward.
        """
        rewards = np.asarray(reward, dtype=np.float64)
        if self.function is None:
            return self.family.transform(rewards, center, self.parameter or 0.0)
        try:
            found = np.asarray(self.function(rewards), dtype=np.float64)
        except (TypeError, ValueError) as cause:
            raise SettingsError(
                f"statistic {self}: expected a function of an array of rewards, found one that "
                f"fails: {cause}"
            ) from cause
        if found.shape != rewards.shape or not np.isfinite(found).all():
            raise SettingsError(
                f"statistic {self}: expected one finite number for each of {rewards.size} rewards, "
                f"found shape {found.shape}"
                + ("." if np.isfinite(found).all() else " with some that are not finite.")
            )
        return found

    def __repr__(self) -> str:
        if self.function is not None:
            return f"mean({getattr(self.function, '__name__', 'function')})"
        return self.name if self.parameter is None else f"{self.name}({self.parameter:g})"


def _no_center(distribution: Distribution, parameter: float) -> float:
    return 0.0


def _quantile_center(distribution: Distribution, alpha: float) -> float:
    return distribution.quantile(alpha)


def _mean_center(distribution: Distribution, parameter: float) -> float:
    return distribution.mean()


_MEAN = _Family(_no_center, lambda r, c, p: r)
_CVAR = _Family(_quantile_center, lambda r, q, a: q - np.maximum(q - r, 0.0) / a, tail=lambda a: a)
_QUANTILE = _Family(
    _quantile_center,
    lambda r, q, a: (r <= q).astype(np.float64),
    inverted=True,
    tail=lambda a: min(a, 1.0 - a),
)
_VARIANCE = _Family(_mean_center, lambda r, c, p: (r - c) ** 2, reward_units=False, shift=0.0)
_MEAN_VARIANCE = _Family(_mean_center, lambda r, c, w: r - w * (r - c) ** 2, reward_units=False)


def mean(transform: Callable[[Any], Any] | None = None) -> Statistic:
    """The mean of the reward, or of a transform sigma(r) of it.

    Parameters
    ----------
    transform
        (n,) rewards -> (n,) numbers; None: the reward itself.

    Raises
    ------
    SettingsError
        It cannot be called.
    """
    if transform is not None and not callable(transform):
        raise SettingsError(
            f"statistics.mean: expected a function of rewards, found {type(transform).__name__}."
        )
    return Statistic("mean", _MEAN, function=transform)


def cvar(alpha: float) -> Statistic:
    """CVaR: the mean of the worst (lowest) share alpha of one-step rewards.

    In dual form it is max over q of q - E[(q - r)_+] / alpha, with q profiled.

    Parameters
    ----------
    alpha
        In (0, 1]; 1 gives the mean.

    Raises
    ------
    SettingsError
        It is out of range.
    """
    return Statistic("cvar", _CVAR, _share(alpha, "cvar", closed=True))


def quantile(alpha: float) -> Statistic:
    """The alpha-quantile of one-step rewards: the least r with P(reward <= r) >= alpha.

    Its draws invert the belief of the distribution function, and are rewards that were logged.

    Parameters
    ----------
    alpha
        In (0, 1).

    Raises
    ------
    SettingsError
        It is out of range.
    """
    return Statistic("quantile", _QUANTILE, _share(alpha, "quantile", closed=False))


def variance() -> Statistic:
    """Variance of one-step rewards, in squared units; higher is ranked better."""
    return Statistic("variance", _VARIANCE)


def mean_variance(weight: float) -> Statistic:
    """Mean minus ``weight`` times the variance of one-step rewards.

    Parameters
    ----------
    weight
        Cost of a unit of variance; negative if variance is welcome.

    Raises
    ------
    SettingsError
        It is not a finite number.
    """
    if not checks.is_number(weight):
        raise SettingsError(f"mean_variance: expected a finite number, found {weight!r}.")
    return Statistic("mean_variance", _MEAN_VARIANCE, float(weight))


def _plain_mean() -> Statistic:
    return mean()


STATISTICS: dict[str, Callable[..., Statistic]] = {
    "mean": _plain_mean,
    "cvar": cvar,
    "quantile": quantile,
    "variance": variance,
    "mean_variance": mean_variance,
}
"""Every statistic by name."""


def statistic_choice(given: Statistic | str) -> Statistic:
    """Read a choice, or the text of one such as ``"cvar(0.1)"``.

    Raises
    ------
    SettingsError
        There is no such statistic, or its number is missing or out of range.
    """
    return given if isinstance(given, Statistic) else read_choice("statistic", given, STATISTICS)


def _share(alpha: Any, name: str, *, closed: bool) -> float:
    inside = checks.is_number(alpha) and (0.0 < alpha < 1.0 or (closed and alpha == 1.0))
    if not inside:
        raise SettingsError(
            f"statistics.{name}: expected a share above 0 and "
            f"{'at most' if closed else 'below'} 1, found {alpha!r}."
        )
    return float(alpha)
