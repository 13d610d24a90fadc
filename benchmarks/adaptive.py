"""Adaptive logs: do intervals cover where the logging policy followed its rewards.

Thompson sampling, epsilon-greedy and UCB1 write logs of bandits with and without states, with their
propensities and without. Beside them stand logs of the same shapes whose policy did not look at
rewards, some by a schedule, in which nothing should be found.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import jax
import numpy as np
import polars as pl
from scipy.stats import t as student_t

import bayesdice_ppl as bd
from bayesdice_ppl.fitting.fit import settings_for
from bayesdice_ppl.fitting.prepare import prepare_fit
from bayesdice_ppl.fitting.warnings import adaptive_log, short_log, thin_spread
from bayesdice_ppl.inference import solve
from benchmarks.tables import RESULTS, write_table

TRIALS = 300
LEVELS = np.array([0.5, 0.8, 0.9, 0.95])
HALF = 0.5 + LEVELS / 2.0
DRAWS, CANDIDATES = 1, 3
COMMAND = "python -m benchmarks adaptive"
NOTES = (
    "One row is one world and three candidates, over all logs. The belief is that of "
    "`bayesdice_ppl.fit` by default, before it is drawn from. `cov_50` to `cov_95`: share of "
    "central intervals that hold the true value, of the candidates that are not abstained from; "
    "`mace`: mean of |coverage - nominal|; `bias`: mean error over the sd of errors; `width`: mean "
    "sd over the sd of errors, of the same. `plain_90`: coverage of plain means of the pairs, plus "
    "and minus 1.645 of their standard errors, for all candidates. `found`: share of logs taken "
    "for adaptive. `weighted`: share of logs whose rows are weighted by propensities. `warned`, "
    "`abstained`: shares of candidates, by the warnings of adaptive logs, of rows that move "
    "together and of few visits.",
    "Means of arms are drawn anew for each log, normal with the sd that is named, or fixed: one "
    "arm at 1 or -1 and all others at 0. Rewards have an sd of 1, or are 0 or 1.",
    "A world of seed w is drawn by `default_rng([w, number of logs])`.",
)


class Algorithm(Protocol):
    """A logging policy at work on R logs at once."""

    def chances(self, t: int, state: np.ndarray) -> np.ndarray:
        """Probability of each action at step t, shape (R, K), from the state of each log."""

    def learn(self, state: np.ndarray, action: np.ndarray, reward: np.ndarray) -> None:
        """Take in one step of each log."""


class Means:
    """Running counts and sums, from which most algorithms decide."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.logs = np.arange(shape[0])
        self.count, self.total = np.zeros(shape), np.zeros(shape)

    def chances(self, t: int, state: np.ndarray) -> np.ndarray:
        """Uniform, whatever was seen."""
        return np.full(self.count[self.logs, state].shape, 1.0 / self.count.shape[2])

    def learn(self, state: np.ndarray, action: np.ndarray, reward: np.ndarray) -> None:
        """Count."""
        self.count[self.logs, state, action] += 1.0
        self.total[self.logs, state, action] += reward

    def means(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Visits, and mean rewards, infinite where an action was never taken."""
        count, total = self.count[self.logs, state], self.total[self.logs, state]
        return count, np.where(count > 0, total / np.maximum(count, 1.0), np.inf)


class Greedy(Means):
    """The best mean so far, or any action with probability 0.1."""

    def chances(self, t: int, state: np.ndarray) -> np.ndarray:
        """Ties are broken evenly."""
        mean = self.means(state)[1]
        best = mean == mean.max(axis=1, keepdims=True)
        return 0.1 / mean.shape[1] + 0.9 * best / best.sum(axis=1, keepdims=True)


class Ucb(Means):
    """UCB1: the highest upper bound, for certain."""

    def chances(self, t: int, state: np.ndarray) -> np.ndarray:
        """One for the action that is taken."""
        count, mean = self.means(state)
        visits = count.sum(axis=1, keepdims=True)
        bound = mean + np.sqrt(2.0 * np.log(visits + 1.0) / np.maximum(count, 1.0))
        return np.eye(count.shape[1])[bound.argmax(axis=1)]


class Schedule(Means):
    """Shares that move from one side to the other along the log, whatever the rewards."""

    def __init__(self, shape: tuple[int, int, int], n: int) -> None:
        super().__init__(shape)
        self.n, self.tilt = n, np.linspace(-1.0, 1.0, shape[2])

    def chances(self, t: int, state: np.ndarray) -> np.ndarray:
        """A tilt that turns around."""
        share = np.exp(self.tilt * (2.0 * t / self.n - 1.0))
        return np.broadcast_to(share / share.sum(), (len(state), len(share)))


class Thompson(Means):
    """Thompson sampling; its chances are integrals over a grid, and it acts by these."""

    def __init__(self, shape: tuple[int, int, int], n: int, binary: bool) -> None:
        super().__init__(shape)
        self.binary = binary
        step = 1.0 / 256 if binary else 1.2 / np.sqrt(n)
        self.grid = np.arange(step / 2, 1.0, step) if binary else np.arange(-5.5, 5.5, step)
        below, density = self._tables(np.zeros(1), np.zeros(1))
        whole = (*shape, len(self.grid))
        self.below = np.broadcast_to(below, whole).astype(np.float32)
        self.density = np.broadcast_to(density, whole).astype(np.float32)

    def _tables(self, count: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distribution and density of the posterior of means under a standard prior."""
        from scipy.special import ndtr
        from scipy.stats import beta

        if self.binary:
            ones, zeros = (total + 1.0)[:, None], (count - total + 1.0)[:, None]
            return beta.cdf(self.grid, ones, zeros), beta.pdf(self.grid, ones, zeros)
        root = np.sqrt(count + 1.0)[:, None]
        z = (self.grid - (total / (count + 1.0))[:, None]) * root
        return ndtr(z), np.exp(-0.5 * z**2) * root

    def chances(self, t: int, state: np.ndarray) -> np.ndarray:
        """Probability that an action is the best."""
        below = np.maximum(self.below[self.logs, state], 1e-30)
        others = below.prod(axis=1, keepdims=True) / below
        share = (self.density[self.logs, state] * others).sum(axis=2).astype(np.float64)
        share = np.maximum(share / share.sum(axis=1, keepdims=True), 1e-9)
        return share / share.sum(axis=1, keepdims=True)

    def learn(self, state: np.ndarray, action: np.ndarray, reward: np.ndarray) -> None:
        """Count, and tabulate the posterior of the action that was taken."""
        super().learn(state, action, reward)
        place = (self.logs, state, action)
        self.below[place], self.density[place] = self._tables(self.count[place], self.total[place])


class World(NamedTuple):
    """A world and its logging policy.

    Attributes
    ----------
    seed, name
        What it is drawn from, and what it is.
    shape
        States and actions.
    n
        Rows of a log.
    algorithm
        From (logs, states, actions) and n to the logging policy.
    means
        From a generator and (logs, states, actions) to mean rewards.
    binary
        Whether rewards are 0 or 1.
    """

    seed: int
    name: str
    shape: tuple[int, int]
    n: int
    algorithm: Callable[[tuple[int, int, int], int], Algorithm]
    means: Callable[[np.random.Generator, tuple[int, int, int]], np.ndarray]
    binary: bool = False


def _normal(sd: float) -> Callable[[np.random.Generator, tuple[int, int, int]], np.ndarray]:
    return lambda rng, shape: sd * rng.normal(size=shape)


def _one(mean: float) -> Callable[[np.random.Generator, tuple[int, int, int]], np.ndarray]:
    return lambda rng, shape: np.broadcast_to(mean * (np.arange(shape[2]) == 0), shape)


def _rates(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    return rng.uniform(0.3, 0.7, size=shape)


def _thompson(shape: tuple[int, int, int], n: int) -> Algorithm:
    return Thompson(shape, n, binary=False)


def _binary(shape: tuple[int, int, int], n: int) -> Algorithm:
    return Thompson(shape, n, binary=True)


def _greedy(shape: tuple[int, int, int], n: int) -> Algorithm:
    return Greedy(shape)


def _ucb(shape: tuple[int, int, int], n: int) -> Algorithm:
    return Ucb(shape)


def _uniform(shape: tuple[int, int, int], n: int) -> Algorithm:
    return Means(shape)


ARMS, STATES = (1, 8), (4, 3)
WORLDS = (
    World(0, "Thompson, means 0", ARMS, 1_000, _thompson, _normal(0.0)),
    World(1, "Thompson, means 0.3", ARMS, 300, _thompson, _normal(0.3)),
    World(2, "Thompson, means 0.3", ARMS, 1_000, _thompson, _normal(0.3)),
    World(3, "Thompson, means 0.3", ARMS, 5_000, _thompson, _normal(0.3)),
    World(4, "Thompson, means 1", ARMS, 1_000, _thompson, _normal(1.0)),
    World(5, "Thompson, one at 1", ARMS, 1_000, _thompson, _one(1.0)),
    World(6, "Thompson, one at -1", ARMS, 1_000, _thompson, _one(-1.0)),
    World(7, "Thompson, rates 0.3 to 0.7", ARMS, 1_000, _binary, _rates, True),
    World(8, "greedy, means 0", ARMS, 1_000, _greedy, _normal(0.0)),
    World(9, "greedy, means 0.3", ARMS, 300, _greedy, _normal(0.3)),
    World(10, "greedy, means 0.3", ARMS, 1_000, _greedy, _normal(0.3)),
    World(12, "greedy, one at -1", ARMS, 1_000, _greedy, _one(-1.0)),
    World(13, "UCB1, means 0.3", ARMS, 1_000, _ucb, _normal(0.3)),
    World(14, "UCB1, means 1", ARMS, 1_000, _ucb, _normal(1.0)),
    World(15, "states, Thompson, means 0.3", STATES, 1_000, _thompson, _normal(0.3)),
    World(16, "states, greedy, means 0.3", STATES, 1_000, _greedy, _normal(0.3)),
    World(18, "fixed: uniform, means 0.3", ARMS, 300, _uniform, _normal(0.3)),
    World(19, "fixed: uniform, means 0.3", ARMS, 1_000, _uniform, _normal(0.3)),
    World(21, "fixed: states, uniform, means 0.3", STATES, 1_000, _uniform, _normal(0.3)),
    World(22, "fixed: schedule, means 0.3", ARMS, 1_000, Schedule, _normal(0.3)),
)


class Written(NamedTuple):
    """R logs: columns of shape (R, n), and the true means, shape (R, S, K)."""

    state: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    propensity: np.ndarray
    mean: np.ndarray


def write_logs(world: World, trials: int, rng: np.random.Generator) -> Written:
    """Let the logging policy write its logs."""
    shape = (trials, *world.shape)
    mean, policy = world.means(rng, shape), world.algorithm(shape, world.n)
    logs, rows = np.arange(trials), []
    for t in range(world.n):
        state = rng.integers(world.shape[0], size=trials)
        chance = policy.chances(t, state)
        ends = chance.cumsum(axis=1)
        action = (ends <= rng.random(trials)[:, None] * ends[:, -1:]).sum(axis=1)
        expected = mean[logs, state, action]
        draw = rng.random(trials) < expected if world.binary else expected + rng.normal(size=trials)
        policy.learn(state, action, draw * 1.0)
        rows.append((state, action, draw * 1.0, chance[logs, action]))
    return Written(*(np.stack(column, axis=1) for column in zip(*rows, strict=True)), mean)


def plain_interval(frame: pl.DataFrame, tables: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values of plain means of the pairs, and their standard errors."""
    _, n_states, n_actions = tables.shape
    code = frame["state"].to_numpy() * n_actions + frame["action"].to_numpy()
    size, reward = n_states * n_actions, frame["reward"].to_numpy()
    count = np.bincount(code, minlength=size)
    seen = np.maximum(count, 1)
    mean = np.bincount(code, reward, size) / seen
    pool = ((reward - mean[code]) ** 2).sum() / max(len(code) - size, 1)
    target = np.where(count > 0, tables.reshape(len(tables), -1), 0.0).reshape(tables.shape)
    target = target / target.sum(axis=2, keepdims=True) / n_states
    flat = target.reshape(len(tables), -1)
    return flat @ mean, np.sqrt(flat**2 @ (pool / seen))


def measure(world: World, trials: int) -> list[dict[str, object]]:
    """Fit many logs of one world, with propensities and without, and compare with the truth."""
    written = write_logs(world, trials, np.random.default_rng([world.seed, trials]))
    n_states, n_actions = world.shape
    fixed = np.random.default_rng(0)
    tables = fixed.dirichlet(np.ones(n_actions), size=(CANDIDATES, n_states))
    policies = {str(j): bd.TabularPolicy(table) for j, table in enumerate(tables)}
    truth = np.einsum("jsk,rsk->rj", tables, written.mean) / n_states
    return [_row(world, written, policies, tables, truth, known) for known in (True, False)]


def _row(
    world: World,
    written: Written,
    policies: dict[str, bd.TabularPolicy],
    tables: np.ndarray,
    truth: np.ndarray,
    known: bool,
) -> dict[str, object]:
    """One row of the table: all logs, with propensities or without."""
    inside, plain, error, sd, abstained, warned, units = [], [], [], [], [], [], []
    names = tuple(policies)
    for i, true in enumerate(truth):
        columns = {name: getattr(written, name)[i] for name in written._fields[: 3 + known]}
        frame = pl.DataFrame(columns)
        logs = bd.Logs.from_dataframe(frame, actions=list(range(tables.shape[2])))
        settings = settings_for(logs, gamma=0.0)
        problem = prepare_fit(logs, policies, settings, guided=False).problem
        found = solve(problem, jax.random.key(i), settings.form, settings.inference, DRAWS)
        df = np.asarray(problem.pilots.degrees_of_freedom)
        off = found.value_mean - true
        inside.append(np.abs(off / found.value_sd)[:, None] < student_t.ppf(HALF, df[:, None]))
        error.append(off)
        sd.append(found.value_sd)
        unit = problem.unit
        checks = (adaptive_log(names, unit), short_log(names, unit), thin_spread(names, df, unit))
        said = [warning for check in checks for warning in check]
        silent = {warning.policy for warning in said if warning.abstain}
        abstained.append([name in silent for name in names])
        warned.append(len({warning.policy for warning in said}) / len(names))
        units.append({} if unit is None else unit.summary)
        value, width = plain_interval(frame, tables)
        plain.append(np.abs(value - true) < 1.645 * width)
    kept = ~np.array(abstained)
    errors, share = np.array(error)[kept], np.array(inside)[kept].mean(axis=0)
    return {
        "world": world.name,
        "n": world.n,
        "propensity": "yes" if known else "no",
        "logs": len(truth),
        "plain_90": float(np.mean(plain)),
        **{f"cov_{level * 100:.0f}": float(x) for level, x in zip(LEVELS, share, strict=True)},
        "mace": float(np.mean(np.abs(share - LEVELS))),
        "bias": float(errors.mean() / errors.std()),
        "width": float(np.array(sd)[kept].mean() / errors.std()),
        "found": float(np.mean([bool(unit.get("adaptive")) for unit in units])),
        "weighted": float(np.mean([unit.get("correction") == "weighted" for unit in units])),
        "warned": float(np.mean(warned)),
        "abstained": float(np.mean(abstained)),
    }


def main(trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Measure every world and write the table."""
    rows = []
    for world in WORLDS:
        for row in measure(world, trials):
            rows.append(row)
            print(row, flush=True)
    print(write_table("adaptive", rows, command=COMMAND, notes=NOTES, folder=folder))
