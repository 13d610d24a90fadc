"""Columns of flags, as they are once they are mended, and as a condition in a mend."""

from __future__ import annotations

import polars as pl

from bayesdice_ppl.checking.fault import column_text
from bayesdice_ppl.logs.columns import FLAGS, flags_of

MEANT = {
    **FLAGS,
    **dict.fromkeys(("1.0", "yes", "y", "t", "on"), True),
    **dict.fromkeys(("0.0", "no", "n", "f", "off"), False),
}
"""What the mend of odd flags takes texts for, in small letters. Any other text stays unknown."""


def meant_flags(series: pl.Series) -> pl.Series | None:
    """A column of flags as the mend of this kind reads it, null where a value means nothing.

    None if it holds no flags.
    """
    flags = flags_of(series)
    if flags is None or series.dtype.is_numeric() or series.dtype == pl.Boolean:
        return flags
    texts = series.cast(pl.String).str.strip_chars().str.to_lowercase()
    return texts.replace_strict(MEANT, default=None, return_dtype=pl.Boolean)


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
