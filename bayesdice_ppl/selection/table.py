"""The table behind a ranking: how good each candidate is believed to be, and how surely.

It starts from ArviZ's summary (mean, sd and highest-density interval) and adds what a summary of
one candidate at a time cannot know: the probabilities of being the best and among the truly best
k, and the expected rank, all from joint draws with ties shared out.
"""

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from bayesdice_ppl.belief import ExistingMoments, ValueDraws
from bayesdice_ppl.digits import ABSENT
from bayesdice_ppl.scores import ties

if TYPE_CHECKING:
    import polars as pl

_SAMPLE_DIMS = ["chain", "draw"]


def summary_table(
    draws: ValueDraws,
    order: list[int],
    k: int,
    n_launched: int,
    moments: ExistingMoments | None = None,
) -> "pl.DataFrame":
    """Summarize each candidate's value and place.

    Parameters
    ----------
    draws : ValueDraws
        Draws of N policy values.
    order : list of int
        All policies, best first: the order of the rows.
    k : int
        1 <= k <= N, for `p_top_k`.
    n_launched : int
        How many of the first go live.
    moments : ExistingMoments, optional
        Which values have a mean and an sd; all if left out.

    Returns
    -------
    polars.DataFrame
        N rows. `policy`; `rank`, 1 is best; `mean`, `sd`, `hdi90_lower`, `hdi90_upper` of the
        value, in reward per step; `p_best` and `p_top_k`, the probabilities that it truly is the
        best and among the best k; `expected_rank`, the mean of its true place; `launched`,
        whether it goes live. Where a value has no mean or no sd, these are null, and a column
        `median` follows.
    """
    import polars as pl
    import xarray as xr
    from arviz_stats import summary

    names = list(draws.names)
    values = xr.Dataset(
        {"value": ([*_SAMPLE_DIMS, "policy"], draws.values)}, coords={"policy": names}
    )
    statistics = summary(
        values,
        sample_dims=_SAMPLE_DIMS,
        kind="stats",
        fmt="xarray",
        ci_prob=0.9,
        ci_kind="hdi",
        round_to="none",
    )["value"]
    block = ties.places(draws.values.reshape(-1, len(names)))
    columns = {
        "mean": statistics.sel(summary="mean").values,
        "sd": statistics.sel(summary="sd").values,
        "hdi90_lower": statistics.sel(summary="hdi90_lb").values,
        "hdi90_upper": statistics.sel(summary="hdi90_ub").values,
        "p_best": ties.inclusion(block, 1).mean(axis=0),
        "p_top_k": ties.inclusion(block, k).mean(axis=0),
        "expected_rank": ties.expected_places(block).mean(axis=0),
    }
    table = pl.DataFrame(
        {"policy": [names[i] for i in order], "rank": np.arange(1, len(names) + 1)}
        | {name: np.asarray(column, np.float64)[order] for name, column in columns.items()}
        | {"launched": np.arange(len(names)) < n_launched}
    )
    if moments is None or moments.sd.all():
        return table
    median = np.median(draws.values.reshape(-1, len(names)), axis=0)[order]
    there = {"mean": moments.mean[order], "sd": moments.sd[order]}
    kept = [pl.when(pl.Series(has)).then(pl.col(name)).alias(name) for name, has in there.items()]
    return table.with_columns(kept).insert_column(4, pl.Series("median", median))


def formatted(table: "pl.DataFrame") -> tuple[list[str], list[list[str]]]:
    """Format a table for people.

    Parameters
    ----------
    table : polars.DataFrame
        From `summary_table`.

    Returns
    -------
    tuple
        The headings, and the rows of cells: values to four digits, probabilities to three
        decimals, expected ranks to two.
    """
    formats = {"expected_rank": ".2f"}
    formats |= dict.fromkeys(["p_best", "p_top_k", "p_within_limits"], ".3f")

    def written(name: str, cell: object) -> str:
        if cell is None:
            return ABSENT
        if isinstance(cell, bool):
            return "yes" if cell else "no"
        return format(cell, formats.get(name, ".4g" if isinstance(cell, float) else ""))

    rows = [
        [written(name, cell) for name, cell in zip(table.columns, row, strict=True)]
        for row in table.iter_rows()
    ]
    return list(table.columns), rows


def as_text(table: "pl.DataFrame") -> str:
    """Lay the table out in aligned columns of plain text."""
    headings, rows = formatted(table)
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [headings, *rows]
    ]
    return "\n".join(lines)


def as_html(table: "pl.DataFrame") -> str:
    """Lay the table out as HTML, with names escaped."""
    headings, rows = formatted(table)
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
