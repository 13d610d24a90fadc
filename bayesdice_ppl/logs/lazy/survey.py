"""What is known of a log before it is counted: its size, its rewards, its episodes, and its faults.

One query looks at every row by itself, and one at every episode. Only where the order of rows must
be looked at, as where the next row gives the next state, does a third one put them in order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import polars as pl

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import REWARD_SIZE
from bayesdice_ppl.logs.labels import shown
from bayesdice_ppl.logs.lazy.engines import collect
from bayesdice_ppl.logs.lazy.faults import number_faults, refuse
from bayesdice_ppl.logs.lazy.table import (
    CUT,
    ENDED,
    EPISODE,
    NEXT,
    REWARD,
    STATE,
    STEP,
    LazyTable,
)
from bayesdice_ppl.logs.steps import EPOCH

PLACE, LEAD, AFTER = "place", "lead", "after"
"""Place of a row in its episode from 1, the next row's state, and the next row's step."""


_ULPS = 8
"""Spreads of as many units in the last place of the rewards are rounding."""


class Survey(NamedTuple):
    """What is known of a log before it is counted.

    Attributes
    ----------
    n, m
        Rows and episodes.
    least, most, mean, sd
        Of the rewards.
    n_groups
        Column without a meaning -> how many values it has.
    nulls
        Column without a meaning -> rows that hold none.
    not_whole
        Columns without a meaning that hold numbers that are not whole.
    base
        The step at which every episode starts; None where each row stands alone.
    times
        Whether steps are times, or the places of rows in a file, and only put rows in order.
    windowed
        Whether the next row gives the next state of some row, or steps jump.
    by_place
        Whether the step of a row is its place in its episode.
    ended
        Terminated rows, and rows that are truncated and terminated.
    left_out
        Steps at which some row's next state is not known and others terminated.
    missing_steps
        Steps at which some row's next state is not known.
    """

    n: int
    m: int
    least: float
    most: float
    mean: float
    sd: float
    n_groups: dict[str, int]
    nulls: dict[str, int]
    not_whole: tuple[str, ...]
    base: int | None
    times: bool
    windowed: bool
    by_place: bool
    ended: tuple[int, int]
    left_out: tuple[int, ...]
    missing_steps: tuple[int, ...]


def take_survey(table: LazyTable) -> Survey:
    """Look at a log and refuse what it cannot hold.

    Raises
    ------
    LogsError
        With the number of rows and the first of them.
    """
    held = table.frame.collect_schema().names()
    row = _look_at_rows(table, held)
    n = int(row["n"])
    if n < 2:
        raise LogsError(
            f"expected at least two rows, found {'none' if n == 0 else 'one'}. Add transitions: a "
            "spread cannot be estimated from fewer."
        )
    for name, mask, words, value in number_faults(table):
        if row[name]:
            refuse(table, table.frame, mask, words, value)
    least, most = float(row["least"]), float(row["most"])
    largest = max(abs(least), abs(most))
    if largest != 0.0 and not REWARD_SIZE[0] < largest < REWARD_SIZE[1]:
        raise LogsError(
            "column 'reward': expected rewards whose squares fit in double precision, found "
            f"{largest:g} as the largest. Rescale the rewards to the order of 1."
        )
    ended = (int(row["ended"] or 0), int(row["both"] or 0))
    sizes = {name: int(row[f"n_{own}"]) for name, own in table.others.items()}
    nulls = {name: int(row[f"null_{own}"]) for name, own in table.others.items()}
    mean, sd = _center(least, most, float(row["mean"]), float(row["sd"]))
    first = Survey(
        n=n,
        m=n,
        least=least,
        most=most,
        mean=mean,
        sd=sd,
        n_groups=sizes,
        nulls=nulls,
        not_whole=tuple(name for name, own in table.others.items() if row.get(f"odd_{own}", 0)),
        base=None,
        times=False,
        windowed=False,
        by_place=False,
        ended=ended,
        left_out=(),
        missing_steps=(),
    )
    unknown = int(row["unknown"])
    if EPISODE not in held:
        _check_alone(table, row)
        if not unknown:
            return first
        return first._replace(missing_steps=(0,), left_out=(0,) if ended[0] else ())
    times = "step" not in table.names or _are_times(table, row)
    survey = first._replace(times=times, base=0 if times else int(row["first_step"]))
    return _look_at_episodes(table, survey, unknown)


def _center(least: float, most: float, mean: float, sd: float) -> tuple[float, float]:
    """Where and in which units rewards are summed; without a spread the unit is 0.

    Engines round: rewards that are all 0.1 get a spread, and a mean that none of them has.
    """
    if least == most:
        return least, 0.0
    rounding = _ULPS * float(np.spacing(max(abs(least), abs(most))))
    return min(max(mean, least), most), sd if sd > rounding else most - least


def _look_at_rows(table: LazyTable, held: list[str]) -> dict[str, Any]:
    """One query about single rows."""
    reward = nw.col(REWARD)
    # Some engines cannot take the spread of what is refused below.
    sound = nw.when(reward.is_finite() & (reward.abs() < REWARD_SIZE[1])).then(reward)
    asked = [
        nw.len().alias("n"),
        reward.min().alias("least"),
        reward.max().alias("most"),
        sound.mean().alias("mean"),
        sound.std(ddof=0).alias("sd"),
    ]
    asked += [_count(mask).alias(name) for name, mask, _, _ in number_faults(table)]
    for name, own in table.others.items():
        column = nw.col(own)
        asked += [
            column.n_unique().alias(f"n_{own}"),
            _count(column.is_null()).alias(f"null_{own}"),
        ]
        if table.schema.schema[name].is_float():
            asked.append(_count(column != column.round(0)).alias(f"odd_{own}"))
    goes_on = ~nw.col(ENDED) if ENDED in held else nw.lit(True)
    unknown = nw.col(NEXT).is_null() & goes_on if NEXT in held else goes_on
    if NEXT in held or ENDED in held:
        asked.append(_count(unknown).alias("unknown"))
    else:
        asked.append(nw.len().alias("unknown"))
    if ENDED in held:
        asked.append(_count(nw.col(ENDED)).alias("ended"))
        if CUT in held:
            asked.append(_count(nw.col(ENDED) & nw.col(CUT)).alias("both"))
    if STEP in held and "step" in table.names:
        step = nw.col(STEP)
        asked += [step.min().alias("first_step"), step.max().alias("last_step")]
        if table.float_step:
            asked.append(_count(step != step.round(0)).alias("broken_step"))
    return {"ended": 0, "both": 0} | collect(table.frame.select(*asked)).row(0, named=True)


def _count(mask: nw.Expr) -> nw.Expr:
    return nw.when(mask).then(nw.lit(1)).otherwise(nw.lit(0)).sum()


def _check_alone(table: LazyTable, row: dict[str, Any]) -> None:
    """Refuse steps that differ, where no column says which rows are an episode."""
    if "step" in table.names and row["first_step"] != row["last_step"]:
        raise LogsError(
            "column 'step': expected every episode to start at the same step, found one that "
            f"starts at step {row['last_step']} and another at step {row['first_step']}. There is "
            "no column episode_id, so each row is an episode of its own. Map it (--columns "
            "episode_id=...); or, if every row stands alone, ignore=['step'] (--ignore step)."
        )


def _are_times(table: LazyTable, row: dict[str, Any]) -> bool:
    """Whether a column ``step`` holds times; see `bayesdice_ppl.logs.steps`."""
    kind = table.kind("step")
    if kind.is_temporal():
        return True
    if table.float_step and row["broken_step"]:
        return True
    return bool(row["first_step"] >= EPOCH)


def _look_at_episodes(table: LazyTable, survey: Survey, unknown: int) -> Survey:
    """One query about episodes, and one about the order of rows where it is needed."""
    held = table.frame.collect_schema().names()
    if "step" not in table.names and not table.in_order:
        raise LogsError(
            f"expected a column step, found none. A table of {table.engine} has no order of its "
            "own: number the steps of each episode 0, 1, 2, ..., or give the times of its rows."
        )
    by = _episodes(table, survey, held)
    kinds = collect(
        by.group_by("last").agg(
            nw.len().alias("m"),
            nw.col("rows").sum(),
            nw.col("is_ended").sum(),
            nw.col("is_cut").sum(),
            nw.col("irregular").sum(),
            nw.col("late").sum(),
            nw.col("after_end").sum(),
            nw.col("after_cut").sum(),
            nw.col("apart").sum(),
        )
    ).sort("last")
    total = {name: int(kinds[name].sum()) for name in kinds.columns if name != "last"}
    for key, what in (("after_end", "terminated"), ("after_cut", "truncated")):
        if total[key]:
            _refuse_later_rows(by, key, what, total[key])
    in_file = "step" not in table.names
    flagged = total["is_ended"] or total["is_cut"]
    if in_file and total["apart"] and not flagged:
        raise LogsError(
            f"column 'episode_id': {total['apart']:,} episodes go on after rows of other episodes, "
            "and nothing says that the pieces are one episode. Give every episode an episode_id of "
            "its own; or, if they are one, add a column step that numbers or times its rows."
        )
    given = NEXT in held
    complete = given and unknown == 0
    irregular = bool(total["irregular"])
    windowed = survey.times or not complete or irregular
    survey = survey._replace(m=total["m"], windowed=windowed, by_place=survey.times)
    if windowed and not survey.times and irregular:
        survey = survey._replace(by_place=_check_steps(table, survey, given=given))
    if not survey.times and total["late"]:
        _refuse_late(by, survey, total["late"])
    if windowed and given:
        _check_next(table, survey)
    return _with_steps(table, survey, kinds, given=given, complete=complete)


def _episodes(table: LazyTable, survey: Survey, held: list[str]) -> nw.LazyFrame[Any]:
    """One row for each episode."""
    frame, base = table.frame, survey.base or 0
    temporal = "step" in table.names and table.kind("step").is_temporal()
    # Times only put rows in order: nothing is asked of how far they are apart.
    number = nw.lit(0) if temporal else nw.col(STEP).cast(nw.Int64) - base
    step = nw.col(STEP)
    columns = [number.alias("number"), step.alias("at")]
    asked = [
        nw.len().alias("rows"),
        nw.col("at").min().alias("low"),
        nw.col("at").max().alias("high"),
        nw.col("number").min().alias("least"),
        nw.col("number").max().alias("most"),
    ]
    if not survey.times:
        asked.append(nw.col("number").n_unique().alias("different"))
    for key in (ENDED, CUT):
        flag = nw.col(key) if key in held else nw.lit(False)
        columns += [
            nw.when(flag).then(nw.lit(1)).otherwise(nw.lit(0)).alias(f"is_{key}"),
            nw.when(flag).then(step).alias(f"{key}_at"),
        ]
        asked += [nw.col(f"is_{key}").sum(), nw.col(f"{key}_at").min()]
    by = frame.select(EPISODE, *columns).group_by(EPISODE).agg(*asked)
    top = nw.col("rows").cast(nw.Int64) - 1
    pieces = nw.col("most") - nw.col("least") != top
    last = top if survey.times else nw.col("most")

    def bad(mask: nw.Expr) -> nw.Expr:
        return nw.when(mask).then(nw.lit(1)).otherwise(nw.lit(0))

    return by.with_columns(
        last.alias("last"),
        # As many steps as rows, all different, and none left out between the ends.
        nw.lit(0).alias("irregular")
        if survey.times
        else bad(pieces | (nw.col("different") != nw.col("rows"))).alias("irregular"),
        nw.lit(0).alias("late") if survey.times else bad(nw.col("least") != 0).alias("late"),
        bad(pieces).alias("apart"),
        _later(ENDED, bad).alias("after_end"),
        _later(CUT, bad).alias("after_cut"),
    )


def _later(key: str, bad: Any) -> nw.Expr:
    """Whether a flag stands before the last row of its episode."""
    found: nw.Expr = bad((nw.col(f"is_{key}") > 0) & (nw.col(f"{key}_at") < nw.col("high")))
    return found


def _refuse_later_rows(by: nw.LazyFrame[Any], key: str, what: str, count: int) -> None:
    place = ENDED if key == "after_end" else CUT
    rows = collect(
        by.filter(nw.col(key) == 1).sort(EPISODE).select(EPISODE, f"{place}_at", "high").head(3)
    )
    first = "; ".join(
        f"episode_id {shown(row[EPISODE])} has step {row['high']} after step {row[f'{place}_at']}"
        for row in rows.iter_rows(named=True)
    )
    raise LogsError(
        f"expected no step after one where the column {what!r} ends the episode, found some in "
        f"{count:,} episodes: {first}. Start a new episode_id after the flag, or correct the flag."
    )


def _refuse_late(by: nw.LazyFrame[Any], survey: Survey, count: int) -> None:
    rows = collect(by.filter(nw.col("late") == 1).sort(EPISODE).select(EPISODE, "low").head(3))
    first = "; ".join(
        f"episode_id {shown(row[EPISODE])} at step {row['low']}"
        for row in rows.iter_rows(named=True)
    )
    raise LogsError(
        "column 'step': expected every episode to start at the same step, found one that starts at "
        f"step {survey.base} and {count:,} that start later: {first}. Log each episode from its "
        "first step: first states stand for the initial distribution."
    )


def in_order(table: LazyTable, survey: Survey) -> nw.LazyFrame[Any]:
    """The log's columns with `PLACE`, `LEAD` and `AFTER`; the last two are null in last rows."""
    frame = table.frame
    if not survey.windowed:
        return frame

    def over(expression: nw.Expr) -> nw.Expr:
        return expression.over(EPISODE, order_by=STEP)

    return frame.with_columns(
        over(nw.col(STEP).cum_count()).cast(nw.Int64).alias(PLACE),
        over(nw.col(STATE).shift(-1)).alias(LEAD),
        over(nw.col(STEP).shift(-1)).alias(AFTER),
    )


