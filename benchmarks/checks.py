"""What the checks of a log cost: a fit that looks for the unit, beside one that is told it.

The unit that rows move together in, an adaptive policy, skewness and tails are looked for by
default. Here the time of the default is held against that of a fit that is told that transitions
are independent, and looks at nothing but the tails.
"""

import time
from pathlib import Path

import jax
import numpy as np
import polars as pl

import bayesdice_ppl as bd
from benchmarks.promise import KINDS
from benchmarks.tables import RESULTS, write_table

TRIALS = 9
COMMAND = "python -m benchmarks checks"
NOTES = (
    "`with`, `without`: median seconds of later fits of one log in one process (1,000 draws), by "
    "default and with `cluster='transition'`, in turns. `ratio`: their quotient; the "
    "checks may add a third. The bandit has 20 contexts, 8 actions, a column `user_id` of 20 rows "
    "each and 5 candidates; the MDP 10 states, 3 actions, 3 candidates.",
)


def bandit(n: int) -> tuple[bd.Logs, dict[str, bd.TabularPolicy], float]:
    """A bandit's log with users, its candidates, and the discount."""
    rng = np.random.default_rng(0)
    state, action = rng.integers(20, size=n), rng.integers(8, size=n)
    reward = rng.normal(size=(20, 8))[state, action] + rng.normal(size=n)
    columns = {"state": state, "action": action, "reward": reward}
    frame = pl.DataFrame({**columns, "user_id": np.arange(n) // 20})
    tables = {str(j): rng.dirichlet(np.ones(8), size=20) for j in range(5)}
    policies = {name: bd.TabularPolicy(table) for name, table in tables.items()}
    return bd.Logs.from_dataframe(frame, actions=list(range(8))), policies, 0.0


def chain() -> tuple[bd.Logs, dict[str, bd.TabularPolicy], float]:
    """A log of 5,000 steps of the healthy MDP, its candidates, and the discount."""
    kind = next(kind for kind in KINDS if kind.name == "MDP, gamma 0.9, n 5,000")
    world = kind.make(np.random.default_rng(0))
    frame = world.play(np.random.default_rng(1))
    policies = {str(j): bd.TabularPolicy(table) for j, table in enumerate(world.tables)}
    return bd.Logs.from_dataframe(frame, actions=[0, 1, 2]), policies, kind.gamma


def seconds(log: tuple[bd.Logs, dict[str, bd.TabularPolicy], float], **options: object) -> float:
    """Time of one fit."""
    logs, policies, gamma = log
    start = time.perf_counter()
    bd.fit(logs, policies, gamma=gamma, rng_key=jax.random.key(0), draws=1_000, **options)
    return time.perf_counter() - start


def main(trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Time every log and write the table."""
    logs = {
        "bandit 20 x 8, n 5,000": bandit(5_000),
        "bandit 20 x 8, n 100,000": bandit(100_000),
        "MDP 10 x 3, gamma 0.9, n 5,000": chain(),
    }
    rows: list[dict[str, object]] = []
    for name, log in logs.items():
        seconds(log)
        seconds(log, cluster="transition")
        pairs = [(seconds(log), seconds(log, cluster="transition")) for _ in range(trials)]
        looks, plain = np.median(pairs, axis=0)
        rows.append(
            {"log": name, "with": float(looks), "without": float(plain), "ratio": looks / plain}
        )
    command = COMMAND if trials == TRIALS else f"{COMMAND} --trials {trials}"
    print(write_table("checks", rows, command=command, notes=NOTES, folder=folder))
