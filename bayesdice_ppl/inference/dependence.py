"""The unit of independence: which rows of a log move together, and how much wider errors are then.

Sigma takes transitions, or episodes, as independent. Rows of one user, site or day may share what
no state holds. A candidate's error is a sum of influences, one of each row and each start; if those
of a group move together, the squares of the groups' sums exceed the sum of their squares. The
difference is added to the variance of the value (Liang and Zeger, 1986; Bell and McCaffrey, 2002).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.arrays import added
from bayesdice_ppl.inference.pilot import Pilot
from bayesdice_ppl.moments import VALUE_ROW, Cells, TransformedRewards

BY_CHANCE = 0.1
"""Share of logs in which independent rows are taken for groups, over all groupings together."""
LEAST = 0.05
"""The same for one grouping, at most."""
_ALONE = 1.0
"""Standard errors more that one candidate needs where the average over candidates stays below."""
BIAS = 0.5
"""Bias of the mean of a pair under an adaptive policy, in its standard errors: Thompson sampling's.
All pairs' are to the same side, so that they add up over the pairs that a candidate visits."""
_POWER = 0.84
"""Standard errors more that 80 of 100 logs pass."""
_BESIDE = 1.1
"""A second column is counted too if it makes the variance this many times as large."""


class Grouping(NamedTuple):
    """Rows and episodes in groups whose errors may move together.

    Attributes
    ----------
    name
        What a group is: the name of a column, ``"episode"``, or a stretch of rows.
    of_row
        The group of each row that is used, shape (n,).
    of_episode
        The group of each episode's start, shape (m,).
    """

    name: str
    of_row: Int[np.ndarray, " n"]
    of_episode: Int[np.ndarray, " m"]

    @property
    def size(self) -> int:
        """Number of groups."""
        return int(max(self.of_row.max(), self.of_episode.max())) + 1

    def within(self, other: Grouping) -> bool:
        """Whether each group lies in one group of the other."""
        both = self.crossed(other)
        return both.size == len(np.unique(self._all()))

    def crossed(self, other: Grouping) -> Grouping:
        """Rows that share both groups."""
        pairs = self._all() * other.size + other._all()
        code = np.unique(pairs, return_inverse=True)[1]
        n = len(self.of_row)
        return Grouping(f"{self.name} and {other.name}", code[:n], code[n:])

    def _all(self) -> Int[np.ndarray, " nm"]:
        return np.r_[self.of_row, self.of_episode].astype(np.int64)


class Dependence(NamedTuple):
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
    by_episode
        Whether Sigma has episodes as its unit already.
    adaptive
        Whether the logging policy followed its own rewards, so that all pairs' means may be off to
        the same side.
    """

    cell: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    episode: Int[np.ndarray, " n"]
    start: Int[np.ndarray, " m"]
    groupings: tuple[Grouping, ...]
    asked: bool = False
    by_episode: bool = False
    adaptive: bool = False


class Tested(NamedTuple):
    """What the log says of one grouping.

    Attributes
    ----------
    name, size
        The grouping, and its number of groups.
    wider
        How many times as wide errors are if groups are the unit, the largest over candidates.
    score
        Standard errors by which groups' errors exceed independent ones, on average over candidates.
    counts
        Standard errors past which the grouping counts.
    shows
        How many times as wide errors must be for 80 of 100 logs to show it.
    """

    name: str
    size: int
    wider: float
    score: float
    counts: float
    shows: float


class Unit(NamedTuple):
    """The unit of independence that a belief has.

    Attributes
    ----------
    groupings
        The groupings that count: one, or two that cross.
    asked
        Whether the user asked for them.
    wider
        How many times as wide each candidate's error is, shape (N,).
    tested
        Every grouping that was looked at.
    adaptive_bias
        Bias that a policy that followed its rewards may have left, over the other error, shape
        (N,); 0 if it did not. The beliefs are wider by it.
    """

    groupings: tuple[Grouping, ...]
    asked: bool
    wider: Float[np.ndarray, " N"]
    tested: tuple[Tested, ...]
    adaptive_bias: Float[np.ndarray, " N"]

    @property
    def adaptive(self) -> bool:
        """Whether the logging policy followed its own rewards."""
        return bool(np.any(self.adaptive_bias > 0.0))

    @property
    def of_episode(self) -> tuple[Int[np.ndarray, " m"], ...]:
        """The group of each episode, for every grouping."""
        return tuple(grouping.of_episode for grouping in self.groupings)

    @property
    def summary(self) -> dict[str, Any]:
        """The unit in values that JSON can hold."""
        return {
            "names": [grouping.name for grouping in self.groupings],
            "groups": [grouping.size for grouping in self.groupings],
            "asked": self.asked,
            "adaptive": self.adaptive,
            "tested": [test._asdict() for test in self.tested],
        }


class _Spread(NamedTuple):
    """Variance of a value if groups are independent."""

    variance: float
    degrees_of_freedom: float
    excess: float
    standard_error: float


def influences(
    cells: Cells, pilots: Pilot, dependence: Dependence, rewards: TransformedRewards | None, j: int
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " m"]]:
    """What each row and each start adds to the error of candidate j's value.

    Where episodes are the unit already, each start has the sum of its episode, and rows have none.

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
    row = (row - row.mean()) / n
    value = np.asarray(pilots.start_value)[j][dependence.start]
    start = float(np.asarray(pilots.start_weight)[j]) * (value - value.mean()) / m
    if dependence.by_episode:
        start = start + np.bincount(dependence.episode, row, len(start))
        row = np.zeros_like(row)
    return row, start


