"""The states of a log as codes, and which state followed each row.

The next row of the episode gives the next state, unless the log has a column of its own for it.
Labels are few and recur, so each label has one code. Vectors hardly ever recur, so each row's
observation has a code of its own. Next observations add codes only where they are not the next
row's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int, Shaped

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import first_row, read_labels
from bayesdice_ppl.logs.labels import MISSING, encode, label_kind, shown, sorted_labels
from bayesdice_ppl.logs.vectors import read_vectors


class States(NamedTuple):
    """States of a log whose rows are grouped by episode.

    Attributes
    ----------
    labels
        Labels, shape (S,), or vectors, shape (S, p).
    state, next_state
        Codes into them, shape (n,); ``next_state`` is -1 where the log does not hold it.
    """

    labels: Shaped[np.ndarray, "S *p"]
    state: Int[np.ndarray, " n"]
    next_state: Int[np.ndarray, " n"]


def code_states(
    table: pl.DataFrame,
    state: Float[np.ndarray, "n p"] | pl.Series,
    order: Int[np.ndarray, " n"],
    adjacent: Bool[np.ndarray, " n"],
) -> States:
    """Give states their codes, and find what followed each.

    Parameters
    ----------
    table
        The table, with or without a column ``next_state`` or ``next_obs``.
    state
        The vectors or the labels of its rows.
    order
        Its rows, grouped by episode.
    adjacent
        Whether the next of the grouped rows is the next step of the same episode.

    Raises
    ------
    LogsError
        Next states of another kind or length, or one that contradicts the next row.
    """
    if isinstance(state, pl.Series):
        return _code_labels(table, state, order, adjacent)
    return _code_vectors(table, state, order, adjacent)


def _code_labels(
    table: pl.DataFrame, state: pl.Series, order: np.ndarray, adjacent: np.ndarray
) -> States:
    columns = [state]
    if "next_state" in table.columns:
        following = read_labels(table, "next_state", nulls=True)
        if following.null_count() < following.len():
            if following.dtype != state.dtype:
                raise LogsError(
                    f"column 'next_state': expected {label_kind(state)}, as in the column "
                    f"'state', found {label_kind(following)}. Use one kind of label in both."
                )
            columns.append(following)
    labels = sorted_labels(*columns)
    code = encode(state, labels)[order]
    successor = np.where(adjacent, np.r_[code[1:], MISSING], MISSING)
    if len(columns) == 2:
        given = encode(columns[1], labels)[order]
        broken = adjacent & (given != MISSING) & (given != successor)
        if broken.any():
            at = first_row(broken)
            raise LogsError(
                f"row {order[at] + 1}, column 'next_state': expected "
                f"{shown(labels[successor[at]])}, the state of the episode's next row (row "
                f"{order[at + 1] + 1}), found {shown(labels[given[at]])}. Correct one of them, or "
                "start a new episode_id between them."
            )
        successor = np.where(given != MISSING, given, successor)
    return States(labels, code, successor)


def _code_vectors(
    table: pl.DataFrame, observation: np.ndarray, order: np.ndarray, adjacent: np.ndarray
) -> States:
    labels = observation[order]
    code = np.arange(len(labels))
    successor = np.where(adjacent, code + 1, MISSING)
    if "next_obs" not in table.columns:
        return States(labels, code, successor)
    size = labels.shape[1]
    given = read_vectors(table["next_obs"], "next_obs", size=size, nulls=True)[order]
    fresh = ~np.isnan(given[:, 0])
    # What the next row repeats is held once; only the others take up room.
    fresh[:-1] &= ~(adjacent[:-1] & (given[:-1] == labels[1:]).all(axis=1))
    successor[fresh] = len(labels) + np.arange(np.count_nonzero(fresh))
    return States(np.concatenate([labels, given[fresh]]), code, successor)
