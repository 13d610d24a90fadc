"""The unit of independence of a log whose rows lie elsewhere.

A candidate's error is linear in the reward within a line of the counted log. So its sum over a
group of rows, and the sum of its squares, are sums over a join of the rows with a small table of
numbers: one query for each way to group them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import jax
import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.inference.correction import Correction
from bayesdice_ppl.inference.dependence import BIAS, FEWEST_PAIRS, Measured, Unit
from bayesdice_ppl.inference.groups import GroupSums, Spread, spread_of
from bayesdice_ppl.inference.pilot import Pilot
from bayesdice_ppl.inference.skewness import moments_of_starts
from bayesdice_ppl.logs.lazy.rows import Coefficients, SumsOfGroups
from bayesdice_ppl.moments import Cells, TransformedRewards


@final
@dataclass(frozen=True)
class CountedGrouping:
    """Rows in groups that lie elsewhere.

    Attributes
    ----------
    name
        What a group is: the name of a column, or ``"episode"``.
    of_rows
        Number of groups that have rows.
    crossing
        Finds how many groups this one and another make together.
    """

    name: str
    of_rows: int
    crossing: Callable[[str, str], int]
    by_order: bool = False

    def nests(self, other: CountedGrouping) -> bool:
        """Whether one of the two lies within the other, as sessions do within users."""
        size = self.crossing(self.name, other.name)
        return size == min(self.of_rows, other.of_rows)


class Lines(NamedTuple):
    """The lines of a counted log, K of them, beside its cells.

    Attributes
    ----------
    cell
        The cell of each line, shape (K,); that of a line that is not used is not read.
    state
        Code of the state of its rows, shape (K,).
    used
        Whether its rows are used, shape (K,).
    rows, starts
        Rows, and episodes that start with one of them, shape (K,).
    powers
        Sums of the first four powers of its rewards, as the rows are summed: x, shape (4, K).
    straight
        How a reward comes from x: a and b of a + b x.
    ends
        The least and the largest x, shape (2, K).
    """

    cell: Int[np.ndarray, " K"]
    state: Int[np.ndarray, " K"]
    used: Float[np.ndarray, " K"]
    rows: Float[np.ndarray, " K"]
    starts: Float[np.ndarray, " K"]
    powers: Float[np.ndarray, "4 K"]
    straight: tuple[float, float]
    ends: Float[np.ndarray, "2 K"]


Ask = Callable[[Sequence[str], Coefficients], SumsOfGroups]
"""Sums over the groups that columns make."""


def coefficients(cells: Cells, pilots: Pilot, lines: Lines) -> Coefficients:
    """What each line adds to the errors of all candidates; see `Dependence` of rows in memory.

    Parameters
    ----------
    cells, pilots
        The log and all first estimates.
    lines
        Its lines.

    Notes
    -----
    A row adds (zeta (r + error) - mean) / n, and the start of an episode c0 (V(s0) - mean) / m.
    """
    n, m = float(cells.n_transitions), float(cells.n_episodes)
    level, slope = lines.straight
    ratio, error = np.asarray(pilots.ratio), np.asarray(pilots.error)
    total = ratio * (error * np.asarray(cells.count) + np.asarray(cells.reward_sum))
    mean = total.sum(axis=1, keepdims=True) / n
    cell, used = np.where(lines.used > 0.0, lines.cell, 0), lines.used
    own = ratio[:, cell]
    pair, visits = np.asarray(cells.pair), _visits(cells)
    varies_by = np.sqrt(1.0 - 1.0 / np.maximum(visits, 1.0))[pair[cell]]
    n_states = int(max(lines.state.max(), np.asarray(cells.initial_state).max())) + 1
    starts = np.zeros((len(own), n_states))
    share, value = np.asarray(cells.initial_weight), np.asarray(pilots.start_value)
    entering = np.asarray(pilots.start_weight)[:, None]
    off = entering * (value - (value * share).sum(axis=1, keepdims=True)) / m
    there = share > 0.0
    starts[:, np.asarray(cells.initial_state)[there]] = off[:, there]
    return Coefficients(
        slope=own * slope * used / n,
        level=(own * (error[:, cell] + level) - mean) * used / n,
        start=starts[:, lines.state],
        weight=np.abs(own) * varies_by * used,
        used=used,
    )


def _visits(cells: Cells) -> Float[np.ndarray, " P"]:
    return np.bincount(np.asarray(cells.pair), np.asarray(cells.count), len(cells.pair_state))


def powers_of_errors(lines: Lines, numbers: Coefficients, j: int) -> Float[np.ndarray, "4 K"]:
    """Sums of the first four powers of the errors of each line's rows, without starts."""
    a, b, known = numbers.slope[j], numbers.level[j], lines.powers
    n = lines.rows
    first = a * known[0] + b * n
    second = a**2 * known[1] + 2.0 * a * b * known[0] + b**2 * n
    third = a**3 * known[2] + 3.0 * a**2 * b * known[1] + 3.0 * a * b**2 * known[0] + b**3 * n
    fourth = a**4 * known[3] + 4.0 * a**3 * b * known[2] + 6.0 * a**2 * b**2 * known[1]
    fourth = fourth + 4.0 * a * b**3 * known[0] + b**4 * n
    return np.stack([first, second, third, fourth])


