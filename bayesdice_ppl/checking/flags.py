"""Flags of an episode's end that are neither true nor false."""

from __future__ import annotations

import polars as pl

from bayesdice_ppl.checking.fault import ERROR, Fault, Mend, column_text, row_words, rows_where
from bayesdice_ppl.checking.flag_columns import MEANT, meant_flags
from bayesdice_ppl.checking.table import TakenTable
from bayesdice_ppl.logs.columns import flags_of
from bayesdice_ppl.logs.labels import shown_all

KIND = "flags"


def find(table: TakenTable) -> list[Fault]:
    """Find flags that are neither true nor false."""
    found = []
    for key in ("terminated", "truncated"):
        series = table.series(key)
        if series is None:
            continue
        name = table.names[key]
        flags = flags_of(series)
        if flags is None:
            sentence = f"{name!r} holds {series.dtype}, and should be true or false."
            found.append(Fault(KIND, ERROR, name, sentence))
            continue
        odd = flags.is_null() & series.is_not_null()
        if not odd.any():
            continue
        found.append(_fault(table, name, series, odd))
    return found


def _fault(table: TakenTable, name: str, series: pl.Series, odd: pl.Series) -> Fault:
    """Values that are no flags: words for them are read, and what no word says stays unknown."""
    held, meant = column_text(name), meant_flags(series)
    assert meant is not None
    unknown = series.is_not_null() & meant.is_null()
    rows = rows_where(unknown if unknown.any() else odd)
    what = f"{series[int(rows[0]) - 1]!r}"
    sentence = f"{name!r} holds {what} in {row_words(rows)}, and should be true or false."
    numeric = series.dtype.is_numeric()
    if 2 * int(unknown.sum()) > series.len():
        kinds = series.filter(series.is_not_null()).unique(maintain_order=True)
        sentence += (
            f" It has {shown_all(kinds.to_list(), 5)}. Which of them are true is not known: write "
            "true or false."
        )
        return Fault(KIND, ERROR, name, sentence, rows)
    steps = [f"with_columns({held} == 1)"]
    if numeric and unknown.any():
        steps = [f"with_columns(pl.when({held}.is_in([0, 1])).then({held} == 1).alias({name!r}))"]
    elif not numeric:
        text = f"{held}.cast(pl.String).str.strip_chars().str.to_lowercase()"
        texts = series.cast(pl.String).str.strip_chars().str.to_lowercase().unique()
        own = {word: true for word, true in MEANT.items() if word in set(texts.to_list())}
        kind = "return_dtype=pl.Boolean"
        steps = [f"with_columns({text}.replace_strict({own!r}, default=None, {kind}))"]
    words = "Take yes, y, t and on for true, and no, n, f and off for false."
    if unknown.any():
        also = "" if numeric else f"{words} "
        words = (
            f"{also}Leave out the {table.dropped} with a value that is neither: nobody knows what "
            "it means. (If it means something, write true or false there instead.)"
        )
        steps.append(table.in_episode(f"{held}.is_not_null()"))
    return Fault(KIND, ERROR, name, sentence, rows, Mend(words, tuple(steps)))
