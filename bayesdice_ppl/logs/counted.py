"""A log that stays where it is: what was counted of it, and the rows to ask again.

Rows with the same state, action, next state and end differ in their reward alone. One line stands
for all of them, with their number and the sums of the first four powers of their rewards. That is
what a fit on labels needs, but for what depends on the order of rows: this is looked at in the
first rows, which are held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import comb
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.labels import MISSING, shown
from bayesdice_ppl.logs.sources.source import Source
from bayesdice_ppl.logs.units import RewardUnits

if TYPE_CHECKING:
    import polars as pl

    from bayesdice_ppl.logs.lazy.rows import LazyRows
    from bayesdice_ppl.logs.logs import Logs

AS_LOGGED = RewardUnits()


def check_held(logs: object, asker: str) -> None:
    """Refuse a log that is counted where it lies, where the rows themselves are asked for.

    Parameters
    ----------
    logs
        The log.
    asker
        What needs the rows, for the message.

    Raises
    ------
    LogsError
        Its rows are not held.
    """
    if isinstance(logs, CountedLogs):
        raise LogsError(
            f"logs: expected rows in memory for {asker}, found a log that is counted where it "
            "lies. Read it into memory (bd.read_logs of a file, Logs.from_dataframe); or take its "
            f"first {logs.sample.n_transitions:,} rows, which are held: logs.sample."
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class CountedLogs:
    """Logged transitions that were counted where they lie, n of them in m episodes.

    Build one with `Logs.from_lazy` or `read_logs` of a database. `bayesdice_ppl.fit` takes it in
    the place of `Logs`.

    Parameters
    ----------
    state, action, next_state
        Codes of each of K lines, as in `Logs`, shape (K,).
    terminated
        Whether its rows ended their episodes, shape (K,).
    left_out
        Whether its rows are at a step that is left out for gamma above 0, because the next state of
        a row there is not known; see `bayesdice_ppl.logs.usable_rows`. Shape (K,).
    count
        Number of its rows, shape (K,).
    powers
        Sums of the first four powers of its rewards, from ``center`` in units of ``scale``, shape
        (4, K).
    ends
        The least and the largest of these rewards, shape (2, K).
    starts
        Number of episodes that start with one of its rows, shape (K,).
    center, scale
        Mean and standard deviation of the rewards, about.
    least, most
        The least and the largest reward.
    units
        Units in which a fit sees the rewards.
    state_labels, action_labels
        The user's names, shapes (S,) and (A,).
    n_episodes, n_truncated
        Number of episodes, and of truncated rows.
    missing_steps
        Steps at which the next state of a row is not known.
    has_propensity
        Whether the log has propensities. They are looked at in the first rows alone.
    looked_at, of_few_groups
        Columns at which a fit looks for rows that move together, and those of few groups.
    groups
        Columns that may group rows -> how many groups they have.
    sample
        The first rows, in whole episodes where there are some, with the codes of this log.
    keys
        The lines in the labels of the table.
    rows
        The rows where they lie.
    order
        What the first rows are first by; see `bayesdice_ppl.logs.lazy.first.order_of`.
    declared_actions, unused_columns, lookalikes, named_episodes, reward_name, source
        As in `Logs`.
    """

    state: Int[np.ndarray, " K"]
    action: Int[np.ndarray, " K"]
    next_state: Int[np.ndarray, " K"]
    terminated: Bool[np.ndarray, " K"]
    left_out: Bool[np.ndarray, " K"]
    count: Float[np.ndarray, " K"]
    powers: Float[np.ndarray, "4 K"]
    ends: Float[np.ndarray, "2 K"]
    starts: Float[np.ndarray, " K"]
    center: float
    scale: float
    least: float
    most: float
    state_labels: Shaped[np.ndarray, " S"]
    action_labels: Shaped[np.ndarray, " A"]
    n_episodes: int
    n_truncated: int
    missing_steps: tuple[int, ...]
    has_propensity: bool
    looked_at: tuple[str, ...]
    of_few_groups: tuple[str, ...]
    groups: Mapping[str, int]
    sample: Logs
    keys: pl.DataFrame
    rows: LazyRows
    declared_actions: Shaped[np.ndarray, " k"] | None = None
    unused_columns: tuple[str, ...] = ()
    lookalikes: Mapping[str, str] = field(default_factory=dict)
    named_episodes: bool = True
    reward_name: str = "reward"
    source: Source | None = None
    order: str = "rows"
    units: RewardUnits = AS_LOGGED

    # What `Logs` says of itself where it has more.
    vector_states = False
    vector_actions = False
    allowed = None

    @property
    def seen_states(self) -> Shaped[np.ndarray, " S"]:
        """What a policy is asked about in each state: its label."""
        return self.state_labels

    @property
    def rewards(self) -> tuple[str, ...]:
        """Names of all rewards: there is one."""
        return (self.reward_name,)

    @property
    def n_transitions(self) -> int:
        """Number of logged transitions, n."""
        return int(self.count.sum())

    @property
    def n_terminated(self) -> int:
        """Number of transitions that ended their episode."""
        return int(self.count[self.terminated].sum())

    @property
    def alone(self) -> bool:
        """Whether each row is an episode of its own."""
        return self.n_episodes == self.n_transitions

    @property
    def whole(self) -> bool:
        """Whether the first rows are all rows."""
        return self.sample.n_transitions == self.n_transitions

    @property
    def missing(self) -> Bool[np.ndarray, " K"]:
        """Whether the next state is not known, and the rows did not terminate, shape (K,)."""
        return (self.next_state == MISSING) & ~self.terminated

    @property
    def mean_reward(self) -> float:
        """Mean of the rewards."""
        return self.center + self.scale * float(self.powers[0].sum()) / self.n_transitions

    @property
    def reward_ends(self) -> tuple[float, float]:
        """The least and the largest reward, as they were logged."""
        return self.least, self.most

    def reward_units(self, *, zero_means: bool = False) -> RewardUnits:
        """Units in which rewards have mean 0 and sd 1; see `bayesdice_ppl.logs.reward_units`."""
        n = self.n_transitions
        first, second = (float(sums.sum()) / n for sums in self.powers[:2])
        if zero_means:
            # E r^2 = (center + scale E x)^2 + scale^2 Var x
            mean = self.center + self.scale * first
            square = mean**2 + self.scale**2 * max(second - first**2, 0.0)
            return RewardUnits(0.0, 0.0, float(np.sqrt(square)))
        center = (self.center - self.least) + self.scale * first
        return RewardUnits(
            self.least, center, self.scale * float(np.sqrt(max(second - first**2, 0.0)))
        )

    def in_units(self, units: RewardUnits) -> CountedLogs:
        """The log with its rewards in other units."""
        return replace(self, units=units, sample=self.sample.in_units(units))

    @property
    def straight(self) -> tuple[float, float]:
        """How rewards in these units come from those that were summed: a and b of a + b x."""
        units = self.units
        if not units.scale > 0.0:
            return 0.0, 0.0
        level = ((self.center - units.origin) - units.center) / units.scale
        return level, self.scale / units.scale

    def sums(self) -> Float[np.ndarray, "4 K"]:
        """Sums of the first four powers of the rewards of each line, in the units, shape (4, K)."""
        level, slope = self.straight
        known = np.concatenate([self.count[None], self.powers])
        return np.stack(
            [
                sum(comb(k, i) * level ** (k - i) * slope**i * known[i] for i in range(k + 1))
                for k in range(1, len(known))
            ]
        )

    def place(self, line: int) -> str:
        """Which rows a line stands for, for a message."""
        state, action = self.state_labels[self.state[line]], self.action_labels[self.action[line]]
        return (
            f"{int(self.count[line]):,} rows of the log (state {shown(state)}, action "
            f"{shown(action)})"
        )

    def proposal(self, key: str) -> str:
        """How to map the column that looks like one of ours; see `Logs.proposal`."""
        return self.sample.proposal(key)

    def __repr__(self) -> str:
        return (
            f"CountedLogs({self.n_transitions:,} transitions in {self.n_episodes:,} episodes, "
            f"{len(self.state_labels)} states, {len(self.action_labels)} actions, counted where "
            f"they lie: {self.rows.table.engine})"
        )
