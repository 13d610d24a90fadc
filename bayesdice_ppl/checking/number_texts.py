"""Numbers as people write them: 12%, $1,234.50, 1 234, (5.00), 1.234,5.

A column is read in one way throughout. What a comma means is told by the whole column, and is said
where the column leaves it open.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from bayesdice_ppl.checking.fault import column_text

_SIGNS = "$€£¥₹"
_SPACED = r"[\s'’_](\d{3})\b"  # noqa: RUF001
"""Three digits behind another mark between thousands."""
_POINT = r"^[+-]?(\d+|[1-9]\d{0,2}(,\d{3})+)?(\.\d*)?([eE][+-]?\d+)?$"
_COMMA = r"^[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)(,\d+)?([eE][+-]?\d+)?$"
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
        bare, code = _replaced(bare, code, rf"\s*[{signs[0]}]\s*", "")
        words.append(f"{signs[0]} is the unit.")
    percent = odd.str.contains(r"%$").any()
    if percent:
        bare, code = _replaced(bare, code, r"\s*%$", "", every=False)
        words.append("12% is 0.12.")
    if bare.str.contains(_SPACED).any():
        bare, code = _replaced(bare, code, _SPACED, "$1")
    if bare.str.contains(",", literal=True).any():
        # One way for the whole column; what does not fit is null, and is told with its row.
        point, comma = (bare.str.contains(each).fill_null(False) for each in (_POINT, _COMMA))
        decimal = comma.sum() > point.sum()
        fits, pattern = (comma, _COMMA) if decimal else (point, _POINT)
        condition, texts = f"{code}.str.contains({pattern!r})", bare
        for mark, by in ((".", ""), (",", ".")) if decimal else ((",", ""),):
            texts, code = _replaced(texts, code, f"[{mark}]", by)
        bare = pl.select(pl.when(fits).then(texts)).to_series()
        code = f"pl.when({condition}).then({code})"
        if decimal:
            words.append("The comma is a decimal comma.")
        else:
            words.append("The comma stands between thousands: 1,234 is 1234.")
            held_comma = series.str.contains(",", literal=True).fill_null(False)
            if series.filter(held_comma).str.strip_chars().str.contains(_OPEN).all():
                words.append("(If it is a decimal comma, replace it by a point instead.)")
    code = f"{code}.cast(pl.Float64, strict=False)"
    code = code if percent or not code.startswith("pl.when") else f"{code}.alias({name!r})"
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
