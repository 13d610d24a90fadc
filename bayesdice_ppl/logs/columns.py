"""One column at a time: labels, numbers and flags.

Every message names the row, counted from 1 in the order of the table, without the header.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from jaxtyping import Bool, Float

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.labels import as_labels

REWARD_SIZE = (1e-100, 1e100)
"""Between these the square of the largest reward fits in double precision."""

FLAGS = {"true": True, "false": False, "1": True, "0": False}
"""What texts mean as flags, whatever their case."""


def first_row(mask: pl.Series | Bool[np.ndarray, " n"]) -> int:
    """Position of the first True, counted from 0."""
    return int(np.flatnonzero(np.asarray(mask))[0])


def read_labels(table: pl.DataFrame, column: str, *, nulls: bool = False) -> pl.Series:
    """Labels, integers or strings, one for each row unless nulls are allowed.

    Raises
    ------
    LogsError
        Another type, or a value is missing.
    """
    series = as_labels(table[column], column, LogsError)
    if not nulls and series.null_count():
        row = first_row(series.is_null())
        raise LogsError(f"row {row + 1}, column {column!r}: the value is missing. Fill it in.")
    blank = is_blank(series)
    if blank.any():
        raise LogsError(
            f"row {first_row(blank) + 1}, column {column!r}: expected a label, found a blank text. "
            "Write the label; a next state that is not known is null."
        )
    return series


def is_blank(series: pl.Series) -> pl.Series:
    """Whether each entry is a text of nothing but spaces."""
    if series.dtype != pl.String:
        return pl.repeat(False, series.len(), eager=True)
    return (series.str.strip_chars() == "").fill_null(False)


def read_numbers(
    series: pl.Series, column: str, absent: Bool[np.ndarray, " n"] | None = None
) -> Float[np.ndarray, " n"]:
    """Finite numbers, as float64.

    Parameters
    ----------
    series
        The column.
    column
        Its name, for messages.
    absent
        Rows that may hold nothing, and are then NaN.

    Raises
    ------
    LogsError
        Text, another type, or a number that is missing or not finite.
    """
    if series.dtype in (pl.String, pl.Null) and series.null_count() == series.len():
        # A CSV's column without a single entry is read as text.
        series = series.cast(pl.Float64)
    if series.dtype == pl.String:
        parsed = series.cast(pl.Float64, strict=False)
        broken = parsed.is_null() & series.is_not_null()
        # Text that reads as a number is still text. Name a row that does not, if there is one.
        odd = broken | ~parsed.is_finite().fill_null(True)
        row = first_row(odd if odd.any() else series.is_not_null())
        raise LogsError(
            f"row {row + 1}, column {column!r}: expected a number, found the text {series[row]!r}. "
            "Write every entry as a number, such as 0.5."
        )
    if not (series.dtype.is_numeric() or series.dtype == pl.Boolean):
        raise LogsError(
            f"column {column!r}: expected numbers, found {series.dtype}. Convert the column."
        )
    numbers = series.cast(pl.Float64)
    broken = numbers.is_null() | ~numbers.is_finite().fill_null(False)
    if absent is not None:
        broken &= ~pl.Series(absent)
    if broken.any():
        row = first_row(broken)
        found = "nothing" if numbers[row] is None else numbers[row]
        raise LogsError(
            f"row {row + 1}, column {column!r}: expected a finite number, found {found}."
        )
    return numbers.to_numpy()


def read_flags(table: pl.DataFrame, column: str) -> Bool[np.ndarray, " n"]:
    """True or false, in any usual spelling; False where there is no such column.

    Raises
    ------
    LogsError
        Anything else, a missing value included.
    """
    if column not in table.columns:
        return np.zeros(table.height, dtype=bool)
    series = table[column]
    flags = flags_of(series)
    if flags is None:
        raise LogsError(
            f"column {column!r}: expected true or false, found {series.dtype}. Convert the column."
        )
    if flags.null_count():
        row = first_row(flags.is_null())
        raise LogsError(
            f"row {row + 1}, column {column!r}: expected true or false, found {series[row]!r}. "
            "Write true or false, or 1 or 0."
        )
    return flags.to_numpy().astype(bool)


def flags_of(series: pl.Series) -> pl.Series | None:
    """True or false in any usual spelling, null where it is neither; None for another type."""
    if series.dtype == pl.Boolean:
        return series
    if series.dtype.is_numeric():
        numbers = series.cast(pl.Float64)
        return pl.select(
            pl.when((numbers == 0.0) | (numbers == 1.0)).then(numbers == 1.0)
        ).to_series()
    if series.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        texts = series.cast(pl.String).str.strip_chars().str.to_lowercase()
        return texts.replace_strict(FLAGS, default=None, return_dtype=pl.Boolean)
    return None


def read_rewards(table: pl.DataFrame, column: str = "reward") -> Float[np.ndarray, " n"]:
    """A column of rewards.

    Raises
    ------
    LogsError
        No finite numbers, or numbers whose squares double precision cannot hold.
    """
    reward = read_numbers(table[column], column)
    row = int(np.argmax(np.abs(reward)))
    if reward[row] != 0.0 and not REWARD_SIZE[0] < abs(reward[row]) < REWARD_SIZE[1]:
        raise LogsError(
            f"row {row + 1}, column {column!r}: expected rewards whose squares fit in double "
            f"precision, found {reward[row]:g} as the largest. Rescale the rewards to the order "
            "of 1."
        )
    return reward


def read_propensities(table: pl.DataFrame, *, density: bool) -> Float[np.ndarray, " n"] | None:
    """The column ``propensity``, or None where there is none.

    Parameters
    ----------
    table
        The table.
    density
        Whether actions are vectors, so that a propensity is a density and may exceed 1.

    Raises
    ------
    LogsError
        No finite numbers, or numbers out of range.
    """
    if "propensity" not in table.columns:
        return None
    values = read_numbers(table["propensity"], "propensity")
    broken = (values <= 0.0) | ((values > 1.0) & (not density))
    if broken.any():
        row = first_row(broken)
        expected = "density above 0" if density else "probability in (0, 1]"
        raise LogsError(
            f"row {row + 1}, column 'propensity': expected a {expected}, found {values[row]:g}. "
            "Correct it, or leave the whole column out."
        )
    return values
