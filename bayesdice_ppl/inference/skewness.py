"""Skewness: what rare or large rewards do to a value's belief beyond its mean and its width.

A mean of rare rewards leans. If none of the few large rewards came, the estimate is low and its
standard error is small, so that a symmetric interval misses high values. The third moment of the
errors says how far: values get the quantiles of a Gamma, which are Jeffreys' posterior for the mean
of a count. And pairs without a rare reward share the spread of those that had one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.constraint import NORMAL_REWARDS, Curve, shrunk_spread
from bayesdice_ppl.inference.dependence import GroupedRows, Unit
from bayesdice_ppl.inference.pilot import Pilot
from bayesdice_ppl.moments import Cells, TransformedRewards

UNSKEWED_VISITS = 30.0
"""Degrees of freedom without skewness with which a log's own skewness is averaged: a third moment
of few visits is mostly noise. Less bends the beliefs of 10 to 25 pulls more than it helps, more
takes from logs of a few hundred rows what they show."""
_NEARLY_NONE = 1e-4
_FAR = 8.0


class Rows(NamedTuple):
    """The rows behind the cells.

    Attributes
    ----------
    cell, reward
        The cell of each row that is used, and its reward, shape (n,).
    """

    cell: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]

    def by_cell(self, n_cells: int) -> tuple[Float[np.ndarray, " C"], Powers]:
        """Mean reward of each cell, and sums of powers around it."""
        return of_cells(self.cell, self.reward, n_cells)


class CountedRows(NamedTuple):
    """What is known of rows that lie elsewhere.

    Attributes
    ----------
    mean, inside
        Mean reward of each cell, shape (C,), and sums of powers around it.
    """

    mean: Float[np.ndarray, " C"]
    inside: Powers

    def by_cell(self, n_cells: int) -> tuple[Float[np.ndarray, " C"], Powers]:
        """Mean reward of each cell, and sums of powers around it."""
        return self.mean, self.inside


class Tails(NamedTuple):
    """What third and fourth moments say of N values.

    Attributes
    ----------
    skewness
        Of the estimate's error, shape (N,); 0 where nothing is known.
    hidden
        Variance that pairs without a rare reward do not show, shape (N,). Sigma includes it.
    effective
        Effective number of errors, (sum u^2)^2 / sum u^4 over rows and starts, shape (N,): how many
        of them a width rests on, whatever the unit of independence.
    curves
        Quantiles of each value that are not those of its skewness, or None; empty: there are none.
    """

    skewness: Float[np.ndarray, " N"]
    hidden: Float[np.ndarray, " N"]
    effective: Float[np.ndarray, " N"]
    curves: tuple[Curve | None, ...] = ()

    def first(self, n: int) -> Tails:
        """Those of the first n entries."""
        hidden, effective = self.hidden[:n], self.effective[:n]
        return Tails(self.skewness[:n], hidden, effective, self.curves[:n])

    def without(self, entry: Bool[np.ndarray, " N"]) -> Tails:
        """Those in which some entries have Student's t as it is."""
        kept = [None if plain else one for one, plain in zip(self.curves, entry, strict=False)]
        return self._replace(skewness=np.where(entry, 0.0, self.skewness), curves=tuple(kept))

    def diluted(self, share: Float[np.ndarray, " N"]) -> Tails:
        """Those of values of which a part is symmetric; see `Unseen.kept_lean`."""
        return self._replace(
            skewness=self.skewness * share,
            curves=tuple(
                None if curve is None else curve.diluted(float(part))
                for curve, part in zip(self.curves, share, strict=False)
            ),
        )

    def quantile(
        self,
        score: Float[np.ndarray, "S N"],
        degrees_of_freedom: Float[np.ndarray, " N"],
    ) -> Float[np.ndarray, "S N"]:
        """Values less their location, over their scale, at normal scores; shape (S, N)."""
        found = standard_quantile(score, degrees_of_freedom, self.skewness)
        if any(curve is not None for curve in self.curves):
            plain = standard_quantile(score, degrees_of_freedom)
            for j, curve in enumerate(self.curves):
                if curve is not None:
                    found[:, j] = curve.at(plain[:, j])
        return found


class Powers(NamedTuple):
    """Sums of powers of the errors in a pair, or in a cell, around its mean, shapes (P,)."""

    second: Float[np.ndarray, " P"]
    third: Float[np.ndarray, " P"]
    fourth: Float[np.ndarray, " P"]


class OneTail(NamedTuple):
    """What one candidate's errors say: third cumulant, hidden variance, effective number."""

    third: float
    hidden: float
    effective: float


