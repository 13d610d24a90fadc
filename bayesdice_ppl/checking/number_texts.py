"""Numbers as people write them: 12%, $1,234.50, 1 234, (5.00), 1.234,5.

A column is read in one way throughout. What a comma means is told by the whole column, and is said
where the column leaves it open.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from bayesdice_ppl.checking.fault import column_text

_SIGNS = "$€£¥₹"
_SPACES = r"\s'’_"  # noqa: RUF001
"""Other marks between thousands, within brackets of a pattern."""
_POINT = r"^[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d*)?([eE][+-]?\d+)?$|^[+-]?\.\d+([eE][+-]?\d+)?$"
_COMMA = r"^[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?([eE][+-]?\d+)?$"
_OPEN = r"^[+-]?[1-9]\d{0,2},\d{3}$"
"""Either of both: 1,234."""


class WrittenNumbers(NamedTuple):
    """How a column of text is read as numbers.

    Attributes
    ----------
    numbers
        The column as numbers, null where a text is none.
    code
        The expression that reads it.
    words
        What it takes for granted, in short parts.
    """

    numbers: pl.Series
    code: str
    words: tuple[str, ...]


def read_written(series: pl.Series) -> WrittenNumbers:
    """Read a column of text as numbers, in the way that fits the most of its entries.

    Parameters
    ----------
    series
        Texts, and nulls.
    """
    name = series.name
    plain = series.str.strip_chars().cast(pl.Float64, strict=False)
    held = f"{column_text(name)}.str.strip_chars()"
    as_it_is = WrittenNumbers(plain, f"{held}.cast(pl.Float64, strict=False)", ())
    odd = series.filter(plain.is_null() & series.is_not_null()).str.strip_chars()
    if not len(odd):
        return as_it_is
    words: list[str] = []
    bare, code = series.str.strip_chars(), held
    if odd.str.contains(r"^\(.*\)$").any():
        bare, code = _replaced(bare, code, r"^\((.*)\)$", "-$1", every=False)
        words.append("Brackets are a minus.")
    signs = [sign for sign in _SIGNS if odd.str.contains(sign, literal=True).any()]
    if len(signs) > 1:
        return as_it_is  # amounts of several currencies are no numbers of one unit
    if signs:
        bare, code = _replaced(bare, code, f"[{signs[0]}]", "")
        words.append(f"{signs[0]} is the unit.")
    percent = odd.str.contains(r"%$").any()
    if percent:
        bare, code = _replaced(bare, code, "%$", "", every=False)
        words.append("12% is 0.12.")
    if odd.str.contains(f"[0-9][{_SPACES}][0-9]").any() or (signs or percent):
        bare, code = _replaced(bare, code, f"[{_SPACES}]", "")
    point, comma = (
        bare.str.contains(_POINT).fill_null(False),
        bare.str.contains(_COMMA).fill_null(False),
    )
    if bare.str.contains(",", literal=True).any():
        if comma.sum() > point.sum():
            bare, code = _replaced(bare, code, "[.]", "")
            bare, code = _replaced(bare, code, ",", ".")
            words.append("The comma is a decimal comma.")
        else:
            # 1,23 is no number here. Only commas before three digits are taken out.
            bare, code = _replaced(bare, code, r",(\d{3})\b", "$1")
            with_comma = series.str.strip_chars().filter(
                series.str.contains(",", literal=True).fill_null(False)
            )
            words.append("The comma stands between thousands: 1,234 is 1234.")
            if with_comma.str.contains(_OPEN).all():
                words.append("(If it is a decimal comma, replace it by a point instead.)")
    code = f"{code}.cast(pl.Float64, strict=False)"
    numbers = bare.cast(pl.Float64, strict=False)
    if percent:
        marked = series.str.strip_chars().str.contains("%")
        both = pl.select(pl.when(marked).then(numbers / 100.0).otherwise(numbers)).to_series()
        numbers = both.alias(name)
        condition = f"{held}.str.contains('%')"
        code = f"pl.when({condition}).then({code} / 100).otherwise({code}).alias({name!r})"
    if numbers.null_count() >= plain.null_count():
        return as_it_is
    return WrittenNumbers(numbers.alias(name), code, tuple(words))


def _replaced(
    texts: pl.Series, code: str, pattern: str, by: str, *, every: bool = True
) -> tuple[pl.Series, str]:
    """Texts with a pattern replaced, and the expression that does it."""
    method = "replace_all" if every else "replace"
    return (
        getattr(texts.str, method)(pattern, by),
        f"{code}.str.{method}({pattern!r}, {by!r})",
    )
