"""Confidence intervals from per-trajectory estimates, which are independent of one another.

Importance sampling turns every logged episode into an estimate of its own; their mean is the
estimate of the value. The intervals differ in what they assume. Student's t: that the mean is
nearly normal. Hoeffding and Bernstein: only that the estimates are bounded. The bootstrap: that the
sample stands for its population.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy import special, stats

from bayesdice_ppl.baselines.interface import Estimate, Estimator, Query
from bayesdice_ppl.baselines.weighting.behavior import BEHAVIORS
from bayesdice_ppl.checks import one_of, positive, whole
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.keys import seed_sequence
from bayesdice_ppl.logs import RewardUnits

INTERVALS = ("student", "bernstein", "hoeffding", "bca")
"""Names of the intervals."""

BOUNDED = ("bernstein", "hoeffding")
"""Those of bounded estimates."""

RESAMPLES = 2000
"""Bootstrap resamples."""

AS_LOGGED = RewardUnits()
"""The units of the log."""

_DIGITS = 12
"""Means of resamples that agree to so many decimals, in standard deviations, are equal."""

_MOST_NUMBERS = 2_000_000
"""How many numbers a batch of resamples may hold at once."""


class Sample(NamedTuple):
    """Per-trajectory estimates and what bounds them.

    Attributes
    ----------
    estimates
        Shape (m,), in reward per step; their mean is the estimate. Of a ratio of means they are its
        value and what each episode adds to its error: weight times (reward - value).
    share
        What each would be with weights and rewards of 1, shape (m,).
    largest
        Largest weight of any row.
    center
        What an episode without weight counts: the value for a ratio of means, else 0.
    mass
        Each episode's part of the denominator of a ratio of means, with mean one, shape (m,). None:
        the denominator is known.
    """

    estimates: Float[np.ndarray, " m"]
    share: Float[np.ndarray, " m"]
    largest: float
    center: float = 0.0
    mass: Float[np.ndarray, " m"] | None = None

    def width(
        self,
        rewards: Float[np.ndarray, " n"],
        reward_range: tuple[float, float] | None,
        max_weight: float | None,
        units: RewardUnits = AS_LOGGED,
    ) -> float:
        """Length of the range in which the estimates are taken to lie.

        With the largest weight that a row can have it is known before they are seen, from the range
        of the rewards, by default of those logged. Without, it runs from the least to the largest
        of the estimates themselves and the center, the estimate of an episode without weight.
        Rewards and their range are as logged, the estimates in ``units``.

        Raises
        ------
        SettingsError
            The log itself is outside these bounds.
        """
        low, high = float(rewards.min()), float(rewards.max())
        if reward_range is not None:
            if low < reward_range[0] or high > reward_range[1]:
                raise SettingsError(
                    f"reward_range: expected a range that holds the logged rewards, [{low:g}, "
                    f"{high:g}], found [{reward_range[0]:g}, {reward_range[1]:g}]."
                )
            low, high = reward_range
        if max_weight is None:
            off = self.estimates - self.center
            return max(float(off.max()), 0.0) - min(float(off.min()), 0.0)
        if self.largest > max_weight * (1.0 + 1e-9):
            raise SettingsError(
                f"max_weight: expected at least the largest weight in the log, {self.largest:g}, "
                f"found {max_weight:g}."
            )
        low, high = (float(units.into(end)) for end in (low, high))
        most = max_weight * float(self.share.max())
        return most * (max(high - self.center, 0.0) - min(low - self.center, 0.0))


class PerTrajectory(Estimator):
    """A method whose estimate is the mean over episodes, with an interval if one is chosen.

    Attributes
    ----------
    interval
        One of `INTERVALS`, or None.
    resamples
        Of the bootstrap.
    behavior
        Where the logging policy's probabilities come from; of no use to ratios that need none.
    """

    interval: str | None
    resamples: int
    behavior: str = "logged"

    @property
    def gives(self) -> str:
        """``"interval"`` or ``"estimate"``."""
        return "estimate" if self.interval is None else "interval"

    @property
    def fitted(self) -> bool:
        """Whether the logging policy is counted from the log."""
        return self.behavior == "fitted"

    @property
    def draws(self) -> bool:
        """Whether a key is needed, for the bootstrap."""
        return self.interval == "bca"

    def name_with(self, name: str) -> str:
        """Add the choices to a name in tables, as in "weighted DR (fitted behavior) + bca"."""
        behavior = " (fitted behavior)" if self.fitted else ""
        return f"{name}{behavior}" + (f" + {self.interval}" if self.interval else "")

    def short_with(self, short: str) -> str:
        """Add the choices to a name for `make`, as in "wdr:bca:fitted"."""
        interval = f":{self.interval}" if self.interval else ""
        return f"{short}{interval}" + (":fitted" if self.fitted else "")

    def check_choices(self) -> None:
        """Refuse an unknown interval or behavior, and too few resamples."""
        if self.interval is not None:
            one_of("interval", self.interval, INTERVALS)
        one_of("behavior", self.behavior, BEHAVIORS)
        whole("resamples", self.resamples, 100)

    def conclude(
        self,
        query: Query,
        level: float,
        estimates: Float[np.ndarray, " m"],
        *,
        width: Callable[[], float],
        mass: Float[np.ndarray, " m"] | None = None,
        effective_episodes: float | None = None,
    ) -> Estimate:
        """Take the mean of per-trajectory estimates, and the interval that was chosen.

        ``width`` gives the length of a range in which all lie, for Hoeffding and Bernstein, and
        ``mass`` is that of `Sample`, for the bootstrap.

        Raises
        ------
        LogsError
            There is only one estimate.
        """
        mean, kind = float(estimates.mean()), self.interval
        if kind is None:
            return Estimate(mean, effective_episodes=effective_episodes)
        if len(estimates) < 2:
            raise LogsError(
                f"the {kind} interval needs at least two episodes, and the log has one; "
                f"leave :{kind} out (interval=None) for the estimate alone."
            )
        if kind == "student":
            ends = student_interval(estimates, level)
        elif kind == "bernstein":
            ends = bernstein_interval(estimates, level, width())
        elif kind == "hoeffding":
            ends = hoeffding_interval(estimates, level, width())
        else:
            ends = bca_interval(estimates, level, query.key, self.resamples, mass)
        return Estimate(mean, *ends, effective_episodes=effective_episodes)


def check_bounds(reward_range: tuple[float, float] | None, max_weight: float | None) -> None:
    """Refuse bounds that are no bounds.

    Raises
    ------
    SettingsError
        With what was expected.
    """
    if reward_range is not None:
        ends = np.asarray(reward_range, dtype=np.float64)
        if ends.shape != (2,) or not np.isfinite(ends).all() or ends[0] > ends[1]:
            raise SettingsError(
                f"reward_range: expected (least, largest) reward, found {reward_range!r}."
            )
    if max_weight is not None:
        positive("max_weight", max_weight)


def student_interval(estimates: Float[np.ndarray, " m"], level: float) -> tuple[float, float]:
    """Student's t interval for the mean, central.

    Parameters
    ----------
    estimates
        Independent estimates, shape (m,), at least two.
    level
        Coverage in (0, 1); each side leaves out (1 - level) / 2.

    Notes
    -----
    Exact for normal estimates, and right for many of any distribution. Importance-weighted
    estimates are skewed: from few of them the interval misses more often than it says, as what is
    rare and large has not been seen yet.
    """
    m = len(estimates)
    reach = stats.t.ppf(0.5 + level / 2.0, m - 1) * estimates.std(ddof=1) / np.sqrt(m)
    mean = estimates.mean()
    return float(mean - reach), float(mean + reach)


def hoeffding_interval(
    estimates: Float[np.ndarray, " m"], level: float, width: float
) -> tuple[float, float]:
    """Hoeffding's interval for the mean of bounded numbers.

    Parameters
    ----------
    estimates
        Independent estimates, shape (m,).
    level
        Least coverage in (0, 1).
    width
        Length of a range in which every estimate must lie, known before it is seen.

    Notes
    -----
    mean +- width sqrt(log(2 / (1 - level)) / (2 m)), from Hoeffding (1963, theorem 2) on each side.
    """
    reach = width * np.sqrt(np.log(2.0 / (1.0 - level)) / (2.0 * len(estimates)))
    mean = estimates.mean()
    return float(mean - reach), float(mean + reach)


def bernstein_interval(
    estimates: Float[np.ndarray, " m"], level: float, width: float
) -> tuple[float, float]:
    """Empirical Bernstein interval for the mean of bounded numbers.

    Parameters
    ----------
    estimates
        Independent estimates, shape (m,), at least two.
    level
        Least coverage in (0, 1).
    width
        Length of a range in which every estimate must lie, known before it is seen.

    Notes
    -----
    Maurer and Pontil, "Empirical Bernstein bounds and sample variance penalization" (2009), theorem
    4: on each side, with delta = (1 - level) / 2 and V the unbiased sample variance, the mean is
    off by at most sqrt(2 V log(2 / delta) / m) + 7 width log(2 / delta) / (3 (m - 1)).
    """
    m = len(estimates)
    log_term = np.log(4.0 / (1.0 - level))
    reach = np.sqrt(2.0 * estimates.var(ddof=1) * log_term / m)
    reach += 7.0 * width * log_term / (3.0 * (m - 1))
    mean = estimates.mean()
    return float(mean - reach), float(mean + reach)


def bca_interval(
    estimates: Float[np.ndarray, " m"],
    level: float,
    rng_key: PRNGKeyArray,
    resamples: int = RESAMPLES,
    mass: Float[np.ndarray, " m"] | None = None,
) -> tuple[float, float]:
    """Bias-corrected and accelerated bootstrap interval for the mean, or for a ratio of means.

    Parameters
    ----------
    estimates
        Independent estimates, shape (m,), at least two.
    level
        Coverage in (0, 1), central.
    rng_key
        A key of `jax.random`; the same key, estimates and level give the same interval.
    resamples
        How many times the estimates are drawn again.
    mass
        Each episode's part of the denominator, with mean one, shape (m,), which is then taken anew
        in every resample. None: it is known.

    Notes
    -----
    Efron (1987); the resamples are those of `scipy.stats.bootstrap`. The acceleration takes the
    estimate without each episode, which of a mean, or a ratio of means, is one subtraction. If all
    estimates are the same, the interval is that point.
    """
    if np.ptp(estimates) == 0.0:
        return float(estimates[0]), float(estimates[0])
    mean, spread = float(estimates.mean()), float(estimates.std())
    off = (estimates - mean) / spread

    # BCa counts resamples below the estimate and half of those that equal it, of which rewards of
    # few values make many: rounding must not decide which.
    def plain(off: np.ndarray, axis: int) -> np.ndarray:
        return np.round(off.mean(axis=axis), _DIGITS)

    def ratio(off: np.ndarray, mass: np.ndarray, axis: int) -> np.ndarray:
        return np.round(off.mean(axis=axis) / mass.mean(axis=axis), _DIGITS)

    resampled = stats.bootstrap(
        (off,) if mass is None else (off, mass),
        plain if mass is None else ratio,
        paired=mass is not None,
        n_resamples=resamples,
        batch=max(1, _MOST_NUMBERS // len(estimates)),
        vectorized=True,
        confidence_level=level,
        method="percentile",
        rng=np.random.default_rng(seed_sequence(rng_key)),
    ).bootstrap_distribution
    own = plain(off, axis=0) if mass is None else ratio(off, mass, axis=0)
    below = np.mean(resampled < own) + 0.5 * np.mean(resampled == own)
    bias, pull = special.ndtri(below), acceleration(off, mass)
    ends = []
    for tail in ((1.0 - level) / 2.0, (1.0 + level) / 2.0):
        moved = bias + special.ndtri(tail)
        share = float(special.ndtr(bias + moved / (1.0 - pull * moved)))
        ends.append(float(np.percentile(resampled, 100.0 * share)) if 0 <= share <= 1 else np.nan)
    return mean + spread * ends[0], mean + spread * ends[1]


def acceleration(off: Float[np.ndarray, " m"], mass: Float[np.ndarray, " m"] | None) -> float:
    """Efron's acceleration of a mean, or of a ratio of means, by the jackknife, in linear time.

    Parameters
    ----------
    off, mass
        Numerator and, for a ratio, denominator of each episode, shape (m,).
    """
    left = np.sum(off) - off
    without = left / (len(off) - 1.0) if mass is None else left / (np.sum(mass) - mass)
    moved = without.mean() - without
    square = float(np.sum(moved**2))
    return float(np.sum(moved**3)) / (6.0 * square**1.5) if square > 0.0 else 0.0
