"""Rules held against one of them, trial by trial, and counted: where it wins, ties and loses.

All rules rank from the same logs, so their losses move together, and the difference is known far
better than either loss.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from bayesdice_ppl.experiments.experiment import PLACE

KEY = (*PLACE, "score", "k")
"""Columns that tell what is judged, and where."""

STANDARD_ERRORS = 2.0
"""A difference of less than so many of its standard errors is a tie."""

_ROUNDING = 1e-12
"""Losses that differ by less, relative to the larger, are the same."""


def compare(frame: pl.DataFrame, reference: str) -> pl.DataFrame:
    """Mean loss of each rule, and its difference to a rule of reference, paired by trial.

    Parameters
    ----------
    frame
        Columns `KEY`, ``trial``, ``rule`` and ``loss``, which is null where a rule had no answer.
    reference
        The rule that the others are held against.

    Returns
    -------
    polars.DataFrame
        One row a `KEY` and rule: ``trials``, ``failed`` (of them without an answer), ``loss`` with
        ``loss_se``, ``excess`` (loss minus the reference's in the same trials) with ``excess_se``,
        and ``verdict`` from the reference's side: "wins", "ties" or "loses".
    """
    own = frame.filter(pl.col("rule") == reference).select(*KEY, "trial", own="loss")
    paired = frame.join(own, on=[*KEY, "trial"], how="left", maintain_order="left")
    size = pl.max_horizontal(pl.col("loss").abs(), pl.col("own").abs())
    gap = pl.col("loss") - pl.col("own")
    paired = paired.with_columns(
        gap=pl.when(gap.is_null())
        .then(None)
        .when(gap.abs() <= _ROUNDING * size)
        .then(0.0)
        .otherwise(gap)
    )
    summary = paired.group_by([*KEY, "rule"], maintain_order=True).agg(
        trials=pl.len(),
        failed=pl.col("loss").null_count(),
        loss=pl.col("loss").mean(),
        loss_se=pl.col("loss").std() / pl.col("loss").count().sqrt(),
        excess=pl.col("gap").mean(),
        excess_se=pl.col("gap").std() / pl.col("gap").count().sqrt(),
    )
    clear = pl.col("excess").abs() > STANDARD_ERRORS * pl.col("excess_se")
    verdict = (
        pl.when(pl.col("rule") == reference)
        .then(None)
        .when(clear & (pl.col("excess") > 0.0))
        .then(pl.lit("wins"))
        .when(clear & (pl.col("excess") < 0.0))
        .then(pl.lit("loses"))
        .when(pl.col("excess").is_not_null())
        .then(pl.lit("ties"))
    )
    return summary.with_columns(verdict=verdict)


def count_verdicts(summary: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Count wins, ties and losses of the reference against each rule.

    Parameters
    ----------
    summary
        From `compare`.
    by
        Columns to count within, beside the score.

    Returns
    -------
    polars.DataFrame
        One row for each value of ``by``; a column for each score with "wins/ties/losses" over the
        cells and k, and ``failed``, the share of trials in which the rule had no answer.
    """
    judged = summary.filter(pl.col("verdict").is_not_null() | (pl.col("failed") > 0))
    counted = judged.group_by([*by, "score"], maintain_order=True).agg(
        text=pl.concat_str(
            [
                (pl.col("verdict") == verdict).sum().cast(pl.String)
                for verdict in ("wins", "ties", "loses")
            ],
            separator="/",
        )
    )
    failed = judged.group_by(by, maintain_order=True).agg(
        failed=pl.col("failed").sum() / pl.col("trials").sum()
    )
    wide = counted.pivot("score", index=list(by), values="text")
    return wide.join(failed, on=list(by), how="left", maintain_order="left")


def total(summary: pl.DataFrame, rule: str) -> tuple[int, int, int]:
    """Count wins, ties and losses of the reference against one rule, over everything."""
    found = summary.filter(pl.col("rule") == rule)["verdict"].to_numpy()
    wins, ties, losses = (int(np.sum(found == word)) for word in ("wins", "ties", "loses"))
    return wins, ties, losses
