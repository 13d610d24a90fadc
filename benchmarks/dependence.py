"""Dependence: do intervals cover where rows are not independent, and at what cost where they are.

Rows of one user or episode share an effect, or follow each other in time, or were written by a
bandit algorithm. Truths are closed forms of the population: each log draws its users anew. Beside
them stand worlds of independent rows, in which a belief should neither widen nor warn.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import polars as pl

import bayesdice_ppl as bd
from benchmarks.promise import thompson_log
from benchmarks.tables import RESULTS, write_table

TRIALS = 300
LEVELS = (0.5, 0.8, 0.9, 0.95)
DRAWS = 400
COMMAND = "python -m benchmarks dependence"
NOTES = (
    "One row is one world and three candidates, over all logs. Everything is the default of "
    "`bayesdice_ppl.fit`. `cov_90`: share of central 90 % intervals that hold the true value, of "
    "the candidates that are not abstained from; `mace`: mean over 50, 80, 90 and 95 % of "
    "|coverage - nominal|, of the same. `plain_90`: the first with rows as independent, "
    "`cluster='transition'`, abstentions aside. `width`: mean sd over the sd of errors. `unit`: "
    "share of logs in which groups count (wider for an adaptive policy is another thing, which "
    "`plain_90` has too). `warned`, `abstained`: shares of candidates.",
    "Log i of a world is drawn by `default_rng([number of the world, i])`.",
)


class Cell(NamedTuple):
    """A world.

    Attributes
    ----------
    name
        What it is.
    gamma
        Discount.
    make
        From a generator to the log's table and each candidate's table and true value.
    """

    name: str
    gamma: float
    make: Callable[[np.random.Generator], tuple[pl.DataFrame, list[np.ndarray], np.ndarray]]


def _bandit(
    rng: np.random.Generator,
    n: int,
    n_states: int,
    n_actions: int,
    noise: np.ndarray,
    **columns: np.ndarray,
) -> tuple[pl.DataFrame, list[np.ndarray], np.ndarray]:
    """A bandit of fixed means, logged uniformly; three candidates."""
    fixed = np.random.default_rng(0)
    mean = fixed.normal(size=(n_states, n_actions))
    tables = [fixed.dirichlet(np.ones(n_actions), size=n_states) for _ in range(3)]
    state, action = rng.integers(n_states, size=n), rng.integers(n_actions, size=n)
    frame = pl.DataFrame(
        {"state": state, "action": action, "reward": mean[state, action] + noise, **columns}
    )
    return frame, tables, np.array([(table * mean).sum(axis=1).mean() for table in tables])


def _users(effect: float) -> Callable[[np.random.Generator], tuple]:
    def make(rng: np.random.Generator) -> tuple:
        user = np.repeat(np.arange(50), 20)
        shared = effect * rng.normal(size=50)
        return _bandit(rng, 1_000, 3, 3, shared[user] + rng.normal(size=1_000), user_id=user)

    return make


def _crossed(rng: np.random.Generator) -> tuple:
    user, day = np.repeat(np.arange(40), 25), np.tile(np.arange(25), 40)
    noise = 0.6 * rng.normal(size=40)[user] + 0.6 * rng.normal(size=25)[day]
    return _bandit(rng, 1_000, 3, 3, noise + rng.normal(size=1_000), user_id=user, day=day)


def _autocorrelated(rng: np.random.Generator) -> tuple:
    noise, n, keep = np.empty(4_000), 4_000, np.exp(-1 / 5)
    noise[0] = rng.normal()
    shocks = np.sqrt(1.0 - keep**2) * rng.normal(size=n)
    for t in range(1, n):
        noise[t] = keep * noise[t - 1] + shocks[t]
    return _bandit(rng, n, 3, 3, noise)


def _independent(n: int, n_states: int, n_actions: int) -> Callable[[np.random.Generator], tuple]:
    def make(rng: np.random.Generator) -> tuple:
        return _bandit(rng, n, n_states, n_actions, rng.normal(size=n))

    return make


def _columns(rng: np.random.Generator) -> tuple:
    sizes = {"user_id": 50, "site": 5, "session_id": 200, "hospital": 8, "batch": 25, "hour": 24}
    columns = {name: rng.integers(size, size=1_000) for name, size in sizes.items()}
    return _bandit(rng, 1_000, 3, 3, rng.normal(size=1_000), **columns)


def _thompson(rng: np.random.Generator) -> tuple:
    n, n_actions = 1_000, 8
    fixed = np.random.default_rng(0)
    tables = [fixed.dirichlet(np.ones(n_actions), size=1) for _ in range(3)]
    mean = 0.3 * rng.normal(size=n_actions)
    frame = thompson_log(rng, mean, n)
    return frame, tables, np.array([float(table[0] @ mean) for table in tables])


def _chain(
    effect: float, gamma: float
) -> Callable[[np.random.Generator], tuple[pl.DataFrame, list[np.ndarray], np.ndarray]]:
    """An MDP of 10 states and 3 actions; 50 episodes of 40 steps, with an effect of each."""
    fixed = np.random.default_rng(1)
    move = fixed.dirichlet(np.ones(10), size=(10, 3))
    mean = fixed.normal(size=(10, 3))
    tables = [fixed.dirichlet(np.ones(3), size=10) for _ in range(3)]
    truth = []
    for table in tables:
        chain = np.einsum("sa,sat->st", table, move)
        reward = (table * mean).sum(axis=1)
        visits = np.linalg.solve(np.eye(10) - gamma * chain.T, np.full(10, 0.1) * (1 - gamma))
        truth.append(float(visits @ reward))

    def make(rng: np.random.Generator) -> tuple:
        n_episodes, n_steps = 50, 40
        shared = effect * rng.normal(size=n_episodes)
        state = rng.integers(10, size=n_episodes)
        parts = []
        for step in range(n_steps):
            action = rng.integers(3, size=n_episodes)
            reward = mean[state, action] + shared + 0.5 * rng.normal(size=n_episodes)
            ends = np.cumsum(move[state, action], axis=1)
            following = (ends < rng.random(n_episodes)[:, None]).sum(axis=1).clip(max=9)
            places = (np.arange(n_episodes), np.full(n_episodes, step))
            parts.append((*places, state, action, reward, following))
            state = following
        names = ("episode_id", "step", "state", "action", "reward", "next_state")
        columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        return pl.DataFrame(dict(zip(names, columns, strict=True))), tables, np.array(truth)

    return make


CELLS = (
    Cell("bandit, 20 rows of each user, user effect", 0.0, _users(1.0)),
    Cell("the same, effect of 0.2", 0.0, _users(0.2)),
    Cell("bandit, users and days that cross", 0.0, _crossed),
    Cell("bandit, rewards that follow each other, lag 5", 0.0, _autocorrelated),
    Cell("MDP, gamma 0.9, episode effect", 0.9, _chain(1.0, 0.9)),
    Cell("MDP, gamma 0.99, episode effect", 0.99, _chain(1.0, 0.99)),
    Cell("bandit 1 x 8, Thompson sampling", 0.0, _thompson),
    Cell("independent: bandit 3 x 3, users", 0.0, _users(0.0)),
    Cell("independent: bandit 3 x 3, six columns", 0.0, _columns),
    Cell("independent: bandit 20 x 8, n 5,000", 0.0, _independent(5_000, 20, 8)),
    Cell("independent: MDP, gamma 0.9", 0.9, _chain(0.0, 0.9)),
)


def measure(number: int, cell: Cell, trials: int) -> dict[str, object]:
    """Fit many logs of one world, and compare with the truth."""
    inside: dict[str, list[np.ndarray]] = {"default": [], "plain": []}
    error, sd, units, warned, abstained = [], [], [], [], []
    for i in range(trials):
        frame, tables, truth = cell.make(np.random.default_rng([number, i]))
        n_actions = tables[0].shape[1]
        logs = bd.Logs.from_dataframe(frame, actions=list(range(n_actions)))
        policies = {str(j): bd.TabularPolicy(table) for j, table in enumerate(tables)}
        for name, options in (("default", {}), ("plain", {"cluster": "transition"})):
            belief = bd.fit(
                logs, policies, gamma=cell.gamma, rng_key=jax.random.key(i), draws=DRAWS, **options
            )
            values = belief["posterior/value"].to_numpy()[0]
            below = np.abs((values < truth).mean(axis=0) - 0.5)
            inside[name].append(np.array([below < level / 2 for level in LEVELS]))
            if name == "default":
                said = json.loads(belief.attrs["support_warnings"])
                error.append(values.mean(axis=0) - truth)
                sd.append(values.std(axis=0))
                units.append(bool(json.loads(belief.attrs["unit"])["names"]))
                warned.append(len({w["policy"] for w in said}) / 3)
                silent = {w["policy"] for w in said if w["abstain"]}
                abstained.append([str(j) in silent for j in range(3)])
    kept = ~np.array(abstained)
    covers = np.array(inside["default"]).transpose(1, 0, 2)[:, kept]
    share = covers.mean(axis=1) if kept.any() else np.full(len(LEVELS), np.nan)
    plain = np.array(inside["plain"])[:, 2].mean()
    return {
        "world": cell.name,
        "logs": trials,
        "plain_90": float(plain),
        "cov_90": float(share[2]),
        "mace": float(np.mean(np.abs(share - LEVELS))),
        "width": float(np.mean(sd) / np.std(error)),
        "unit": float(np.mean(units)),
        "warned": float(np.mean(warned)),
        "abstained": float(np.mean(abstained)),
    }


def main(trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Measure every world and write the table."""
    rows = []
    for number, cell in enumerate(CELLS):
        rows.append(measure(number, cell, trials))
        print(rows[-1], flush=True)
    print(write_table("dependence", rows, command=COMMAND, notes=NOTES, folder=folder))
