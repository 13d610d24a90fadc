"""Rows that repeat the header, as files have that were written one behind the other."""

from __future__ import annotations

import numpy as np
import polars as pl
from jaxtyping import Int

from bayesdice_ppl.checking.fault import ERROR, Fault, Mend, column_text, row_words, rows_where
from bayesdice_ppl.checking.running import run_expression

KIND = "repeated headers"
_FEWEST = 2
"""Cells with the name of their column from which a row is a header, and no chance."""


def find(frame: pl.DataFrame) -> list[Fault]:
    """Find rows whose cells are the names of their columns.

    Their mend also gives back the types that such a row, being text, has taken from the columns.
    """
    rows = header_rows(frame)
    if not len(rows):
        return []
    texts = [name for name in frame.columns if frame[name].dtype == pl.String]
    steps = [f"filter(~({_is_header(texts)}))"]
    kept = frame.filter(~pl.Series(np.isin(np.arange(frame.height) + 1, rows)))
    casts = [
        f"{column_text(name)}.str.strip_chars().cast(pl.{kind})"
        for name in texts
        if (kind := _kind_of(kept[name]))
    ]
    if casts:
        steps.append(f"with_columns({', '.join(casts)})")
    sentence = (
        f"{row_words(rows).capitalize()}: the header again, as in files that were joined. So every "
        "column is text. Rows below are counted without it."
    )
    words = "Leave these rows out, and read the columns of numbers as numbers again."
    return [Fault(KIND, ERROR, "", sentence, rows, Mend(words, tuple(steps)))]


def header_rows(frame: pl.DataFrame) -> Int[np.ndarray, " k"]:
    """Numbers, from 1, of the rows in which every cell that is filled has its column's name."""
    texts = [name for name in frame.columns if frame[name].dtype == pl.String]
    if len(texts) < _FEWEST or len(texts) < frame.width:
        return np.zeros(0, dtype=np.int64)
    return rows_where(frame.select(run_expression(_is_header(texts)).alias("header")).to_series())


def _is_header(texts: list[str]) -> str:
    """Expression of whether a row is a header: those that are told are those that are dropped."""
    same = [f"({column_text(name)} == {name!r})" for name in texts]
    every = ", ".join(f"{each}.fill_null(True)" for each in same)
    filled = ", ".join(f"{each}.fill_null(False).cast(pl.Int64)" for each in same)
    return f"pl.all_horizontal({every}) & (pl.sum_horizontal({filled}) >= {_FEWEST})"


def _kind_of(series: pl.Series) -> str:
    """The type of numbers that a column of text holds throughout; empty if it holds none."""
    texts = series.drop_nulls().str.strip_chars()
    if not len(texts):
        return ""
    if texts.str.contains(r"^[+-]?\d{19,}$").any():
        return ""  # a long id, which a number with decimals would round
    for kind in ("Int64", "Float64"):
        if not texts.cast(getattr(pl, kind), strict=False).null_count():
            whole = kind == "Int64"
            # 01 is a name, and not 1.
            padded = texts.str.contains(r"^[+-]?0[0-9]").any()
            return "" if whole and padded else kind
    return ""