@jax.tree_util.register_static
@final
@dataclass(frozen=True, eq=False)
class CountedDependence:
    """What is known of rows that lie elsewhere, and how they may be grouped.

    The attributes are those of `bayesdice_ppl.inference.Dependence`, but for the rows.

    Attributes
    ----------
    lines
        The lines of the log.
    ask
        Asks for sums over groups.
    """

    lines: Lines
    ask: Ask
    groupings: tuple[CountedGrouping, ...]
    asked: bool = False
    forced: tuple[str, ...] = ()
    by_episode: bool = False
    adaptive: bool = False
    correction: Correction | None = None
    ignored: tuple[str, ...] = ()
    suspects: tuple[CountedGrouping, ...] = ()

    def measure(self, cells: Cells, pilots: Pilot, rewards: TransformedRewards | None) -> Measured:
        """What every grouping that can be seen does to the errors."""
        assert rewards is None  # statistics other than the mean are refused
        numbers, lines = coefficients(cells, pilots, self.lines), self.lines
        pair, n_pairs = np.asarray(cells.pair), len(cells.pair_state)
        n_policies = len(numbers.slope)
        base, bias = np.zeros(n_policies), np.zeros(n_policies)
        fourth, cube = np.zeros(n_policies), np.zeros(n_policies)
        of_pair = pair[np.where(lines.used > 0.0, lines.cell, 0)]
        for j in range(n_policies):
            powers, started = (
                powers_of_errors(lines, numbers, j),
                moments_of_starts(cells, pilots, j),
            )
            base[j] = powers[1].sum() + started[0]
            fourth[j] = powers[3].sum() + started[2]
            cube[j] = float(lines.rows @ numbers.weight[j] ** 3)
            if self.adaptive and self.correction is None:
                squares = np.bincount(of_pair, np.maximum(powers[1], 0.0), n_pairs)
                bias[j] = BIAS * np.sqrt(squares).sum()
        kept: list[list[CountedGrouping]] = [[], []]
        columns: list[list[Spread]] = []
        for kind, several in enumerate((self.groupings, self.suspects)):
            for grouping in several:
                sums = self.ask((grouping.name,), numbers)
                pairs = float((sums.used * (sums.used - 1.0)).sum()) / 2.0
                if pairs < FEWEST_PAIRS and not (self.asked and kind == 0):
                    continue
                kept[kind].append(grouping)
                columns.append(
                    [_spread(sums, j, float(fourth[j]), float(cube[j])) for j in range(n_policies)]
                )
        table = [[column[j] for column in columns] for j in range(n_policies)]
        return Measured(kept[0], kept[1], base, bias, table)

    def shared(
        self,
        cells: Cells,
        pilots: Pilot,
        rewards: TransformedRewards | None,
        both: tuple[CountedGrouping, CountedGrouping],
    ) -> Float[np.ndarray, " N"]:
        """Excess of the variance by rows that share both groups."""
        sums = self.ask([each.name for each in both], coefficients(cells, pilots, self.lines))
        found: np.ndarray = (sums.total**2 - sums.square).sum(axis=1)
        return found

    def totals(
        self,
        cells: Cells,
        pilots: Pilot,
        rewards: TransformedRewards | None,
        grouping: CountedGrouping,
        j: int,
    ) -> Float[np.ndarray, " G"]:
        """Error of each group of a grouping."""
        return self.ask((grouping.name,), coefficients(cells, pilots, self.lines)).total[j]

    def covariance(
        self,
        cells: Cells,
        pilots: Pilot,
        unit: Unit,
        rewards: TransformedRewards | None,
        plain: Float[np.ndarray, "N N"],
    ) -> Float[np.ndarray, "N N"]:
        """Covariance of the values with groups as the unit."""
        numbers = coefficients(cells, pilots, self.lines)
        ways = [(1.0, [grouping.name]) for grouping in unit.groupings]
        if len(ways) == 2:
            ways.append((-1.0, [grouping.name for grouping in unit.groupings]))
        total = plain
        for sign, names in ways:
            sums = self.ask(names, numbers).total
            total = total + sign * (sums @ sums.T - plain)
        return total


def _spread(sums: SumsOfGroups, j: int, fourth: float, cube: float) -> Spread:
    """`spread_of` one candidate's sums."""
    size = len(sums.rows)
    # Their sum alone is read, beside that of the squares of ``square``.
    apart = np.full(size, fourth / size)
    square, mass = sums.square[j], sums.mass[j]
    return spread_of(GroupSums(sums.total[j], square, apart, mass, sums.mass_square[j], cube))
