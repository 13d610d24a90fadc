"""Sets of allowed actions: empty ones, and ones that lack the action that was taken."""

from __future__ import annotations

import polars as pl

from bayesdice_ppl.checking.fault import ERROR, Fault, Mend, column_text, row_words, rows_where
from bayesdice_ppl.checking.table import TakenTable
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.action_sets import (
    COLUMN,
    SEPARATOR,
    as_lists,
    empty_sets,
    sets_without_taken,
)
from bayesdice_ppl.logs.labels import as_labels

KIND = "allowed actions"


def find(table: TakenTable) -> list[Fault]:
    """Find rows without a set of actions, and rows whose set lacks the one that was taken."""
    given, action = table.series(COLUMN), table.series("action")
    if given is None or action is None:
        return []
    name = table.names[COLUMN]
    try:
        lists = as_lists(given)
    except LogsError as error:
        return [Fault(KIND, ERROR, name, str(error))]
    found = []
    is_text = given.dtype == pl.String
    empty = empty_sets(lists)
    if empty.any():
        rows = rows_where(empty)
        sentence = f"{name!r} has no action in {row_words(rows)}."
        words = f"Leave these {table.dropped} out, if that happened by chance."
        held = column_text(name)
        some = (
            f"{held}.str.strip_chars(' {SEPARATOR}') != ''" if is_text else f"{held}.list.len() > 0"
        )
        if isinstance(given.dtype, pl.Array):
            some = f"{held}.is_not_null()"
        keep = table.in_episode(f"({some}).fill_null(False)")
        found.append(Fault(KIND, ERROR, name, sentence, rows, Mend(words, (keep,))))
    judged = ~empty & action.is_not_null()
    try:
        labels = as_labels(action.filter(judged), "action", LogsError)
        lacks = sets_without_taken(lists.filter(judged), labels)
    except LogsError as error:
        # Actions that are no labels are a fault of their own.
        of_sets = f"column {COLUMN!r}" in str(error)
        return [*found, Fault(KIND, ERROR, name, str(error))] if of_sets else found
    rows = rows_where(judged)[lacks]
    if len(rows):
        first = int(rows[0]) - 1
        sentence = (
            f"{name!r} does not have the action that was taken in {row_words(rows)}: "
            f"{action[first]!r} is not in {_shown(given[first])}."
        )
        found.append(Fault(KIND, ERROR, name, sentence, rows, _with_taken(table, is_text)))
    return found


def _with_taken(table: TakenTable, is_text: bool) -> Mend:
    """Add the actions that were taken to their sets."""
    name = table.names[COLUMN]
    held, taken = column_text(name), table.expression("action")
    words = "Add it: what was taken was allowed. (If the action is wrong, correct it instead.)"
    if is_text:
        text = f"pl.concat_str({held}, {taken}, separator={SEPARATOR!r})"
        step = f"with_columns(pl.when({taken}.is_not_null()).then({text}).otherwise({held}))"
        return Mend(words, (step,))
    given = table.series(COLUMN)
    lists = f"{held}.arr.to_list()" if isinstance(given.dtype, pl.Array) else held  # type: ignore[union-attr]
    both = f"pl.concat_list({lists}, {taken}).list.unique(maintain_order=True)"
    chosen = f"pl.when({taken}.is_not_null()).then({both}).otherwise({lists})"
    return Mend(words, (f"with_columns({chosen}.alias({name!r}))",))


def _shown(each: object) -> str:
    return repr(each.to_list() if isinstance(each, pl.Series) else each)