def _sums(row: np.ndarray, start: np.ndarray, grouping: Grouping) -> np.ndarray:
    size = grouping.size
    return np.bincount(grouping.of_row, row, size) + np.bincount(grouping.of_episode, start, size)


def _spread(row: np.ndarray, start: np.ndarray, weight: np.ndarray, grouping: Grouping) -> _Spread:
    """Variance by groups, corrected for their number, and its degrees of freedom.

    Groups' sums are measured from the mean, which makes them smaller. The correction and the
    degrees of freedom (Bell and McCaffrey's) are exact if rows are normal with one variance for a
    unit of weight and one correlation within groups.
    """
    sums = _sums(row, start, grouping)
    square = _sums(row**2, start**2, grouping)
    fourth = _sums(row**4, start**4, grouping)
    independent, plain = float(square.sum()), float((sums**2).sum())
    # The variances of the groups' sums, if rows have one variance and one correlation.
    mass = np.bincount(grouping.of_row, weight, grouping.size)
    alone = np.bincount(grouping.of_row, weight**2, grouping.size)
    pairs = mass**2 - alone
    scale = independent / alone.sum()
    excess = max(plain - independent, 0.0)
    correlation = excess / (scale * pairs.sum()) if scale * pairs.sum() > 0.0 else 0.0
    own = scale * (alone + min(correlation, 1.0) * pairs)
    share = mass / mass.sum()
    # The covariance of the sums, measured from the mean, is S - p s' - s p' + sigma p p'.
    total = own.sum()
    trace = total - 2.0 * share @ own + total * (share @ share)
    left = np.stack([share, own], axis=1)
    middle = np.array([[total, -1.0], [-1.0, 0.0]])
    inner = middle @ (left.T @ left)
    trace_square = own @ own + 2.0 * np.trace(middle @ (left.T @ (left * own[:, None])))
    trace_square += np.trace(inner @ inner)
    if not (trace > 0.0 and trace_square > 0.0):
        return _Spread(plain, np.inf, 0.0, 0.0)
    variance = plain * total / trace
    # The sum over pairs of products, if signs were independent, has this variance.
    error = np.sqrt(max(2.0 * (square**2 - fourth).sum(), 0.0))
    df = float(trace**2 / trace_square)
    return _Spread(float(variance), df, float(variance) - independent, float(error))


