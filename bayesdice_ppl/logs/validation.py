"""From a table to `Logs`: every check that a row must pass, with messages that name the row.

Rows are counted from 1 in the order of the table, the header not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import first_row, read_flags, read_labels, read_numbers
from bayesdice_ppl.logs.labels import encode, label_array, label_kind, sorted_labels
from bayesdice_ppl.logs.logs import Logs
from bayesdice_ppl.logs.successors import labeled_states, vector_states
from bayesdice_ppl.logs.tables import map_columns
from bayesdice_ppl.logs.vectors import arrange_vectors, read_vectors

KNOWN = (
    "episode_id",
    "step",
    "state",
    "obs",
    "action",
    "reward",
    "next_state",
    "next_obs",
    "terminated",
    "truncated",
    "propensity",
)
REWARD_SIZE = (1e-100, 1e100)
"""Between these the square of the largest reward is safe in double precision."""

INSTEAD = {
    "state": " (or, for vectors, a list column 'obs' or columns obs_0, obs_1, ...)",
    "action": " (or, for vectors, columns action_0, action_1, ...)",
}
"""What else would do for a required column."""


def build_logs(
    frame: pl.DataFrame,
    *,
    columns: Mapping[str, str] | None = None,
    actions: Sequence[Any] | None = None,
) -> Logs:
    """Validate a polars frame of transitions; see `Logs.from_dataframe`.

    Raises
    ------
    LogsError
        With the row and the column, what was expected and what to do.
    """
    arranged = arrange_vectors(frame, columns)
    vectors = arranged.vectors
    table, unused = map_columns(
        arranged.frame,
        arranged.columns,
        [key for key in KNOWN if key not in arranged.ignored],
        ("obs" if "obs" in vectors else "state", "action", "reward"),
        LogsError,
        instead=INSTEAD,
    )
    if table.height < 2:
        raise LogsError(
            f"found {'no rows' if table.height == 0 else 'one row'}; expected at least two "
            "transitions, since a spread cannot be learned from fewer."
        )
    state = _vectors_or_labels(table, "obs" if "obs" in vectors else "state", vectors)
    action = _vectors_or_labels(table, "action", vectors)
    reward = read_numbers(table["reward"], "reward")
    largest = int(np.argmax(np.abs(reward)))
    if reward[largest] != 0.0 and not REWARD_SIZE[0] < abs(reward[largest]) < REWARD_SIZE[1]:
        raise LogsError(
            f"row {largest + 1}, column 'reward': the largest reward is {reward[largest]:g}, whose "
            "square double precision cannot hold well; rescale the rewards to the order of 1."
        )
    propensity = _propensity(table, density="action" in vectors)
    episode, episode_labels = _episodes(table)
    terminated = read_flags(table, "terminated")
    truncated = read_flags(table, "truncated")

    # Group by episode, keeping the order of rows within each.
    order = np.argsort(episode, kind="stable")
    same_episode = episode[order][1:] == episode[order][:-1]
    _check_ends(order, same_episode, terminated, truncated)
    step, follows = _steps(table, order, same_episode, episode)

    adjacent = np.r_[same_episode & follows, False]
    if isinstance(state, np.ndarray):
        states = vector_states(table, state, order, adjacent)
    else:
        states = labeled_states(table, state, order, adjacent)
    action_labels, action_code, declared = _action_codes(action, actions, order)
    last = np.r_[~same_episode, True]
    return Logs(
        episode=episode[order],
        step=step,
        state=states.state,
        action=action_code,
        reward=reward[order],
        next_state=states.next_state,
        terminated=terminated[order],
        truncated=truncated[order] | (last & ~terminated[order]),
        propensity=None if propensity is None else propensity[order],
        state_labels=states.labels,
        action_labels=action_labels,
        episode_labels=episode_labels,
        row=order + 1,
        declared_actions=declared,
        unused_columns=unused,
    )


def _vectors_or_labels(
    table: pl.DataFrame, column: str, vectors: frozenset[str]
) -> np.ndarray | pl.Series:
    """Vectors as a matrix, labels as a series, in the order of the table."""
    if column in vectors:
        return read_vectors(table[column], column)
    if column == "state" and isinstance(table[column].dtype, pl.List | pl.Array):
        raise LogsError(
            f"column 'state': expected integer or string labels, found {table[column].dtype}; "
            "vectors are observations: map it to obs, columns={'obs': ...} (--columns obs=...)."
        )
    return read_labels(table, column)


def _propensity(table: pl.DataFrame, *, density: bool) -> np.ndarray | None:
    if "propensity" not in table.columns:
        return None
    values = read_numbers(table["propensity"], "propensity")
    # A density may be as large as it likes.
    broken = (values <= 0.0) | ((values > 1.0) & (not density))
    if broken.any():
        row = first_row(broken)
        expected = "density above 0" if density else "probability in (0, 1]"
        raise LogsError(
            f"row {row + 1}, column 'propensity': expected a {expected}, found {values[row]:g}."
        )
    return values


def _episodes(table: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    if "episode_id" not in table.columns:
        rows = np.arange(table.height)
        return rows, rows
    series = read_labels(table, "episode_id")
    labels = series.unique(maintain_order=True)
    array = (
        labels.to_numpy().astype(np.int64)
        if labels.dtype.is_integer()
        else np.array(labels.to_list(), dtype=object)
    )
    return encode(series, array), array


def _check_ends(
    order: np.ndarray, same_episode: np.ndarray, terminated: np.ndarray, truncated: np.ndarray
) -> None:
    for flags, what in ((terminated, "terminated"), (truncated, "truncated")):
        broken = same_episode & flags[order][:-1]
        if broken.any():
            at = first_row(broken)
            raise LogsError(
                f"row {order[at + 1] + 1}: a step after the episode {what} at row "
                f"{order[at] + 1}; start a new episode_id there, or mend the flag."
            )


def _steps(
    table: pl.DataFrame, order: np.ndarray, same_episode: np.ndarray, episode: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Step within the episode from 0, and whether each next row is of the very next step.

    Steps are checked to run without a repeat or a way back.
    """
    starts = np.flatnonzero(np.r_[True, ~same_episode])
    lengths = np.diff(np.r_[starts, len(order)])
    counted = np.arange(len(order)) - np.repeat(starts, lengths)
    if "step" not in table.columns:
        return counted, same_episode
    series = read_labels(table, "step")
    if not series.dtype.is_integer():
        raise LogsError(f"column 'step': expected integers, found the text {series[0]!r}.")
    step = series.to_numpy()[order]
    change = np.diff(step)
    broken = same_episode & (change <= 0)
    if broken.any():
        at = first_row(broken)
        what = "is repeated" if change[at] == 0 else f"comes after step {step[at]}"
        raise LogsError(
            f"row {order[at + 1] + 1}, column 'step': step {step[at + 1]} of its episode {what} "
            f"(row {order[at] + 1}); sort each episode by step and keep each step once."
        )
    base = step[starts]
    if (base != base[0]).any():
        at = first_row(base != base.min())
        raise LogsError(
            f"row {order[starts[at]] + 1}, column 'step': this episode starts at step {base[at]}, "
            f"another at step {base.min()}; every episode must start at its first step, since its "
            "first state stands for the initial distribution."
        )
    gaps = same_episode & (change > 1)
    following = "next_obs" if "obs" in table.columns else "next_state"
    if gaps.any() and following not in table.columns:
        at = first_row(gaps)
        raise LogsError(
            f"row {order[at + 1] + 1}, column 'step': step {step[at + 1]} follows step {step[at]}; "
            f"with steps missing the successor state is unknown: add them, or a column {following}."
        )
    # A step number that jumps is a label or a time; what is discounted is the place in the log.
    return (counted if gaps.any() else step - base[0]), change == 1


def _action_codes(
    action: np.ndarray | pl.Series, actions: Sequence[Any] | None, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Action labels, codes in grouped order, and the action space as declared."""
    if isinstance(action, pl.Series):
        labels = sorted_labels(action)
        return labels, encode(action, labels)[order], _declared_actions(actions, action)
    if actions is not None:
        raise LogsError(
            f"actions: the log's actions are vectors of {action.shape[1]} numbers, which cannot be "
            "listed; leave actions= (--actions) out."
        )
    return action[order], np.arange(len(action)), None


def _declared_actions(actions: Sequence[Any] | None, action: pl.Series) -> np.ndarray | None:
    if actions is None:
        return None
    declared: np.ndarray = label_array(actions, "actions", LogsError)
    if label_kind(declared) != label_kind(action):
        raise LogsError(
            f"actions: the declared action space holds {label_kind(declared)} and the column "
            f"'action' {label_kind(action)}; give the same kind of label (--actions)."
        )
    outside = encode(action, declared) < 0
    if outside.any():
        row = first_row(outside)
        raise LogsError(
            f"row {row + 1}, column 'action': {action[row]!r} is outside the declared action "
            "space; add it to actions= (--actions), or mend the row."
        )
    return declared
