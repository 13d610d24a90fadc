"""The actions of a log as codes, and the action space if the user declares it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float, Int, Shaped

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import first_row
from bayesdice_ppl.logs.labels import encode, label_array, label_kind, shown, sorted_labels


class Actions(NamedTuple):
    """Actions of a log whose rows are grouped by episode.

    Attributes
    ----------
    labels
        Labels, shape (A,), or vectors, shape (A, q).
    action
        Codes into them, shape (n,).
    declared
        Labels of the action space as declared, shape (k,), or None.
    """

    labels: Shaped[np.ndarray, "A *q"]
    action: Int[np.ndarray, " n"]
    declared: Shaped[np.ndarray, " k"] | None


def code_actions(
    action: Float[np.ndarray, "n q"] | pl.Series,
    declared: Sequence[Any] | None,
    order: Int[np.ndarray, " n"],
) -> Actions:
    """Give actions their codes, and check the declared action space.

    Parameters
    ----------
    action
        The vectors or the labels of the table's rows.
    declared
        The action space, if it is declared.
    order
        The rows, grouped by episode.

    Raises
    ------
    LogsError
        The action space holds another kind of label, lacks a logged action, or is declared for
        vectors.
    """
    if isinstance(action, pl.Series):
        labels = sorted_labels(action)
        return Actions(labels, encode(action, labels)[order], read_declared(declared, action))
    if declared is not None:
        raise LogsError(
            f"actions: expected none, found a list. The log's actions are vectors of "
            f"{action.shape[1]} numbers, which cannot be listed: leave actions= (--actions) out."
        )
    return Actions(action[order], np.arange(len(action)), None)


def read_declared(
    actions: Sequence[Any] | None, action: pl.Series, count: pl.Series | None = None
) -> np.ndarray | None:
    """The declared action space; None where none is.

    Parameters
    ----------
    actions
        As declared.
    action
        Labels that occur.
    count
        How many rows each stands for; None: it is a row's.

    Raises
    ------
    LogsError
        Labels are of another kind, or one that occurs is not declared.
    """
    if actions is None:
        return None
    declared: np.ndarray = label_array(actions, "actions", LogsError)
    if label_kind(declared) != label_kind(action):
        raise LogsError(
            f"actions: expected {label_kind(action)}, as in the column 'action', found "
            f"{label_kind(declared)}. Use one kind of label in both (--actions)."
        )
    outside = encode(action, declared) < 0
    if outside.any():
        row = first_row(outside)
        where, rows = f"row {row + 1}, ", "the row"
        found = shown(action[row])
        if count is not None:
            n = int(count.filter(action == action[row]).sum())
            where, found, rows = "", f"{found} in {n:,} rows", "the rows"
        raise LogsError(
            f"{where}column 'action': expected an action of the declared action space, found "
            f"{found}. Add it to actions= (--actions), or correct {rows}."
        )
    return declared
