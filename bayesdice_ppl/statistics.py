"""Statistics of the one-step reward under a policy: what a value may be instead of a mean.

The ratio gives the whole distribution of the reward that a policy earns in a step, so that its
quantiles, its tail means and its variance can be believed in like its mean. It does *not* give the
distribution of returns: two policies with the same one-step rewards may differ widely in the spread
of their sums.

All but the quantile are means of a transform sigma(r, c) with one number c that is profiled, found
at its best under the pilot's ratio: the statistic is the largest (or smallest) such mean over c, so
that an error in c matters to second order only (Rockafellar and Uryasev, 2000, for the tail mean).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

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
        # Sums of masses end a rounding short of what they are meant to be.
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
        Shape (n,). The masses are scaled to sum to 1; if they sum to nothing (a candidate that
        visits none of the log), all rewards count alike.

    Notes
    -----
    Where masses are negative the cumulative mass falls in places; its values are then sorted
    (monotone rearrangement; Chernozhukov, Fernandez-Val, Galichon, 2010) and kept within [0, 1].
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
    """

    center: Callable[[Distribution, float], float]
    transform: Callable[[np.ndarray, float, float], np.ndarray]
    reward_units: bool


@final
class Statistic(NamedTuple):
    """A statistic as it is asked for; make one with the functions of this module.

    Attributes
    ----------
    name
        Which family.
    parameter
        Its number (alpha, or the weight of the variance), or None.
    function
        The transform of `mean`, or None.
    """

    name: str
    parameter: float | None = None
    function: Callable[[Any], Any] | None = None

    @property
    def reward_units(self) -> bool:
        """Whether the statistic is in units of the reward."""
        return self.function is None and _FAMILIES[self.name].reward_units

    def center(self, distribution: Distribution) -> float:
        """The profiled number c at its best for a distribution."""
        return _FAMILIES[self.name].center(distribution, self.parameter or 0.0)

    def transform(self, reward: Float[np.ndarray, "*b"], center: float) -> Float[np.ndarray, "*b"]:
        """sigma(r, c), whose mean is the statistic at the best c.

        Raises
        ------
        SettingsError
            The user's function gives something else than one finite number for each reward.
        """
        rewards = np.asarray(reward, dtype=np.float64)
        if self.function is None:
            return _FAMILIES[self.name].transform(rewards, center, self.parameter or 0.0)
        try:
            found = np.asarray(self.function(rewards), dtype=np.float64)
        except (TypeError, ValueError) as cause:
            raise SettingsError(f"statistic {self}: the function failed: {cause}") from cause
        if found.shape != rewards.shape or not np.isfinite(found).all():
            raise SettingsError(
                f"statistic {self}: expected one finite number for each of {rewards.size} rewards, "
                f"found shape {found.shape}"
                + ("." if np.isfinite(found).all() else " with some that are not finite.")
            )
        return found

    def __str__(self) -> str:
        if self.function is not None:
            return f"mean({getattr(self.function, '__name__', 'function')})"
        return self.name if self.parameter is None else f"{self.name}({self.parameter:g})"


def _no_center(distribution: Distribution, parameter: float) -> float:
    return 0.0


def _quantile_center(distribution: Distribution, alpha: float) -> float:
    return distribution.quantile(alpha)


def _mean_center(distribution: Distribution, parameter: float) -> float:
    return distribution.mean()


_FAMILIES = {
    "mean": _Family(_no_center, lambda r, c, p: r, True),
    "cvar": _Family(_quantile_center, lambda r, q, a: q - np.maximum(q - r, 0.0) / a, True),
    # The mean of this transform is the distribution function; the fit inverts it.
    "quantile": _Family(_quantile_center, lambda r, q, a: (r <= q).astype(np.float64), True),
    "variance": _Family(_mean_center, lambda r, c, p: (r - c) ** 2, False),
    "mean_variance": _Family(_mean_center, lambda r, c, w: r - w * (r - c) ** 2, False),
}


def mean(transform: Callable[[Any], Any] | None = None) -> Statistic:
    """The mean of the reward, or of any transform sigma(r) of it.

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
    return Statistic("mean", None, transform)


def cvar(alpha: float) -> Statistic:
    """Mean of the worst (lowest) share alpha of one-step rewards.

    In dual form, max over q of q - E[(q - r)_+] / alpha, with q profiled.

    Parameters
    ----------
    alpha
        In (0, 1]; at 1 the mean.

    Raises
    ------
    SettingsError
        It is out of range.
    """
    return Statistic("cvar", _share(alpha, "cvar", closed=True))


def quantile(alpha: float) -> Statistic:
    """The alpha-quantile of one-step rewards: the least r with P(reward <= r) >= alpha.

    The belief of the distribution function is inverted; where rewards are few distinct numbers the
    draws are these numbers.

    Parameters
    ----------
    alpha
        In (0, 1).

    Raises
    ------
    SettingsError
        It is out of range.
    """
    return Statistic("quantile", _share(alpha, "quantile", closed=False))


def variance() -> Statistic:
    """Variance of one-step rewards, in squared units; higher is ranked better."""
    return Statistic("variance")


def mean_variance(weight: float) -> Statistic:
    """Mean minus ``weight`` times the variance of one-step rewards.

    Parameters
    ----------
    weight
        Positive: what a unit of variance costs; negative: what it earns.

    Raises
    ------
    SettingsError
        It is not a finite number.
    """
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
        raise SettingsError(f"mean_variance: expected a finite number, found {weight!r}.")
    return Statistic("mean_variance", float(weight))


def statistic_choice(given: Statistic | str) -> Statistic:
    """Read a choice, or the text of one such as ``"cvar(0.1)"``.

    Raises
    ------
    SettingsError
        There is no such statistic, or its number is missing or out of range.
    """
    if isinstance(given, Statistic):
        return given
    found = re.fullmatch(r"([a-z_]+)(?:\(([^()]*)\))?", str(given).strip())
    makers: dict[str, Callable[..., Statistic]] = {
        "mean": mean,
        "cvar": cvar,
        "quantile": quantile,
        "variance": variance,
        "mean_variance": mean_variance,
    }
    if found is None or found[1] not in makers:
        raise SettingsError(
            "statistic: expected mean, cvar(alpha), quantile(alpha), variance or "
            f"mean_variance(weight), or one made by bd.statistics, found {given!r}."
        )
    takes_number = found[1] in ("cvar", "quantile", "mean_variance")
    if takes_number != bool(found[2]):
        raise SettingsError(
            f"statistic {found[1]}: expected "
            + ("its number in brackets" if takes_number else "no number")
            + f", found {given!r}."
        )
    if not takes_number:
        return makers[found[1]]()
    try:
        number = float(found[2])
    except ValueError as cause:
        raise SettingsError(
            f"statistic: expected a number in brackets, found {given!r}."
        ) from cause
    return makers[found[1]](number)


def _share(alpha: Any, name: str, *, closed: bool) -> float:
    top = alpha <= 1.0 if closed else alpha < 1.0
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not (alpha > 0.0 and top):
        raise SettingsError(
            f"statistics.{name}: expected a share above 0 and "
            f"{'at most' if closed else 'below'} 1, found {alpha!r}."
        )
    return float(alpha)
