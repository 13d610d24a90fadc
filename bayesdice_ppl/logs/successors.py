"""Which state followed each row: the next row of the episode, or what the log says itself.

States that are labels are few and shared, so each has one code. Vectors are as good as never met
twice: each row's observation has a code of its own, and only what is not the next row's is added.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int, Shaped

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import first_row, read_labels
from bayesdice_ppl.logs.labels import encode, label_kind, shown, sorted_labels
from bayesdice_ppl.logs.logs import MISSING
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


def labeled_states(
    table: pl.DataFrame,
    state: pl.Series,
    order: Int[np.ndarray, " n"],
    adjacent: Bool[np.ndarray, " n"],
) -> States:
    """Encode states that are labels, and find what followed each.

    Parameters
    ----------
    table
        The table, with or without a column ``next_state``.
    state
        The labels of its rows.
    order
        Its rows, grouped by episode.
    adjacent
        Whether the next of the grouped rows is the next step of the same episode.

    Raises
    ------
    LogsError
        Successors of another kind, or one that contradicts the next row.
    """
    columns = [state]
    if "next_state" in table.columns:
        following = read_labels(table, "next_state", nulls=True)
        if following.null_count() < following.len():
            if following.dtype != state.dtype:
                raise LogsError(
                    f"column 'next_state' holds {label_kind(following)} and column 'state' "
                    f"{label_kind(state)}; expected the same kind of label in both."
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
                f"row {order[at] + 1}, column 'next_state': {shown(labels[given[at]])}, but the "
                f"episode's next row ({order[at + 1] + 1}) is in state "
                f"{shown(labels[successor[at]])}; they must agree."
            )
        successor = np.where(given != MISSING, given, successor)
    return States(labels, code, successor)


def vector_states(
    table: pl.DataFrame,
    observation: Float[np.ndarray, "n p"],
    order: Int[np.ndarray, " n"],
    adjacent: Bool[np.ndarray, " n"],
) -> States:
    """Number the observations, and those after them that are no row's own.

    Parameters
    ----------
    table
        The table, with or without a column ``next_obs``.
    observation
        The observations of its rows.
    order
        Its rows, grouped by episode.
    adjacent
        Whether the next of the grouped rows is the next step of the same episode.

    Raises
    ------
    LogsError
        Next observations of another length, or not of finite numbers.
    """
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
