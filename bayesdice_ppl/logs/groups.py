"""Columns that say which rows belong together: users, sites, days.

A log needs no such column. But rows of one user may share what no state holds, and a belief has to
know. Columns without another meaning are kept as they are. A fit looks at those whose name says
that rows belong together and at those that divide the rows into many groups, and takes any that it
is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import polars as pl
from jaxtyping import Int

from bayesdice_ppl.errors import SettingsError

_UNITS = (
    "id|uid|uuid|user|customer|client|patient|subject|person|visitor|household|account|session|"
    "site|clinic|hospital|ward|center|centre|shop|store|school|teacher|cookie|cust|"
    "robot|sensor|driver|rider|doctor|physician|nurse|therapist|student|player|worker|operator|"
    "seller|merchant|advertiser|publisher|family|village|day|date|week"
)
"""What is sampled from many, whatever their number in the log."""
_FEWEST = 3
"""Groups below which nothing tells how groups differ."""
_MANY = 20
"""Groups from which any column is looked at: traits of the rows seldom have as many values."""


_NAMES = re.compile(rf"(^|[_\W])({_UNITS})(_?id)?s?($|[_\W])", re.IGNORECASE)


def read_groups(
    frame: pl.DataFrame, columns: Iterable[str], order: Int[np.ndarray, " n"]
) -> dict[str, pl.Series]:
    """Columns that may group rows, in the order of the log.

    Parameters
    ----------
    frame
        The user's table.
    columns
        Its columns without another meaning.
    order
        The table's rows in the order of the log, shape (n,).
    """
    sorted_already = bool(np.all(order[1:] > order[:-1]))
    found = {}
    for name in columns:
        series = frame[name]
        kind = series.dtype
        if series.null_count() == len(series):
            continue
        if can_group(kind):
            found[name] = series if sorted_already else series.gather(order)
    return found


def codes_of(series: pl.Series, name: str) -> Int[np.ndarray, " n"]:
    """Codes of a column's values, from 0; a row that holds none is a group of its own.

    Parameters
    ----------
    series
        The column: integers, whole numbers, text, dates, or times, which count as days.
    name
        Its name, for messages.

    Raises
    ------
    SettingsError
        Numbers that are not whole.
    """
    if series.dtype == pl.Datetime:
        series = series.dt.date()
    if series.dtype.is_float():
        series = series.fill_nan(None)
        if not _whole(series):
            raise SettingsError(
                f"cluster={name!r}: expected a column of integers, text or dates, found numbers "
                "that are not whole."
            )
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    code = series.rank("dense").cast(pl.Int64).to_numpy(writable=True) - 1.0
    code = np.where(np.isnan(code), -1.0, code).astype(np.int64)
    missing = code < 0
    code[missing] = code.max(initial=-1) + 1 + np.arange(int(missing.sum()))
    return code


def looked_at(series: pl.Series, name: str) -> bool:
    """Whether a fit looks at a column by itself: ``user_id``, ``userId``, or one of many groups."""
    kind = series.dtype
    if kind == pl.Boolean or (kind.is_float() and not _whole(series)):
        return False
    return looked_at_of(kind, name, _size(series), len(series))


def looked_at_of(kind: pl.DataType, name: str, n_groups: int, n_rows: int) -> bool:
    """The same from a column's type, its number of groups, and that of the rows."""
    if kind.is_temporal():
        return _names_days(kind) and n_groups > 1
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    if _NAMES.search(words) is not None:
        return n_groups > 1
    # With hardly two rows in each, it numbers the rows.
    return _MANY <= n_groups <= n_rows // 2


def of_few_groups(series: pl.Series, name: str) -> bool:
    """Whether a column has so few groups, without a name that says so, that they are only told of.

    Devices may be a sample of many; days of the week are all that there are.
    """
    kind = series.dtype
    if looked_at(series, name) or (kind.is_float() and not _whole(series)):
        return False
    return of_few_groups_of(kind, _size(series))


def of_few_groups_of(kind: pl.DataType, n_groups: int) -> bool:
    """The same from a column's type and its number of groups, where no fit looks at it."""
    if kind.is_temporal() and not _names_days(kind):
        return False
    return _FEWEST <= n_groups < _MANY


def _names_days(kind: pl.DataType) -> bool:
    """Whether values are dates, or times with their date: times of day and spans are no groups."""
    return kind in (pl.Date, pl.Datetime)


def can_group(kind: pl.DataType) -> bool:
    """Whether values of a type may say which rows belong together."""
    return kind.is_numeric() or kind.is_temporal() or kind in (pl.String, pl.Categorical, pl.Enum)


def _size(series: pl.Series) -> int:
    held = series.dt.date() if series.dtype == pl.Datetime else series
    return held.drop_nulls().n_unique()


def _whole(series: pl.Series) -> bool:
    return bool((series.fill_nan(None).drop_nulls() % 1.0 == 0.0).all())
