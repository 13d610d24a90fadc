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
from bayesdice_ppl.logs.labels import label_codes, shown
from bayesdice_ppl.logs.steps import check_times, count_steps, read_times


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
    table: pl.DataFrame,
    terminated: Bool[np.ndarray, " n"],
    truncated: Bool[np.ndarray, " n"],
    *,
    timed: bool = False,
) -> Episodes:
    """Group the rows of a table by episode.

    Parameters
    ----------
    table
        The table, with or without the columns ``episode_id`` and ``step``.
    terminated, truncated
        Flags of its rows.
    timed
        Whether another column shows that the rows of each episode are in the order of time.

    Raises
    ------
    LogsError
        A step after the end of its episode, steps that do not start together and rise, or an
        episode in pieces of which nothing says that they belong together.
    """
    number, labels = _numbered(table)
    times = read_times(table)
    order = np.argsort(number, kind="stable") if times is None else np.lexsort((times, number))
    number = number[order]
    same_episode = number[1:] == number[:-1]
    _check_ends(order, same_episode, terminated, truncated)
    if times is not None:
        check_times(times, order, same_episode)
        table = table.drop("step")
    elif not (timed or "step" in table.columns or terminated.any() or truncated.any()):
        _check_together(order, number, labels, same_episode)
    step, follows = count_steps(table, order, same_episode)
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


def _check_together(
    order: np.ndarray, number: np.ndarray, labels: np.ndarray, same_episode: np.ndarray
) -> None:
    """Refuse an episode in pieces: two logs may have numbered their episodes alike."""
    broken = same_episode & (np.diff(order) != 1)
    if broken.any():
        at = first_row(broken)
        count = len(np.unique(number[:-1][broken]))
        others = f" ({count:,} episodes are in pieces)" if count > 1 else ""
        raise LogsError(
            f"row {order[at + 1] + 1}, column 'episode_id': episode {shown(labels[number[at]])} "
            f"goes on here after row {order[at] + 1} and rows of other episodes{others}, and "
            "nothing says that the pieces are one episode. Give every episode an episode_id of its "
            "own; or, if they are one, add a column step that numbers or times its rows."
        )


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
