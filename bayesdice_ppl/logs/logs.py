"""The logged transitions, as arrays, with the labels that the user gave.

`Logs` is the one form in which data enters the library. Its rows are grouped by episode in the
order of first appearance, and nothing of what was logged is left out of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int, Shaped

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.tables import to_polars

MISSING = -1
"""Code of a successor state that the log does not hold."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Logs:
    """Logged transitions of one policy at work, n of them in m episodes.

    Build one with `read_logs` or `Logs.from_dataframe`, which validate.

    Parameters
    ----------
    episode
        Number of the episode of each transition, shape (n,), 0 .. m-1, grouped.
    step
        Step in the episode, shape (n,), counted from the first logged one (0).
    state, action, next_state
        Codes into ``state_labels`` and ``action_labels``, shape (n,); ``next_state`` is -1 where
        the log does not hold it.
    reward
        Reward of each transition, shape (n,).
    terminated, truncated
        The episode truly ended, or was only cut, after this transition; shape (n,).
    propensity
        Probability with which the logging policy took the action, shape (n,), or None.
    state_labels, action_labels, episode_labels
        The user's names, shapes (S,), (A,), (m,).
    row
        Row of the table that each transition came from, counted from 1, shape (n,).
    declared_actions
        The action space as declared, or None.
    unused_columns
        Columns of the table that have no meaning here.
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
    state_labels: Shaped[np.ndarray, " S"]
    action_labels: Shaped[np.ndarray, " A"]
    episode_labels: Shaped[np.ndarray, " m"]
    row: Int[np.ndarray, " n"]
    declared_actions: Shaped[np.ndarray, " k"] | None = None
    unused_columns: tuple[str, ...] = ()

    @property
    def n_transitions(self) -> int:
        """Number of logged transitions, n."""
        return len(self.reward)

    @property
    def n_episodes(self) -> int:
        """Number of episodes, m."""
        return len(self.episode_labels)

    @property
    def initial_state(self) -> Int[np.ndarray, " m"]:
        """Code of the first state of each episode, shape (m,)."""
        starts = np.flatnonzero(np.r_[True, self.episode[1:] != self.episode[:-1]])
        return self.state[starts]

    @classmethod
    def from_dataframe(
        cls,
        frame: Any,
        *,
        columns: Mapping[str, str] | None = None,
        actions: Sequence[Any] | None = None,
    ) -> Logs:
        """Validate any dataframe of logged transitions.

        Parameters
        ----------
        frame
            A polars, pandas, pyarrow, ... dataframe: one row per step with columns ``state``,
            ``action``, ``reward`` and optionally ``episode_id`` (default: every row an episode of
            its own), ``step`` (default: the order of the rows), ``next_state`` (default: the next
            row of the episode), ``terminated`` (default: never), ``truncated`` (default: the last
            row of an episode that does not terminate) and ``propensity``.
        columns
            Our name -> the table's name, e.g. ``{"action": "item_id"}``.
        actions
            The action space; a logged action outside it is refused.

        Raises
        ------
        LogsError
            With the row (counted from 1) and the column, what was expected and what to do.
        """
        from bayesdice_ppl.logs.validation import build_logs

        return build_logs(to_polars(frame, LogsError), columns=columns, actions=actions)

    def to_dataframe(self) -> pl.DataFrame:
        """Return the transitions as a polars frame with the user's labels, one row per step."""
        data: dict[str, Any] = {
            "episode_id": _labels(self.episode_labels, self.episode),
            "step": self.step,
            "state": _labels(self.state_labels, self.state),
            "action": _labels(self.action_labels, self.action),
            "reward": self.reward,
            "next_state": _labels(self.state_labels, self.next_state),
            "terminated": self.terminated,
            "truncated": self.truncated,
        }
        if self.propensity is not None:
            data["propensity"] = self.propensity
        return pl.DataFrame(data)

    def __repr__(self) -> str:
        return (
            f"Logs({self.n_transitions:,} transitions in {self.n_episodes:,} episodes, "
            f"{len(self.state_labels)} states, {len(self.action_labels)} actions)"
        )


def _labels(labels: np.ndarray, codes: np.ndarray) -> pl.Series:
    kind = pl.String if labels.dtype == object else pl.Int64
    values = pl.Series(labels.tolist(), dtype=kind).gather(np.maximum(codes, 0))
    if (codes < 0).any():
        return pl.select(pl.when(pl.Series(codes >= 0)).then(values)).to_series()
    return values
