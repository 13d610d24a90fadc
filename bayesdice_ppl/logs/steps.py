"""The column ``step``: numbers of steps, or times that put the rows of each episode in order.

Numbers are checked: they start together and rise, and a gap is a missing step. Times only order the
rows. How far they are apart says nothing.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from jaxtyping import Int, Shaped

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import first_row, read_labels, read_numbers

EPOCH = 100_000_000
"""Integers from here on are times: seconds since 1970, or a finer unit."""
_DATE = r"^\s*(\d{1,2})[/-](\d{1,2})[/-]\d{4}\b"
"""Two numbers before a year. With points between them the day is first."""
_EXPECTED = (
    "integers, or times such as 2024-01-31 12:00:00. Number the steps of each episode 0, 1, 2, ..."
)


def read_times(table: pl.DataFrame) -> Shaped[np.ndarray, " n"] | None:
    """The column ``step`` as numbers that order rows, if it holds times; None if it does not.

    Dates, times of a day, durations, numbers with decimals and whole numbers as large as seconds
    since 1970 are times; so is text that reads as such.

    Raises
    ------
    LogsError
        Text that is no time, a missing value, or times of day, which start again at midnight.
    """
    if "step" not in table.columns:
        return None
    series = table["step"]
    if series.dtype == pl.Time:
        raise LogsError(
            "column 'step': expected times with their date, found times of day, which start again "
            "at midnight. Add the date, or number the steps of each episode 0, 1, 2, ..."
        )
    if series.dtype == pl.String:
        series = _parsed(series)
    if series.dtype.is_temporal():
        if series.null_count():
            raise LogsError(
                f"row {first_row(series.is_null()) + 1}, column 'step': the value is missing. "
                "Fill it in."
            )
        return series.to_physical().to_numpy()
    if series.dtype.is_float() or series.dtype.is_decimal():
        if series.null_count() == 0 and (series == series.round(0)).all():
            return None if float(series.min()) < EPOCH else read_numbers(series, "step")  # type: ignore[arg-type]
        return read_numbers(series, "step")
    if series.dtype.is_integer() and series.null_count() == 0:
        # A small kind of integer cannot be compared with a large number.
        return series.to_numpy() if (series.cast(pl.Float64) >= EPOCH).all() else None
    return None


def as_times(series: pl.Series) -> pl.Series | None:
    """Text as times, such as 2024-01-31T12:00:00Z; null where it is none, and None if all is.

    Dates such as 31/01/2024 are times with the day first, if some row tells that it is the day.
    """
    if _unknown_dates(series):
        return None
    try:
        return series.str.strip_chars().str.to_datetime(strict=False, time_unit="us")
    except pl.exceptions.PolarsError:
        return None


def _unknown_dates(series: pl.Series) -> str:
    """What is wrong with dates that do not have the day first for sure; empty if nothing is."""
    found = series.drop_nulls().str.extract_groups(_DATE).struct.unnest()
    numbers = found.select(pl.all().cast(pl.Int64)).drop_nulls()
    if not numbers.height:
        return ""
    first, second = (bool((numbers.to_series(k) > 12).any()) for k in (0, 1))
    if first and not second:
        return ""
    if second:
        both = "in a column with the day first and second, "
        return both if first else "with the month first, "
    return "which may have the day or the month first, "


def _parsed(series: pl.Series) -> pl.Series:
    """Text as times.

    Raises
    ------
    LogsError
        A row holds other text.
    """
    times = as_times(series)
    if times is None:
        times = pl.Series(series.name, [None] * len(series), dtype=pl.Datetime("us"))
    odd = times.is_null() & series.is_not_null()
    if odd.any():
        row = first_row(odd)
        which = _unknown_dates(series)
        raise LogsError(
            f"row {row + 1}, column 'step': found the text {series[row]!r}, {which}expected "
            f"{_EXPECTED}"
        )
    return times


def clock_of(series: pl.Series) -> Shaped[np.ndarray, " n"] | None:
    """Numbers or times that may order rows, shape (n,); None if a column holds neither."""
    if series.null_count():
        return None
    if series.dtype == pl.String:
        try:
            series = _parsed(series)
        except LogsError:
            return None
    if series.dtype.is_temporal() and series.dtype != pl.Time:
        return series.to_physical().to_numpy()
    return series.cast(pl.Float64).to_numpy() if series.dtype.is_numeric() else None


def check_times(
    times: Shaped[np.ndarray, " n"], order: Int[np.ndarray, " n"], same_episode: np.ndarray
) -> None:
    """Refuse two rows of one episode at one time.

    Parameters
    ----------
    times
        Of the rows of the table.
    order
        Its rows grouped by episode, in the order of the times.
    same_episode
        Whether each but the last of these rows is followed by one of its episode.

    Raises
    ------
    LogsError
        With the two rows.
    """
    tied = same_episode & (np.diff(times[order]) == 0)
    if tied.any():
        at = first_row(tied)
        raise LogsError(
            f"row {order[at + 1] + 1}, column 'step': expected a time of its own, found that of "
            f"row {order[at] + 1} in the same episode, so that nothing says which came first. "
            "Number the steps of each episode 0, 1, 2, ..."
        )


def count_steps(
    table: pl.DataFrame, order: Int[np.ndarray, " n"], same_episode: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Step within the episode from 0, and whether each next row is of the very next step.

    Parameters
    ----------
    table
        The table, with or without a column ``step`` of numbers.
    order, same_episode
        As in `check_times`.

    Raises
    ------
    LogsError
        Steps that do not start together and rise, or a gap where the next row must follow.
    """
    starts = np.flatnonzero(np.r_[True, ~same_episode])
    lengths = np.diff(np.r_[starts, len(order)])
    counted = np.arange(len(order)) - np.repeat(starts, lengths)
    if "step" not in table.columns:
        return counted, same_episode
    series = read_labels(table, "step")
    if not series.dtype.is_integer():
        raise LogsError(f"column 'step': found the text {series[0]!r}, expected {_EXPECTED}")
    step = series.to_numpy()[order]
    change = np.diff(step)
    broken = same_episode & (change <= 0)
    if broken.any():
        at = first_row(broken)
        raise LogsError(
            f"row {order[at + 1] + 1}, column 'step': expected a step above {step[at]}, that of "
            f"row {order[at] + 1} in the same episode, found {step[at + 1]}. Sort each episode by "
            "step, keep each step once, and give every episode an episode_id of its own."
        )
    base = step[starts]
    if (base != base[0]).any():
        at = first_row(base != base.min())
        alone = "episode_id" not in table.columns
        why = (
            "There is no column episode_id, so each row is an episode of its own. Map it "
            "(--columns episode_id=...); or, if every row stands alone, ignore=['step'] (--ignore "
            "step)."
            if alone
            else "Log each episode from its first step: first states stand for the initial "
            "distribution."
        )
        raise LogsError(
            f"row {order[starts[at]] + 1}, column 'step': expected every episode to start at the "
            f"same step, found one that starts at step {base[at]} and another at step "
            f"{base.min()}. {why}"
        )
    gaps = same_episode & (change > 1)
    following = "next_obs" if "obs" in table.columns else "next_state"
    if gaps.any() and following not in table.columns:
        at = first_row(gaps)
        raise LogsError(
            f"row {order[at + 1] + 1}, column 'step': expected step {step[at] + 1} after step "
            f"{step[at]}, found step {step[at + 1]}. Where steps are missing the next row does not "
            f"give the next state: add the steps, or a column {following!r}."
        )
    # Numbers that jump are labels or times. What is discounted is the place in the episode.
    return (counted if gaps.any() else step - base[0]), change == 1
