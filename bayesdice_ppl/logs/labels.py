"""The user's labels of states, actions and episodes, and the codes that stand for them.

Labels are integers or strings, and are kept as they were given. Where missing values turned a
column of integers into floats, it is read as the integers that it held. What has one text is a
label too, by that text: dates, decimals, UUIDs, members of an Enum, periods and intervals of
pandas. Anything else is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np
import polars as pl
from jaxtyping import Int, Shaped

from bayesdice_ppl.checks import MOST_LISTED
from bayesdice_ppl.errors import BayesDiceError

_OF_PANDAS = ("Period", "Interval")
MISSING = -1
"""Code of what the table does not hold, such as a next state."""


def as_labels(series: pl.Series, column: str, error: type[BayesDiceError]) -> pl.Series:
    """Check that a column holds labels: all integers (Int64) or all strings.

    Parameters
    ----------
    series
        The column; nulls are passed through.
    column
        Its name, for messages.
    error
        The exception class to raise.

    Raises
    ------
    BayesDiceError
        Another type, or floats that are not whole numbers (the row is named, from 1).
    """
    kind = series.dtype
    if kind.is_integer() or kind == pl.Boolean:
        labels = series.cast(pl.Int64, strict=False)
        _refuse(series, series.is_not_null() & labels.is_null(), column, "below 2^63", error)
        return labels
    if kind.is_float():
        whole = series.is_finite() & (series == series.round(0))
        _refuse(series, series.is_not_null() & ~whole, column, "", error)
        # Past 2^53 neighboring integers share one float, so that two labels would become one.
        _refuse(series, series.abs() > 2.0**53, column, "below 2^53 (it came as a float)", error)
        return series.cast(pl.Int64)
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return series.cast(pl.String)
    if kind == pl.Null:
        return series.cast(pl.Int64)
    if kind == pl.Date:
        return series.dt.to_string("%Y-%m-%d")
    if isinstance(kind, pl.Decimal):
        if kind.scale == 0:
            labels = series.cast(pl.Int64, strict=False)
            _refuse(series, series.is_not_null() & labels.is_null(), column, "below 2^63", error)
            return labels
        # 1.50 and 1.5 are one number, and so one label.
        return series.cast(pl.String).str.strip_chars_end("0").str.strip_chars_end(".")
    raise error(
        f"column {column!r}: expected integer or string labels, found {kind}. Convert the column "
        "to one of them; a list or a vector is no label, and a time is none either."
    )


def plain_label(value: Any) -> Any:
    """What has one text as that text, a member of an Enum as its value; anything else as it is."""
    if isinstance(value, Enum):
        inside = value.value
        return inside if isinstance(inside, int | str) and inside is not True else value.name
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Decimal) and value.is_finite():
        # Without decimals it is an integer; with some, 1.50 and 1.5 are one number.
        whole = int(value.as_tuple().exponent) >= 0
        return int(value) if whole else f"{value:f}".rstrip("0").rstrip(".")
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if type(value).__name__ in _OF_PANDAS and type(value).__module__.startswith("pandas"):
        return str(value)
    return value


def _refuse(
    series: pl.Series, broken: pl.Series, column: str, range_: str, error: type[BayesDiceError]
) -> None:
    if broken.any():
        row = int(broken.arg_true()[0])
        raise error(
            f"row {row + 1}, column {column!r}: expected an integer {range_ and range_ + ' '}or a "
            f"string label, found {series[row]}. Store labels as integers or as text."
        )


def label_kind(labels: Shaped[np.ndarray, " k"] | pl.Series) -> str:
    """``"integers"`` or ``"strings"``, for messages about tables that do not match."""
    if isinstance(labels, pl.Series):
        return "integers" if labels.dtype.is_integer() else "strings"
    return "integers" if np.issubdtype(labels.dtype, np.integer) else "strings"


def shown(label: Any) -> str:
    """A label as a person writes it: 7 or 'buy', whatever array it came from."""
    return repr(label.item() if isinstance(label, np.generic) else label)


def shown_all(labels: Iterable[Any], most: int = MOST_LISTED) -> str:
    """Labels between commas; of more than ``most`` the rest is counted."""
    every = [shown(label) for label in labels]
    rest = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(every[:most]) + rest


def label_array(values: Sequence[Any] | np.ndarray, what: str, error: type[BayesDiceError]) -> Any:
    """Labels as a one-dimensional array, (k,), of int64 or of Python strings (object).

    Raises
    ------
    BayesDiceError
        Mixed or unusable types, or a label given twice.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise error(f"{what}: expected a list of integers or of strings, found {values!r}.")
    items = [plain_label(value) for value in values]
    if any(isinstance(value, Decimal) for value in values):
        # As in a column, where all have as many decimals as the one with the most.
        kinds = {type(item) for item in items}
        items = [str(item) for item in items] if kinds == {int, str} else items
    if all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in items):
        big = [v for v in items if abs(int(v)) > np.iinfo(np.int64).max]
        if big:
            raise error(
                f"{what}: expected integers below 2^63, found {big[0]}. Use strings as labels."
            )
        array: np.ndarray = np.array(items, dtype=np.int64)
    elif all(isinstance(v, str) for v in items):
        array = np.array([str(v) for v in items], dtype=object)
    else:
        raise error(
            f"{what}: expected all integers or all strings, found {items[:5]!r}. "
            "Use one kind of label."
        )
    if len(set(items)) != len(items):
        twice = next(v for v in items if items.count(v) > 1)
        raise error(f"{what}: {twice!r} is given twice. Give every label once.")
    return array