def adjacent(survey: Survey) -> nw.Expr:
    """Whether the next row is the very next step of the same episode."""
    after = ~nw.col(AFTER).is_null()
    return after if survey.times else after & (nw.col(AFTER) - nw.col(STEP) == 1)


def _check_steps(table: LazyTable, survey: Survey, *, given: bool) -> bool:
    """Refuse steps that do not rise, and gaps across which the next row must give the next state.

    Returns
    -------
    bool
        Whether there are gaps: numbers that jump are labels, and what counts is the place.
    """
    frame = in_order(table, survey)
    change = nw.col(AFTER) - nw.col(STEP)
    found = collect(
        frame.select(_count(change == 0).alias("same"), _count(change > 1).alias("gaps"))
    )
    row = found.row(0, named=True)
    if row["same"]:
        refuse(
            table,
            frame,
            change == 0,
            (
                "step",
                "a step above the one before in the same episode",
                "Keep each step once, and give every episode an episode_id of its own.",
            ),
        )
    if row["gaps"] and not given:
        refuse(
            table,
            frame,
            change > 1,
            (
                "step",
                "the next step of the episode after each",
                "Where steps are missing the next row does not give the next state: add the steps, "
                "or a column 'next_state'.",
            ),
        )
    return bool(row["gaps"])


