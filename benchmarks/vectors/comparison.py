"""Methods side by side on the same logs: coverage, abstentions and widths, by world.

A narrow interval is worth something only where it covers, so both stand in one row.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bayesdice_ppl.experiments.coverage import LEVELS
from benchmarks.tables import write_table
from benchmarks.vectors.score import read_rows
from benchmarks.vectors.summary import summary_of

NOTES = (
    "`cov_*` and `mace` are over pairs of log and candidate that the method does not abstain from: "
    "the share of central intervals that hold the true value, and its mean distance from nominal. "
    "`abstained` is the share of pairs that it abstains from, `off_3_sd` the share of all pairs "
    "that are off by more than 3 believed sds, `abstained_of_them` the share of these that it "
    "abstains from. `bias_sd` is in believed sds. `width` is its believed sd over that of the "
    "first method where it does not abstain, a geometric mean over the candidates' medians. "
    "`seconds` is the median time of all candidates on one log, on two cores that ran other work "
    "too.",
    "Rows of logs and candidates are made by "
    "`python -m benchmarks vectors --first-seed 400 -o FILE`, with "
    "`--fit benchmarks.vectors.peers:NAME` for other methods.",
)


def compare(files: Mapping[str, Path]) -> pl.DataFrame:
    """Sum up every method by world, in the order of the files.

    Parameters
    ----------
    files
        Name of a method -> its rows; the widths of the first are the unit.
    """
    rows = {name: read_rows([path]) for name, path in files.items()}
    unit = next(iter(rows.values()))
    found = []
    for world in unit["world"].unique(maintain_order=True):
        for name, all_rows in rows.items():
            own = all_rows.filter(world=world)
            if own.height:
                found.append({"world": world, "method": name, **_row(own, unit)})
    return pl.DataFrame(found, infer_schema_length=None)


def _row(own: pl.DataFrame, unit: pl.DataFrame) -> dict[str, Any]:
    summed = summary_of(own)
    return {
        "logs": own["seed"].n_unique(),
        **{f"cov_{level * 100:.0f}": summed[f"cov_{level * 100:.0f}"] for level in LEVELS},
        "mace": summed["mace"],
        "bias_sd": summed["bias_sd"],
        "abstained": float(own["abstained"].mean() or 0.0),  # type: ignore[arg-type]
        "off_3_sd": summed["far"] / own.height,
        "abstained_of_them": summed["abstained_far"],
        "width": _width(own, unit),
        "seconds": summed["seconds"],
    }


def _width(own: pl.DataFrame, unit: pl.DataFrame) -> float | None:
    """Its sds over those of the unit where it does not abstain, on the logs that both have."""
    keys = ["world", "seed", "candidate"]
    kept = own.filter(~pl.col("abstained"))
    both = kept.select(*keys, "sd").join(unit.select(*keys, unit_sd="sd"), on=keys)
    medians = both.group_by("candidate").agg(pl.col("sd", "unit_sd").median())
    if not medians.height:
        return None
    ratio = medians["sd"].to_numpy() / medians["unit_sd"].to_numpy()
    return float(np.exp(np.mean(np.log(ratio))))


def write_comparison(files: Mapping[str, Path]) -> str:
    """Write the comparison to ``results/vectors.csv`` and ``vectors.md``."""
    words = " ".join(f"{name}=ROWS.csv" for name in files)
    return write_table(
        "vectors",
        compare(files).to_dicts(),
        command=f"python -m benchmarks vectors --compare {words}",
        notes=NOTES,
    )
