"""Comparison: how often the held-out score picks the right one of two models, or a wrong one.

Pairs of models of which one is right and the other wrong, grossly or mildly, on fresh logs; and
pairs of equal models.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl

import bayesdice_ppl as bd
from benchmarks.tables import RESULTS, write_table

TRIALS = 50
COMMAND = "python -m benchmarks comparison"
STATES, ACTIONS, EPISODES, STEPS = 6, 2, 100, 10
NOTES = (
    "One row is one pair of models over fresh logs. `picked`: share of logs in which the right one "
    "has the better score. `sure`: share in which it is better by more than 2 standard errors. "
    "`misled`: share in which the wrong one is better by more than 2. `tie`: share of ties. "
    "`weight`: mean stacking weight of the right one.",
    f"States: a random MDP of {STATES} states and {ACTIONS} actions, {EPISODES} episodes of "
    f"{STEPS} steps, gamma 0.9, two random candidates; the wrong model has one weight for each two "
    "states (and action). Grossly wrong: the two differ as any states do; mildly: 3 % of rows do. "
    "Linear world: s' = 0.7 s + 0.5 a + noise, 100 episodes of 10 steps, gamma 0.8, Gaussian "
    "candidates; features of degree 2 are right, of degree 1 wrong. Bandit of normal actions that "
    "candidates shift by one sd (grossly) or by a tenth (mildly): the ratio is exactly log-linear, "
    "and the wrong link is linear. Log i of a pair is drawn by `default_rng([pair, i])`.",
)


class Pair(NamedTuple):
    """Two models and the logs that they are compared on."""

    name: str
    how: str
    gamma: float
    make: Callable[[np.random.Generator], tuple[bd.Logs, dict[str, Any]]]
    right: Mapping[str, Any]
    wrong: Mapping[str, Any]
    features: Any = None


def states(difference: float) -> Callable[[np.random.Generator], tuple[bd.Logs, dict[str, Any]]]:
    """A random MDP in which states 2k and 2k + 1 differ in a share of their rows."""

    def make(rng: np.random.Generator) -> tuple[bd.Logs, dict[str, Any]]:
        first = rng.dirichlet(np.full(STATES, 0.5), size=(STATES, ACTIONS))
        base = np.repeat(first[::2], 2, axis=0)
        moves = (1.0 - difference) * base + difference * first
        level = rng.normal(size=(STATES, ACTIONS))
        level = (1.0 - difference) * np.repeat(level[::2], 2, axis=0) + difference * level
        targets = {f"p{j}": rng.dirichlet(np.ones(ACTIONS), size=STATES // 2) for j in range(2)}
        if difference == 1.0:
            targets = {name: rng.dirichlet(np.ones(ACTIONS), size=STATES) for name in targets}
        else:
            targets = {name: np.repeat(table, 2, axis=0) for name, table in targets.items()}
        rows = []
        for episode in range(EPISODES):
            s = int(rng.integers(STATES))
            for step in range(STEPS):
                a = int(rng.integers(ACTIONS))
                onward = int(rng.choice(STATES, p=moves[s, a]))
                rows.append((episode, step, s, a, level[s, a] + rng.normal(), onward))
                s = onward
        names = ["episode_id", "step", "state", "action", "reward", "next_state"]
        logs = bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"))
        return logs, {name: bd.TabularPolicy(table) for name, table in targets.items()}

    return make


def aggregated() -> Any:
    """One weight for each two states and each action."""
    table = np.zeros((STATES, ACTIONS, STATES // 2 * ACTIONS))
    for s in range(STATES):
        for a in range(ACTIONS):
            table[s, a, (s // 2) * ACTIONS + a] = 1.0
    return bd.features.table(table, states=list(range(STATES)), actions=list(range(ACTIONS)))


def chain(rng: np.random.Generator) -> tuple[bd.Logs, dict[str, Any]]:
    """The linear world."""
    rows = []
    for episode in range(EPISODES):
        s = rng.normal()
        for step in range(STEPS):
            a = 0.2 * s + rng.normal()
            onward = 0.7 * s + 0.5 * a + 0.3 * rng.normal()
            reward = -(s**2) + 0.3 * a + 0.2 * rng.normal()
            rows.append((episode, step, s, a, reward, onward))
            s = onward
    names = ["episode_id", "step", "obs_0", "action_0", "reward", "next_obs_0"]
    logs = bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"))
    numbers = {"damping": (-0.4, 0.0, 0.8), "pushing": (0.0, 0.3, 1.0)}
    return logs, {
        name: bd.GaussianPolicy(lambda obs, g=gain, c=shift: g * np.asarray(obs)[:, :1] + c, sd)
        for name, (gain, shift, sd) in numbers.items()
    }


def shifted(shift: float) -> Callable[[np.random.Generator], tuple[bd.Logs, dict[str, Any]]]:
    """A bandit of normal actions, whose candidates shift their mean."""

    def make(rng: np.random.Generator) -> tuple[bd.Logs, dict[str, Any]]:
        n = EPISODES * STEPS
        s = rng.normal(size=n)
        a = 0.5 * s + rng.normal(size=n)
        frame = {"obs_0": s, "action_0": a, "reward": a * s - 0.3 * a**2 + rng.normal(size=n)}
        candidates = {
            name: bd.GaussianPolicy(lambda obs, c=move: 0.5 * np.asarray(obs)[:, :1] + c, 1.0)
            for name, move in {"up": shift, "down": -shift}.items()
        }
        return bd.Logs.from_dataframe(pl.DataFrame(frame)), candidates

    return make


WIDE = {"prior": bd.Prior(ratio_sd=3.0)}
LINES, CURVES = bd.features.polynomial(1), bd.features.polynomial(2)
PLAIN = {"behavior": "none"}
PAIRS = (
    Pair("states", "gross", 0.9, states(1.0), {}, {"features": aggregated()}),
    Pair("states", "mild", 0.9, states(0.03), {}, {"features": aggregated()}),
    Pair("degree", "gross", 0.8, chain, {"features": CURVES}, {"features": LINES}, CURVES),
    Pair(
        "link",
        "gross",
        0.0,
        shifted(1.0),
        {"features": LINES, "model": bd.models.linear("exp"), **PLAIN},
        {"features": LINES, "model": bd.models.linear(), **PLAIN},
        bd.features.polynomial(3),
    ),
    Pair(
        "link",
        "mild",
        0.0,
        shifted(0.1),
        {"features": LINES, "model": bd.models.linear("exp"), **PLAIN},
        {"features": LINES, "model": bd.models.linear(), **PLAIN},
        bd.features.polynomial(3),
    ),
    Pair("prior", "mild", 0.9, states(1.0), {}, WIDE),
    Pair("same", "equal", 0.9, states(1.0), {}, {}),
)


def measure(number: int, pair: Pair, trials: int) -> dict[str, object]:
    """One row of the table."""
    found = []
    for trial in range(trials):
        logs, policies = pair.make(np.random.default_rng([number, trial]))
        compared = bd.compare(
            {"right": pair.right, "wrong": pair.wrong},
            logs,
            policies,
            gamma=pair.gamma,
            rng_key=jax.random.key(trial),
            features=pair.features,
        )
        scores = compared.elpd["right"].elpd_i - compared.elpd["wrong"].elpd_i
        error = float(np.sqrt(scores.size) * scores.std(ddof=1))
        found.append((float(scores.sum()), error, compared.weights["right"]))
    gain, error, weight = np.array(found).T
    return {
        "pair": pair.name,
        "wrong": pair.how,
        "logs": trials,
        "picked": float(np.mean(gain > 0.0)),
        "sure": float(np.mean(gain > 2.0 * error)),
        "misled": float(np.mean(-gain > 2.0 * error)),
        "tie": float(np.mean(np.abs(gain) <= 2.0 * error)),
        "weight": float(weight.mean()),
    }


def main(trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Measure every pair and write the table."""
    rows = []
    for number, pair in enumerate(PAIRS):
        rows.append(measure(number, pair, trials))
        print(rows[-1], flush=True)
    command = COMMAND if trials == TRIALS else f"{COMMAND} --trials {trials}"
    print(write_table("comparison", rows, command=command, notes=NOTES, folder=folder))
