"""What a log cannot hold, found by queries: how many rows, and the first of them.

A table that lies elsewhere has no numbered rows. A row is told by its episode and step, or by its
state and action where each row stands alone.
"""

from __future__ import annotations

from typing import Any, NoReturn

import narwhals as nw
import polars as pl

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.labels import shown
from bayesdice_ppl.logs.lazy.engines import collect
from bayesdice_ppl.logs.lazy.table import (
    ACTION,
    CHANCE,
    CUT,
    ENDED,
    EPISODE,
    REWARD,
    STATE,
    STEP,
    LazyTable,
)

LARGEST_WHOLE = 2.0**53
"""Past it neighboring integers share one float."""
FIRST = 3
"""Rows that a message shows."""
_SHOWN = {EPISODE: "episode_id", STEP: "step", STATE: "state", ACTION: "action"}


def refuse(
    table: LazyTable,
    frame: nw.LazyFrame[Any],
    mask: nw.Expr,
    words: tuple[str, str, str],
    value: str | None = None,
) -> NoReturn:
    """Raise an error about the rows that a mask is true for.

    Parameters
    ----------
    table
        The log.
    frame
        What the mask is about: the log's columns, or more.
    mask
        True for the rows.
    words
        Which column in our words, what was expected, and what to do.
    value
        The column to show, in ``frame``.

    Raises
    ------
    LogsError
        Always: with their number and the first of them.
    """
    column, expected, advice = words
    places: tuple[str, ...] = (STATE, ACTION)
    if "episode_id" in table.names:
        places = (EPISODE, STEP)
    if "step" not in table.names and "episode_id" in table.names:
        places = (EPISODE, STATE, ACTION)
    held = [place for place in places if place in frame.collect_schema().names()]
    wanted = [*held, *([value] if value is not None and value not in held else [])]
    # A mask that is null is not true.
    broken = frame.filter(mask)
    count = int(collect(broken.select(nw.len().alias("n")))["n"][0])
    rows = collect(broken.sort(*held).select(*wanted).head(FIRST))
    told = [
        ", ".join(f"{_SHOWN[place]} {shown(row[place])}" for place in held)
        + (f" ({_value(row[value])})" if value is not None else "")
        for row in rows.iter_rows(named=True)
    ]
    what = "1 row does not" if count == 1 else f"{count:,} rows do not"
    first = "" if count == 1 else "the first " if count > len(told) else ""
    raise LogsError(
        f"column {column!r}: expected {expected}. {what} have it: {first}{'; '.join(told)}. "
        f"{advice}"
    )


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    return f"{value:g}" if isinstance(value, float) else shown(value)


def number_faults(table: LazyTable) -> list[tuple[str, nw.Expr, tuple[str, str, str], str | None]]:
    """What single rows may have wrong: a name, the mask, the words, and the column to show."""
    held = table.frame.collect_schema().names()
    reward = nw.col(REWARD)
    finite = ("a finite number", "Correct these rows, or leave them out.")
    found: list[tuple[str, nw.Expr, tuple[str, str, str], str | None]] = [
        ("bad_reward", reward.is_null() | ~reward.is_finite(), ("reward", *finite), REWARD)
    ]
    if CHANCE in held:
        chance = nw.col(CHANCE)
        found.append(
            (
                "bad_chance",
                chance.is_null() | ~chance.is_finite() | (chance <= 0.0) | (chance > 1.0),
                (
                    "propensity",
                    "a probability in (0, 1]",
                    "Correct it, or leave the whole column out.",
                ),
                CHANCE,
            )
        )
    for key, place in (("terminated", ENDED), ("truncated", CUT)):
        if place in held:
            advice = "Write true or false, or 1 or 0."
            mask = nw.col(place).is_null()
            found.append((f"bad_{key}", mask, (key, "true or false", advice), None))
    if "step" in table.names and table.float_step:
        # Without a value is one kind of fault, told below.
        mask = ~nw.col(STEP).is_finite()
        found.append(("odd_step", mask, ("step", *finite), STEP))
    if EPISODE in held:
        found += _episode_faults(table)
    filled = ("a value", "Fill it in.")
    for key, place in (
        ("episode_id", EPISODE),
        ("step", STEP),
        ("state", STATE),
        ("action", ACTION),
    ):
        if place in held and (place != STEP or "step" in table.names):
            found.append((f"no_{key}", nw.col(place).is_null(), (key, *filled), None))
    return found


def _episode_faults(
    table: LazyTable,
) -> list[tuple[str, nw.Expr, tuple[str, str, str], str | None]]:
    """Names of episodes that are no labels."""
    kind, name = table.kind("episode_id"), nw.col(EPISODE)
    if kind.is_float():
        mask = ~name.is_finite() | (name != name.round(0)) | (name.abs() > LARGEST_WHOLE)
        words = ("an integer below 2^53, or a string", "Store labels as integers or as text.")
    elif kind in (pl.String, pl.Categorical, pl.Enum):
        mask, words = name.str.strip_chars() == "", ("a label, and no blank text", "Write it.")
    else:
        return []
    return [("odd_episode_id", mask, ("episode_id", *words), None)]


def read_distinct(series: pl.Series, column: str, rows: pl.Series) -> pl.Series:
    """Labels of a column from those that occur, each with its number of rows.

    Raises
    ------
    LogsError
        A label is blank, or no integer and no string.
    """
    from bayesdice_ppl.logs.columns import is_blank
    from bayesdice_ppl.logs.labels import as_labels

    try:
        found = as_labels(series, column, LogsError)
    except LogsError as error:
        # The row is that of the list of labels, which nobody has.
        words = str(error)
        told = words.split(", ", 1)[1] if words.startswith("row ") else words
        raise LogsError(told) from error
    blank = is_blank(found)
    if blank.any():
        count = int(rows.filter(blank).sum())
        raise LogsError(
            f"column {column!r}: expected a label, found a blank text (rows: {count:,}). Write the "
            "label; a next state that is not known is null."
        )
    return found
