"""Value along the log, by its calendar where it has one and by tenths where it has none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Int

from bayesdice_ppl.checking.section import Section, number, warning
from bayesdice_ppl.checking.table import TakenTable
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.logs.familiar import guess
from bayesdice_ppl.logs.logged_value import value_parts

DRIFT = "rewards that change"
BY_CHANCE = 0.001
"""Share of logs without a change in which a change is told."""
PARTS = 10
FEWEST = 10
"""Units of each period, on average, from which a change is looked for."""
_MOST = 14
_DAY = 24 * 3600 * 1_000_000


class Clock(NamedTuple):
    """A column of times.

    Attributes
    ----------
    name
        Its name.
    micros
        Microseconds since 1970, in the order of the log, shape (n,).
    in_order
        Whether the rows of the table are in the order of time.
    """

    name: str
    micros: Int[np.ndarray, " n"]
    in_order: bool


def clock_of_log(table: TakenTable | None, logs: Logs) -> Clock | None:
    """The times of the rows; None where no column has them.

    Parameters
    ----------
    table
        The user's table, whose rows the log's point at; None where there is none.
    logs
        The log.
    """
    if table is None or int(logs.row.max()) > table.frame.height:
        return None
    frame, taken = table.frame, set(table.names.values())
    likely = [table.names["step"]] if "step" in table.names else []
    others = [name for name in frame.columns if name not in taken]
    likely += [name for name in guess(others, ["step"]).values() if name in frame.columns]
    likely += [name for name in others if frame[name].dtype in (pl.Date, pl.Datetime)]
    for name in likely:
        times = _times(frame[name])
        if times is not None:
            rows = times.to_numpy()
            return Clock(name, rows[logs.row - 1], bool((np.diff(rows) >= 0).all()))
    return None


def _times(series: pl.Series) -> pl.Series | None:
    """Microseconds since 1970; None where a column has no dates, or misses one."""
    if series.dtype == pl.String:
        try:
            series = series.str.strip_chars().str.to_datetime(strict=False, time_unit="us")
        except pl.exceptions.PolarsError:
            return None
    if series.dtype not in (pl.Date, pl.Datetime) or series.null_count():
        return None
    return series.cast(pl.Datetime("us")).to_physical()


def look(logs: Logs, gamma: float, clock: Clock | None, *, restart: bool) -> Section | None:
    """Value of the logging policy by period; None where the log is too short to cut.

    Parameters
    ----------
    logs
        The log.
    gamma
        Discount.
    clock
        The times of its rows.
    restart
        Whether a termination is followed by a new episode.
    """
    n, m = logs.n_transitions, logs.n_episodes
    by_row = m < PARTS * 2 < n
    if n < 2 * PARTS or (m < 2 * PARTS and not by_row):
        return None
    if by_row:
        unit, paid, counted = np.arange(n), logs.reward, np.ones(n)
    else:
        paid, counted, _ = value_parts(logs, gamma, restart=restart)
        unit = logs.episode
    size = int(unit.max()) + 1
    first_row = np.unique(unit, return_index=True)[1]
    when = np.arange(size) if clock is None else clock.micros[first_row]
    if clock is None:
        # Episodes in the order of their first row in the table.
        when = np.argsort(np.argsort(logs.row[first_row], kind="stable"))
    period, names, what = _cut(when, clock)
    sums = np.bincount(unit, paid, size), np.bincount(unit, counted, size)
    values, errors, chance = _compare(*sums, period, len(names))
    sizes = np.bincount(period, minlength=len(names))
    several = list(zip(names, sizes, values, errors, strict=True))
    rows = [
        {
            "from": name,
            "units": int(count),
            "value": number(value),
            "standard_error": number(error),
        }
        for name, count, value, error in several
    ]
    facts = {
        "column": None if clock is None else clock.name,
        "in_order": None if clock is None else clock.in_order,
        "period": what,
        "unit": "row" if by_row else "episode",
        "by_chance": chance,
        "periods": rows,
    }
    lines = [] if clock is None else [_span_words(clock)]
    earned = "Mean reward" if by_row else "Value of the logging policy"
    by_first = "" if by_row or m == n else " (of episodes by their first row)"
    lines.append(f"{earned} by {what}{by_first}:")
    faults = []
    if chance is not None and chance < BY_CHANCE:
        told = (
            f"Rewards change along the log, more than by chance (p = {chance:.1g}): by {what} "
            f"from {np.nanmin(values):.4g} to {np.nanmax(values):.4g}. A belief is of their "
            "average. Use later rows alone, or put the period into the state."
        )
        faults.append(warning(DRIFT, told))
    cells = tuple(
        (name, f"{count:,}", _written(value, ".4g"), _written(error, ".2g"))
        for name, count, value, error in several
    )
    headings = (what, "rows" if by_row or m == n else "episodes", "value", "standard error")
    return Section("periods", "Along the log", facts, tuple(lines), headings, cells, tuple(faults))


def _written(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else ""


def _span_words(clock: Clock) -> str:
    order = "in the order of time" if clock.in_order else "not in the order of time"
    first, last = _moment(clock.micros.min()), _moment(clock.micros.max())
    return f"From {first} to {last} by {clock.name!r}; the rows of the table are {order}."


def _moment(micros: int) -> str:
    return str(np.datetime64(int(micros), "us").astype("datetime64[s]")).replace("T", " ")


def _cut(when: Int[np.ndarray, " u"], clock: Clock | None) -> tuple[np.ndarray, list[str], str]:
    """Period of each unit, the names of the periods, and what a period is."""
    if clock is not None:
        days = when // _DAY
        for length, what in ((1, "day"), (7, "week")):
            # Weeks start on Mondays, and 1970 on a Thursday.
            shift = 3 if length == 7 else 0
            code = (days + shift) // length
            count = int(code.max() - code.min()) + 1
            if 2 <= count <= _MOST:
                starts = np.arange(code.min(), code.max() + 1) * length - shift
                return code - code.min(), [str(np.datetime64(int(d), "D")) for d in starts], what
    rank = np.argsort(np.argsort(when, kind="stable"), kind="stable")
    code = rank * PARTS // len(when)
    # Dates where they differ, else with the time of day.
    names = [f"{k + 1}" for k in range(PARTS)]
    if clock is not None:
        names = [_moment(when[code == k].min())[:10] for k in range(PARTS)]
        if len(set(names)) < PARTS:
            names = [_moment(when[code == k].min())[5:16] for k in range(PARTS)]
    return code, names, "tenth of the log"


def _compare(
    paid: np.ndarray, counted: np.ndarray, period: np.ndarray, n_periods: int
) -> tuple[np.ndarray, np.ndarray, float | None]:
    """Value and standard error of each period, and the probability of such differences by chance.

    Values are ratios of sums. Errors are from the value of all, in one variance for all periods,
    so that the statistic is an F with K - 1 and u - K degrees of freedom, up to the ratio.
    """
    from scipy.special import fdtrc

    size = np.bincount(period, minlength=n_periods)
    top, bottom = (np.bincount(period, each, n_periods) for each in (paid, counted))
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.where(bottom > 0.0, top / bottom, np.nan)
    off = paid - np.nan_to_num(value)[period] * counted
    spread = np.bincount(period, off**2, n_periods)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(spread * size / np.maximum(size - 1, 1)) / bottom
    error = np.where((size > 1) & (bottom > 0.0), error, np.nan)
    used = bottom > 0.0
    units, periods = int(size.sum()), int(used.sum())
    pooled = float(spread.sum()) / max(units - periods, 1)
    if periods < 2 or units < FEWEST * periods or not pooled > 0.0:
        return value, error, None
    whole = top.sum() / bottom.sum()
    # Sums of a period less what the value of all makes of them, over the sd of as many units.
    moved = (top - whole * bottom)[used]
    statistic = float((moved**2 / size[used]).sum()) / pooled / (periods - 1)
    return value, error, float(fdtrc(periods - 1, units - periods, statistic))
