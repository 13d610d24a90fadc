"""Logs that are counted where they lie: time beside a bare scan of the same columns, and memory.

A log of 200 states and 5 actions is written to Parquet in pieces, in row groups of 200,000 rows. A
process of its own then counts it and fits five candidates. The peer is a scan of the same columns
by Polars in the same process, before and after. Processor time is that of all threads.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from benchmarks.size import GIBIBYTE, Case, play
from benchmarks.tables import RESULTS, write_table

COMMAND = "python -m benchmarks large_logs"
PIECE, GROUP = 1_000_000, 200_000
"""Rows of a file, and of a row group."""
STATES, ACTIONS, CANDIDATES, GAMMA = 200, 5, 5, 0.95
NOTES = (
    "Columns: episode_id, step, state, action, reward, next_state; episodes of 50 steps; 1,000 "
    "pairs, five candidates. `scan` is the least processor time of a bare scan in seconds, `count` "
    "and `whole` (counting and fitting) are in multiples of it, as `count_wall` and `whole_wall` "
    "are of the least time of the clock. `peak_GiB` is the largest resident memory of the process, "
    "`begins_GiB` what it has before it looks at the log. It is a later fit of the process; "
    "`first` is the clock's seconds of its first, with imports and compilation.",
    "Of the whole, about a second of processor time does not depend on the rows: the values of the "
    "candidates, and the checks that are made in the first 200,000 rows. Most of the rest is the "
    "join of the rows with the numbers of their lines, and the sums over episodes.",
)


class Asked(NamedTuple):
    """A log and the engine that counts it."""

    rows: int
    engine: str


CASES = (
    Asked(1_000_000, "polars"),
    Asked(10_000_000, "polars"),
    Asked(10_000_000, "duckdb"),
)


def write_log(folder: Path, rows: int) -> None:
    """Write a log in pieces, each of episodes of its own."""
    case = Case("rows", PIECE, STATES, ACTIONS, CANDIDATES, GAMMA)
    frame, _ = play(case)
    episodes = frame["episode_id"].n_unique()
    steps = len(frame) // episodes
    frame = frame.with_columns(step=pl.Series(np.tile(np.arange(steps), episodes)))
    rng = np.random.default_rng(1)
    for piece in range(rows // PIECE):
        # The same steps with other rewards: what is counted is as large.
        own = frame.with_columns(
            pl.col("episode_id") + piece * episodes,
            pl.col("reward") + pl.Series(rng.normal(size=len(frame))),
        )
        own.write_parquet(folder / f"{piece:04}.parquet", row_group_size=GROUP)


def table_of(folder: Path, engine: str) -> object:
    """The log as a lazy table."""
    files = str(folder / "*.parquet")
    if engine == "polars":
        return pl.scan_parquet(files)
    import duckdb

    return duckdb.connect().read_parquet(files)


class Timed(NamedTuple):
    """Seconds of the processor, on all threads, and of the clock."""

    processor: float
    clock: float


def timed(job: Callable[[], object], times: int = 1) -> Timed:
    """Least times of several runs."""
    found = []
    for _ in range(times):
        processor, clock = time.process_time(), time.perf_counter()
        job()
        found.append((time.process_time() - processor, time.perf_counter() - clock))
    return Timed(min(each[0] for each in found), min(each[1] for each in found))


def peak() -> float:
    """Largest resident memory so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIBIBYTE


def measure(folder: Path, engine: str) -> dict[str, float]:
    """Count and fit one log in this process."""
    import jax

    import bayesdice_ppl as bd

    rng = np.random.default_rng(0)
    tables = rng.dirichlet(np.full(ACTIONS, 3.0), (CANDIDATES, STATES))
    policies = {f"p{j}": bd.TabularPolicy(table) for j, table in enumerate(tables)}

    def count() -> object:
        return bd.Logs.from_lazy(table_of(folder, engine), actions=list(range(ACTIONS)))

    def whole() -> None:
        bd.fit(count(), policies, gamma=GAMMA, rng_key=jax.random.key(0))

    def scan() -> None:
        files = pl.scan_parquet(str(folder / "*.parquet"))
        files.select(pl.col("*").sum()).collect(engine="streaming")

    begins = peak()
    first = timed(whole)
    scans = [timed(scan, 3)]
    counted, fitted = timed(count, 2), timed(whole)
    scans.append(timed(scan, 3))
    bare = Timed(*(min(column) for column in zip(*scans, strict=True)))
    return {
        "scan": bare.processor,
        "count": counted.processor / bare.processor,
        "whole": fitted.processor / bare.processor,
        "count_wall": counted.clock / bare.clock,
        "whole_wall": fitted.clock / bare.clock,
        "first": first.clock,
        "begins_GiB": begins,
        "peak_GiB": peak(),
    }


def main(folder: Path = RESULTS) -> None:
    """Run all cases, and print the table."""
    rows = []
    for asked in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            write_log(Path(scratch), asked.rows)
            words = [sys.executable, "-m", "benchmarks.large_logs", scratch, asked.engine]
            told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        found = json.loads(told.strip().splitlines()[-1])
        rows.append({"rows": asked.rows, "engine": asked.engine, **found})
        print(rows[-1], flush=True)
    print(write_table("large_logs", rows, command=COMMAND, notes=NOTES, folder=folder))


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), sys.argv[2])))
