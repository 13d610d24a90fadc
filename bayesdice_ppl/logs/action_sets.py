"""Action sets that vary by row: a column says which actions could be taken.

What could be taken is part of what a policy sees. So with labels a state is the logged state
together with its set, and with vectors each row has its set. A candidate that knows nothing of sets
is renormalized over them, as if it had drawn until it drew an action that is allowed.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int, Shaped

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import first_row
from bayesdice_ppl.logs.labels import as_labels, encode, label_kind, shown, shown_all, sorted_labels

COLUMN = "allowed_actions"
RENORMALIZED = (
    "each candidate is renormalized over the actions that a row allows (column allowed_actions), "
    "as if it had drawn until it drew one of them"
)
"""What is done to candidates, for whoever reads a belief."""
SEPARATOR = "|"
"""What stands between the actions of a set that is a text, as a CSV has it."""


@final
class ActionSets(NamedTuple):
    """Which actions each state of a log allows.

    Attributes
    ----------
    labels
        Every action that is allowed somewhere, shape (B,).
    mask
        Whether a state allows each of them, shape (S, B); for vectors a state is a row.
    states
        The states without their sets, shape (S,), as the user labeled them; None for vectors.
    """

    labels: Shaped[np.ndarray, " B"]
    mask: Bool[np.ndarray, "S B"]
    states: Shaped[np.ndarray, " S"] | None

    def allows(self, actions: Shaped[np.ndarray, " A"]) -> Bool[np.ndarray, "S A"]:
        """Whether each state allows each action of an action space, shape (S, A)."""
        where = {label: i for i, label in enumerate(self.labels.tolist())}
        allowed = np.zeros((len(self.mask), len(actions)), dtype=bool)
        for column, label in enumerate(actions.tolist()):
            if label in where:
                allowed[:, column] = self.mask[:, where[label]]
        return allowed

    def shown(self, state: int) -> str:
        """The set of a state, for messages."""
        return shown_all(self.labels[self.mask[state]])


class RowSets(NamedTuple):
    """The sets of a table's rows.

    Attributes
    ----------
    labels
        Every action that is allowed somewhere, shape (B,).
    mask
        Each of K distinct sets, shape (K, B).
    of_row
        The set of each row, shape (n,).
    """

    labels: Shaped[np.ndarray, " B"]
    mask: Bool[np.ndarray, "K B"]
    of_row: Int[np.ndarray, " n"]

    def text(self, k: int) -> str:
        """A set as it is written after a state."""
        return SEPARATOR.join(map(str, self.labels[self.mask[k]].tolist()))


def read_sets(table: pl.DataFrame, action: Float[np.ndarray, "n q"] | pl.Series) -> RowSets | None:
    """Read the column ``allowed_actions``; None where there is none.

    Parameters
    ----------
    table
        A log under our names.
    action
        Its actions: labels, or vectors.

    Raises
    ------
    LogsError
        Actions are vectors, a set is empty, missing or no set of labels, or a row took an action
        that its set does not have.
    """
    if COLUMN not in table.columns:
        return None
    if not isinstance(action, pl.Series):
        raise LogsError(
            f"column {COLUMN!r}: expected actions that are labels beside it, found vectors, which "
            "cannot be listed. Leave it out, or name it in ignore= (--ignore)."
        )
    given = as_lists(table[COLUMN])
    empty = empty_sets(given)
    if empty.any():
        row = first_row(empty)
        raise LogsError(
            f"row {row + 1}, column {COLUMN!r}: expected at least one action, found "
            f"{given[row].to_list() if given[row] is not None else None!r}. Fill it in."
        )
    labels, whole = _masks(given, action)
    outside = _without_taken(labels, whole, action)
    if outside.any():
        row = first_row(outside)
        raise LogsError(
            f"row {row + 1}, column {COLUMN!r}: expected the action that was taken, "
            f"{shown(action[row])}, among those allowed, found {shown_all(labels[whole[row]])}. "
            "Correct one of them."
        )
    packed = np.packbits(whole, axis=1)
    _, first, of_row = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return RowSets(labels, whole[first], of_row.ravel())


def as_lists(given: pl.Series) -> pl.Series:
    """A column of sets as a list for each row; null where there is none.

    Raises
    ------
    LogsError
        It holds neither lists nor texts.
    """
    if given.dtype == pl.String:
        # A single action is a set, too.
        labels = pl.element().str.strip_chars()
        given = pl.select(
            pl.lit(given.str.split(SEPARATOR)).list.eval(labels.filter(labels != ""))
        ).to_series()
    elif given.dtype.is_integer():
        one = pl.lit(given.cast(pl.Int64))
        given = pl.select(pl.when(one.is_not_null()).then(pl.concat_list(one))).to_series()
    if not isinstance(given.dtype, pl.List | pl.Array):
        raise LogsError(
            f"column {COLUMN!r}: expected lists of actions, or texts such as 'a{SEPARATOR}b', "
            f"found {given.dtype}. If it is something else, name it in ignore= (--ignore)."
        )
    return given.cast(pl.List(given.dtype.inner))


def empty_sets(given: pl.Series) -> pl.Series:
    """Rows whose list has no action, shape (n,)."""
    return given.is_null() | (given.list.len() == 0).fill_null(True)


def sets_without_taken(given: pl.Series, action: pl.Series) -> Bool[np.ndarray, " n"]:
    """Rows whose list, none of them empty, lacks the action that was taken, shape (n,).

    Raises
    ------
    LogsError
        The lists hold no labels of the kind that the actions are.
    """
    return _without_taken(*_masks(given, action), action)


def _masks(
    given: pl.Series, action: pl.Series
) -> tuple[Shaped[np.ndarray, " B"], Bool[np.ndarray, "n B"]]:
    labels_of = _labels(given.explode(), action)
    rows = np.repeat(np.arange(len(given)), given.list.len().to_numpy())
    labels = sorted_labels(labels_of)
    whole = np.zeros((len(given), len(labels)), dtype=bool)
    whole[rows, encode(labels_of, labels)] = True
    return labels, whole


def _without_taken(
    labels: Shaped[np.ndarray, " B"], whole: Bool[np.ndarray, "n B"], action: pl.Series
) -> Bool[np.ndarray, " n"]:
    took = encode(action, labels)
    return (took < 0) | ~whole[np.arange(len(whole)), took]


def _labels(each: pl.Series, action: pl.Series) -> pl.Series:
    """The labels in all sets, of the kind that the actions are."""
    if each.null_count():
        raise LogsError(f"column {COLUMN!r}: expected actions in every set, found a missing one.")
    if each.dtype == pl.String and label_kind(action) == "integers":
        each = each.str.to_integer(strict=False)
        if each.null_count():
            raise LogsError(
                f"column {COLUMN!r}: expected integers, as in the column 'action', found texts. "
                "Use one kind of label in both."
            )
    labels = as_labels(each, COLUMN, LogsError)
    if label_kind(labels) != label_kind(action):
        raise LogsError(
            f"column {COLUMN!r}: expected {label_kind(action)}, as in the column 'action', found "
            f"{label_kind(labels)}. Use one kind of label in both."
        )
    return labels


def check_declared(sets: RowSets, declared: Shaped[np.ndarray, " k"] | None) -> None:
    """Refuse an action that a row allows and the declared action space lacks.

    Raises
    ------
    LogsError
        With the row.
    """
    if declared is None:
        return
    known = set(declared.tolist())
    unknown = np.array([label not in known for label in sets.labels.tolist()])
    outside = sets.mask[:, unknown].any(axis=1)[sets.of_row]
    if outside.any():
        row = first_row(outside)
        label = sets.labels[unknown & sets.mask[sets.of_row[row]]][0]
        raise LogsError(
            f"row {row + 1}, column {COLUMN!r}: expected actions of the declared action space, "
            f"found {shown(label)}. Add it to actions= (--actions), or correct the row."
        )


def with_sets(state: pl.Series, sets: RowSets) -> pl.Series:
    """Label each row by its state and its set: ``x [a|b]``."""
    texts = pl.Series([sets.text(k) for k in range(len(sets.mask))], dtype=pl.String)
    return state.cast(pl.String) + " [" + texts.gather(sets.of_row) + "]"


def sets_of_states(
    sets: RowSets,
    order: Int[np.ndarray, " n"],
    code: Int[np.ndarray, " n"],
    n_states: int,
    state: pl.Series | None,
) -> ActionSets:
    """The sets of a log's states.

    Parameters
    ----------
    sets
        Those of the table's rows.
    order
        The rows in the order of the log.
    code
        State of each of them.
    n_states
        Number S of states.
    state
        Labels of the table's rows without sets, or None for vectors.

    Raises
    ------
    LogsError
        Two states with their sets are written alike, or a vector has no set of its own.
    """
    if len(np.unique(code)) != n_states:
        raise LogsError(
            f"column {COLUMN!r}: expected next observations that are those of the next rows, as "
            "only rows have a set of actions, found others. Leave next_obs out."
        )
    first = np.zeros(n_states, dtype=np.int64)
    first[code[::-1]] = order[::-1]
    mask = sets.mask[sets.of_row[first]]
    if state is None:
        return ActionSets(sets.labels, mask, None)
    alike = (sets.of_row[order] != sets.of_row[first[code]]) | (
        state.gather(order) != state.gather(first[code])
    ).to_numpy()
    if alike.any():
        raise LogsError(
            f"column {COLUMN!r}: two states with their sets are both written "
            f"{state[int(order[first_row(alike)])]!r} and a set. Leave brackets and bars out of "
            "labels."
        )
    own = state.gather(first)
    labels = own.to_numpy() if own.dtype.is_integer() else np.array(own.to_list(), dtype=object)
    return ActionSets(sets.labels, mask, labels)
