"""Reacher: true values of the reference policies, by playing them for long enough.

The values ship with the library, since they take half an hour to find. Each is checked against
another chain: with restarts of probability p that do not depend on anything, the infinite world at
discount gamma is worth what the plain game, never restarted, is worth at gamma (1 - p).
"""

import csv
import io
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import jax

import bayesdice_ppl.envs as envs
from bayesdice_ppl.envs.reacher import RESTART_PROBABILITY
from bayesdice_ppl.experiments.tables import provenance
from bayesdice_ppl.simulation import true_value

COMMAND = "python -m benchmarks reacher"
FOLDER = Path(__file__).resolve().parent.parent / "bayesdice_ppl" / "simulation" / "values"
ALPHAS = (0.0, 0.25, 0.5, 0.75, 0.8, 0.85, 0.9, 0.95)
GAMMAS = (0.99, 1.0)
EPISODES = {0.99: 2_500, 1.0: 1_000}
CHECK_EPISODES = 4_000
SEED = 21
LARGEST_ERROR = 0.001


class Job(NamedTuple):
    """One value to be found, in the infinite world or in the plain game that checks it."""

    alpha: float
    gamma: float
    plain: bool


def find(job: Job) -> tuple[Job, float, float, float]:
    """Play, and return value, standard error, and the share of discounted steps left out."""
    key = jax.random.fold_in(jax.random.key(SEED), int(job.plain))
    for part in (ALPHAS.index(job.alpha), GAMMAS.index(job.gamma)):
        key = jax.random.fold_in(key, part)
    policy = envs.reacher_policy(job.alpha)
    if job.plain:
        env = envs.InfiniteReacher(restart_probability=0.0)
        gamma, episodes = job.gamma * (1 - RESTART_PROBABILITY), CHECK_EPISODES
    else:
        env, gamma, episodes = envs.InfiniteReacher(), job.gamma, EPISODES[job.gamma]
    found = true_value(env, policy, gamma, rng_key=key, n_episodes=episodes)
    return job, float(found), found.standard_error, found.left_out


def main(folder: Path = FOLDER) -> None:
    """Find all values, in two processes, and write them with how they were checked."""
    jobs = [
        Job(alpha, gamma, plain) for alpha in ALPHAS for gamma in GAMMAS for plain in (False, True)
    ]
    found = {}
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for job, value, error, left_out in pool.map(find, jobs):
            found[job] = (value, error, left_out)
            print(f"{job}: {value:.5f} +- {error:.5f}", flush=True)
    rows = []
    for alpha in ALPHAS:
        for gamma in GAMMAS:
            value, error, left_out = found[Job(alpha, gamma, False)]
            other, other_error, _ = found[Job(alpha, gamma, True)]
            if error > LARGEST_ERROR:
                print(f"alpha = {alpha}, gamma = {gamma}: standard error {error:.5f} is too large")
            rows.append([alpha, gamma, value, error, left_out, other, other_error])
    _write(folder, rows)


def _write(folder: Path, rows: list[list[Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    heads = (
        "alpha",
        "gamma",
        "value",
        "standard_error",
        "left_out",
        "plain_value",
        "plain_standard_error",
    )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([*row[:2], *(f"{number:.6f}" for number in row[2:])] for row in rows)
    (folder / "reacher.csv").write_text(text.getvalue())
    lines = [
        "# True values of Reacher's reference policies",
        "",
        *provenance(COMMAND, extra=("gymnasium", "mujoco")),
        "",
        "`value` is the normalized value of `envs.reacher_policy(alpha)` in `InfiniteReacher` at",
        "`gamma` (1: the average reward), reward per step, with its standard error; `left_out` is",
        "the share of discounted steps beyond the simulated horizon. `plain_value` is what the",
        "game without restarts is worth at 0.97 gamma, simulated apart: the same number, since",
        "restarts come with probability 0.03 whatever happens.",
        "",
    ]
    (folder / "README.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
