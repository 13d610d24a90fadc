"""Tails: do intervals cover where rewards are rare, skewed or heavy-tailed, and who is warned.

Bandits and a Markov decision process with rewards of many laws, whose means are known in closed
form. Beliefs with the skewness of their errors are held against Student's t from the same logs. The
thresholds of `bayesdice_ppl.fitting.tails` come from this table.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bayesdice_ppl.experiments.value_beliefs import value_belief
from bayesdice_ppl.fitting import flat_settings
from bayesdice_ppl.fitting.row_facts import RewardSpread
from bayesdice_ppl.fitting.tails import tail_indices, tail_warnings
from bayesdice_ppl.fitting.warnings import odd_spread, thin_spread
from bayesdice_ppl.inference.skewness import Rows, standard_quantile
from bayesdice_ppl.moments import Candidates, Cells, renormalize
from benchmarks.tables import RESULTS, write_table

TRIALS = 300
LEVELS = np.array([0.5, 0.8, 0.9, 0.95])
STEPS = 40
COMMAND = "python -m benchmarks tails"
NOTES = (
    "One row is one world, three candidates and all logs of one size. `1x8`: a bandit of 8 arms; "
    "`20x8`: of 20 contexts; `10x3`: a Markov decision process of 10 states and 3 actions, gamma "
    "0.9, in episodes of 40 steps. Each pair's rewards are scaled by a number between 0.5 and 1.5 "
    "(`1x2`: two arms; `spread`: by a lognormal one of sigma 1.5). `t_90`, `t_mace`: coverage of "
    "central 90 % intervals by Student's t, and the mean over 50, 80, 90 and 95 % of |coverage - "
    "nominal|. `cov_90`, `mace`: the same of the belief, with skewness and hidden variance; "
    "`below`, `above`: shares of true values below its 5 % and above its 95 % quantile. "
    "`rest_90`, `rest`: coverage and MACE of those that are not abstained from (empty if fewer "
    "than 30). `width`: median sd over Student's. `warned`, `abstained`: shares of candidates. "
    "`errors`: median effective errors.",
    "Rows are taken as independent. Intervals, widths and warnings are those of "
    "`bayesdice_ppl.fit(..., inference='exact')`, without its draws and "
    "without the warnings of support. Log i of row k is drawn by `default_rng([k, i])`.",
)


class Law(NamedTuple):
    """Rewards of one law: draws at given scales, and their mean."""

    draw: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    mean: Callable[[np.ndarray], np.ndarray]


def _lognormal(sigma: float) -> Law:
    return Law(
        lambda rng, m: m * rng.lognormal(0.0, sigma, size=m.shape),
        lambda m: m * np.exp(sigma**2 / 2.0),
    )


def _events(rate: float) -> Law:
    return Law(lambda rng, m: (rng.random(m.shape) < rate * m).astype(float), lambda m: rate * m)


LAWS = {
    "1 in 200": _events(1.0 / 200.0),
    "1 in 1,000": _events(1.0 / 1000.0),
    "Bernoulli(0.5)": _events(0.5),
    "Poisson(0.05)": Law(
        lambda rng, m: rng.poisson(0.05 * m).astype(float), lambda m: np.asarray(0.05 * m)
    ),
    "exponential": Law(lambda rng, m: rng.exponential(m), lambda m: m),
    "Pareto(3)": Law(lambda rng, m: m * (1.0 + rng.pareto(3.0, m.shape)), lambda m: 1.5 * m),
    "Pareto(1.5)": Law(lambda rng, m: m * (1.0 + rng.pareto(1.5, m.shape)), lambda m: 3.0 * m),
    "revenue": Law(
        lambda rng, m: (rng.random(m.shape) < 0.05) * m * rng.lognormal(0.0, 1.0, m.shape),
        lambda m: 0.05 * m * np.exp(0.5),
    ),
    "lognormal(1)": _lognormal(1.0),
    "lognormal(1.5)": _lognormal(1.5),
    "lognormal(2)": _lognormal(2.0),
    "normal": Law(lambda rng, m: m + rng.normal(size=m.shape), lambda m: m),
    "uniform": Law(lambda rng, m: m + rng.uniform(-1.0, 1.0, m.shape), lambda m: m),
    "deterministic": Law(lambda rng, m: m, lambda m: m),
}


class World(NamedTuple):
    """Scales of the rewards, transitions (none of a bandit), candidates, discount."""

    scale: np.ndarray
    move: np.ndarray | None
    tables: list[np.ndarray]
    gamma: float


def make_world(shape: str) -> World:
    """The world of one shape, such as ``"20x8"``."""
    rng = np.random.default_rng(5)
    size = shape.split()[0].split("x")
    pairs = (int(size[0]), int(size[1]))
    scale = rng.uniform(0.5, 1.5, size=pairs)
    if shape.endswith("spread"):
        scale = rng.lognormal(0.0, 1.5, size=pairs)
    tables = [rng.dirichlet(np.ones(pairs[1]), size=pairs[0]) for _ in range(3)]
    if shape != "10x3":
        return World(scale, None, tables, 0.0)
    return World(scale, rng.dirichlet(np.ones(10), size=pairs), tables, 0.9)


def true_values(world: World, law: Law) -> np.ndarray:
    """Values of the three candidates; first states are uniform."""
    n_states = len(world.scale)
    found = []
    for table in world.tables:
        visits = np.full(n_states, 1.0 / n_states)
        if world.move is not None:
            chain = np.einsum("sa,sat->st", table, world.move)
            visits = (1.0 - world.gamma) * np.linalg.solve(
                np.eye(n_states) - world.gamma * chain.T, visits
            )
        found.append(float(visits @ (table * law.mean(world.scale)).sum(axis=1)))
    return np.array(found)


class Log(NamedTuple):
    """Columns of a log, shapes (n,), and the first states of its episodes, shape (m,)."""

    state: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    following: np.ndarray
    first: np.ndarray


def play(world: World, law: Law, n: int, rng: np.random.Generator) -> Log:
    """A log of n rows by a policy that takes every action alike."""
    n_states, n_actions = world.scale.shape
    if world.move is None:
        state, action = rng.integers(n_states, size=n), rng.integers(n_actions, size=n)
        reward = law.draw(rng, world.scale[state, action])
        return Log(state, action, reward, np.zeros(n, dtype=np.int64), state)
    n_episodes = n // STEPS
    state, parts = rng.integers(n_states, size=n_episodes), []
    first, ends = state, np.cumsum(world.move, axis=-1)
    for _ in range(STEPS):
        action = rng.integers(n_actions, size=n_episodes)
        reward = law.draw(rng, world.scale[state, action])
        following = (ends[state, action] < rng.random(n_episodes)[:, None]).sum(axis=1)
        following = following.clip(max=n_states - 1)
        parts.append((state, action, reward, following))
        state = following
    return Log(*(np.concatenate(column) for column in zip(*parts, strict=True)), first)


def count(world: World, log: Log) -> tuple[Cells, np.ndarray, Rows]:
    """The log counted as `bayesdice_ppl.fit` counts it, the pair of each row, and the rows."""
    n_states, n_actions = world.scale.shape
    key, pair = np.unique(log.state * n_actions + log.action, return_inverse=True)
    code, cell = np.unique(pair * n_states + log.following, return_inverse=True)
    start, starts = np.unique(log.first, return_counts=True)
    size = len(code)
    cells = Cells(
        pair=code // n_states,
        successor=code % n_states,
        terminated=np.zeros(size),
        count=np.bincount(cell).astype(np.float64),
        reward_sum=np.bincount(cell, log.reward),
        reward_square_sum=np.bincount(cell, log.reward**2),
        episode=np.zeros(size, dtype=np.int64),
        pair_state=key // n_actions,
        pair_action=key % n_actions,
        initial_state=start,
        initial_weight=starts / starts.sum(),
        n_transitions=np.float64(len(pair)),
        n_episodes=np.float64(len(log.first)),
        absorbed_reward=np.float64(0.0),
    )
    return cells, pair, Rows(cell, log.reward)


def on_log(world: World, cells: Cells) -> Candidates:
    """The candidates, renormalized over the logged pairs."""
    seen = np.ones(len(cells.pair_state))
    found = [
        renormalize(table, cells.pair_state, cells.pair_action, seen) for table in world.tables
    ]
    target, kept = (np.stack(part) for part in zip(*found, strict=True))
    return Candidates(target, (target > 0.0).astype(np.float64), kept)


class Cell(NamedTuple):
    """One row of the table: rewards, shape of the world, size of the logs."""

    law: str
    shape: str
    n: int


CELLS = (
    *(Cell("1 in 200", shape, n) for n in (5_000, 20_000) for shape in ("1x8", "20x8", "10x3")),
    Cell("1 in 200", "1x8 spread", 5_000),
    Cell("1 in 1,000", "1x2", 5_000),
    *(Cell(f"lognormal({sigma})", "1x8", n) for sigma in ("1", "1.5", "2") for n in (1_000, 5_000)),
    *(Cell(f"lognormal({sigma})", "10x3", 5_000) for sigma in ("1", "1.5", "2")),
    Cell("lognormal(1)", "1x8 spread", 1_000),
    Cell("lognormal(2)", "1x2", 1_000),
    Cell("Pareto(1.5)", "1x8", 5_000),
    Cell("Pareto(3)", "1x8", 1_000),
    Cell("Pareto(3)", "1x8", 5_000),
    Cell("revenue", "1x8", 1_000),
    Cell("revenue", "1x8", 5_000),
    Cell("revenue", "10x3", 5_000),
    Cell("Poisson(0.05)", "1x8", 1_000),
    Cell("Poisson(0.05)", "10x3", 1_000),
    *(Cell("exponential", shape, 1_000) for shape in ("1x8", "20x8", "10x3")),
    *(Cell("normal", shape, 1_000) for shape in ("1x8", "20x8", "10x3")),
    Cell("uniform", "1x8", 1_000),
    Cell("Bernoulli(0.5)", "1x8", 1_000),
    Cell("Bernoulli(0.5)", "10x3", 1_000),
    Cell("deterministic", "10x3 bandit", 200),
    Cell("deterministic", "10x3", 200),
)


def measure(number: int, cell: Cell, trials: int) -> dict[str, object]:
    """Believe many logs of one world, and compare with the truth."""
    world, law = make_world(cell.shape), LAWS[cell.law]
    truth = true_values(world, law)
    settings = flat_settings(gamma=world.gamma, inference="exact", joint=False)
    names = tuple(str(j) for j in range(len(world.tables)))
    tails = np.concatenate([(1.0 - LEVELS) / 2.0, (1.0 + LEVELS) / 2.0])
    score = np.repeat(ndtri(tails)[:, None], len(names), axis=1)
    bent, plain, width, warned, silent, errors = ([] for _ in range(6))
    for i in range(trials):
        log = play(world, law, cell.n, np.random.default_rng([number, i]))
        cells, pair, rows = count(world, log)
        candidates = on_log(world, cells)
        with np.errstate(all="ignore"):
            belief = value_belief(cells, candidates, settings, rows)
        mean, sd, df, more = belief[:4]
        narrow = np.sqrt(np.maximum(sd**2 - more.hidden, 0.0))
        bent.append(mean + sd * standard_quantile(score, df, more.skewness))
        plain.append(mean + narrow * standard_quantile(score, df))
        width.append(sd / np.where(narrow > 0.0, narrow, 1.0))
        errors.append(more.effective)
        index = tail_indices(more, log.reward, pair, candidates.active > 0.0)
        said = [
            *thin_spread(names, df),
            *odd_spread(names, sd, RewardSpread.of(log.reward), world.gamma),
            *tail_warnings(names, more, index),
        ]
        same = np.ptp(log.reward) == 0.0
        warned.append([same or any(w.policy == name for w in said) for name in names])
        silent.append([same or any(w.policy == n and w.abstain for w in said) for n in names])

    def covered(ends: list[np.ndarray]) -> np.ndarray:
        low, high = np.split(np.array(ends), 2, axis=1)
        # Where nothing varies, rounding decides.
        slack = 1e-9 * np.abs(truth)
        return (low - slack <= truth) & (truth <= high + slack)

    inside, kept = covered(bent), ~np.array(silent)
    share = inside.mean(axis=(0, 2))
    rest = inside.transpose(1, 0, 2)[:, kept].mean(axis=1) if kept.sum() >= 30 else None
    student = covered(plain).mean(axis=(0, 2))
    ends = np.array(bent)
    return {
        "rewards": cell.law,
        "world": cell.shape,
        "n": cell.n,
        "t_90": float(student[2]),
        "t_mace": float(np.abs(student - LEVELS).mean()),
        "cov_90": float(share[2]),
        "mace": float(np.abs(share - LEVELS).mean()),
        "below": float((truth < ends[:, 2]).mean()),
        "above": float((truth > ends[:, 6]).mean()),
        "rest_90": None if rest is None else float(rest[2]),
        "rest": None if rest is None else float(np.abs(rest - LEVELS).mean()),
        "width": float(np.median(width)),
        "warned": float(np.mean(warned)),
        "abstained": float(np.mean(silent)),
        "errors": float(np.median(errors)),
    }


def main(trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Measure every world and write the table."""
    rows = []
    for number, cell in enumerate(CELLS):
        rows.append(measure(number, cell, trials))
        print(rows[-1], flush=True)
    command = COMMAND if trials == TRIALS else f"{COMMAND} --trials {trials}"
    print(write_table("tails", rows, command=command, notes=NOTES, folder=folder))
