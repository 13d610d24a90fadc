"""The unit of independence: which rows of a log move together, and how much wider errors are then.

Sigma takes transitions, or episodes, as independent. Rows of one user, site or day may share what
no state holds. A candidate's error is a sum of influences, one of each row and each start; if those
of a group move together, the squares of the groups' sums exceed the sum of their squares. The
difference is added to the variance of the value (Liang and Zeger, 1986; Bell and McCaffrey, 2002).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, final

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.arrays import added
from bayesdice_ppl.inference.correction import Correction, within_pairs
from bayesdice_ppl.inference.groups import Grouping, Spread, items_of, spread_of, sums_over
from bayesdice_ppl.inference.pilot import Pilot
from bayesdice_ppl.moments import VALUE_ROW, Cells, TransformedRewards

BY_CHANCE = 0.1
"""Share of logs in which independent rows are taken for groups, over all groupings together."""
LEAST = 0.05
"""The same for one grouping, at most."""
FEWEST_PAIRS = 20
"""Pairs of rows that share a group, below which nothing can be seen."""
BIAS = 0.7
"""Bias of the mean of a pair under an adaptive policy, in its standard errors: Thompson sampling's
on 8 arms. All are to the same side, so that they add up over the pairs that a candidate visits. It
is for values that have no `Correction`."""
_POWER = 0.84
"""Standard errors more that 80 of 100 logs pass."""
_RISING = 1.15
"""How many times as wide errors are with stretches of twice the length, if the log is too short."""
_CLEARLY = 2.0
"""How many times as much stretches of rows must add to take the place of a column."""
_BESIDE = 1.1
"""A second column is counted too if it makes the variance this many times as large."""


class Measured(NamedTuple):
    """What groupings do to the errors of N values.

    Attributes
    ----------
    groupings, suspects
        The groupings that have pairs of rows enough to be seen, and those that are only told of.
    base
        Variance of each value with rows, or episodes, as the unit, shape (N,).
    bias
        What an adaptive policy may have done to each value, shape (N,).
    table
        What the log shows of each value and grouping: those of ``groupings``, then ``suspects``.
    """

    groupings: list[Any]
    suspects: list[Any]
    base: Float[np.ndarray, " N"]
    bias: Float[np.ndarray, " N"]
    table: list[list[Spread]]


class GroupedRows(Protocol):
    """The rows behind the cells, as they may be grouped: held in memory, or where they lie.

    The attributes are those of `Dependence`.
    """

    @property
    def asked(self) -> bool:
        """Whether the groupings are those that the user asked for."""

    @property
    def forced(self) -> tuple[str, ...]:
        """Names of groupings that count whatever the log shows."""

    @property
    def by_episode(self) -> bool:
        """Whether Sigma has episodes as its unit already."""

    @property
    def adaptive(self) -> bool:
        """Whether the logging policy followed its own rewards."""

    @property
    def correction(self) -> Correction | None:
        """What takes this out of the values, where it is known."""

    @property
    def ignored(self) -> tuple[str, ...]:
        """Columns of the log at which nobody looked."""

    def measure(self, cells: Cells, pilots: Pilot, rewards: TransformedRewards | None) -> Measured:
        """What every grouping that can be seen does to the errors of all values."""

    def shared(
        self,
        cells: Cells,
        pilots: Pilot,
        rewards: TransformedRewards | None,
        both: tuple[Any, Any],
    ) -> Float[np.ndarray, " N"]:
        """Excess of the variance by rows that share both groups, shape (N,)."""

    def totals(
        self,
        cells: Cells,
        pilots: Pilot,
        rewards: TransformedRewards | None,
        grouping: Any,
        j: int,
    ) -> Float[np.ndarray, " G"]:
        """Error of each group of a grouping, for candidate j, shape (G,)."""

    def covariance(
        self,
        cells: Cells,
        pilots: Pilot,
        unit: Unit,
        rewards: TransformedRewards | None,
        plain: Float[np.ndarray, "N N"],
    ) -> Float[np.ndarray, "N N"]:
        """Covariance of the values over repeated logs; see `group_covariance`."""


@jax.tree_util.register_static
@final
@dataclass(frozen=True, eq=False)
class Dependence:
    """What is known of the rows behind the cells, and how they may be grouped.

    Attributes
    ----------
    cell, reward
        The cell of each row that is used, and its reward, shape (n,).
    episode
        The episode of each row that is used, shape (n,).
    start
        Where each episode's first state stands among the log's initial states, shape (m,).
    groupings
        Ways to group the rows.
    asked
        Whether the groupings are those that the user asked for; else the log decides.
    forced
        Names of groupings that count whatever the log shows, as another value found them.
    by_episode
        Whether Sigma has episodes as its unit already.
    adaptive
        Whether the logging policy followed its own rewards, so that all pairs' means may be off to
        the same side.
    correction
        What takes this out of the values, where it is known.
    ignored
        Columns of the log at which nobody looked.
    suspects
        Groupings that are only told of: columns of few groups, which may be a sample of more, as
        devices are, or all that there are, as the days of the week.
    """

    cell: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    episode: Int[np.ndarray, " n"]
    start: Int[np.ndarray, " m"]
    groupings: tuple[Grouping, ...]
    asked: bool = False
    forced: tuple[str, ...] = ()
    by_episode: bool = False
    adaptive: bool = False
    correction: Correction | None = None
    ignored: tuple[str, ...] = ()
    suspects: tuple[Grouping, ...] = ()

    def measure(self, cells: Cells, pilots: Pilot, rewards: TransformedRewards | None) -> Measured:
        """What every grouping that can be seen does to the errors; see `GroupedRows`."""
        groupings = [g for g in self.groupings if self.asked or g.pairs >= FEWEST_PAIRS]
        suspects = [g for g in self.suspects if g.pairs >= FEWEST_PAIRS]
        return _measured(cells, pilots, self, rewards, (groupings, suspects))

    def shared(
        self,
        cells: Cells,
        pilots: Pilot,
        rewards: TransformedRewards | None,
        both: tuple[Grouping, Grouping],
    ) -> Float[np.ndarray, " N"]:
        """Excess of the variance by rows that share both groups; see `GroupedRows`."""
        first, second = both
        items = items_of(first.crossed(second), self.episode, by_episode=self.by_episode)
        found = np.zeros(len(np.asarray(pilots.value)))
        for j in range(len(found)):
            values = items.sums(influences(cells, pilots, self, rewards, j))
            sums = np.bincount(items.group, values) ** 2
            found[j] = float(sums.sum() - values @ values)
        return found

    def totals(
        self,
        cells: Cells,
        pilots: Pilot,
        rewards: TransformedRewards | None,
        grouping: Grouping,
        j: int,
    ) -> Float[np.ndarray, " G"]:
        """Error of each group of a grouping; see `GroupedRows`."""
        values = influences(cells, pilots, self, rewards, j)
        return np.bincount(grouping.of_all, values, grouping.size)

    def covariance(
        self,
        cells: Cells,
        pilots: Pilot,
        unit: Unit,
        rewards: TransformedRewards | None,
        plain: Float[np.ndarray, "N N"],
    ) -> Float[np.ndarray, "N N"]:
        """Covariance of the values with groups as the unit; see `GroupedRows`."""
        return _covariance_of_rows(cells, pilots, self, unit, rewards, plain)

    def units(self, unit: Unit | None) -> Int[np.ndarray, " nm"]:
        """The independent unit of each row, and then of each start.

        It is the group of the first grouping that counts; an episode where none does.
        """
        if unit is not None and unit.groupings:
            return unit.groupings[0].of_all
        return np.r_[self.episode, np.arange(len(self.start))]

    def following(self, unit: Unit | None) -> Dependence:
        """The same rows, with the groupings that one value found counted for others too."""
        names = () if unit is None else tuple(grouping.name for grouping in unit.groupings)
        return replace(self, forced=names, suspects=())


class Tested(NamedTuple):
    """What the log says of one grouping.

    Attributes
    ----------
    name, size
        The grouping, and its number of groups.
    wider
        How many times as wide errors are if groups are the unit, the largest over candidates.
    score
        Standard errors of a normal by which groups' errors exceed those of independent rows, on
        average over candidates.
    counts
        Whether that is too much for chance.
    shows
        How many times as wide errors must be for 80 of 100 logs to show it.
    by_order
        Whether groups are stretches of rows, and no column's.
    """

    name: str
    size: int
    wider: float
    score: float
    counts: bool
    shows: float
    by_order: bool


@jax.tree_util.register_static
@final
@dataclass(frozen=True, eq=False)
class Unit:
    """The unit of independence that a belief has.

    Attributes
    ----------
    groupings
        The groupings that count: none, one, or two that cross.
    asked
        Whether the user asked for them.
    wider
        How many times as wide each candidate's error is, shape (N,).
    tested
        Every grouping that was looked at.
    adaptive
        Whether the logging policy followed its own rewards.
    adaptive_bias
        Bias that this may have left, over the other error, shape (N,), by which the beliefs are
        wider; 0 where it was taken out.
    correction
        What was taken out of the values for it, or None.
    binds
        Whether the groups set the degrees of freedom, shape (N,).
    ignored
        Columns of the log at which nobody looked.
    suspected
        What was found of groupings that are only told of.
    cut
        Whether the longest stretches of rows count, and shorter ones show clearly less: the log
        does not tell how far rows move together.
    """

    groupings: tuple[Grouping, ...]
    asked: bool
    wider: Float[np.ndarray, " N"]
    tested: tuple[Tested, ...]
    adaptive_bias: Float[np.ndarray, " N"]
    binds: Bool[np.ndarray, " N"]
    ignored: tuple[str, ...] = ()
    suspected: tuple[Tested, ...] = ()
    cut: bool = False
    adaptive: bool = False
    correction: Correction | None = None

    def first(self, n: int) -> Unit:
        """That of the first n entries."""
        return replace(
            self,
            wider=self.wider[:n],
            adaptive_bias=self.adaptive_bias[:n],
            binds=self.binds[:n],
        )

    @property
    def summary(self) -> dict[str, Any]:
        """The unit in values that JSON can hold."""
        return {
            "names": [grouping.name for grouping in self.groupings],
            "groups": [grouping.of_rows for grouping in self.groupings],
            "asked": self.asked,
            "adaptive": self.adaptive,
            "correction": None if self.correction is None else self.correction.name,
            "tested": [test._asdict() for test in self.tested],
            "suspected": [test._asdict() for test in self.suspected],
            "not_looked_at": list(self.ignored),
            "longer_stretches_might_show_more": self.cut,
        }


def influences(
    cells: Cells, pilots: Pilot, dependence: Dependence, rewards: TransformedRewards | None, j: int
) -> Float[np.ndarray, " nm"]:
    """What each row, and then each start, adds to the error of candidate j's value.

    Parameters
    ----------
    cells, pilots
        The log and all first estimates.
    dependence
        The rows behind the cells.
    rewards
        Transformed rewards, or None for the log's own.
    j
        The candidate, or entry.

    Notes
    -----
    A row adds (zeta_i (r_i + error_i) - mean) / n, a start c0 (V(s0_e) - mean) / m; see
    `bayesdice_ppl.inference.copula.influence_covariance`.
    """
    n, m = float(cells.n_transitions), float(cells.n_episodes)
    reward = dependence.reward if rewards is None else np.asarray(rewards.by_row)[j]
    cell = dependence.cell
    row = np.asarray(pilots.ratio)[j][cell] * (np.asarray(pilots.error)[j][cell] + reward)
    value = np.asarray(pilots.start_value)[j][dependence.start]
    entering = float(np.asarray(pilots.start_weight)[j])
    return np.r_[(row - row.mean()) / n, entering * (value - value.mean()) / m]


def settle(
    cells: Cells,
    pilots: Pilot,
    dependence: GroupedRows,
    rewards: TransformedRewards | None,
    *,
    small_sample: bool = True,
) -> tuple[Pilot, Unit]:
    """Find the unit of independence and widen the beliefs to it.

    Parameters
    ----------
    cells, pilots
        The log and the first estimates of all N candidates.
    dependence
        The rows, and how they may be grouped.
    rewards
        Each candidate's transformed rewards, or None for the log's own.
    small_sample
        Whether the covariances in ``pilots`` have the small-sample term.

    Returns
    -------
    (Pilot, Unit)
        With more variance of each value, and at most the degrees of freedom of the groups; and the
        unit.
    """
    measured = dependence.measure(cells, pilots, rewards)
    groupings, suspects, base, bias, table = measured
    n_policies = len(base)
    tested, suspected = (
        tuple(
            _tested(grouping, [spreads[first + k] for spreads in table], base, len(several))
            for k, grouping in enumerate(several)
        )
        for first, several in ((0, groupings), (len(groupings), suspects))
    )
    counted = _counted(groupings, table, base, tested, dependence)
    known = np.asarray(pilots.degrees_of_freedom)
    grouped, df = np.zeros(n_policies), np.full(n_policies, np.inf)
    if counted:
        grouped = np.array([max(spreads[k].excess for k in counted) for spreads in table])
        df = np.array([min(spreads[k].degrees_of_freedom for k in counted) for spreads in table])
    if len(counted) == 2:
        both = (groupings[counted[0]], groupings[counted[1]])
        crossed = dependence.shared(cells, pilots, rewards, both)
        added_up = np.array([sum(spreads[k].excess for k in counted) for spreads in table])
        grouped = np.maximum(grouped, added_up - crossed)
    grouped = np.maximum(grouped, 0.0)
    more = grouped + bias**2
    correction = dependence.correction
    varies = np.where(base > 0.0, base, 1.0)
    if correction is not None:
        before = np.diagonal(within_pairs(cells, pilots, small_sample=small_sample))
        more = more + np.diagonal(correction.covariance) - before
        varies = np.maximum(varies, before)
        known = correction.degrees_of_freedom
    covariance = np.array(pilots.covariance)
    covariance = added(
        covariance, np.s_[:, VALUE_ROW, VALUE_ROW], float(cells.n_transitions) * more
    )
    widened = pilots._replace(covariance=covariance, degrees_of_freedom=np.minimum(known, df))
    return widened, Unit(
        tuple(groupings[k] for k in counted),
        dependence.asked,
        np.sqrt(np.maximum(1.0 + more / varies, 0.0)),
        tested,
        bias / np.sqrt(varies + grouped),
        df < known,
        dependence.ignored,
        tuple(test for test in suspected if test.counts),
        _cut(groupings, counted, tested),
        dependence.adaptive,
        correction,
    )


def _measured(
    cells: Cells,
    pilots: Pilot,
    dependence: Dependence,
    rewards: TransformedRewards | None,
    several_kinds: tuple[list[Grouping], list[Grouping]],
) -> Measured:
    """What groupings of rows that are held do to the errors."""
    groupings, suspects = several_kinds
    n_policies = len(np.asarray(pilots.value))
    episode, by_episode = dependence.episode, dependence.by_episode
    several = (*groupings, *suspects)
    items = [items_of(grouping, episode, by_episode=by_episode) for grouping in several]
    for k in range(1, len(several)):
        # Longer stretches are made of shorter ones.
        if several[k].by_order and several[k - 1].by_order:
            items[k] = items[k].after(items[k - 1])
    pair, n_pairs = np.asarray(cells.pair)[dependence.cell], len(cells.pair_state)
    n, m = len(pair), len(dependence.start)
    varies_by = np.ones(n)
    if cells.pair_features is None:
        # A pair that was logged once has its reward for its mean, and no error is seen in it.
        varies_by = np.sqrt(1.0 - 1.0 / np.bincount(pair, minlength=n_pairs)[pair])
    base, bias = np.zeros(n_policies), np.zeros(n_policies)
    table: list[list[Spread]] = []
    for j in range(n_policies):
        values = influences(cells, pilots, dependence, rewards, j)
        weight = np.abs(np.asarray(pilots.ratio)[j][dependence.cell]) * varies_by
        weight = np.r_[weight, np.zeros(m)]
        base[j] = values @ values
        if dependence.by_episode:
            sums = np.bincount(np.r_[dependence.episode, np.arange(m)], values)
            base[j] = sums @ sums
        if dependence.adaptive and dependence.correction is None:
            bias[j] = BIAS * np.sqrt(np.bincount(pair, values[:n] ** 2, n_pairs)).sum()
        table.append([spread_of(sums) for sums in sums_over(items, values, weight)])
    return Measured(groupings, suspects, base, bias, table)


def _cut(groupings: list[Grouping], counted: list[int], tested: tuple[Tested, ...]) -> bool:
    """Whether the longest of nested groupings counts, and the one before shows clearly less."""
    last = len(groupings) - 1
    if last not in counted or last < 1 or not groupings[last - 1].by_order:
        return False
    return tested[last].wider > _RISING * tested[last - 1].wider


def _tested(
    grouping: Grouping, spreads: list[Spread], base: np.ndarray, n_groupings: int
) -> Tested:
    from scipy.special import ndtri

    safe = np.where(base > 0.0, base, 1.0)
    excess = np.maximum([spread.excess for spread in spreads], 0.0)
    scores = np.array([spread.score for spread in spreads])
    chance = min(LEAST, BY_CHANCE / n_groupings)
    mean, one = float(ndtri(1.0 - chance)), np.inf
    if len(spreads) > 1:
        # Half of the chance for the average, half for the largest.
        mean = float(ndtri(1.0 - chance / 2.0))
        one = float(ndtri(1.0 - chance / 2.0 / len(spreads)))
    error = np.mean([spread.standard_error for spread in spreads])
    return Tested(
        grouping.name,
        grouping.of_rows,
        float(np.sqrt(1.0 + (excess / safe).max())),
        float(scores.mean()),
        bool(scores.mean() > mean or scores.max() > one),
        float(np.sqrt(1.0 + (mean + _POWER) * error)),
        grouping.by_order,
    )


def _counted(
    groupings: list[Grouping],
    table: list[list[Spread]],
    base: np.ndarray,
    tested: tuple[Tested, ...],
    dependence: GroupedRows,
) -> list[int]:
    """Places of the groupings that count."""
    if dependence.asked:
        return list(range(len(groupings)))
    forced = [k for k, grouping in enumerate(groupings) if grouping.name in dependence.forced]
    found = forced or [k for k, test in enumerate(tested) if test.counts]
    if len(forced) == 2 or not found:
        return forced

    def size(k: int) -> float:
        both = zip(table, base, strict=True)
        ratios = [max(spreads[k].excess, 0.0) / one for spreads, one in both if one > 0.0]
        return float(np.mean(ratios)) if ratios else 0.0

    # A column says more than the order of rows, which may follow it.
    columns = [k for k in found if not groupings[k].by_order]
    first = max(columns or found, key=size)
    longest = max(found, key=size)
    if size(longest) > _CLEARLY * size(first):
        first = longest
    for k in sorted(columns, key=size, reverse=True):
        adds = size(first) + size(k) + 1.0 > _BESIDE * (size(first) + 1.0)
        if k != first and adds and not groupings[k].nests(groupings[first]):
            return [first, k]
    return [first]


def group_covariance(
    cells: Cells,
    pilots: Pilot,
    dependence: GroupedRows,
    unit: Unit,
    rewards: TransformedRewards | None,
    plain: Float[np.ndarray, "N N"],
) -> Float[np.ndarray, "N N"]:
    """Covariance of the candidates' values over repeated logs, with groups as the unit.

    Parameters
    ----------
    cells, pilots, dependence, rewards
        As for `settle`.
    unit
        The unit that it found, with groupings.
    plain
        The covariance with rows, or episodes, as the unit, shape (N, N).
    """
    return dependence.covariance(cells, pilots, unit, rewards, plain)


def _covariance_of_rows(
    cells: Cells,
    pilots: Pilot,
    dependence: Dependence,
    unit: Unit,
    rewards: TransformedRewards | None,
    plain: Float[np.ndarray, "N N"],
) -> Float[np.ndarray, "N N"]:
    """`group_covariance` of rows that are held."""
    n_policies = len(plain)
    ways = [(1.0, grouping) for grouping in unit.groupings]
    if len(ways) == 2:
        ways.append((-1.0, unit.groupings[0].crossed(unit.groupings[1])))
    total = plain
    for sign, grouping in ways:
        items = items_of(grouping, dependence.episode, by_episode=dependence.by_episode)
        sums, inner = np.empty((n_policies, grouping.size)), plain
        # Items are rows, or whole episodes, unless groups divide episodes.
        apart = items.code is not None and len(items.group) > len(dependence.start)
        parts = np.empty((n_policies, len(items.group) if apart else 0))
        for j in range(n_policies):
            values = items.sums(influences(cells, pilots, dependence, rewards, j))
            sums[j] = np.bincount(items.group, values, grouping.size)
            if apart:
                parts[j] = values
        if apart:
            inner = parts @ parts.T
        total = total + sign * (sums @ sums.T - inner)
    return total
