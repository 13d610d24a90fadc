"""Whole logs: every candidate of a few logs of each world, shown beside the truth.

A coverage hides how beliefs look together. Here is each log by itself: who is off by how much, who
is abstained from, and whether the order is right up to candidates that the belief cannot tell
apart.
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.tables import write_table
from benchmarks.vectors.score import read_rows

LOGS = 10
"""Logs of each world that are shown."""
NOTES = (
    "One row is one log. Each candidate has mean +- sd of its belief, in reward per step, and in "
    "brackets how many of its sds it is off; `*` is an abstention. The first row of a world has "
    "the true values. `inside`: how many of the candidates that were not abstained from have their "
    "truth in the 95 % interval. `order`: pairs of these candidates whose means are in the wrong "
    "order although they are more than one sd (the larger of the two) apart.",
)


def whole_logs(rows: pl.DataFrame, world: str, n_logs: int = LOGS) -> list[dict[str, Any]]:
    """A row with the true values, and one for each of the first logs of a world.

    Parameters
    ----------
    rows
        From `benchmarks.vectors.score.read_rows`.
    world
        Its name.
    n_logs
        How many logs.
    """
    own = rows.filter(world=world)
    names = own["candidate"].unique(maintain_order=True).to_list()
    truth = {name: own.filter(candidate=name)["truth"][0] for name in names}
    told = "; ".join(f"{name} {truth[name]:.3f}" for name in names)
    found: list[dict[str, Any]] = [
        {"world": world, "log": "truth", "inside": "", "order": "", "candidates": told}
    ]
    for seed in sorted(own["seed"].unique())[:n_logs]:
        log = {each["candidate"]: each for each in own.filter(seed=seed).to_dicts()}
        kept = [name for name in names if not log[name]["abstained"]]
        wrong = sum(_swapped(log[one], log[other]) for one, other in combinations(kept, 2))
        found.append(
            {
                "world": world,
                "log": str(seed),
                "inside": f"{sum(bool(log[name]['in_95']) for name in kept)} of {len(kept)}",
                "order": f"{wrong} of {len(kept) * (len(kept) - 1) // 2}",
                "candidates": "; ".join(_words(log[name]) for name in names),
            }
        )
    return found


def _words(row: dict[str, Any]) -> str:
    off = (row["mean"] - row["truth"]) / row["sd"]
    mark = "*" if row["abstained"] else ""
    return f"{row['candidate']}{mark} {row['mean']:.3f} +- {row['sd']:.3f} ({off:+.1f})"


def _swapped(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two means are in the wrong order, and more than one sd apart."""
    apart = one["mean"] - other["mean"]
    wrong: bool = apart * (one["truth"] - other["truth"]) < 0.0
    return wrong and abs(apart) > max(one["sd"], other["sd"])


def write_whole(files: Sequence[Path], worlds: Sequence[str]) -> str:
    """Write the logs to ``results/vector_logs.csv`` and ``vector_logs.md``."""
    rows = read_rows(files)
    there = [world for world in worlds if world in rows["world"].unique()]
    shown = [row for world in there for row in whole_logs(rows, world)]
    command = f"python -m benchmarks vectors --whole ROWS.csv --worlds {','.join(there)}"
    return write_table("vector_logs", shown, command=command, notes=NOTES)
