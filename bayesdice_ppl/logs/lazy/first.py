"""The first rows of a lazy log, as a log in memory.

What depends on the order of rows is looked at in them. A file has an order, and episodes come in
that of their first rows. Another table has none: times tell which episode came first, and without
them nothing does but the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import narwhals as nw
import polars as pl

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.lazy.engines import beside, collect
from bayesdice_ppl.logs.lazy.survey import Survey
from bayesdice_ppl.logs.lazy.table import LazyTable, flag_of, own_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from bayesdice_ppl.logs.logs import Logs

SAMPLE = 200_000
"""Most rows that are held."""
ROWS, TIMES, NAMES, NONE = "rows", "times", "names", "none"
WITHOUT_ORDER: Mapping[str, str] = {
    NAMES: "the order of the names of episodes, as the table has no order of its own",
    NONE: "the order in which the engine hands rows over, as the table has none of its own",
}
"""Order that says nothing of time -> what it is, in words."""


def order_of(table: LazyTable, survey: Survey) -> str:
    """What the first rows are first by."""
    if table.in_order:
        return ROWS
    if "episode_id" not in table.names:
        return NONE
    return TIMES if survey.times else NAMES


def first_rows(
    table: LazyTable, survey: Survey, hold: Callable[..., Logs], options: dict[str, Any]
) -> Logs:
    """The first rows as a log in memory: whole episodes, and the head of one that is too long.

    Parameters
    ----------
    table, survey
        The log and what is known of it.
    hold, options
        Makes a log in memory of a frame, with these options.

    Raises
    ------
    LogsError
        They are no log.
    """
    order = order_of(table, survey)
    frame, number = table.given, own_name(table.schema)
    if order == ROWS:
        frame = nw.from_native(frame.to_native().with_row_index(number))
    if "episode_id" not in table.names:
        found = collect(frame.head(SAMPLE), as_given=True)
    else:
        found = _in_order(_of_episodes(table, survey, frame, order), table, order)
    try:
        return hold(found.drop(number, strict=False), **options)
    except LogsError as error:
        what = "all rows" if survey.n <= SAMPLE else f"the first {found.height:,} rows"
        raise LogsError(
            f"in {what}, sorted by episode and step and counted from 1: {error}"
        ) from error


def _of_episodes(
    table: LazyTable, survey: Survey, frame: nw.LazyFrame[Any], order: str
) -> pl.DataFrame:
    if survey.n <= SAMPLE:
        return collect(frame, as_given=True)
    episode, count, start = table.names["episode_id"], "rows_of_it", "start_of_it"
    within = table.names.get("step", own_name(table.schema))
    place = {ROWS: own_name(table.schema), TIMES: within, NAMES: episode}[order]
    by = frame.select(nw.col(episode).alias("name_of_it"), nw.col(place).alias(start)).group_by(
        "name_of_it"
    )
    listed = by.agg(nw.len().alias(count), nw.col(start).min())
    first = collect(listed.sort(start, "name_of_it").head(SAMPLE), as_given=True)
    total = first[count].cast(pl.Int64).cum_sum()
    whole = int((total <= SAMPLE).sum())
    n_held = int(total[whole - 1]) if whole else 0
    names = first["name_of_it"]
    parts = []
    if whole and order == NAMES:
        parts.append(collect(frame.filter(nw.col(episode) <= names[whole - 1]), as_given=True))
    elif whole:
        chosen = beside(frame, names[:whole].rename(episode).to_frame())
        parts.append(collect(frame.join(chosen, on=episode, how="semi"), as_given=True))
    if 2 * n_held < SAMPLE and whole < len(names):
        # The next episode is longer than all that may be held: a few rows would tell nothing.
        of_it = frame.filter(nw.col(episode) == names[whole])
        parts.append(collect(of_it.sort(within).head(SAMPLE - n_held), as_given=True))
    return pl.concat(parts)


def _in_order(found: pl.DataFrame, table: LazyTable, order: str) -> pl.DataFrame:
    number, episode = own_name(table.schema), table.names["episode_id"]
    step = table.names.get("step", number)
    if order == NAMES:
        return found.sort(episode, step, maintain_order=True)
    first = pl.col(number if order == ROWS else step).min().over(episode)
    return found.sort(first, pl.col(episode), pl.col(step), maintain_order=True)


def check_lookalikes(table: LazyTable, alike: Mapping[str, str], n_first: int) -> list[str]:
    """Look in all rows at columns that look like ours, and change nothing in the first rows.

    Returns
    -------
    list of str
        What was looked at in the first rows alone, in sentences.

    Raises
    ------
    LogsError
        Leaving one out would change the log.
    """
    told = []
    for key, name in alike.items():
        if key == "propensity":
            # A fit on labels needs none.
            continue
        true = _count_true(table, name) if key in ("terminated", "truncated") else None
        if true == 0:
            continue
        if true and key == "terminated":
            raise LogsError(
                "columns that look like ours are not mapped, and the answer would change without "
                f"them. {name!r} looks like {key!r}: it is true in {true:,} rows, and without it "
                f"no episode ever ends. If it is, map it (--columns {key}={name}); if it means "
                f"something else, pass ignore=[{name!r}] (--ignore {name})."
            )
        told.append(
            f"The column {name!r} looks like {key!r} and is not mapped. Whether the log would be "
            f"another with it was looked at in the first {n_first:,} rows alone."
        )
    return told


def _count_true(table: LazyTable, name: str) -> int | None:
    """Rows in which a column is true; None if it holds no flags."""
    kind = table.schema.schema[name]
    flag = flag_of(kind, name)
    if flag is None:
        return None
    column = nw.col(name)
    frame = table.given.select(
        nw.when(flag).then(nw.lit(1)).otherwise(nw.lit(0)).sum().alias("true"),
        nw.when(flag.is_null() & ~column.is_null())
        .then(nw.lit(1))
        .otherwise(nw.lit(0))
        .sum()
        .alias("other"),
    )
    row = collect(frame).row(0, named=True)
    return None if row["other"] else int(row["true"] or 0)
