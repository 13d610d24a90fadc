"""Flags of an episode's end that are neither true nor false."""

from __future__ import annotations

from bayesdice_ppl.checking.fault import ERROR, Fault, Mend, column_text, row_words, rows_where
from bayesdice_ppl.checking.flag_columns import TRUE
from bayesdice_ppl.checking.table import TakenTable
from bayesdice_ppl.logs.columns import flags_of

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
        rows = rows_where(odd)
        sentence = (
            f"{name!r} holds {series[int(rows[0]) - 1]!r} in {row_words(rows)}, and should be true "
            "or false."
        )
        held = column_text(name)
        if series.dtype.is_numeric():
            step = f"with_columns({held} != 0)"
            mend = Mend("Take every number but 0 for true.", (step,))
        else:
            text = f"{held}.cast(pl.String).str.strip_chars().str.to_lowercase()"
            step = f"with_columns({text}.is_in({list(TRUE)!r}))"
            mend = Mend("Take yes, y and t for true as well, and all else for false.", (step,))
        found.append(Fault(KIND, ERROR, name, sentence, rows, mend))
    return found