def sorted_labels(*columns: pl.Series) -> np.ndarray:
    """All labels in the columns, each once, sorted; shape (k,)."""
    values = pl.concat([c.drop_nulls().cast(columns[0].dtype) for c in columns]).unique().sort()
    if values.dtype.is_integer():
        return values.to_numpy().astype(np.int64)
    return np.array(values.to_list(), dtype=object)


def encode(series: pl.Series, labels: Shaped[np.ndarray, " k"]) -> Int[np.ndarray, " n"]:
    """Positions of the values among the labels; -1 for a null and for a value that is not there."""
    if series.dtype.is_integer() != (label_kind(labels) == "integers"):
        return np.full(series.len(), MISSING, dtype=np.int64)
    if series.dtype.is_integer() and len(labels):
        return _encode_integers(series, labels)
    keys = pl.DataFrame(
        {"label": pl.Series(labels.tolist(), dtype=series.dtype), "code": np.arange(len(labels))}
    )
    joined = (
        pl.DataFrame({"label": series})
        .join(keys, on="label", how="left", maintain_order="left")
        .get_column("code")
    )
    return joined.fill_null(MISSING).to_numpy().astype(np.int64)


def _encode_integers(series: pl.Series, labels: Int[np.ndarray, " k"]) -> Int[np.ndarray, " n"]:
    """`encode` without a join: by look-up where the labels lie close together, else by search."""
    values = series.fill_null(int(labels[0])).to_numpy()
    lowest, highest = int(labels.min()), int(labels.max())
    if highest - lowest < 4 * (len(values) + len(labels)):
        inside = (values >= lowest) & (values <= highest)
        codes = np.full(highest - lowest + 1, MISSING, dtype=np.int64)
        codes[labels - lowest] = np.arange(len(labels))
        found = codes[np.where(inside, values, lowest) - lowest]
    else:
        rank = np.argsort(labels)
        place = np.searchsorted(labels, values, sorter=rank)
        found = rank[np.minimum(place, len(labels) - 1)]
        inside = labels[found] == values
    return np.where(inside & series.is_not_null().to_numpy(), found, MISSING)


def label_codes(series: pl.Series) -> tuple[Int[np.ndarray, " n"], Shaped[np.ndarray, " k"]]:
    """Codes of labels in the order of first appearance, -1 for a null; and the k labels."""
    labels = series.drop_nulls().unique(maintain_order=True)
    array = (
        labels.to_numpy().astype(np.int64)
        if labels.dtype.is_integer()
        else np.array(labels.to_list(), dtype=object)
    )
    return encode(series, array), array


def decode(labels: Shaped[np.ndarray, " k"], codes: Int[np.ndarray, " n"]) -> pl.Series:
    """The labels that codes stand for, null where the code is -1; the inverse of `encode`."""
    kind = pl.String if labels.dtype == object else pl.Int64
    values = pl.Series(labels.tolist(), dtype=kind).gather(np.maximum(codes, 0))
    if (codes < 0).any():
        return pl.select(pl.when(pl.Series(codes >= 0)).then(values)).to_series()
    return values
