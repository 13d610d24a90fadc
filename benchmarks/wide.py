"""A wide fit: Taxi's 2,400 pairs in closed form.

It runs in a fresh process, compilation included, and its peak memory is that of the whole
process.
"""

import resource
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.tables import RESULTS, write_table

COMMAND = "python -m benchmarks wide"
NOTES = (
    "`taxi`: `bayesdice_ppl.fit(..., inference='exact')` on 100,000 simulated transitions, five "
    "candidates, discount 0.99; bars 60 s and 4 GiB.",
)
GIBIBYTE = 2**20  # the operating system counts in KiB
SEED = 0


def taxi() -> float:
    """Seconds of the fit."""
    import jax

    import bayesdice_ppl as bd

    world = bd.simulation.make_world("taxi")
    logs = bd.simulate(world.env, world.behavior, 1000, 100, rng_key=jax.random.key(SEED))
    started = time.perf_counter()
    bd.fit(logs, world.candidates, gamma=0.99, rng_key=jax.random.key(SEED + 1), inference="exact")
    return time.perf_counter() - started


def main(folder: Path = RESULTS) -> None:
    """Run the fit in a process of its own, and print the table."""
    run = [sys.executable, "-m", "benchmarks.wide"]
    told = subprocess.run(run, check=True, capture_output=True, text=True).stdout.split()
    seconds, gibibytes = (float(number) for number in told[-2:])
    rows = [{"fit": "taxi", "seconds": seconds, "bar": 60.0, "peak_GiB": gibibytes}]
    print(write_table("wide", rows, command=COMMAND, notes=NOTES, folder=folder))


if __name__ == "__main__":
    print(taxi(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIBIBYTE)