def settle(
    cells: Cells,
    pilots: Pilot,
    dependence: Dependence,
    rewards: TransformedRewards | None,
) -> tuple[Pilot, Unit | None]:
    """Find the unit of independence and widen the beliefs to it.

    Parameters
    ----------
    cells, pilots
        The log and the first estimates of all N candidates.
    dependence
        The rows, and how they may be grouped.
    rewards
        Each candidate's transformed rewards, or None for the log's own.

    Returns
    -------
    (Pilot, Unit or None)
        With more variance of each value, and at most the degrees of freedom of the groups; and the
        unit, None if no grouping counts and none was looked at.
    """
    n_policies = len(np.asarray(pilots.value))
    groupings = [grouping for grouping in dependence.groupings if grouping.size > 1]
    if not (groupings or dependence.adaptive):
        return pilots, None
    table: list[list[_Spread]] = []
    base, bias = np.zeros(n_policies), np.zeros(n_policies)
    pair, n_pairs = np.asarray(cells.pair)[dependence.cell], len(cells.pair_state)
    for j in range(n_policies):
        row, start = influences(cells, pilots, dependence, rewards, j)
        weight = np.abs(np.asarray(pilots.ratio)[j][dependence.cell])
        base[j] = (row**2).sum() + (start**2).sum()
        if dependence.adaptive:
            bias[j] = BIAS * np.sqrt(np.bincount(pair, row**2, n_pairs)).sum()
        table.append([_spread(row, start, weight, grouping) for grouping in groupings])
    tested = tuple(
        _tested(grouping, [spreads[k] for spreads in table], base, len(groupings))
        for k, grouping in enumerate(groupings)
    )
    counted = _counted(groupings, table, base, tested, dependence.asked)
    if not (counted or dependence.adaptive):
        return pilots, Unit((), dependence.asked, np.ones(n_policies), tested, bias)
    known = np.asarray(pilots.degrees_of_freedom)
    variance, df = base, known
    if counted:
        variance = np.array([max(spreads[k].variance for k in counted) for spreads in table])
        df = np.array([min(spreads[k].degrees_of_freedom for k in counted) for spreads in table])
    if len(counted) == 2:
        both = _joined([groupings[k] for k in counted])
        for j in range(n_policies):
            row, start = influences(cells, pilots, dependence, rewards, j)
            crossed = float((_sums(row, start, both) ** 2).sum())
            added_up = sum(table[j][k].variance for k in counted) - crossed
            variance[j] = max(variance[j], added_up)
    grouped = np.maximum(variance - base, 0.0)
    more = grouped + bias**2
    covariance = np.array(pilots.covariance)
    n = float(cells.n_transitions)
    covariance = added(covariance, np.s_[:, VALUE_ROW, VALUE_ROW], n * more)
    held = np.where((grouped > 0.0) | dependence.asked, np.minimum(known, df), known)
    wider = np.sqrt(np.where(base > 0.0, (base + more) / np.where(base > 0.0, base, 1.0), 1.0))
    chosen = tuple(groupings[k] for k in counted)
    widened = pilots._replace(covariance=covariance, degrees_of_freedom=held)
    safe = np.sqrt(np.where(base > 0.0, base + grouped, 1.0))
    return widened, Unit(chosen, dependence.asked, wider, tested, bias / safe)


def _joined(groupings: list[Grouping]) -> Grouping:
    return groupings[0].crossed(groupings[1])


def _tested(
    grouping: Grouping, spreads: list[_Spread], base: np.ndarray, n_groupings: int
) -> Tested:
    from scipy.special import ndtri

    safe = np.where(base > 0.0, base, 1.0)
    ratio = np.array([spread.variance for spread in spreads]) / safe
    scores = np.array(
        [s.excess / s.standard_error if s.standard_error > 0.0 else 0.0 for s in spreads]
    )
    errors = np.array([spread.standard_error for spread in spreads]) / safe
    counts = float(ndtri(1.0 - min(LEAST, BY_CHANCE / n_groupings)))
    shows = np.sqrt(1.0 + (counts + _POWER) * errors.mean())
    return Tested(
        grouping.name,
        grouping.size,
        float(np.sqrt(ratio.max())),
        float(max(scores.mean(), scores.max() - _ALONE)),
        counts,
        float(shows),
    )


def _counted(
    groupings: list[Grouping],
    table: list[list[_Spread]],
    base: np.ndarray,
    tested: tuple[Tested, ...],
    asked: bool,
) -> list[int]:
    """Places of the groupings that count."""
    if asked:
        return list(range(len(groupings)))
    found = [k for k, test in enumerate(tested) if test.score > test.counts]
    if not found:
        return []

    def size(k: int) -> float:
        ratios = [
            spreads[k].variance / one for spreads, one in zip(table, base, strict=True) if one
        ]
        return float(np.mean(ratios)) if ratios else 1.0

    first = max(found, key=size)
    for k in sorted(found, key=size, reverse=True):
        apart = not (groupings[k].within(groupings[first]) or groupings[first].within(groupings[k]))
        if k != first and apart and size(first) + size(k) - 1.0 > _BESIDE * size(first):
            return [first, k]
    return [first]


def group_covariance(
    cells: Cells,
    pilots: Pilot,
    dependence: Dependence,
    unit: Unit,
    rewards: TransformedRewards | None,
) -> Float[np.ndarray, "N N"]:
    """Covariance of the candidates' values over repeated logs, with groups as the unit.

    Parameters
    ----------
    cells, pilots, dependence, rewards
        As for `settle`.
    unit
        The unit that it found, with groupings.
    """
    n_policies = len(np.asarray(pilots.value))
    ways: list[tuple[float, Grouping]] = [(1.0, grouping) for grouping in unit.groupings]
    if len(ways) == 2:
        ways.append((-1.0, _joined(list(unit.groupings))))
    total: Any = 0.0
    for sign, grouping in ways:
        sums = np.empty((n_policies, grouping.size))
        for j in range(n_policies):
            sums[j] = _sums(*influences(cells, pilots, dependence, rewards, j), grouping)
        total = total + sign * (sums @ sums.T)
    return total
