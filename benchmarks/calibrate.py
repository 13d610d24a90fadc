"""Calibrate: does it say that a procedure misses where it misses, and only there.

The logs are those of the promise benchmark. `bayesdice_ppl.calibrate` knows one log at a time, and
not the world behind it; what the same procedure covers on fresh logs of that world is beside it.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl

import bayesdice_ppl as bd
from benchmarks.promise import DRAWS, KINDS, WORLDS, Kind, World
from benchmarks.tables import RESULTS, write_table

TRIALS = 8
FRESH = 160
COMMAND = "python -m benchmarks calibrate"
FEW, MORE = 50, 200
NOTES = (
    "One row is one kind of log in promise.md, and a form of `bayesdice_ppl.fit`. `default`: the "
    'defaults. `transition`: `cluster="transition"`: rows count as independent although those of '
    "one user or episode share an effect. `no small sample`: "
    "`constraint=Constraint(small_sample=False)`. `fails`: whether intervals of this form miss.",
    "`cover_90`: share of 90 % intervals that hold the true value, of three candidates, on "
    f"{FRESH} fresh logs of the kind; for `default` it is `all_90` of promise.md. `logs`: logs "
    "that were handed to `bayesdice_ppl.calibrate`; `simulated`: logs that it made of each. "
    "Cells that do not fail have half as many logs. "
    "`misses`: share of the logs for which it said that intervals do not cover, for one of three "
    "candidates or for all together. `simulated_90`: what they covered in simulated logs. "
    "`abstained`: share of simulated beliefs that abstain, which tell the user themselves. "
    "`seconds`: for one log.",
    "Log i of a kind is drawn by `default_rng([number of the kind, 1, i])`, its world by "
    "`default_rng([number of the kind, 0, i mod 8])`; fresh logs go on from i = 10,000.",
)


class Cell(NamedTuple):
    """A kind of log and how it is fitted.

    Attributes
    ----------
    number
        Place of the kind in `benchmarks.promise.KINDS`.
    form
        What the options are called.
    options
        Of `bayesdice_ppl.fit`.
    fails
        Whether intervals miss.
    simulated
        Logs that `bayesdice_ppl.calibrate` makes of each.
    """

    number: int
    form: str = "default"
    options: Mapping[str, Any] = {}
    fails: bool = False
    simulated: int = FEW


ROWS = {"cluster": "transition"}
LARGE = {"constraint": bd.Constraint(small_sample=False)}
CELLS = (
    Cell(0, "transition", ROWS, True),
    Cell(1, "transition", ROWS, True),
    Cell(5, "default", {}, True, MORE),
    Cell(8, "no small sample", LARGE, True, MORE),
    Cell(9, "no small sample", LARGE, True, MORE),
    Cell(12, "no small sample", LARGE, True, MORE),
    Cell(0),
    Cell(1),
    Cell(6),
    Cell(7),
    *(Cell(number) for number, kind in enumerate(KINDS) if kind.healthy),
)


def _world(number: int, i: int) -> World:
    return KINDS[number].make(np.random.default_rng([number, 0, i % WORLDS]))


def _given(number: int, world: World, i: int) -> tuple[bd.Logs, dict[str, bd.TabularPolicy]]:
    """The i-th log of a kind, and its candidates."""
    frame = world.play(np.random.default_rng([number, 1, i]))
    logs = bd.Logs.from_dataframe(frame, actions=list(range(world.tables[0].shape[1])))
    return logs, {str(j): bd.TabularPolicy(table) for j, table in enumerate(world.tables)}


def _covered(cell: Cell, kind: Kind, fresh: int) -> float:
    """Share of 90 % intervals that hold the true value on fresh logs."""
    if cell.form == "default":
        known = pl.read_csv(RESULTS / "promise.csv", comment_prefix="#")
        return float(known.filter(pl.col("kind") == kind.name)["all_90"].item())
    found = np.zeros((fresh, 3))
    for i in range(fresh):
        world = _world(cell.number, i)
        logs, policies = _given(cell.number, world, 10_000 + i)
        options = {**kind.options, **cell.options}
        belief = bd.fit(
            logs, policies, gamma=kind.gamma, rng_key=jax.random.key(i), draws=DRAWS, **options
        )
        below = np.mean(belief["posterior/value"].to_numpy()[0] < world.truth, axis=0)
        found[i] = np.abs(below - 0.5) < 0.45
    return float(found.mean())


def measure(cell: Cell, trials: int, fresh: int = FRESH) -> dict[str, object]:
    """One row of the table."""
    kind = KINDS[cell.number]
    covered = _covered(cell, kind, fresh)
    misses, inside, abstained, start = [], [], [], time.perf_counter()
    for i in range(trials):
        logs, policies = _given(cell.number, _world(cell.number, i), i)
        found = bd.calibrate(
            logs,
            policies,
            gamma=kind.gamma,
            rng_key=jax.random.key(i),
            trials=cell.simulated,
            draws=DRAWS,
            **{**kind.options, **cell.options},
        )
        misses.append(not found.covers)
        inside.append(found.coverage(0.9).mean())
        abstained.append(found.abstained.mean())
    return {
        "kind": kind.name,
        "form": cell.form,
        "fails": cell.fails,
        "cover_90": covered,
        "logs": trials,
        "simulated": cell.simulated,
        "misses": float(np.mean(misses)),
        "simulated_90": float(np.mean(inside)),
        "abstained": float(np.mean(abstained)),
        "seconds": (time.perf_counter() - start) / trials,
    }


def main(trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Measure every cell and write the table, anew after each cell: all take most of an hour."""
    rows: list[dict[str, object]] = []
    command = COMMAND if trials == TRIALS else f"{COMMAND} --trials {trials}"
    for cell in CELLS:
        rows.append(measure(cell, trials if cell.fails else (trials + 1) // 2))
        print(rows[-1], flush=True)
        notes = (summary(rows), *NOTES)
        table = write_table("calibrate", rows, command=command, notes=notes, folder=folder)
    print(table)


def summary(rows: list[dict[str, object]]) -> str:
    """How often intervals were said not to cover, in the cells that fail and in the others."""
    told = []
    for fails, name in ((True, "failing"), (False, "other")):
        part = [float(str(row["misses"])) for row in rows if row["fails"] is fails]
        if part:
            told.append(f"{np.mean(part):.0%} of the logs of {len(part)} {name} cells")
    return f"Said not to cover: {', and '.join(told)}."
