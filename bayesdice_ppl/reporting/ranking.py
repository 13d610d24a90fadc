"""The ranking of a report: what the table of `bayesdice_ppl.select` says, as it is written."""

from __future__ import annotations

from typing import NamedTuple, final

from bayesdice_ppl.digits import Numbers, written_alike
from bayesdice_ppl.selection import Selection

_OPEN = 30
"""Rows past which a table begins with the first 20, and the rest is folded."""
_FIRST = 20


@final
class Row(NamedTuple):
    """A candidate in the table.

    Attributes
    ----------
    place
        Its place in the ranking.
    name
        The candidate.
    launched
        Whether it goes live.
    cells
        Its numbers, as they are written, one for each heading.
    verdict
        What `bayesdice_ppl.diagnose` says of it; empty where it says nothing.
    """

    place: int
    name: str
    launched: bool
    cells: tuple[str, ...]
    verdict: str = ""


@final
class Ranking(NamedTuple):
    """The table.

    Attributes
    ----------
    caption
        What the numbers are.
    headings
        One for each cell of a row.
    rows, folded
        Best first; where they are many, those that follow are folded.
    statement
        What is proven of the ranking.
    judged
        Whether rows have verdicts.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    folded: tuple[Row, ...]
    statement: str
    judged: bool


@final
class Rewards(NamedTuple):
    """Every reward of each candidate, where a belief has several.

    Attributes
    ----------
    headings
        One for each cell of a row.
    rows, folded
        As for `Ranking`.
    """

    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    folded: tuple[Row, ...]


def value_numbers(selection: Selection) -> Numbers:
    """How the values of a ranking are written."""
    table = selection.table
    ends = [*table["mean"], *table["hdi90_lower"], *table["hdi90_upper"]]
    return written_alike(ends, table["sd"].to_list())


def value_label(selection: Selection) -> str:
    """What the values are, with the unit."""
    if selection.reward is not None:
        return f"{selection.reward} (per step)"
    if selection.statistic != "mean":
        return f"{selection.statistic} of the reward of a step"
    return "value (reward per step)"


def tabulate(selection: Selection, verdicts: dict[str, str]) -> Ranking:
    """Write the table of a ranking.

    Parameters
    ----------
    selection
        The ranking.
    verdicts
        Candidate -> verdict; empty where there is none.
    """
    numbers = value_numbers(selection)
    medians = "median" in selection.table.columns
    several = 1 < selection.k < len(selection.order)
    rows = [
        Row(
            place=row["rank"],
            name=row["policy"],
            launched=row["launched"],
            cells=(
                numbers.cell(row["mean"]),
                numbers.width(row["sd"]),
                *([numbers.cell(row["median"])] if medians else []),
                f"{numbers.cell(row['hdi90_lower'])} to {numbers.cell(row['hdi90_upper'])}",
                f"{row['p_best']:.3f}",
                *([f"{row['p_top_k']:.3f}"] if several else []),
                f"{row['expected_rank']:.2f}",
            ),
            verdict=verdicts.get(row["policy"], ""),
        )
        for row in selection.table.iter_rows(named=True)
    ]
    top = [f"P(top {selection.k})"] if several else []
    label = value_label(selection)
    first, folded = fold(rows)
    return Ranking(
        caption=f"{label[0].upper()}{label[1:]}{numbers.words}, ranked by {selection.score}.",
        headings=(
            "mean",
            "sd",
            *(["median"] if medians else []),
            "90 % interval",
            "P(best)",
            *top,
            "E(rank)",
        ),
        rows=first,
        folded=folded,
        statement=selection.certificate.statement,
        judged=bool(verdicts),
    )


def tabulate_rewards(selection: Selection) -> Rewards | None:
    """Write every reward of each candidate; None where the belief has one and there is no limit."""
    table = selection.rewards
    if table is None:
        return None
    headings, columns = [], []
    for name in table.columns:
        if f"{name}_sd" in table.columns:
            means, sds = table[name].to_list(), table[f"{name}_sd"].to_list()
            numbers = written_alike(means, sds)
            headings.append(f"{name}{numbers.words}")
            pairs = zip(means, sds, strict=True)
            columns.append([f"{numbers.cell(mean)} ± {numbers.width(sd)}" for mean, sd in pairs])
    if "p_within_limits" in table.columns:
        headings.append("P(within limits)")
        columns.append([f"{chance:.3f}" for chance in table["p_within_limits"]])
    launched = set(selection.launch)
    rows = [
        Row(place + 1, name, name in launched, tuple(column[place] for column in columns))
        for place, name in enumerate(table["policy"])
    ]
    return Rewards(tuple(headings), *fold(rows))


def fold[T](rows: list[T]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """The rows that are seen at once, and those that are folded where there are many."""
    first = len(rows) if len(rows) <= _OPEN else _FIRST
    return tuple(rows[:first]), tuple(rows[first:])
