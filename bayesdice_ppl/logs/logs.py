"""The logged transitions, as arrays, with the labels that the user gave.

`Logs` is the one form in which data enters the library. Its rows are grouped by episode, in the
order of first appearance, and no logged row is left out. Where observations or actions are vectors,
these take the place of labels, and codes point at them in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int, Shaped

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.action_sets import (
    ActionSets,
    check_declared,
    read_sets,
    sets_of_states,
    with_sets,
)
from bayesdice_ppl.logs.actions import code_actions
from bayesdice_ppl.logs.columns import read_flags, read_propensities, read_rewards
from bayesdice_ppl.logs.episodes import group_episodes
from bayesdice_ppl.logs.familiar import find_lookalikes
from bayesdice_ppl.logs.from_sources import FromSources
from bayesdice_ppl.logs.groups import codes_of, looked_at, of_few_groups, read_groups
from bayesdice_ppl.logs.labels import MISSING, decode
from bayesdice_ppl.logs.rewards import read_other_rewards, split_rewards
from bayesdice_ppl.logs.schema import find_columns
from bayesdice_ppl.logs.sources.source import Source
from bayesdice_ppl.logs.states import code_states
from bayesdice_ppl.logs.steps import clock_of
from bayesdice_ppl.logs.tables import mapping_text, to_polars
from bayesdice_ppl.logs.units import RewardUnits, reward_units
from bayesdice_ppl.logs.vectors import read_points

if TYPE_CHECKING:
    from bayesdice_ppl.logs.counted import CountedLogs


@final
@dataclass(frozen=True, slots=True, eq=False)
class Logs(FromSources):
    """Logged transitions of one policy at work, n of them in m episodes.

    Build one with `read_logs`, `Logs.from_dataframe`, or a reader of another tool's logs, such as
    `Logs.from_minari`. All validate.

    Parameters
    ----------
    episode
        Number of the episode of each transition, shape (n,), 0 .. m-1, grouped.
    step
        Step in the episode, shape (n,), counted from the first logged one (0).
    state, action, next_state
        Codes into ``state_labels`` and ``action_labels``, shape (n,); ``next_state`` is -1 where
        the log does not hold it. Vectors have a code for each row, equal or not: row i has code i,
        and its successor is the next row's code where that is what followed.
    reward
        Reward of each transition, shape (n,).
    terminated, truncated
        The episode truly ended, or was only cut, after this transition; shape (n,).
    propensity
        Probability with which the logging policy took the action, shape (n,), or None; the density
        of an action that is a vector.
    state_labels, action_labels
        The user's names, shapes (S,) and (A,), of integers or strings; or vectors, float64, shapes
        (S, p) and (A, q). Either may be vectors without the other.
    episode_labels
        The user's names of the episodes, shape (m,).
    row
        Row of the table that each transition came from, counted from 1, shape (n,).
    declared_actions
        The action space as declared, or None; always None for vectors.
    unused_columns
        Columns of the table that have no meaning here.
    lookalikes
        Our name -> a column of the table that looks like it by its name, where none was mapped and
        leaving it out changes nothing but what a log may lack.
    named_episodes
        Whether a column named the episodes; else each row is an episode of its own.
    groups
        Column -> its n values, a polars Series, of columns without another meaning that may say
        which rows belong together, such as ``user_id``.
    reward_name
        The table's name of the reward.
    other_rewards
        Column -> its n numbers, of further rewards that the log was read with; see `with_reward`.
    allowed
        Which actions each state allows, where the log says so; else None.
    source
        Which tool's layout was read, and what was taken as what; None for a plain table.
    """

    episode: Int[np.ndarray, " n"]
    step: Int[np.ndarray, " n"]
    state: Int[np.ndarray, " n"]
    action: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    next_state: Int[np.ndarray, " n"]
    terminated: Bool[np.ndarray, " n"]
    truncated: Bool[np.ndarray, " n"]
    propensity: Float[np.ndarray, " n"] | None
    state_labels: Shaped[np.ndarray, "S *p"]
    action_labels: Shaped[np.ndarray, "A *q"]
    episode_labels: Shaped[np.ndarray, " m"]
    row: Int[np.ndarray, " n"]
    declared_actions: Shaped[np.ndarray, " k"] | None = None
    unused_columns: tuple[str, ...] = ()
    lookalikes: Mapping[str, str] = field(default_factory=dict)
    named_episodes: bool = True
    groups: Mapping[str, pl.Series] = field(default_factory=dict)
    reward_name: str = "reward"
    other_rewards: Mapping[str, Float[np.ndarray, " n"]] = field(default_factory=dict)
    allowed: ActionSets | None = None
    source: Source | None = None

    @property
    def seen_states(self) -> Shaped[np.ndarray, "S *p"]:
        """What a policy is asked about in each state: labels, shape (S,), or vectors, (S, p).

        Those of `state_labels`, without the actions that a state allows.
        """
        if self.allowed is None or self.allowed.states is None:
            return self.state_labels
        return self.allowed.states

    @property
    def rewards(self) -> tuple[str, ...]:
        """Names of all rewards, the first of which is ``reward``."""
        return (self.reward_name, *self.other_rewards)

    def with_reward(self, name: str) -> Logs:
        """The same log with one of its rewards as the only one.

        Raises
        ------
        LogsError
            The log was not read with such a reward.
        """
        if name not in self.rewards:
            raise LogsError(
                f"with_reward: expected one of {listed(self.rewards)}, found {name!r}. Read the "
                "log with reward=[...], a list that holds it."
            )
        own = self.reward if name == self.reward_name else self.other_rewards[name]
        return replace(self, reward=own, reward_name=name, other_rewards={})

    @property
    def looked_at(self) -> tuple[str, ...]:
        """Columns at which a fit looks by itself for rows that move together."""
        return tuple(name for name, series in self.groups.items() if looked_at(series, name))

    @property
    def of_few_groups(self) -> tuple[str, ...]:
        """Columns of few groups, of which a fit only tells whether their rows move together."""
        return tuple(name for name, series in self.groups.items() if of_few_groups(series, name))

    def group_codes(self, column: str) -> Int[np.ndarray, " n"]:
        """Which group each transition is in by a column of `groups`, shape (n,)."""
        return codes_of(self.groups[column], column)

    def proposal(self, key: str) -> str:
        """How to map the column that looks like one of ours; empty where there is none."""
        if key not in self.lookalikes:
            return ""
        name = self.lookalikes[key]
        return f" The column {name!r} looks like it: if it is, pass {mapping_text({key: name})}."

    @property
    def n_transitions(self) -> int:
        """Number of logged transitions, n."""
        return len(self.reward)

    @property
    def n_episodes(self) -> int:
        """Number of episodes, m."""
        return len(self.episode_labels)

    @property
    def n_terminated(self) -> int:
        """Number of transitions that ended their episode."""
        return int(self.terminated.sum())

    @property
    def n_truncated(self) -> int:
        """Number of transitions after which the episode was cut."""
        return int(self.truncated.sum())

    @property
    def mean_reward(self) -> float:
        """Mean of the rewards."""
        return float(self.reward.mean())

    @property
    def initial_state(self) -> Int[np.ndarray, " m"]:
        """Code of the first state of each episode, shape (m,)."""
        return self.state[self.first_rows]

    @property
    def first_rows(self) -> Int[np.ndarray, " m"]:
        """Place of the first row of each episode, shape (m,)."""
        return np.flatnonzero(np.r_[True, self.episode[1:] != self.episode[:-1]])

    @property
    def vector_states(self) -> bool:
        """Whether observations are vectors, and not labels."""
        return self.state_labels.ndim == 2

    @property
    def vector_actions(self) -> bool:
        """Whether actions are vectors, and not labels."""
        return self.action_labels.ndim == 2

    @property
    def observation(self) -> Float[np.ndarray, "n p"]:
        """What was seen before each action, shape (n, p).

        Raises
        ------
        LogsError
            States are labels, as in `next_observation`.
        """
        return self._observations()[self.state]

    @property
    def next_observation(self) -> Float[np.ndarray, "n p"]:
        """What was seen after each action, shape (n, p), NaN where the log does not hold it."""
        following = self._observations()[self.next_state]
        following[self.next_state == MISSING] = np.nan
        return following

    @property
    def action_vector(self) -> Float[np.ndarray, "n q"]:
        """The vector of each action, shape (n, q).

        Raises
        ------
        LogsError
            Actions are labels.
        """
        if not self.vector_actions:
            raise LogsError(
                "action_vector: expected actions that are vectors, found labels. Use action and "
                "action_labels."
            )
        return self.action_labels[self.action]

    def _observations(self) -> np.ndarray:
        if not self.vector_states:
            raise LogsError(
                "observation: expected states that are vectors, found labels. Use state, "
                "next_state and state_labels."
            )
        return self.state_labels

    @classmethod
    def from_dataframe(
        cls,
        frame: Any,
        *,
        columns: Mapping[str, str] | None = None,
        actions: Sequence[Any] | None = None,
        ignore: Sequence[str] = (),
        reward: str | Sequence[str] | None = None,
    ) -> Logs:
        """Validate any dataframe of logged transitions.

        Parameters
        ----------
        frame
            A polars, pandas, pyarrow, ... dataframe: one row per step with columns ``state``,
            ``action``, ``reward`` and optionally ``episode_id`` (default: every row an episode of
            its own), ``step`` (numbers, or times by which the rows of an episode are sorted;
            default: the order of the rows), ``next_state`` (default: the next row of the episode),
            ``terminated`` (default: never), ``truncated`` (default: the last row of an episode that
            does not terminate) and ``propensity``. For vectors give, in the place of ``state`` and
            ``next_state``, list columns ``obs`` and ``next_obs`` or a column for each number,
            ``obs_0``, ``obs_1``, ..., ``next_obs_0``, ...; likewise a list column ``action`` or
            ``action_0``, ... A row whose next observation is empty does not hold it; the propensity
            of a vector is a density. ``allowed_actions`` (lists, or texts such as ``a|b``) says
            which actions a row could take: candidates are then renormalized over these, and the
            set is part of a labeled state.
        columns
            Our name -> the table's name, e.g. ``{"action": "item_id"}``; for a vector the list
            column, or what stands before the numbers: ``{"obs": "x"}`` for ``x_0``, ``x_1``, ...
            Where the table holds two columns of one meaning, mapping one chooses it.
        actions
            The action space; a logged action outside it is refused. Not for vectors.
        ignore
            Columns that are not what their names say, e.g. ``["done"]``. A column that looks like
            one of ours, such as ``done`` or ``traj_id``, is refused where leaving it out would
            change the log: map it with `columns`, or name it here. It may still group rows.
        reward
            The column of rewards by the table's name, or several: ``["quality", "cost"]``. The
            first is the log's reward. `bayesdice_ppl.fit` gives each a value of its own, joint with
            the others.

        Raises
        ------
        LogsError
            With the row (counted from 1) and the column, what was expected and what to do.
        """
        whole = to_polars(frame, LogsError)
        given = whole
        whole, columns, rewards = split_rewards(whole, columns, reward)
        table, vectors, unused = find_columns(whole, columns, ignore)
        if table.height < 2:
            raise LogsError(
                "expected at least two rows, found "
                f"{'none' if table.height == 0 else 'one'}. Add transitions: a spread cannot be "
                "estimated from fewer."
            )
        left = [name for name in unused if name not in ignore]
        lookalikes = find_lookalikes(whole, table, vectors, left, columns)
        state = read_points(table, "obs" if "obs" in vectors else "state", vectors)
        action = read_points(table, "action", vectors)
        earned = read_rewards(table)
        propensity = read_propensities(table, density="action" in vectors)
        terminated = read_flags(table, "terminated")
        truncated = read_flags(table, "truncated")
        # A clock that runs backward within an episode was refused above.
        timed = "step" in lookalikes and clock_of(whole[lookalikes["step"]]) is not None
        episodes = group_episodes(table, terminated, truncated, timed=timed)
        order = episodes.order
        sets = read_sets(table, action)
        labels = state if isinstance(state, pl.Series) else None
        if sets is not None and labels is not None:
            if "next_state" in table.columns:
                raise LogsError(
                    "column 'allowed_actions': expected no column 'next_state' beside it, as only "
                    "rows have a set of actions. Leave next_state out (ignore=, --ignore): the "
                    "next row of the episode gives the next state."
                )
            state = with_sets(labels, sets)
        states = code_states(table, state, order, episodes.adjacent)
        coded = code_actions(action, actions, order)
        allowed = None
        if sets is not None:
            check_declared(sets, coded.declared)
            allowed = sets_of_states(sets, order, states.state, len(states.labels), labels)
        return cls(
            episode=episodes.number,
            step=episodes.step,
            state=states.state,
            action=coded.action,
            reward=earned[order],
            next_state=states.next_state,
            terminated=terminated[order],
            truncated=truncated[order] | (episodes.last & ~terminated[order]),
            propensity=None if propensity is None else propensity[order],
            state_labels=states.labels,
            action_labels=coded.labels,
            episode_labels=episodes.labels,
            row=order + 1,
            declared_actions=coded.declared,
            unused_columns=unused,
            lookalikes=lookalikes,
            named_episodes="episode_id" in table.columns,
            groups=read_groups(whole, unused, order),
            reward_name=rewards[0] if rewards else (columns or {}).get("reward", "reward"),
            other_rewards=read_other_rewards(given, rewards, order),
            allowed=allowed,
        )

    @classmethod
    def from_lazy(
        cls,
        table: Any,
        *,
        columns: Mapping[str, str] | None = None,
        actions: Sequence[Any] | None = None,
        ignore: Sequence[str] = (),
        reward: str | Sequence[str] | None = None,
    ) -> CountedLogs:
        """Validate and count a log where it lies, so that only counts travel.

        States and actions are labels. `bayesdice_ppl.fit` gives the belief that it would give of
        the rows in memory; docs/large_logs.md says what it looks at in the first rows alone.

        Parameters
        ----------
        table
            A lazy table: a polars ``LazyFrame`` (``pl.scan_parquet("logs/*.parquet")``), a relation
            of DuckDB, a table of Ibis, a DataFrame of PySpark. Its columns are those that
            `from_dataframe` takes, without vectors and ``allowed_actions``. An episode's rows need
            a column ``step``, unless the table is a polars ``LazyFrame``, whose rows have an order.
        columns, actions, ignore, reward
            As for `from_dataframe`; one reward.

        Raises
        ------
        LogsError
            With the column, how many rows, the first of them, what was expected and what to do.
        """
        from bayesdice_ppl.logs.lazy import count_log

        options: dict[str, Any] = {"columns": columns, "actions": actions, "ignore": ignore}
        return count_log(table, reward=reward, hold=cls.from_dataframe, **options)

    @property
    def reward_ends(self) -> tuple[float, float]:
        """The least and the largest reward."""
        return float(self.reward.min()), float(self.reward.max())

    def reward_units(self, *, zero_means: bool = False) -> RewardUnits:
        """Units in which rewards have mean 0 and sd 1; see `bayesdice_ppl.logs.reward_units`."""
        return reward_units(self.reward, zero_means=zero_means)

    def in_units(self, units: RewardUnits) -> Logs:
        """The log with its rewards in other units."""
        return replace(self, reward=units.into(self.reward))

    def place(self, row: int) -> str:
        """Where a transition stands in the table, for a message."""
        return f"row {self.row[row]} of the log"

    def to_dataframe(self) -> pl.DataFrame:
        """Return the transitions as a polars frame with the user's labels, one row per step.

        Vectors have a column for each number, ``obs_0``, ..., ``action_0``, ..., ``next_obs_0``,
        ...; what is not held is null. Columns that may say which rows belong together stay.
        """
        states, actions = self.state_labels, self.action_labels
        before, after = ("obs", "next_obs") if self.vector_states else ("state", "next_state")
        data: dict[str, Any] = {
            "episode_id": decode(self.episode_labels, self.episode),
            "step": self.step,
            **_columns(before, self.seen_states, self.state),
            **_columns("action", actions, self.action),
            # Another reward may have the name "reward".
            (self.reward_name if "reward" in self.other_rewards else "reward"): self.reward,
            **({} if self.allowed else _columns(after, states, self.next_state)),
            "terminated": self.terminated,
            "truncated": self.truncated,
        }
        if self.propensity is not None:
            data["propensity"] = self.propensity
        if self.allowed is not None:
            sets = [self.allowed.labels[row].tolist() for row in self.allowed.mask]
            data["allowed_actions"] = [sets[state] for state in self.state.tolist()]
        for more in (self.other_rewards, self.groups):
            data.update({name: series for name, series in more.items() if name not in data})
        return pl.DataFrame(data)

    def __repr__(self) -> str:
        states = _extent(self.state_labels, "observations", "states")
        actions = _extent(self.action_labels, "actions", "actions")
        return (
            f"Logs({self.n_transitions:,} transitions in {self.n_episodes:,} episodes, {states}, "
            f"{actions})"
        )


def _extent(labels: np.ndarray, vectors: str, names: str) -> str:
    return (
        f"{labels.shape[1]}-dimensional {vectors}" if labels.ndim == 2 else f"{len(labels)} {names}"
    )


def _columns(name: str, labels: np.ndarray, codes: np.ndarray) -> dict[str, pl.Series]:
    if labels.ndim == 1:
        return {name: decode(labels, codes)}
    vectors = labels[codes]
    vectors[codes == MISSING] = np.nan
    return {
        f"{name}_{k}": pl.Series(numbers, nan_to_null=True) for k, numbers in enumerate(vectors.T)
    }
