"""Size: time and memory of a fit against rows, pairs and candidates.

Each case runs in a process of its own, once as `fit` does it and, where that is possible, once with
draws of all weights (``numerics=bd.Numerics(weights=True)``), which is how every belief was made
before values were found alone. Two cases stand beside a bare peer in the same process: a doubly
robust estimate in NumPy, and a scan of the same columns.
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

from benchmarks.tables import RESULTS, write_table

COMMAND = "python -m benchmarks size"
GIBIBYTE = 2**20  # the operating system counts in KiB
SUCCESSORS, STEPS = 5, 50
"""States that a pair may lead to, and steps of an episode."""
NOTES = (
    "Random worlds: each pair leads to one of five states, episodes have 50 steps (one step at a "
    "discount of 0), the logging policy is uniform. `seconds` is a later fit of the process, "
    "`first` its first, with imports and compilation; `peak_GiB` is the largest resident memory of "
    "the whole process, log included. `with_weights` and `with_weights_GiB` are the same fit with "
    "draws of all weights, where it was run. Draws: 4,000.",
    "`peer`: seconds of the peer in the same process. For `recommender` it is a doubly robust "
    "estimate of the same candidates in NumPy (propensities and rewards by pair), from the same "
    "arrays; for `rows` a scan of the log's five columns by Polars.",
)


class Case(NamedTuple):
    """A log and its candidates.

    Attributes
    ----------
    name
        What grows in it.
    rows, states, actions, candidates
        Their numbers.
    gamma
        Discount.
    dense
        Whether the fit with all weights is run too.
    """

    name: str
    rows: int
    states: int
    actions: int
    candidates: int
    gamma: float
    dense: bool = False


CASES = (
    Case("recommender", 100_000, 30, 60, 5, 0.0, dense=True),
    Case("recommender", 1_000_000, 1_000, 20, 5, 0.0),
    Case("rows", 100_000, 200, 5, 5, 0.95, dense=True),
    Case("rows", 1_000_000, 200, 5, 5, 0.95, dense=True),
    Case("rows", 10_000_000, 200, 5, 5, 0.95),
    Case("pairs", 200_000, 25, 4, 3, 0.95, dense=True),
    Case("pairs", 200_000, 125, 4, 3, 0.95, dense=True),
    Case("pairs", 200_000, 500, 4, 3, 0.95, dense=True),
    Case("pairs", 200_000, 2_500, 4, 3, 0.95),
    Case("candidates", 20_000, 50, 5, 5, 0.95, dense=True),
    Case("candidates", 20_000, 50, 5, 50, 0.95, dense=True),
    Case("candidates", 20_000, 50, 5, 200, 0.95, dense=True),
    Case("candidates", 20_000, 50, 5, 1_000, 0.95),
)


def play(case: Case) -> tuple[pl.DataFrame, np.ndarray]:
    """A log, and the candidates' probabilities, shape (candidates, states, actions)."""
    rng = np.random.default_rng(0)
    following = rng.integers(0, case.states, (case.states, case.actions, SUCCESSORS))
    steps = STEPS if case.gamma > 0.0 else 1
    episodes = case.rows // steps
    state = rng.integers(0, case.states, episodes)
    columns: dict[str, list[np.ndarray]] = {"state": [], "action": [], "next_state": []}
    for _ in range(steps):
        action = rng.integers(0, case.actions, episodes)
        onward = following[state, action, rng.integers(0, SUCCESSORS, episodes)]
        for name, column in zip(columns, (state, action, onward), strict=True):
            columns[name].append(column)
        state = onward
    # One episode after another.
    whole = {name: np.stack(parts, axis=1).ravel() for name, parts in columns.items()}
    reward = whole["state"] % 7 / 7 + 0.2 * whole["action"] / case.actions
    reward = reward + rng.normal(size=len(reward))
    frame = pl.DataFrame(
        {"episode_id": np.repeat(np.arange(episodes), steps), **whole, "reward": reward}
    )
    policies = rng.dirichlet(np.full(case.actions, 3.0), (case.candidates, case.states))
    return frame, policies


def doubly_robust(frame: pl.DataFrame, policies: np.ndarray) -> np.ndarray:
    """The candidates' values by a doubly robust estimate, as a peer."""
    _, n_states, n_actions = policies.shape
    state, action, reward = (frame[name].to_numpy() for name in ("state", "action", "reward"))
    pair = state * n_actions + action
    visits = np.bincount(pair, minlength=n_states * n_actions)
    model = np.bincount(pair, reward, n_states * n_actions) / np.maximum(visits, 1)
    chance = visits[pair] / np.bincount(state, minlength=n_states)[state]
    left = (reward - model[pair]) / chance
    means = np.einsum("nsa,sa->ns", policies, model.reshape(n_states, n_actions))
    return np.array(
        [
            (own[state] + policy[state, action] * left).mean()
            for own, policy in zip(means, policies, strict=True)
        ]
    )


def timed(job: Callable[[], object], times: int = 3) -> float:
    """Least seconds of several runs."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        job()
        found.append(time.perf_counter() - started)
    return min(found)


def measure(case: Case, *, weights: bool | None) -> dict[str, float]:
    """Run one case in this process."""
    frame, tables = play(case)
    peer = np.nan
    if case.name == "recommender":
        peer = timed(lambda: doubly_robust(frame, tables))
    if case.name == "rows":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.parquet"
            frame.write_parquet(path)
            peer = timed(lambda: pl.scan_parquet(path).select(pl.col("*").sum()).collect())
    started = time.perf_counter()
    import jax

    import bayesdice_ppl as bd

    logs = bd.Logs.from_dataframe(frame, actions=list(range(case.actions)))
    del frame
    policies = {f"p{j}": bd.TabularPolicy(table) for j, table in enumerate(tables)}

    def fit() -> None:
        bd.fit(
            logs,
            policies,
            gamma=case.gamma,
            rng_key=jax.random.key(0),
            numerics=bd.Numerics(weights=weights),
        )

    fit()
    first = time.perf_counter() - started
    later = timed(fit, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIBIBYTE
    return {"seconds": later, "first": first, "peak_GiB": peak, "peer": peer}


def run(index: int, *, weights: bool) -> dict[str, float]:
    """Run one case in a process of its own."""
    asked = [sys.executable, "-m", "benchmarks.size", str(index), str(int(weights))]
    told = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(told.strip().splitlines()[-1])
    return found


def main(folder: Path = RESULTS) -> None:
    """Run all cases, and print the table."""
    rows = []
    for index, case in enumerate(CASES):
        found = run(index, weights=False)
        whole = run(index, weights=True) if case.dense else {}
        rows.append(
            {
                "case": case.name,
                "rows": case.rows,
                "pairs": case.states * case.actions,
                "candidates": case.candidates,
                "gamma": case.gamma,
                **found,
                "with_weights": whole.get("seconds", float("nan")),
                "with_weights_GiB": whole.get("peak_GiB", float("nan")),
            }
        )
        print(rows[-1], flush=True)
    print(write_table("size", rows, command=COMMAND, notes=NOTES, folder=folder))


if __name__ == "__main__":
    chosen = CASES[int(sys.argv[1])]
    print(json.dumps(measure(chosen, weights=True if sys.argv[2] == "1" else None)))
