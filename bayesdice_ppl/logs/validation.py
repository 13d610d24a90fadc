"""From a table to `Logs`: every check that a row must pass, with messages that name the row.

Rows are counted from 1 in the order of the table, the header not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.labels import (
    as_labels,
    encode,
    label_array,
    label_kind,
    shown,
    sorted_labels,
)
from bayesdice_ppl.logs.logs import MISSING, Logs
from bayesdice_ppl.logs.tables import map_columns

KNOWN = (
    "episode_id",
    "step",
    "state",
    "action",
    "reward",
    "next_state",
    "terminated",
    "truncated",
    "propensity",
)
REWARD_SIZE = (1e-100, 1e100)
"""Between these the square of the largest reward is safe in double precision."""

REQUIRED = ("state", "action", "reward")
_FLAGS = {"true": True, "false": False, "1": True, "0": False}


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
    if any(name == "obs" or name.startswith("obs_") for name in frame.columns) and not (
        "state" in frame.columns or "state" in (columns or {})
    ):
        raise LogsError(
            "columns obs/obs_*: vector observations need feature maps, which this version does "
            "not have; give an integer or string column 'state'."
        )
    table, unused = map_columns(frame, columns, KNOWN, REQUIRED, LogsError)
    if table.height < 2:
        raise LogsError(
            f"found {'no rows' if table.height == 0 else 'one row'}; expected at least two "
            "transitions, since a spread cannot be learned from fewer."
        )
    state = _labels(table, "state")
    action = _labels(table, "action")
    reward = _numbers(table, "reward")
    largest = int(np.argmax(np.abs(reward)))
    if reward[largest] != 0.0 and not REWARD_SIZE[0] < abs(reward[largest]) < REWARD_SIZE[1]:
        raise LogsError(
            f"row {largest + 1}, column 'reward': the largest reward is {reward[largest]:g}, whose "
            "square double precision cannot hold well; rescale the rewards to the order of 1."
        )
    propensity = _propensity(table)
    episode, episode_labels = _episodes(table)
    terminated = _flags(table, "terminated")
    truncated = _flags(table, "truncated")

    # Group by episode, keeping the order of rows within each.
    order = np.argsort(episode, kind="stable")
    same_episode = episode[order][1:] == episode[order][:-1]
    _check_ends(order, same_episode, terminated, truncated)
    step = _steps(table, order, same_episode, episode)

    states, state_code, next_code = _states(table, state, order, same_episode, step)
    last = np.r_[~same_episode, True]
    truncated_sorted = truncated[order] | (last & ~terminated[order])
    action_labels = sorted_labels(action)
    declared = _declared_actions(actions, action)
    return Logs(
        episode=episode[order],
        step=step,
        state=state_code[order],
        action=encode(action, action_labels)[order],
        reward=reward[order],
        next_state=next_code,
        terminated=terminated[order],
        truncated=truncated_sorted,
        propensity=None if propensity is None else propensity[order],
        state_labels=states,
        action_labels=action_labels,
        episode_labels=episode_labels,
        row=order + 1,
        declared_actions=declared,
        unused_columns=unused,
    )


def _first(mask: pl.Series | np.ndarray) -> int:
    return int(np.flatnonzero(np.asarray(mask))[0])


def _labels(table: pl.DataFrame, column: str, *, nulls: bool = False) -> pl.Series:
    series = as_labels(table[column], column, LogsError)
    if not nulls and series.null_count():
        row = _first(series.is_null())
        raise LogsError(f"row {row + 1}, column {column!r}: the value is missing.")
    return series


def _numbers(table: pl.DataFrame, column: str) -> np.ndarray:
    series = table[column]
    if series.dtype == pl.String:
        parsed = series.cast(pl.Float64, strict=False)
        broken = parsed.is_null() & series.is_not_null()
        # Text that reads as a number is still text; "nan" among numbers is named by its own row.
        odd = broken | ~parsed.is_finite().fill_null(True)
        row = _first(odd) if odd.any() else 0
        raise LogsError(
            f"row {row + 1}, column {column!r}: expected a number, found the text {series[row]!r}."
        )
    if not (series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null)):
        raise LogsError(f"column {column!r}: expected numbers, found {series.dtype}.")
    numbers = series.cast(pl.Float64)
    broken = numbers.is_null() | ~numbers.is_finite().fill_null(False)
    if broken.any():
        row = _first(broken)
        found = "nothing" if numbers[row] is None else numbers[row]
        raise LogsError(
            f"row {row + 1}, column {column!r}: expected a finite number, found {found}."
        )
    return numbers.to_numpy()


def _propensity(table: pl.DataFrame) -> np.ndarray | None:
    if "propensity" not in table.columns:
        return None
    values = _numbers(table, "propensity")
    broken = (values <= 0.0) | (values > 1.0)
    if broken.any():
        row = _first(broken)
        raise LogsError(
            f"row {row + 1}, column 'propensity': expected a probability in (0, 1], found "
            f"{values[row]:g}."
        )
    return values


def _flags(table: pl.DataFrame, column: str) -> np.ndarray:
    if column not in table.columns:
        return np.zeros(table.height, dtype=bool)
    series = table[column]
    if series.dtype.is_numeric():
        texts = series.cast(pl.Float64).replace_strict(
            {0.0: "0", 1.0: "1"}, default="?", return_dtype=pl.String
        )
    elif series.dtype in (pl.Boolean, pl.String, pl.Categorical, pl.Enum, pl.Null):
        texts = series.cast(pl.String).str.strip_chars().str.to_lowercase()
    else:
        raise LogsError(f"column {column!r}: expected true or false, found {series.dtype}.")
    flags = texts.replace_strict(_FLAGS, default=None, return_dtype=pl.Boolean)
    if flags.null_count():
        row = _first(flags.is_null())
        raise LogsError(
            f"row {row + 1}, column {column!r}: expected true or false, found {series[row]!r}."
        )
    return flags.to_numpy().astype(bool)


def _episodes(table: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    if "episode_id" not in table.columns:
        rows = np.arange(table.height)
        return rows, rows
    series = _labels(table, "episode_id")
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
            at = _first(broken)
            raise LogsError(
                f"row {order[at + 1] + 1}: a step after the episode {what} at row "
                f"{order[at] + 1}; start a new episode_id there, or mend the flag."
            )


def _steps(
    table: pl.DataFrame, order: np.ndarray, same_episode: np.ndarray, episode: np.ndarray
) -> np.ndarray:
    """Step within the episode from 0, checked to run without a repeat or a way back."""
    starts = np.flatnonzero(np.r_[True, ~same_episode])
    lengths = np.diff(np.r_[starts, len(order)])
    counted = np.arange(len(order)) - np.repeat(starts, lengths)
    if "step" not in table.columns:
        return counted
    series = _labels(table, "step")
    if not series.dtype.is_integer():
        raise LogsError(f"column 'step': expected integers, found the text {series[0]!r}.")
    step = series.to_numpy()[order]
    change = np.diff(step)
    broken = same_episode & (change <= 0)
    if broken.any():
        at = _first(broken)
        what = "is repeated" if change[at] == 0 else f"comes after step {step[at]}"
        raise LogsError(
            f"row {order[at + 1] + 1}, column 'step': step {step[at + 1]} of its episode {what} "
            f"(row {order[at] + 1}); sort each episode by step and keep each step once."
        )
    base = step[starts]
    if (base != base[0]).any():
        at = _first(base != base.min())
        raise LogsError(
            f"row {order[starts[at]] + 1}, column 'step': this episode starts at step {base[at]}, "
            f"another at step {base.min()}; every episode must start at its first step, since its "
            "first state stands for the initial distribution."
        )
    gaps = same_episode & (change > 1)
    if gaps.any() and "next_state" not in table.columns:
        at = _first(gaps)
        raise LogsError(
            f"row {order[at + 1] + 1}, column 'step': step {step[at + 1]} follows step {step[at]}; "
            "with steps missing the successor state is unknown: add them, or a column next_state."
        )
    # A step number that jumps is a label or a time; what is discounted is the place in the log.
    return counted if gaps.any() else step - base[0]


def _states(
    table: pl.DataFrame,
    state: pl.Series,
    order: np.ndarray,
    same_episode: np.ndarray,
    step: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """State labels, codes in table order, and successor codes in grouped order."""
    has_next = "next_state" in table.columns
    columns = [state]
    if has_next:
        following = _labels(table, "next_state", nulls=True)
        if following.null_count() < following.len():
            if following.dtype != state.dtype:
                raise LogsError(
                    f"column 'next_state' holds {label_kind(following)} and column 'state' "
                    f"{label_kind(state)}; expected the same kind of label in both."
                )
            columns.append(following)
    labels = sorted_labels(*columns)
    code = encode(state, labels)
    adjacent = np.r_[same_episode & (np.diff(step) == 1), False]
    successor = np.where(adjacent, np.r_[code[order][1:], MISSING], MISSING)
    if has_next:
        given = encode(columns[-1], labels)[order] if len(columns) == 2 else successor
        broken = adjacent & (given != MISSING) & (given != successor)
        if broken.any():
            at = _first(broken)
            raise LogsError(
                f"row {order[at] + 1}, column 'next_state': {shown(labels[given[at]])}, but the "
                f"episode's next row ({order[at + 1] + 1}) is in state "
                f"{shown(labels[successor[at]])}; they must agree."
            )
        successor = np.where(given != MISSING, given, successor)
    return labels, code, successor


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
        row = _first(outside)
        raise LogsError(
            f"row {row + 1}, column 'action': {action[row]!r} is outside the declared action "
            "space; add it to actions= (--actions), or mend the row."
        )
    return declared
