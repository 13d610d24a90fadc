"""Steps: twice, out of order, missing, late, or no numbers."""

from __future__ import annotations

import numpy as np
import polars as pl

from bayesdice_ppl.checking.fault import (
    ERROR,
    Fault,
    Mend,
    column_text,
    row_words,
    rows_where,
)
from bayesdice_ppl.checking.table import TakenTable
from bayesdice_ppl.logs.steps import as_times

TWICE, ORDER, LATE, GAPS, TYPE = (
    "steps given twice",
    "steps out of order",
    "episodes that start late",
    "missing steps",
    "steps that are no numbers",
)


def find(table: TakenTable) -> list[Fault]:
    """Find steps that do not count the rows of their episode."""
    if "step" not in table.names or table.series("step").null_count():  # type: ignore[union-attr]
        return []
    name = table.names["step"]
    if table.times is not None:
        return _at_one_time(table, name)
    if table.steps is None:
        return [_no_numbers(table, name)]
    return _of_numbers(table, name)


def _no_numbers(table: TakenTable, name: str) -> Fault:
    series = table.frame[name]
    text = f"pl.col({name!r}).str.strip_chars()"
    if series.dtype == pl.String and not _numbers(series).null_count():
        sentence = f"{name!r} holds numbers as texts, such as {series[0]!r}."
        cast = f"with_columns({text}.cast(pl.Float64))"
        return Fault(TYPE, ERROR, name, sentence, mend=Mend("Read them as numbers.", (cast,)))
    if (some := _some_odd(table, name, series)) is not None:
        return some
    sentence = f"{name!r} holds {series.dtype} such as {series[0]!r}, and no numbers or times."
    words = "Number the rows of each episode as they stand, if they are in the order of time."
    over = f".over({table.names['episode_id']!r})" if "episode_id" in table.names else ""
    number = f"pl.int_range(pl.len()){over}.alias({name!r})"
    if not over:
        return Fault(TYPE, ERROR, name, sentence, mend=Mend("Drop it.", (f"drop({name!r})",)))
    return Fault(TYPE, ERROR, name, sentence, mend=Mend(words, (f"with_columns({number})",)))


def _numbers(series: pl.Series) -> pl.Series:
    """Texts as numbers, null where one is none."""
    return series.str.strip_chars().cast(pl.Float64, strict=False)


def _some_odd(table: TakenTable, name: str, series: pl.Series) -> Fault | None:
    """Texts of which most are times, or numbers, and some are not; None if most are neither."""
    if series.dtype != pl.String:
        return None
    held = f"{column_text(name)}.str.strip_chars()"
    readings = {
        "number": (_numbers(series), "cast(pl.Float64, strict=False)"),
        "time": (as_times(series), "str.to_datetime(strict=False, time_unit='us')"),
    }
    for what, (read, code) in readings.items():
        if read is None or 2 * read.null_count() > len(series) or not read.null_count():
            continue  # where all can be read, what is wrong is not the text
        odd = rows_where(read.is_null())
        sentence = (
            f"{name!r} holds {series[int(odd[0]) - 1]!r} in {row_words(odd)}, and a {what} in all "
            "other rows."
        )
        words = (
            f"Read the {what}s, and leave out the {table.dropped} with another text. (If you know "
            f"the {what}, write it there instead.)"
        )
        keep = table.in_episode(f"{column_text(name)}.is_not_null()")
        steps = (f"with_columns({held}.{code})", keep)
        return Fault(TYPE, ERROR, name, sentence, odd, Mend(words, steps))
    return None


def _at_one_time(table: TakenTable, name: str) -> list[Fault]:
    times, order = table.times, table.order
    assert times is not None
    episode = table.episodes[order]
    tied = (episode[1:] == episode[:-1]) & (np.diff(times[order]) == 0)
    if not tied.any():
        return []
    rows = np.sort(order[1:][tied]) + 1
    sentence = (
        f"{row_words(rows).capitalize()}: {name!r} has the time of another row of the episode."
    )
    over = f".over({table.names['episode_id']!r})"
    number = f"pl.int_range(pl.len()){over}.alias({name!r})"
    words = "Sort by time, and number rows of one time as they stand."
    mend = Mend(words, (*table.sorting, f"with_columns({number})"))
    return [Fault(TWICE, ERROR, name, sentence, rows, mend)]


