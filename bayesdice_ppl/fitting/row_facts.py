"""What a fit asks of the rows behind its cells: held in memory, or where they lie.

Most of a fit sees counts alone. What it asks beyond them is listed here once: how rows may be
grouped, how rewards are spread, which episode weighs most, and what depends on the order of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

import numpy as np
from jaxtyping import Bool, Float

from bayesdice_ppl.fitting.grouping import dependence_of, rows_behind
from bayesdice_ppl.fitting.support import episode_shares
from bayesdice_ppl.fitting.tails import tail_indices
from bayesdice_ppl.inference import Problem, Rows, Tails
from bayesdice_ppl.logs.logged_value import LoggedValue, logged_value
from bayesdice_ppl.moments import PairRewards, pair_rewards

if TYPE_CHECKING:
    from bayesdice_ppl.fitting.inputs import Inputs
    from bayesdice_ppl.inference.dependence import Dependence, GroupedRows, Unit
    from bayesdice_ppl.inference.skewness import CountedRows


class RewardSpread(NamedTuple):
    """How the rewards of the rows that are used are spread.

    Attributes
    ----------
    least, most, sd
        The least, the largest, and the standard deviation.
    """

    least: float
    most: float
    sd: float

    @classmethod
    def of(cls, reward: Float[np.ndarray, " n"]) -> RewardSpread:
        """That of rewards in memory, shape (n,)."""
        return cls(float(reward.min()), float(reward.max()), float(np.std(reward)))


class RowFacts(Protocol):
    """What a fit asks of the rows that are used."""

    @property
    def powers(self) -> Rows | CountedRows:
        """What third and fourth moments of the rewards are made from."""

    @property
    def spread(self) -> RewardSpread:
        """How the rewards are spread."""

    @property
    def visits(self) -> Float[np.ndarray, " P"]:
        """Rows of each pair, shape (P,)."""

    @property
    def of_pairs(self) -> PairRewards:
        """Rewards of each pair."""

    @property
    def kept(self) -> Float[np.ndarray, " n"] | None:
        """The rewards, where a belief can keep them."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was not looked at, or not in all rows, a sentence each."""

    def dependence(self) -> GroupedRows | None:
        """How the rows may be grouped; None where the belief takes no unit."""

    def by_episode(self) -> Dependence:
        """The rows without groupings, where episodes are the unit of Sigma."""

    def episode_shares(self, problem: Problem) -> Float[np.ndarray, " N"]:
        """Share of the most influential episode in each value; see `Support`."""

    def tail_indices(
        self, tails: Tails, active: Bool[np.ndarray, "N P"]
    ) -> Float[np.ndarray, " N"]:
        """Index of the rewards' tail; see `bayesdice_ppl.fitting.tails.tail_indices`."""

    def in_order(self, problem: Problem) -> tuple[Inputs, Problem]:
        """The rows that are held, in their order, for what depends on it."""

    def logged_value(self, unit: Unit | None) -> LoggedValue:
        """The logging policy's value from its own returns."""


@final
class HeldRows:
    """The rows of a log in memory.

    Parameters
    ----------
    inputs
        The input of the fit.
    """

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs

    @property
    def powers(self) -> Rows:
        """The rows behind the cells."""
        return self._inputs.cell_rows

    @property
    def spread(self) -> RewardSpread:
        """How the rewards are spread."""
        return RewardSpread.of(self._inputs.reward)

    @property
    def visits(self) -> Float[np.ndarray, " P"]:
        """Rows of each pair."""
        return np.bincount(self._inputs.pairs.of_row)

    @property
    def of_pairs(self) -> PairRewards:
        """Rewards of each pair."""
        inputs = self._inputs
        return pair_rewards(inputs.pairs.of_row, inputs.reward, len(inputs.pairs.state))

    @property
    def kept(self) -> Float[np.ndarray, " n"]:
        """The rewards."""
        return self._inputs.reward

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing: all rows were looked at."""
        return ()

    def dependence(self) -> Dependence | None:
        """How the rows may be grouped."""
        inputs = self._inputs
        return dependence_of(inputs.logs, inputs.rows, inputs.cell_of_row, inputs.settings)

    def by_episode(self) -> Dependence:
        """The rows without groupings."""
        inputs = self._inputs
        return rows_behind(inputs.logs, inputs.rows, inputs.cell_of_row, by_episode=True)

    def episode_shares(self, problem: Problem) -> Float[np.ndarray, " N"]:
        """Share of the most influential episode in each value."""
        return episode_shares(self._inputs, problem.pilots)

    def tail_indices(
        self, tails: Tails, active: Bool[np.ndarray, "N P"]
    ) -> Float[np.ndarray, " N"]:
        """Index of the rewards' tail."""
        return tail_indices(tails, self._inputs.reward, self._inputs.pairs.of_row, active)

    def in_order(self, problem: Problem) -> tuple[Inputs, Problem]:
        """The rows themselves."""
        return self._inputs, problem

    def logged_value(self, unit: Unit | None) -> LoggedValue:
        """The logging policy's value from its own returns."""
        settings = self._inputs.settings
        restart = settings.form.moments.restart
        groups = self._groups(unit)
        return logged_value(self._inputs.logs, settings.gamma, restart=restart, groups=groups)

    def _groups(self, unit: Unit | None) -> list[np.ndarray]:
        """The groups of all rows of the log, by each grouping that is the unit.

        Rows that were left out go with the one before them, where a group is no column's.
        """
        logs = self._inputs.logs
        if unit is None:
            return []
        place = np.maximum(np.cumsum(self._inputs.rows.mask) - 1, 0)
        return [
            logs.group_codes(each.name) if each.name in logs.groups else each.of_row[place]
            for each in unit.groupings
        ]


def facts_of(inputs: Inputs) -> RowFacts:
    """What is asked of the rows behind an input."""
    counted: Any = inputs.counted
    found: RowFacts = HeldRows(inputs) if counted is None else counted.of(inputs)
    return found