def measure_tails(
    cells: Cells,
    pilots: Pilot,
    rows: Rows | CountedRows,
    rewards: TransformedRewards | None = None,
    *,
    by_episode: bool = False,
    groups: tuple[GroupedRows, Unit] | None = None,
) -> list[OneTail]:
    """Third cumulant, hidden variance and effective number of every candidate's errors.

    Parameters
    ----------
    cells, pilots
        The log, on one-hot features, and all first estimates.
    rows
        The rows behind the cells.
    rewards
        Each entry's transformed rewards, or None for the log's own.
    by_episode
        Whether episodes are the independent unit, rather than transitions.
    groups
        The groups of rows that are the unit of independence, where there are some.

    Notes
    -----
    With delta the temporal-difference errors, n_sa the visits of a pair, d = zeta n_sa / n and SS,
    S3, S4 the sums of powers of delta around its mean in the pair::

        nu     = max(2, sum (S4 - SS^2 / n_sa) / sum SS^2 / n_sa)
        v      = sum d^2 (SS + nu pool) / (n_sa (n_sa - 1 + nu))
        third  = sum d^3 (S3 + nu pool_3) / (n_sa^2 (n_sa - 1 + nu))

    pool and pool_3 are sum SS and sum S3 over sum (n_sa - 1). nu is what the small-sample rule has
    as 2 (see `bayesdice_ppl.constraint.few_visits`): the number of rewards that know the variance
    as well as two normal ones. A square of a normal has the variance 2 in units of its squared
    mean, and that of a reward which is 1 in one of 200 cases 199. The hidden variance is what v has
    beyond the rule's.
    """
    count, pair = np.asarray(cells.count), np.asarray(cells.pair)
    error, by_pair = np.asarray(pilots.error), np.asarray(pilots.by_pair)
    unit = None if pilots.unit is None else np.asarray(pilots.unit)
    mean, inside = rows.by_cell(len(count))
    found = []
    for j in range(len(by_pair)):
        if rewards is not None and isinstance(rows, Rows):
            mean, inside = of_cells(rows.cell, np.asarray(rewards.by_row)[j], len(count))
        counted_with = pair if unit is None else unit[j][pair]
        visits = np.bincount(counted_with, count, len(by_pair[j]))
        powers = _of_pairs(counted_with, visits, count, error[j] + mean, inside)
        share = by_pair[j] * visits / float(cells.n_transitions)
        started = moments_of_starts(cells, pilots, j)
        third, hidden = _pooled(visits, share, powers)
        weight = share / np.where(visits > 0.0, visits, 1.0)
        square = weight**2 @ powers.second + started[0]
        fourth = weight**4 @ powers.fourth + started[2]
        third += started[1]
        sums = None
        if groups is not None:
            sums = sums_by_group(cells, pilots, groups, rewards, j)
        elif by_episode:
            sums = sums_by_episode(cells, pilots, j, mean)
        if sums is not None:
            third = float((sums**3).sum())
        effective = float(square**2 / fourth) if fourth > 0.0 else np.inf
        found.append(OneTail(float(third), hidden, effective))
    return found


def skewness_of(
    third: Float[np.ndarray, " N"],
    variance: Float[np.ndarray, " N"],
    degrees_of_freedom: Float[np.ndarray, " N"],
) -> Float[np.ndarray, " N"]:
    """Skewness of each estimate's error, drawn to 0 where it rests on few visits, shape (N,)."""
    safe = np.where(variance > 0.0, variance, 1.0)
    plain = np.where(variance > 0.0, third / safe**1.5, 0.0)
    return plain / (1.0 + UNSKEWED_VISITS / degrees_of_freedom)


def standard_quantile(
    score: Float[np.ndarray, "S N"],
    degrees_of_freedom: Float[np.ndarray, " N"],
    skewness: Float[np.ndarray, " N"] | None = None,
) -> Float[np.ndarray, "S N"]:
    """Values less their location, over their scale, at normal scores.

    Parameters
    ----------
    score
        Standard normal scores, shape (S, N).
    degrees_of_freedom
        Of Student's t, infinite for a normal, shape (N,).
    skewness
        Of the estimates' errors, from `skewness_of`, shape (N,), or None for none.

    Returns
    -------
    array
        Shape (S, N); increasing in the score.

    Notes
    -----
    With skewness a the quantile at a normal score z is (G - 1 / a^2) a, with G that of a Gamma of
    shape 1 / a^2 + 1/2: z + a (2 z^2 + 1) / 6 + ..., as by Hall's (1992) transformation of the
    studentized mean. For the number k of events in a Poisson process a is 1 / sqrt(k), and it is
    Jeffreys' posterior Gamma(k + 1/2). A score passes through Student's t first.

    References
    ----------
    Hall, "On the removal of skewness by transformation", 1992.
    """
    from scipy.special import ndtr, stdtrit

    # From the lower tail, where probabilities keep their precision.
    t = np.copysign(stdtrit(degrees_of_freedom, ndtr(-np.abs(score))), score)
    if skewness is None or not np.any(skewness):
        return t
    found = np.empty_like(t)
    for j, lean in enumerate(np.broadcast_to(skewness, t.shape[1:])):
        found[:, j] = _bent(t[:, j], float(lean))
    return found


