"""Observations and actions that are vectors: their numbers, as a float64 matrix.

No number may be missing or infinite. Only a next observation may be missing as a whole.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import first_row, read_labels, read_numbers


def read_points(
    table: pl.DataFrame, column: str, vectors: frozenset[str]
) -> Float[np.ndarray, "n p"] | pl.Series:
    """Read observations, states or actions, in the order of the table.

    Parameters
    ----------
    table
        The table.
    column
        Our name of the column.
    vectors
        Names of the columns that hold vectors.

    Returns
    -------
    array or polars.Series
        Vectors as a matrix, shape (n, p); labels as a series.

    Raises
    ------
    LogsError
        As for `read_vectors` and `read_labels`.
    """
    if column in vectors:
        return read_vectors(table[column], column)
    if column == "state" and isinstance(table[column].dtype, pl.List | pl.Array):
        raise LogsError(
            f"column 'state': expected integer or string labels, found {table[column].dtype}. "
            "Vectors are observations: map the column to obs with columns={'obs': ...} "
            "(--columns obs=...)."
        )
    return read_labels(table, column)


def read_vectors(
    series: pl.Series, column: str, *, size: int | None = None, nulls: bool = False
) -> Float[np.ndarray, "n p"]:
    """Read the numbers of a column of vectors.

    Parameters
    ----------
    series
        A struct of numbers, or lists of them.
    column
        Our name of it, for messages.
    size
        How many numbers each vector must have; without it, as many as the first.
    nulls
        Whether rows may hold no vector at all; they are NaN.

    Raises
    ------
    LogsError
        Vectors of different lengths, or a number that is missing, infinite or none.
    """
    if isinstance(series.dtype, pl.Struct):
        return _read_structs(series, size, nulls)
    return _read_lists(series, column, size, nulls)


def _read_structs(series: pl.Series, size: int | None, nulls: bool) -> np.ndarray:
    names = series.struct.fields
    if size is not None and len(names) != size:
        which = f"columns {names[0]} .. {names[-1]}" if len(names) > 1 else f"column {names[0]}"
        raise LogsError(
            f"{which}: expected {_numbers(size)}, as many as an observation has, found "
            f"{len(names)}. Give next observations of the same length."
        )
    fields = [series.struct.field(name) for name in names]
    absent = None
    if nulls:
        missing = np.column_stack([field.is_null().to_numpy() for field in fields])
        absent = missing.all(axis=1)
        partly = missing.any(axis=1) & ~absent
        if partly.any():
            row = first_row(partly)
            raise _incomplete(row, repr(names[first_row(missing[row])]))
    return np.column_stack(
        [read_numbers(field, name, absent) for field, name in zip(fields, names, strict=True)]
    )


def _read_lists(series: pl.Series, column: str, size: int | None, nulls: bool) -> np.ndarray:
    if nulls and series.dtype == pl.Null:
        return np.full((series.len(), size or 0), np.nan)
    inner = series.dtype.inner  # type: ignore[attr-defined]
    if not (inner.is_numeric() or inner in (pl.Boolean, pl.Null)):
        raise LogsError(
            f"column {column!r}: expected lists of numbers, found {series.dtype}. Convert their "
            "entries to numbers."
        )
    lists = series.cast(pl.List(inner))
    lengths = lists.list.len()
    if not nulls and lists.null_count():
        row = first_row(lists.is_null())
        raise LogsError(f"row {row + 1}, column {column!r}: the value is missing. Fill it in.")
    as_many = "as many as an observation has" if size is not None else "as in row 1"
    size = int(lengths[0]) if size is None else size
    if size == 0:
        raise LogsError(f"row 1, column {column!r}: expected at least one number, found none.")
    broken = (lengths != size).fill_null(False)
    if broken.any():
        row = first_row(broken)
        raise LogsError(
            f"row {row + 1}, column {column!r}: expected {_numbers(size)}, {as_many}, found "
            f"{lengths[row]}. Give all vectors the same length."
        )
    held = lists.is_not_null()
    if nulls:
        # A list of nothing but nulls is no vector either.
        held &= (lists.list.drop_nulls().list.len() > 0).fill_null(False)
    rows = np.flatnonzero(held.to_numpy())
    numbers = lists.filter(held).explode().cast(pl.Float64)
    broken = numbers.is_null() | ~numbers.is_finite().fill_null(False)
    if broken.any():
        at = first_row(broken)
        row, entry = int(rows[at // size]), f"{column!r}, entry {at % size} (from 0)"
        if nulls and numbers[at] is None:
            raise _incomplete(row, entry)
        found = "nothing" if numbers[at] is None else numbers[at]
        raise LogsError(f"row {row + 1}, column {entry}: expected a finite number, found {found}.")
    matrix = np.full((series.len(), size), np.nan)
    matrix[rows] = numbers.to_numpy().reshape(-1, size)
    return matrix


def _numbers(size: int) -> str:
    return "1 number" if size == 1 else f"{size} numbers"


def _incomplete(row: int, where: str) -> LogsError:
    return LogsError(
        f"row {row + 1}, column {where}: expected a finite number, found nothing. Leave a next "
        "observation empty as a whole where it is unknown, or give all of its numbers."
    )
