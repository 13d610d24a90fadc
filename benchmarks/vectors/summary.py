"""The summary of a score: coverage, bias, widths and abstentions, by world and candidate.

Coverage and errors are those of pairs of log and candidate that the belief does not abstain from;
abstentions are counted among the pairs that are off by more than 3 sd, and among the others.
"""

from typing import Any

import numpy as np
import polars as pl

from bayesdice_ppl.experiments.coverage import LEVELS
from bayesdice_ppl.experiments.tables import as_markdown

FAR = 3.0
"""Believed sds past which a belief should have been abstained from."""

ALL = "(all)"
"""Stands for all candidates of a world."""


def summarize(rows: pl.DataFrame) -> pl.DataFrame:
    """Sum up by world and candidate, and over all candidates of each world.

    Parameters
    ----------
    rows
        From `benchmarks.vectors.score.read_rows`.

    Returns
    -------
    polars.DataFrame
        The columns of `summary_of` after `world` and `candidate`; worlds and candidates in the
        order of the rows.
    """
    found = []
    for world in rows["world"].unique(maintain_order=True):
        of_world = rows.filter(world=world)
        candidates = of_world["candidate"].unique(maintain_order=True).to_list()
        for candidate in (*candidates, ALL):
            some = of_world if candidate == ALL else of_world.filter(candidate=candidate)
            found.append({"world": world, "candidate": candidate, **summary_of(some)})
    return pl.DataFrame(found, infer_schema_length=None)


def summary_of(rows: pl.DataFrame) -> dict[str, Any]:
    """Sum up some rows.

    Returns
    -------
    dict
        `pairs`, how many there are, and `kept`, those without an abstention. Of the kept ones:
        coverage at each level and its mean distance from nominal, `mace`; `bias_sd` and `rmse_sd`
        in believed sds, `bias` and `rmse` in reward per step; `true_sd`, the sd of the means about
        their own average (within each candidate), and `believed_sd`, the median. Of all: `far`,
        how many are off by more than 3 sd, and the share abstained from among those and among the
        others. `truth` where there is one only. `seconds`, the median of a fit. None where there
        is nothing to count.
    """
    kept = rows.filter(~pl.col("abstained"))
    off = (rows["mean"] - rows["truth"]).to_numpy()
    # A belief without spread is right or infinitely far off.
    with np.errstate(divide="ignore", invalid="ignore"):
        in_sds = np.where(off == 0.0, 0.0, off / rows["sd"].to_numpy())
    abstained = rows["abstained"].to_numpy()
    far = np.abs(in_sds) > FAR
    coverage = [_mean(kept[f"in_{level * 100:.0f}"].to_numpy()) for level in LEVELS]
    distances = [
        abs(share - level)
        for share, level in zip(coverage, LEVELS, strict=True)
        if share is not None
    ]
    truths = rows["truth"].unique()
    centered = kept["mean"] - kept.select(pl.col("mean").mean().over("candidate"))["mean"]
    squares = float(np.sum(centered.to_numpy() ** 2))
    freedom = kept.height - kept["candidate"].n_unique()
    return {
        "truth": truths[0] if len(truths) == 1 else None,
        "pairs": rows.height,
        "kept": kept.height,
        **{f"cov_{level * 100:.0f}": share for level, share in zip(LEVELS, coverage, strict=True)},
        "mace": _mean(np.array(distances)),
        "bias_sd": _mean(in_sds[~abstained]),
        "rmse_sd": _root(_mean(in_sds[~abstained] ** 2)),
        "bias": _mean(off[~abstained]),
        "rmse": _root(_mean(off[~abstained] ** 2)),
        "true_sd": _root(squares / freedom) if freedom > 0 else None,
        "believed_sd": float(np.median(kept["sd"].to_numpy())) if kept.height else None,
        "far": int(far.sum()),
        "abstained_far": _mean(abstained[far]),
        "abstained_others": _mean(abstained[~far]),
        "seconds": float(np.median(rows["seconds"].to_numpy())),
    }


def _mean(numbers: np.ndarray) -> float | None:
    return float(np.mean(numbers)) if len(numbers) else None


def _root(number: float | None) -> float | None:
    return None if number is None else float(np.sqrt(number))


def as_text(rows: pl.DataFrame) -> str:
    """Write the summary as Markdown, with the warnings of each world counted."""
    table = summarize(rows).with_columns(pl.col(pl.Float64).round_sig_figs(3))
    named = rows.with_columns(pl.col("warnings").str.split("; ")).explode("warnings")
    named = named.filter(pl.col("warnings") != "").rename({"warnings": "warning"})
    counts = named.group_by("world", "candidate", "warning", maintain_order=True).len("logs")
    blocks = [as_markdown(table)]
    if counts.height:
        blocks.append("Warnings:\n\n" + as_markdown(counts))
    return "\n\n".join(blocks)