def _bent(t: Float[np.ndarray, " S"], lean: float) -> Float[np.ndarray, " S"]:
    """Quantiles of the Gamma at normal scores; past 8 they go on as Student's t does."""
    from scipy.special import gammainccinv, gammaincinv, ndtr

    size = abs(lean)
    if size == 0.0:
        return t
    if size < _NEARLY_NONE:
        return t + lean * (2.0 * t**2 + 1.0) / 6.0 if np.abs(t).max() * size < 0.1 else t
    count = 1.0 / size**2
    near = np.clip(np.copysign(1.0, lean) * t, -_FAR, _FAR)
    tail = ndtr(-np.abs(near))
    below = gammaincinv(count + 0.5, np.where(near < 0.0, tail, 0.5))
    above = gammainccinv(count + 0.5, np.where(near < 0.0, 0.5, tail))
    quantile = (np.where(near < 0.0, below, above) - count) * size
    return np.copysign(1.0, lean) * quantile + (t - np.clip(t, -_FAR, _FAR))


def of_cells(
    cell: Int[np.ndarray, " n"], reward: Float[np.ndarray, " n"], n_cells: int
) -> tuple[Float[np.ndarray, " C"], Powers]:
    """Mean reward of each cell, and sums of powers around it."""
    count = np.bincount(cell, minlength=n_cells)
    mean = np.bincount(cell, reward, n_cells) / np.maximum(count, 1)
    off = reward - mean[cell]
    return mean, Powers(*(np.bincount(cell, off**power, n_cells) for power in (2, 3, 4)))


def _of_pairs(
    pair: Int[np.ndarray, " C"],
    visits: Float[np.ndarray, " P"],
    count: Float[np.ndarray, " C"],
    delta: Float[np.ndarray, " C"],
    inside: Powers,
) -> Powers:
    """Sums of powers of the errors around their mean in each pair, from those in the cells."""
    n_pairs = len(visits)
    center = np.bincount(pair, count * delta, n_pairs) / np.where(visits > 0.0, visits, 1.0)
    off = delta - center[pair]
    second = count * off**2 + inside.second
    third = count * off**3 + 3.0 * off * inside.second + inside.third
    fourth = count * off**4 + 6.0 * off**2 * inside.second + 4.0 * off * inside.third
    fourth = fourth + inside.fourth
    return Powers(*(np.bincount(pair, x, n_pairs) for x in (second, third, fourth)))


def _pooled(
    visits: Float[np.ndarray, " P"], share: Float[np.ndarray, " P"], powers: Powers
) -> tuple[float, float]:
    """Third cumulant and hidden variance, with spread and skewness shared among the pairs."""
    seen = visits > 0.0
    n, d = visits[seen], share[seen]
    second, third, fourth = (power[seen] for power in powers)
    repeats = float((n - 1.0).sum())
    squares = float((second**2 / n).sum())
    if not (repeats > 0.0 and squares > 0.0):
        return 0.0, 0.0
    pool, pool_3 = second.sum() / repeats, third.sum() / repeats
    weight = max(NORMAL_REWARDS, float((fourth - second**2 / n).sum()) / squares)

    def variance(weight: float) -> float:
        return float((d**2 * shrunk_spread(second, n, pool, weight) / n).sum())

    plain = max(variance(NORMAL_REWARDS), float((d**2 * second / n**2).sum()))
    cumulant = d**3 * shrunk_spread(third, n, pool_3, weight) / n**2
    return float(cumulant.sum()), max(variance(weight) - plain, 0.0)


def moments_of_starts(cells: Cells, pilots: Pilot, j: int) -> Float[np.ndarray, " 3"]:
    """Sums of the second to fourth power of the errors of the first states."""
    share, m = np.asarray(cells.initial_weight), float(cells.n_episodes)
    value = np.asarray(pilots.start_value)[j]
    off = float(np.asarray(pilots.start_weight)[j]) * (value - share @ value) / m
    return np.array([m * (share @ off**power) for power in (2, 3, 4)])


def sums_by_episode(
    cells: Cells, pilots: Pilot, j: int, mean: Float[np.ndarray, " C"]
) -> Float[np.ndarray, " m"]:
    """The error of each episode."""
    n, m = float(cells.n_transitions), int(cells.n_episodes)
    count, episode = np.asarray(cells.count), np.asarray(cells.episode)
    total = np.asarray(pilots.ratio)[j] * count * (np.asarray(pilots.error)[j] + mean)
    sums = np.bincount(episode, total, m) - np.bincount(episode, count, m) * total.sum() / n
    value = np.asarray(pilots.start_value)[j]
    return sums / n + float(np.asarray(pilots.start_weight)[j]) * (value - value.mean()) / m


def sums_by_group(
    cells: Cells,
    pilots: Pilot,
    groups: tuple[GroupedRows, Unit],
    rewards: TransformedRewards | None,
    j: int,
) -> Float[np.ndarray, " G"]:
    """The error of each group of the first grouping that counts."""
    dependence, unit = groups
    return dependence.totals(cells, pilots, rewards, unit.groupings[0], j)


def of_entries(found: list[OneTail], name: str) -> Any:
    """One number of every candidate as an array, shape (N,)."""
    return np.array([getattr(one, name) for one in found], dtype=np.float64)
