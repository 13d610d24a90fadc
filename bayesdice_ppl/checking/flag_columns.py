"""Columns of flags, as they are once they are mended, and as a condition in a mend."""

from __future__ import annotations

import polars as pl

from bayesdice_ppl.checking.fault import column_text
from bayesdice_ppl.logs.columns import flags_of

TRUE = ("true", "1", "1.0", "yes", "y", "t")
"""Texts that the mend of odd flags takes for true."""


def mended_flags(series: pl.Series) -> pl.Series | None:
    """A column of flags as the mend of this kind leaves it; None if it holds no flags.

    So the kinds that are looked for later see the flags that they will meet.
    """
    flags = flags_of(series)
    if flags is None or not (flags.is_null() & series.is_not_null()).any():
        return flags
    if series.dtype.is_numeric():
        return series.cast(pl.Float64) != 0.0
    return series.cast(pl.String).str.strip_chars().str.to_lowercase().is_in(list(TRUE))


def flag_text(series: pl.Series, name: str) -> str:
    """A column of flags as a condition in a mend."""
    held = column_text(name)
    flags = flags_of(series)
    odd = flags is not None and (flags.is_null() & series.is_not_null()).any()
    if series.dtype == pl.Boolean or odd:
        return held  # true and false once the mend of odd flags is made
    if series.dtype.is_numeric():
        return f"({held} == 1)"
    return f"{held}.cast(pl.String).str.strip_chars().str.to_lowercase().is_in(['true', '1'])"
