"""Wide fits: Taxi's 2,400 pairs in closed form, and a Gaussian process of 2,000 transitions.

Each is run in a fresh process, compilation included, and its peak memory is that of the whole
process.
"""

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.tables import RESULTS, write_table

COMMAND = "python -m benchmarks wide"
NOTES = (
    "`taxi`: `bayesdice_ppl.fit(..., inference='exact')` on 100,000 simulated transitions, five "
    "candidates, discount 0.99; bars 60 s and 4 GiB. `process`: `process_moments` and "
    "`process_posterior` (Mahalanobis) of 2,000 transitions in 100 episodes, 5 numbers a point, 8 "
    "points for each expectation, a squared-exponential kernel of short length; bar 20 s.",
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


def process() -> float:
    """Seconds of moments and posterior."""
    from bayesdice_ppl.features.kernels import squared_exponential
    from bayesdice_ppl.inference.process import process_posterior
    from bayesdice_ppl.moments.process import PolicyPoints, process_moments

    rng = np.random.default_rng(SEED)
    n, m, width, n_points = 2000, 100, 5, 8

    def somewhere(count: int) -> PolicyPoints:
        points = rng.normal(size=(count, n_points, width))
        return PolicyPoints(points, np.full((count, n_points), 1.0 / n_points))

    given = (rng.normal(size=(n, width)), somewhere(n), somewhere(m), rng.normal(size=n))
    kernel = squared_exponential(0.7)
    started = time.perf_counter()
    moments = process_moments(kernel, kernel, *given, np.zeros(n, dtype=bool), gamma=0.95)
    process_posterior(moments, float(n), penalty="mahalanobis")
    return time.perf_counter() - started


def main(folder: Path = RESULTS) -> None:
    """Run each in a process of its own, and print the table."""
    rows = []
    for name, bar in (("taxi", 60.0), ("process", 20.0)):
        run = [sys.executable, "-m", "benchmarks.wide", name]
        seconds, gibibytes = subprocess.run(
            run, check=True, capture_output=True, text=True
        ).stdout.split()[-2:]
        rows.append(
            {"fit": name, "seconds": float(seconds), "bar": bar, "peak_GiB": float(gibibytes)}
        )
    print(write_table("wide", rows, command=COMMAND, notes=NOTES, folder=folder))


if __name__ == "__main__":
    taken = {"taxi": taxi, "process": process}[sys.argv[1]]()
    print(taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIBIBYTE)
