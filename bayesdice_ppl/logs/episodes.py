"""The episodes of a log: its rows grouped, and their steps checked.

Rows are counted from 1 in the order of the table, without the header.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Bool, Int, Shaped

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import first_row, read_labels
from bayesdice_ppl.logs.labels import label_codes


class Episodes(NamedTuple):
    """Episodes of a log.

    Attributes
    ----------
    labels
        The user's names of the episodes, in the order of first appearance, shape (m,).
    order
        The table's rows grouped by episode, in their order within each, shape (n,).
    number, step
        Episode, 0 .. m-1, and step in it from 0, of each of the grouped rows, shape (n,).
    adjacent
        Whether the next of the grouped rows is the very next step of the same episode, shape (n,).
    last
        Whether a row is the last of its episode, shape (n,).
    """

    labels: Shaped[np.ndarray, " m"]
    order: Int[np.ndarray, " n"]
    number: Int[np.ndarray, " n"]
    step: Int[np.ndarray, " n"]
    adjacent: Bool[np.ndarray, " n"]
    last: Bool[np.ndarray, " n"]


def group_episodes(
    table: pl.DataFrame, terminated: Bool[np.ndarray, " n"], truncated: Bool[np.ndarray, " n"]
) -> Episodes:
    """Group the rows of a table by episode.

    Parameters
    ----------
    table
        The table, with or without the columns ``episode_id`` and ``step``.
    terminated, truncated
        Flags of its rows.

    Raises
    ------
    LogsError
        A step after the end of its episode, or steps that do not start together and rise.
    """
    number, labels = _numbered(table)
    order = np.argsort(number, kind="stable")
    number = number[order]
    same_episode = number[1:] == number[:-1]
    _check_ends(order, same_episode, terminated, truncated)
    step, follows = _steps(table, order, same_episode)
    return Episodes(
        labels,
        order,
        number,
        step,
        adjacent=np.r_[same_episode & follows, False],
        last=np.r_[~same_episode, True],
    )


def _numbered(table: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Episode of each row, and the episodes' labels; each row its own where none are given."""
    if "episode_id" not in table.columns:
        rows = np.arange(table.height)
        return rows, rows
    return label_codes(read_labels(table, "episode_id"))


def _check_ends(
    order: np.ndarray, same_episode: np.ndarray, terminated: np.ndarray, truncated: np.ndarray
) -> None:
    for flags, what in ((terminated, "terminated"), (truncated, "truncated")):
        broken = same_episode & flags[order][:-1]
        if broken.any():
            at = first_row(broken)
            raise LogsError(
                f"row {order[at + 1] + 1}: expected no step after row {order[at] + 1}, where the "
                f"column {what!r} ends the episode. Start a new episode_id at row "
                f"{order[at + 1] + 1}, or correct the flag of row {order[at] + 1}."
            )


def _steps(
    table: pl.DataFrame, order: np.ndarray, same_episode: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Step within the episode from 0, and whether each next row is of the very next step."""
    starts = np.flatnonzero(np.r_[True, ~same_episode])
    lengths = np.diff(np.r_[starts, len(order)])
    counted = np.arange(len(order)) - np.repeat(starts, lengths)
    if "step" not in table.columns:
        return counted, same_episode
    series = read_labels(table, "step")
    if not series.dtype.is_integer():
        raise LogsError(
            f"column 'step': expected integers, found the text {series[0]!r}. Number the steps of "
            "each episode 0, 1, 2, ..."
        )
    step = series.to_numpy()[order]
    change = np.diff(step)
    broken = same_episode & (change <= 0)
    if broken.any():
        at = first_row(broken)
        raise LogsError(
            f"row {order[at + 1] + 1}, column 'step': expected a step above {step[at]}, that of "
            f"row {order[at] + 1} in the same episode, found {step[at + 1]}. Sort each episode by "
            "step, and keep each step once."
        )
    base = step[starts]
    if (base != base[0]).any():
        at = first_row(base != base.min())
        raise LogsError(
            f"row {order[starts[at]] + 1}, column 'step': expected every episode to start at the "
            f"same step, found one that starts at step {base[at]} and another at step "
            f"{base.min()}. Log each episode from its first step: first states stand for the "
            "initial distribution."
        )
    gaps = same_episode & (change > 1)
    following = "next_obs" if "obs" in table.columns else "next_state"
    if gaps.any() and following not in table.columns:
        at = first_row(gaps)
        raise LogsError(
            f"row {order[at + 1] + 1}, column 'step': expected step {step[at] + 1} after step "
            f"{step[at]}, found step {step[at + 1]}. Where steps are missing the next row does not "
            f"give the next state: add the steps, or a column {following!r}."
        )
    # Numbers that jump are labels or times. What is discounted is the place in the episode.
    return (counted if gaps.any() else step - base[0]), change == 1
