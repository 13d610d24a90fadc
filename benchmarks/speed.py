"""Speed: how long a person waits, from the import to the files of a ranking.

Whatever a person starts is timed as a process of its own, start-up and compilation included; fits
after the first, and searches, within one process. The size is that of the paper's small world:
5,000 transitions of FrozenLake, five candidates, 4,000 draws.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.fresh_fit import DRAWS, EPISODES, SEED, STEPS
from benchmarks.tables import RESULTS, write_table

COMMAND = "python -m benchmarks speed"
RUNS = 5
NOTES = (
    f"FrozenLake 4x4, slippery, {EPISODES} episodes of {STEPS} steps, discount 0.99, five "
    f"candidates, {DRAWS:,} draws. `seconds` is the median of `runs`, beside the fastest and the "
    "slowest; `bar` is what it is held against.",
    "First fits, `import`, `--help` and `select` are processes of their own; the first fit is "
    "timed from the call, with logs and candidates in memory. Files were read before, so the disk "
    "is warm.",
)


class Timing(NamedTuple):
    """Seconds of one thing, over several runs, and what they are held against.

    Attributes
    ----------
    name
        What was timed.
    seconds
        One entry a run; empty if it could not be measured.
    bar
        Most seconds it should take, None if there is no bar.
    """

    name: str
    seconds: list[float]
    bar: float | None

    def row(self) -> dict[str, object]:
        """One row of the table."""
        measured = bool(self.seconds)
        median = float(np.median(self.seconds)) if measured else None
        return {
            "measurement": self.name,
            "seconds": median,
            "fastest": min(self.seconds) if measured else None,
            "slowest": max(self.seconds) if measured else None,
            "runs": len(self.seconds),
            "bar": self.bar,
            "within": None if median is None or self.bar is None else median <= self.bar,
        }


def time_process(arguments: list[str], *, accept: tuple[int, ...] = (0,)) -> float | None:
    """Seconds of a process from start to exit; None, said aloud, if it cannot be run.

    Parameters
    ----------
    arguments
        Program and arguments.
    accept
        Exit codes of a run that counts.
    """
    started = time.perf_counter()
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    except FileNotFoundError as cause:
        print(f"not measured: {cause}", flush=True)
        return None
    seconds = time.perf_counter() - started
    if done.returncode not in accept:
        print(f"not measured: {' '.join(arguments)} gave {done.returncode}\n{done.stderr}")
        return None
    return seconds


def repeat(once: Callable[[], float | None], runs: int) -> list[float]:
    """Run once to warm the disk, then several times; empty if it cannot be measured."""
    if once() is None:
        return []
    return [seconds for seconds in (once() for _ in range(runs)) if seconds is not None]


def time_fits() -> list[Timing]:
    """First and later fits, by SVI and in closed form."""
    rows = []
    for inference in ("svi", "exact"):
        first, again = [], []
        for _ in range(RUNS):
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.fresh_fit", inference, str(1 + RUNS)],
                capture_output=True,
                text=True,
                check=True,
            )
            seconds = json.loads(done.stdout)
            first.append(seconds[0])
            again.append(float(np.median(seconds[1:])))
        rows.append(Timing(f"fit, {inference}, with compilation", first, 8.0))
        rows.append(Timing(f"fit, {inference}, after compilation", again, 1.0))
    return rows


def time_searches() -> list[Timing]:
    """Exhaustive selection, N = 8, k = 8, for each score."""
    import bayesdice_ppl as bd
    from bayesdice_ppl.belief import make_belief

    n_policies = 8
    rng = np.random.default_rng(SEED)
    spread = rng.normal(size=(n_policies, n_policies)) / np.sqrt(n_policies)
    values = rng.normal(size=n_policies) + rng.normal(size=(1, DRAWS, n_policies)) @ spread
    names = [f"policy_{i}" for i in range(n_policies)]
    belief = make_belief(values, names)
    scores = bd.scores
    rows = []
    for make in (scores.regret, scores.precision, scores.accuracy, scores.correlation):
        score = make(n_policies)

        def once(score: bd.scores.Score = score) -> float:
            started = time.perf_counter()
            bd.select(belief, score)
            return time.perf_counter() - started

        rows.append(Timing(f"select, {make.__name__}, N = k = {n_policies}", repeat(once, RUNS), 2))
    return rows


def time_simulation() -> Timing:
    """Simulating the logs, after compilation."""
    import jax

    import bayesdice_ppl as bd

    world = bd.simulation.make_world("frozenlake", alpha=0.0)

    def once() -> float:
        started = time.perf_counter()
        bd.simulate(world.env, world.behavior, EPISODES, STEPS, rng_key=jax.random.key(SEED))
        return time.perf_counter() - started

    name = f"simulate {EPISODES * STEPS:,} transitions, after compilation"
    return Timing(name, repeat(once, RUNS), None)


def time_processes() -> list[Timing]:
    """Import, `--help`, and `select` from its start to its files."""
    import jax

    import bayesdice_ppl as bd

    program = str(Path(sys.executable).with_name("bayesdice"))
    world = bd.simulation.make_world("frozenlake", alpha=0.0)
    logs = bd.simulate(world.env, world.behavior, EPISODES, STEPS, rng_key=jax.random.key(SEED))
    rows = [
        Timing(
            "import bayesdice_ppl",
            repeat(lambda: time_process([sys.executable, "-c", "import bayesdice_ppl"]), RUNS),
            1.5,
        ),
        Timing("bayesdice --help", repeat(lambda: time_process([program, "--help"]), RUNS), 1.0),
    ]
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        logs.to_dataframe().write_parquet(where / "logs.parquet")
        world.candidates.to_dataframe().write_parquet(where / "candidates.parquet")
        files = [str(where / "logs.parquet"), "--policies", str(where / "candidates.parquet")]
        asked = ["--gamma", "0.99", "--score", "regret", "-k", "2", "--seed", "1"]
        made = iter(range(1 + RUNS))

        def once() -> float | None:
            output = where / f"out-{next(made)}"
            # 3: done, files written, but the logs support some candidate too thinly.
            seconds = time_process(
                [program, "select", *files, *asked, "-o", str(output)], accept=(0, 3)
            )
            written = seconds is not None and {"belief.nc", "ranking.json", "forest.png"} <= set(
                os.listdir(output)
            )
            return seconds if written else None

        rows.append(Timing("bayesdice select, start to files", repeat(once, RUNS), 20.0))
    return rows


def main(folder: Path = RESULTS) -> None:
    """Fill the speed table and print it."""
    busy = f"Load average before the first run: {os.getloadavg()[0]:.1f} (0: an idle machine)."
    timings = [*time_fits(), *time_searches(), *time_processes(), time_simulation()]
    rows = [timing.row() for timing in timings]
    print(write_table("speed", rows, command=COMMAND, notes=(*NOTES, busy), folder=folder))
