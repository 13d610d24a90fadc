"""Missing values: a row lacks what every row needs."""

from __future__ import annotations

import polars as pl

from bayesdice_ppl.checking.fault import (
    ERROR,
    WARNING,
    Fault,
    Mend,
    column_text,
    row_words,
    rows_where,
)
from bayesdice_ppl.checking.table import TakenTable
from bayesdice_ppl.logs.columns import is_blank

KIND, TEXTS = "missing values", "texts for missing values"
_NEEDED = ("episode_id", "step", "state", "action", "reward", "propensity")
_FLAGS = ("terminated", "truncated")
_LABELS = ("episode_id", "state", "action")
_MEANT = ("na", "n/a", "nan", "null", "none")
"""Texts that often stand for a missing value, in small letters."""


def find(table: TakenTable) -> list[Fault]:
    """Find columns in which a value is missing; a next state may be."""
    found = []
    for key in (*_NEEDED, *_FLAGS):
        if (name := table.names.get(key)) is None:
            continue
        missing = table.frame[name].is_null()
        if key in _LABELS:
            missing |= is_blank(table.frame[name])
            found += _texts(table, name)
        if missing.any():
            found.append(_fault(table, key, name, missing))
    for key in ("obs", "action"):
        for name in table.vectors.get(key, ()):
            missing = _empty(table.frame[name])
            if missing.any():
                found.append(_fault(table, key, name, missing))
    return found


def _texts(table: TakenTable, name: str) -> list[Fault]:
    """Texts that often stand for a missing value."""
    series = table.frame[name]
    if series.dtype != pl.String:
        return []
    odd = series.str.strip_chars().str.to_lowercase().is_in(_MEANT).fill_null(False)
    if not odd.any():
        return []
    rows = rows_where(odd)
    sentence = (
        f"{name!r} has the text {series[int(rows[0]) - 1]!r} in {row_words(rows)}, which is taken "
        "for a label."
    )
    held = column_text(name)
    texts = sorted(set(series.filter(odd).to_list()))
    keep = f"(~{held}.is_in({texts!r})).fill_null(True)"
    left_out = "rows" if name == table.names.get("episode_id") else table.dropped
    words = f"Leave these {left_out} out, if the value is missing, and missing by chance."
    step = f"filter({keep})" if left_out == "rows" else table.in_episode(keep)
    return [Fault(TEXTS, WARNING, name, sentence, rows, Mend(words, (step,)))]


def _empty(series: pl.Series) -> pl.Series:
    """Vectors that are missing, or of which a number is."""
    if not isinstance(series.dtype, pl.List | pl.Array):
        return series.is_null()
    lists = series.cast(pl.List(series.dtype.inner))
    inside = lists.list.eval(pl.element().is_null()).list.any().fill_null(False)
    return lists.is_null() | inside


def _present(table: TakenTable, name: str) -> str:
    """The condition under which a row has a value."""
    held = column_text(name)
    if is_blank(table.frame[name]).any():
        return f"({held}.str.strip_chars() != '').fill_null(False)"
    return f"{held}.is_not_null()"


def _fault(table: TakenTable, key: str, name: str, missing: pl.Series) -> Fault:
    rows = rows_where(missing)
    held = column_text(name)
    sentence = f"{name!r} has no value in {row_words(rows)}."
    mend: Mend | None
    if len(rows) == table.frame.height:
        mend = None
        if key in ("propensity", *_FLAGS, "step"):
            mend = Mend("Drop the column, which is empty.", (f"drop({name!r})",))
        return Fault(KIND, ERROR, name, f"{name!r} has no value in any row.", rows, mend)
    if key in _FLAGS:
        mend = Mend(
            "Take what is missing for false, if that is what it means.",
            (f"with_columns({held}.fill_null({_false_of(table.frame[name])}))",),
        )
    elif key == "episode_id":
        words = "Leave these rows out, since nobody knows where they belong."
        mend = Mend(words, (f"filter({_present(table, name)})",))
    else:
        condition = _present(table, name)
        if isinstance(table.frame[name].dtype, pl.List | pl.Array):
            entries = f"{held}.list.eval(pl.element().is_not_null()).list.all()"
            if isinstance(table.frame[name].dtype, pl.Array):
                entries = entries.replace(".list.eval", ".arr.to_list().list.eval")
            condition = f"{entries}.fill_null(False)"
        mend = Mend(
            f"Leave these {table.dropped} out, if values are missing by chance.",
            (table.in_episode(condition),),
        )
    return Fault(KIND, ERROR, name, sentence, rows, mend)


def _false_of(series: pl.Series) -> str:
    if series.dtype == pl.Boolean:
        return "False"
    return "0" if series.dtype.is_numeric() else "'false'"
