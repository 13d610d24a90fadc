"""Compare ranking rules with one of them: where it wins, ties and loses, trial by trial.

All rules rank from the same logs, so their losses are correlated, and a difference is known far
better than either loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from bayesdice_ppl.experiments.experiment import PLACE
from bayesdice_ppl.experiments.trials import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEY = (*PLACE, "score", "k")
"""Columns that identify a comparison."""

STANDARD_ERRORS = 3.0
"""A difference of less than so many of its standard errors is a tie.

Losses are often 0 in all but a few logs. Four logs that all point one way pass two standard errors;
three standard errors need nine.
"""

FEWEST_TRIALS = 20
"""With fewer trials the standard error is too uncertain, and everything is a tie."""

SHOWN_K = 2
"""The k at which losses are shown."""

_ROUNDING = 1e-12
"""Losses that differ by less, relative to the larger, are the same."""


def compare(frame: pl.DataFrame, reference: str) -> pl.DataFrame:
    """Mean loss of each rule, and its difference from the reference rule, paired by trial.

    Parameters
    ----------
    frame
        Columns `KEY`, ``trial``, ``rule`` and ``loss``, which is null where a rule had no answer.
    reference
        The rule that the others are compared with.

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
    enough = pl.col("trials") - pl.col("failed") >= FEWEST_TRIALS
    clear = enough & (pl.col("excess").abs() > STANDARD_ERRORS * pl.col("excess_se"))
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
        One row for each value of ``by``: ``trials``, the fewest of a cell, a column for each score
        with "wins/ties/losses" over the cells and k, and ``failed``, the share of trials in which
        the rule had no answer.
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
    asked = judged.group_by(by, maintain_order=True).agg(
        trials=pl.col("trials").min(), failed=pl.col("failed").sum() / pl.col("trials").sum()
    )
    wide = counted.pivot("score", index=list(by), values="text")
    joined = wide.join(asked, on=list(by), how="left", maintain_order="left")
    names = [name for name in wide.columns if name not in by]
    return joined.select(*by, "trials", *names, "failed")


def losses_table(summary: pl.DataFrame, rules: Sequence[str], k: int) -> pl.DataFrame:
    """Show mean losses with their standard errors, cell by cell.

    Parameters
    ----------
    summary
        From `compare`.
    rules
        Which rules to show.
    k
        The k to show.

    Returns
    -------
    polars.DataFrame
        One row a cell and rule; a column for each score with "loss +- standard error".
    """
    here = summary.filter((pl.col("k") == k) & pl.col("rule").is_in(list(rules)))
    shown = [
        None if loss is None else f"{loss:.4f} +- {error or 0.0:.4f}"
        for loss, error in here.select("loss", "loss_se").iter_rows()
    ]
    texts = here.with_columns(shown=pl.Series(shown, dtype=pl.String))
    wide = texts.pivot("score", index=[*PLACE, "rule", "trials"], values="shown")
    return wide.rename({name: f"{name}@{k}" for name in here["score"].unique()})


def total(summary: pl.DataFrame, rule: str) -> tuple[int, int, int]:
    """Count wins, ties and losses of the reference against one rule, over everything."""
    found = summary.filter(pl.col("rule") == rule)["verdict"].to_numpy()
    wins, ties, losses = (int(np.sum(found == word)) for word in ("wins", "ties", "loses"))
    return wins, ties, losses


def by_world(heading: str, table: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Split a table by world, each under its heading."""
    return {
        f"{heading}: {world}": group.drop("world")
        for (world,), group in table.group_by("world", maintain_order=True)
    }


@dataclass(frozen=True)
class RuleComparison(ABC):
    """An experiment that compares ranking rules on the same logs with one of them.

    See `bayesdice_ppl.experiments.experiment.Experiment`.

    Attributes
    ----------
    cells
        In the order in which they are run.
    reference : str
        The rule that the others are compared with.
    shown : tuple of str
        Rules whose losses are shown.
    """

    cells: tuple[Cell, ...]

    reference: ClassVar[str]
    shown: ClassVar[tuple[str, ...]]

    @property
    def schema(self) -> dict[str, Any]:
        """Columns of `rows`, as `bayesdice_ppl.experiments.ranking_rules.loss_rows` fills them."""
        return {"score": pl.String, "k": pl.Int64, "rule": pl.String, "loss": pl.Float64}

    def summarize(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Mean loss of each rule at each score, and its difference from the reference's."""
        return compare(frame, self.reference)

    def tables(self, summary: pl.DataFrame) -> dict[str, pl.DataFrame]:
        """Wins, ties and losses of the reference against each rule, and the losses of some."""
        return {
            **by_world("Wins/ties/losses", count_verdicts(summary, ("world", "rule"))),
            **by_world("Losses", losses_table(summary, self.shown, SHOWN_K)),
        }

    def remarks(self, summary: pl.DataFrame) -> tuple[str, ...]:
        """Say of each world where the reference wins, ties and loses."""
        return tuple(
            f"**{world}**: {self.remark(here)}"
            for (world,), here in summary.group_by("world", maintain_order=True)
        )

    @abstractmethod
    def remark(self, summary: pl.DataFrame) -> str:
        """Say where the reference wins, ties and loses in one world, whose summary is given."""

    def figure(self, summary: pl.DataFrame) -> Figure:
        """Loss of some rules at each score against the size of the log."""
        from bayesdice_ppl.experiments.losses_figure import draw_losses

        return draw_losses(summary, self.shown, own=self.reference, k=SHOWN_K)