def _of_numbers(table: TakenTable, name: str) -> list[Fault]:
    step, found = table.steps, []
    assert step is not None
    alone = "episode_id" not in table.names
    number = table.episodes
    given = np.argsort(number, kind="stable")
    same = number[given][1:] == number[given][:-1]
    falls = same & (np.diff(step[given]) <= 0)
    order = np.lexsort((step, number))
    episode, sorted_step = number[order], step[order]
    together = episode[1:] == episode[:-1]
    change = np.diff(sorted_step)
    twice = together & (change == 0)
    if twice.any():
        rows = np.sort(order[1:][twice]) + 1
        sentence = f"{row_words(rows).capitalize()}: the episode has another row of the same step."
        mend = _split_or_drop(table, name, given, falls, step)
        found.append(Fault(TWICE, ERROR, name, sentence, rows, mend))
    elif falls.any():
        rows = np.sort(given[1:][falls]) + 1
        sentence = f"{row_words(rows).capitalize()}: the step is not above that of the row before."
        mend = Mend("Sort each episode by its steps.", table.sorting)
        found.append(Fault(ORDER, ERROR, name, sentence, rows, mend))
    starts = np.r_[True, ~together]
    base = sorted_step[starts]
    if (base != base.min()).any():
        rows = np.sort(order[starts][base != base.min()]) + 1
        found.append(_late(table, name, rows, int(base.min()), alone=alone))
    gaps = together & (change > 1)
    following = "next_state" in table.names or "next_obs" in table.vectors
    if gaps.any() and not following and not twice.any():
        rows = np.sort(order[1:][gaps]) + 1
        sentence = (
            f"{row_words(rows).capitalize()}: steps are missing before it, so that the next row "
            "does not give the next state."
        )
        held, over = table.expression("step"), f".over({table.names['episode_id']!r})"
        keep = f"filter({held} - {held}.min(){over} == pl.int_range(pl.len()){over})"
        words = "Keep each episode up to its first gap."
        mend = Mend(words, (*(table.sorting if falls.any() else ()), keep))
        found.append(Fault(GAPS, ERROR, name, sentence, rows, mend))
    return found


def _late(table: TakenTable, name: str, rows: np.ndarray, first: int, *, alone: bool) -> Fault:
    if alone:
        sentence = (
            f"{row_words(rows).capitalize()}: the step is not {first}, and no column names the "
            "episodes, so that each row is an episode of its own."
        )
        mend = Mend("Drop the steps, if every row stands alone.", (f"drop({name!r})",))
        return Fault(LATE, ERROR, name, sentence, rows, mend)
    sentence = (
        f"{row_words(rows).capitalize()}: the episode starts there, and not at step {first}. First "
        "states stand for all starts."
    )
    held = table.expression("step")
    keep = f"filter({held}.min().over({table.names['episode_id']!r}) == {held}.min())"
    words = "Leave these episodes out, if their starts are missing by chance."
    return Fault(LATE, ERROR, name, sentence, rows, Mend(words, (keep,)))


def _split_or_drop(
    table: TakenTable, name: str, given: np.ndarray, falls: np.ndarray, step: np.ndarray
) -> Mend:
    """New episodes where steps start again; or, where they do not, no such episodes."""
    frame, held = table.frame, table.expression("step")
    if "episode_id" not in table.names:
        return Mend("Drop the steps.", (f"drop({name!r})",))
    own = table.names["episode_id"]
    keys = [own, name]
    copies = frame.select(keys).is_duplicated()
    if frame.filter(copies).n_unique() == frame.select(keys).filter(copies).n_unique():
        return Mend("Keep one of the rows, which are equal.", ("unique(maintain_order=True)",))
    if falls.any():
        again = given[1:][falls]
        if (step[again] == step.min()).all():
            fell = f"({held}.cast(pl.Int64).diff() <= 0).fill_null(False).cum_sum().over({own!r})"
            whole = (
                f"pl.concat_str({table.expression('episode_id')}, {fell}, separator='/')"
                f".alias({own!r})"
            )
            words = "Start a new episode where steps start again."
            return Mend(words, (f"with_columns({whole})",))
    words = "Leave these episodes out: nobody knows which row is right."
    keep = f"filter(~pl.struct({own!r}, {name!r}).is_duplicated().any().over({own!r}))"
    return Mend(words, (keep,))
