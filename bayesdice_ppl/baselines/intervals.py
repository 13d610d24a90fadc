"""Confidence intervals from per-trajectory estimates, which are independent of one another.

Importance sampling turns every logged episode into an estimate of its own. The interval is then
that of a mean of m independent numbers, and the methods differ in what they assume of these:
Student's t that their mean is nearly normal, Hoeffding and Bernstein only that they are bounded,
the bootstrap that the sample stands for its population.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from scipy import stats

from bayesdice_ppl.baselines.checks import one_of
from bayesdice_ppl.errors import LogsError, SettingsError

if TYPE_CHECKING:
    from jaxtyping import PRNGKeyArray

INTERVALS = ("student", "bernstein", "hoeffding", "bca")
"""Names of the intervals."""

RESAMPLES = 2000
"""Bootstrap resamples."""

_MOST_NUMBERS = 2_000_000
"""How many numbers a batch of resamples may hold at once."""


def central(draws: Float[np.ndarray, " S"], level: float) -> tuple[float, float]:
    """Ends of the central interval of draws, which leaves out as much on either side."""
    tail = 0.5 * (1.0 - level)
    lower, upper = np.quantile(draws, [tail, 1.0 - tail])
    return float(lower), float(upper)


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
    Exact for normal estimates and right for many of any kind. Importance-weighted estimates are
    skewed, and from few of them the interval misses more often than it says: what is rare and large
    has not been seen yet.
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
        Length of an interval in which every estimate must lie, known before it is seen.

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
        Length of an interval in which every estimate must lie, known before it is seen.

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
) -> tuple[float, float]:
    """Bias-corrected and accelerated bootstrap interval for the mean.

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

    Notes
    -----
    Efron (1987), by `scipy.stats.bootstrap`. Estimates that are all the same leave nothing to
    resample: the interval is then the point itself.
    """
    # Brings in JAX, which the other intervals do without.
    from bayesdice_ppl.keys import seed_sequence

    if np.ptp(estimates) == 0.0:
        return float(estimates[0]), float(estimates[0])
    found = stats.bootstrap(
        (estimates,),
        np.mean,
        n_resamples=resamples,
        batch=max(1, _MOST_NUMBERS // len(estimates)),
        vectorized=True,
        confidence_level=level,
        method="BCa",
        rng=np.random.default_rng(seed_sequence(rng_key)),
    ).confidence_interval
    return float(found.low), float(found.high)


def find_interval(
    kind: str | None,
    estimates: Float[np.ndarray, " m"],
    level: float,
    *,
    width: float,
    rng_key: PRNGKeyArray | None,
    resamples: int = RESAMPLES,
) -> tuple[float | None, float | None]:
    """Interval of the kind that was asked for.

    Parameters
    ----------
    kind
        One of `INTERVALS`, or None: no interval.
    estimates
        Independent estimates, shape (m,).
    level
        Coverage in (0, 1).
    width
        Length of an interval in which every estimate lies, for Hoeffding and Bernstein.
    rng_key, resamples
        For the bootstrap.

    Returns
    -------
    (lower, upper)
        None and None where no interval was asked for.

    Raises
    ------
    LogsError
        There is one estimate only.
    SettingsError
        The bootstrap has no key.
    """
    if kind is None:
        return None, None
    if len(estimates) < 2:
        raise LogsError(
            f"the {kind} interval needs at least two episodes, and the log has one; "
            f"leave :{kind} out (interval=None) for the estimate alone."
        )
    if kind == "student":
        return student_interval(estimates, level)
    if kind == "bernstein":
        return bernstein_interval(estimates, level, width)
    if kind == "hoeffding":
        return hoeffding_interval(estimates, level, width)
    if rng_key is None:
        raise SettingsError("the bootstrap draws: give rng_key, such as jax.random.key(0).")
    return bca_interval(estimates, level, rng_key, resamples)


def check_interval(method: str, kind: str | None, resamples: int = RESAMPLES) -> None:
    """Refuse an interval that is not one of `INTERVALS`, and resamples that are too few.

    Raises
    ------
    SettingsError
        With the names there are.
    """
    if kind is not None:
        one_of(method, "interval", kind, INTERVALS)
    if isinstance(resamples, bool) or not isinstance(resamples, int) or resamples < 100:
        raise SettingsError(
            f"{method}: resamples: expected a whole number of at least 100, found {resamples!r}."
        )


def interval_suffixes(kind: str | None) -> tuple[str, str]:
    """What an interval adds to a method's name in tables, and to its name for `--method`."""
    return ("", "") if kind is None else (f" + {kind}", f":{kind}")