def _check_next(table: LazyTable, survey: Survey) -> None:
    """Refuse a next state that is not the state of the next row."""
    frame = in_order(table, survey)
    broken = adjacent(survey) & ~nw.col(NEXT).is_null() & (nw.col(NEXT) != nw.col(LEAD))
    ties = nw.col(AFTER) == nw.col(STEP)
    row = collect(frame.select(_count(broken).alias("broken"), _count(ties).alias("ties")))
    if row["ties"][0] and survey.times:
        _refuse_ties(table, frame, ties)
    if row["broken"][0]:
        refuse(
            table,
            frame,
            broken,
            (
                "next_state",
                "the state of the episode's next row",
                "Correct one of them, or start a new episode_id between them.",
            ),
            NEXT,
        )


def _refuse_ties(table: LazyTable, frame: nw.LazyFrame[Any], ties: nw.Expr) -> None:
    refuse(
        table,
        frame,
        ties,
        (
            "step",
            "a time of its own for each row of an episode",
            "Nothing says which of two came first: number the steps of each episode 0, 1, 2, ...",
        ),
    )


def _with_steps(
    table: LazyTable, survey: Survey, kinds: pl.DataFrame, *, given: bool, complete: bool
) -> Survey:
    """At which steps next states are missing, and at which of these others terminated."""
    if complete:
        return survey
    if survey.times and not given:
        frame = in_order(table, survey)
        ties = nw.col(AFTER) == nw.col(STEP)
        if collect(frame.select(_count(ties).alias("n")))["n"][0]:
            _refuse_ties(table, frame, ties)
    if not given:
        # Only last rows of episodes that did not terminate lack their next state.
        last, m, over = (kinds[name].to_numpy() for name in ("last", "m", "is_ended"))
        missing, ending = last[m > over], last[over > 0]
    else:
        frame = in_order(table, survey)
        goes_on = nw.lit(True)
        if ENDED in frame.collect_schema().names():
            goes_on = ~nw.col(ENDED)
        lost = goes_on & nw.col(NEXT).is_null() & ~adjacent(survey)
        found = collect(
            frame.with_columns(
                step_number(survey).alias("at"),
                nw.when(lost).then(nw.lit(1)).otherwise(nw.lit(0)).alias("lost"),
                nw.when(goes_on).then(nw.lit(0)).otherwise(nw.lit(1)).alias("over"),
            )
            .filter((nw.col("lost") + nw.col("over")) > 0)
            .group_by("at")
            .agg(nw.col("lost").sum(), nw.col("over").sum())
        )
        at, lacks, over = (found[name].to_numpy() for name in ("at", "lost", "over"))
        missing, ending = at[lacks > 0], at[over > 0]
    missing = np.unique(missing)
    return survey._replace(
        missing_steps=tuple(int(step) for step in missing),
        left_out=tuple(int(step) for step in np.intersect1d(missing, ending)),
    )


def step_number(survey: Survey) -> nw.Expr:
    """Step of a row in its episode, from 0."""
    if survey.base is None:
        return nw.lit(0)
    if survey.by_place:
        return nw.col(PLACE) - 1
    return nw.col(STEP).cast(nw.Int64) - survey.base
