"""Numbers as people write them: 12%, $1,234.50, 1 234, (5.00), 1.234,5.

A column is read in one way throughout. What a comma means is told by the whole column, and is said
where the column leaves it open.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from bayesdice_ppl.checking.fault import column_text

_SIGNS = "$€£¥₹"
_MARKED = r"\d[\s'’_]\d"  # noqa: RUF001
"""Another mark within a number."""
_SPACED = r"^[+-]?[1-9]\d{0,2}([\s'’_]\d{3})+([.,]\d+)?$"  # noqa: RUF001
"""The same between thousands."""
_POINT = r"^[+-]?((\d+|[1-9]\d{0,2}(,\d{3})+)(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"
_COMMA = r"^[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)(,\d+)?([eE][+-]?\d+)?$"
_COMMA_ALONE = r"^[+-]?\d+(,\d+)?([eE][+-]?\d+)?$"
"""The same without a mark between thousands."""
_GROUPS = r"^[+-]?[1-9]\d{0,2}(\.\d{3})+$"
"""Thousands between points, or few decimals: 1.234."""
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
        bare, code = _replaced(bare, code, rf"^([+-]?)\s*[{signs[0]}]\s*", "$1", every=False)
        bare, code = _replaced(bare, code, rf"\s*[{signs[0]}]$", "", every=False)
        words.append(f"{signs[0]} is the unit.")
        pointed = bare.filter(bare.str.contains(".", literal=True).fill_null(False))
        if len(pointed) and pointed.str.contains(_GROUPS).all():
            words.append("1.234 is read with decimals. (If the point stands between thousands,")
            words.append("take it out first.)")
    percent = odd.str.contains(r"%$").any()
    if percent:
        bare, code = _replaced(bare, code, r"\s*%$", "", every=False)
        words.append("12% is 0.12.")
        unmarked = int((~series.str.contains("%", literal=True)).sum())
        if unmarked:
            words.append(f"Numbers without a % stay as they are: {unmarked:,} of {len(series):,}.")
            words.append("Look whether they mean the same.")
    spaced = bare.filter(bare.str.contains(_MARKED).fill_null(False))
    if len(spaced) and spaced.str.contains(_SPACED).all():
        bare, code = _replaced(bare, code, r"[\s'’_]", "")  # noqa: RUF001
        words.append("A space or mark within a number stands between thousands.")
    if bare.str.contains(",", literal=True).any():
        # One way for the whole column; what does not fit is null, and is told with its row.
        point, comma = (bare.str.contains(each).fill_null(False) for each in (_POINT, _COMMA))
        style = _COMMA
        # Points stand between thousands where a cell has both marks, or two points.
        pointed = bare.str.contains(".", literal=True).fill_null(False)
        both = pointed & bare.str.contains(r",|\..*\.").fill_null(False)
        if not (both & comma).any():
            style, comma = _COMMA_ALONE, bare.str.contains(_COMMA_ALONE).fill_null(False)
        decimal = comma.sum() > point.sum()
        fits, pattern = (comma, style) if decimal else (point, _POINT)
        condition, texts = f"{code}.str.contains({pattern!r})", bare
        for mark, by in ((".", ""), (",", ".")) if decimal else ((",", ""),):
            texts, code = _replaced(texts, code, f"[{mark}]", by)
        bare = pl.select(pl.when(fits).then(texts)).to_series()
        code = f"pl.when({condition}).then({code})"
        if decimal:
            words.append("The comma is a decimal comma.")
            if style == _COMMA:
                words.append("The point stands between thousands: 1.234 is 1234.")
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
