"""Exploration through features: a river seen as a number, and RiverSwim through features of labels.

Regret is exact, by the table behind the river. The explorers of tables see cells of the river. The
table also has UCB-VI with smaller bonuses on RiverSwim, which belongs to the other table's rows.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from bayesdice_ppl.envs import InfiniteCartPole, InfiniteFrozenLake, RiverSwim, TableEnv
from bayesdice_ppl.envs.tabular import as_tabular
from bayesdice_ppl.exploration import (
    bayesdice,
    explore,
    psrl,
    q_learning,
    rlsvi,
    ucbvi,
    variational,
)
from bayesdice_ppl.exploration.explorers import Explorer
from bayesdice_ppl.exploration.spaces import as_policy, plan
from bayesdice_ppl.features import FeatureChoice, fourier, one_hot, table
from bayesdice_ppl.models import pair_prior, quantile, variance
from bayesdice_ppl.progress import parts
from benchmarks.exploration import summarize
from benchmarks.swim import AsCells, AsNumber, LongRiver
from benchmarks.tables import RESULTS, write_table

COMMAND = "python -m benchmarks exploration_features"
TRIALS, SEED, GAMMA, STEPS = 30, 1, 0.99, 100
PRIOR = pair_prior(0.0, 1.0)
FINE: FeatureChoice = fourier(40, of="state", length_scale=0.3)
COARSE: FeatureChoice = fourier(40, of="state")


def neighbors(n_states: int = 6) -> FeatureChoice:
    """Indicators of pairs of neighboring places."""
    group = np.eye(n_states // 2)[np.arange(n_states) // 2]
    return table(np.stack([group, group], axis=1), states=range(n_states), actions=range(2))


class Case(NamedTuple):
    """A row: a world, what is seen of it, and an explorer.

    Attributes
    ----------
    world, name
        What they are called.
    make
        The environment, with ``places`` (what is seen of each state) if states are not seen.
    explorer
        Who explores.
    rounds
        Of 100 steps.
    """

    world: str
    name: str
    make: Any
    explorer: Explorer
    rounds: int


def _number() -> Any:
    return AsNumber(LongRiver())


def _cells() -> Any:
    return AsCells(LongRiver(), 10)


CASES = (
    Case("river", "psrl, 10 cells", _cells, psrl(), 50),
    Case("river", "bayesdice, 10 cells", _cells, bayesdice(), 50),
    Case("river", "bayesdice, 31 cells", lambda: AsCells(LongRiver(), 31), bayesdice(), 50),
    Case("river", "q_learning, 10 cells", _cells, q_learning(), 50),
    Case("river", "bayesdice, fourier 0.3", _number, bayesdice(features=FINE), 50),
    Case("river", "rlsvi, fourier 0.3", _number, rlsvi(features=FINE), 50),
    Case(
        "river",
        "bayesdice, variance 10, fourier 0.3",
        _number,
        bayesdice(variance(10.0), features=FINE),
        50,
    ),
    Case("river", "bayesdice, fourier median", _number, bayesdice(features=COARSE), 50),
    Case("riverswim", "psrl", RiverSwim, psrl(), 100),
    Case(
        "riverswim",
        "bayesdice, one-hot features",
        RiverSwim,
        bayesdice(features=one_hot(of="state")),
        100,
    ),
    Case("riverswim", "bayesdice, neighbors", RiverSwim, bayesdice(features=neighbors()), 100),
    *(
        Case("riverswim", f"ucbvi, bonus x {scale}", RiverSwim, ucbvi(scale=scale), 100)
        for scale in (0.1, 0.03, 0.01, 0.003)
    ),
)
NOTES = (
    "Columns as in exploration.md; `ratio` is to the first row of the same world.",
    "river: 31 places, seen as a number in 0 to 1, with strokes of about five places, gamma 0.99, "
    "50 rounds of 100 steps. `fourier 0.3` and `fourier median` are 40 random Fourier features "
    "with a length scale of 0.3 standard deviations and of the median distance. Cells are labels "
    "of equal parts. riverswim: as in exploration.md, with other seeds; `neighbors` are three "
    "indicators of two places each. The features, the cells and the bonuses of ucbvi were chosen "
    "on other seeds.",
)


def run(case: Case, seed: int) -> tuple[np.ndarray, float, float]:
    """Cumulative regret by round, best value, and median seconds of a choice."""
    env = case.make()
    done = explore(
        env,
        case.explorer,
        rounds=case.rounds,
        steps=STEPS,
        gamma=GAMMA,
        rewards=PRIOR,
        rng_key=jax.random.fold_in(jax.random.key(SEED), seed),
    )
    world = as_tabular(env.unwrapped)
    places = getattr(env, "places", np.arange(len(world.initial_distribution)))
    best = plan(world.transition_matrix, world.reward_matrix, GAMMA)
    top = value_of(env.unwrapped, as_policy(best, 2))
    values = [
        value_of(
            env.unwrapped,
            one[places] if isinstance(one, np.ndarray) else one.probs(places),
        )
        for one in done.policies
    ]
    regret = np.cumsum([STEPS * (top - value) for value in values])
    return regret, top, float(np.median(done.rounds["seconds"].to_numpy()))


def value_of(env: TableEnv, policy: np.ndarray) -> float:
    """The exact value of a policy by state, shape (S, A), in reward per step."""
    world = as_tabular(env)
    moves = np.einsum("sa,sat->st", policy, world.transition_matrix)
    reward = np.sum(policy * world.reward_matrix, axis=1)
    value = np.linalg.solve(np.eye(len(reward)) - GAMMA * moves, reward)
    return float((1.0 - GAMMA) * world.initial_distribution @ value)


def timings(n: int = 10_000) -> str:
    """Seconds of one choice on a log of n uniformly random steps, the second of two calls."""
    found = []
    for name, env, explorer in (
        ("planning on tables, FrozenLake", InfiniteFrozenLake(), bayesdice()),
        ("planning through 50 Fourier features, CartPole", InfiniteCartPole(), _cart()),
        (
            "variational on tables, FrozenLake",
            InfiniteFrozenLake(),
            bayesdice(quantile(), variational(PRIOR)),
        ),
    ):
        kept = list[Any]()

        def learn(state: Any, rows: Any, explorer: Any = explorer, kept: Any = kept) -> Any:
            kept.append(explorer.learn(state, rows))
            return kept[-1]

        low = pair_prior(-1.0, 1.0)
        spied = explorer._replace(learn=learn)
        key = jax.random.key(SEED)
        explore(env, spied, rounds=1, steps=n, gamma=GAMMA, rewards=low, rng_key=key)
        seconds = []
        for _ in range(2):
            started = time.perf_counter()
            explorer.choose(kept[-1], np.random.default_rng(0))
            seconds.append(time.perf_counter() - started)
        found.append(f"{name}: {seconds[1]:.2f} s (first call {seconds[0]:.2f} s)")
    return f"One choice on a log of {n:,} rows. " + "; ".join(found) + "."


def _cart() -> Explorer:
    return bayesdice(features=fourier(50, of="state"))


def main(trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Fill the table, after each row anew, and print it."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, first = list[dict[str, object]](), dict[str, np.ndarray]()
    said, notes = "", (*NOTES, timings())
    for case in CASES:
        runs = [run(case, seed) for seed in parts(f"{case.world}: {case.name}", range(trials))]
        curves = np.stack([one[0] for one in runs])
        seconds = float(np.median([one[2] for one in runs]))
        reference = first.setdefault(case.world, curves)
        best = runs[0][1]
        rows.append(summarize(case.world, case.name, curves, reference, best, seconds, steps=STEPS))
        said = write_table(
            "exploration_features", rows, command=COMMAND, notes=notes, folder=folder
        )
    print(said)
