"""Garnet: does the belief hold in worlds that nobody has picked by hand.

Two hundred random worlds, one log of each: a world in which the method happens to fail cannot hide
behind one in which it works. Each row is one kind of log, so that discounting, both readings of a
termination and truncation are each held against the truth.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from bayesdice_ppl.simulation import make_world, true_value
from benchmarks.coverage import LEVELS, central_mass, measure_coverage
from benchmarks.layout import Setting
from benchmarks.tables import RESULTS, write_table
from benchmarks.trials import Believed, run_worlds

SEED = 0
TRIALS = 200
BEHAVIOR, TARGET = 0.5, 0.9
NOMINAL = 0.9
BIAS_BAR, COVERAGE_BAR = 0.25, 0.03
"""Largest |average bias| in posterior sds, and |coverage - 0.9| (2 Monte Carlo errors on top)."""

COMMAND = "python -m benchmarks garnet"
NOTES = (
    "One row is one kind of log in `worlds` random worlds of 20 states and 4 actions (each pair "
    "has 3 successors, half of the pairs never pay, the others pay 0 or 1), one log of each. "
    f"Behavior and target are the worlds' own policies of alpha {BEHAVIOR} and {TARGET}: a random "
    "policy, mixed with the optimal one by weight alpha. A step terminates with probability "
    "`termination`; `transitions` is the mean size of a log, `episodes` of `steps` steps at most, "
    "with the last successor logged.",
    "`bias`: mean over worlds of (posterior mean - truth) / posterior sd, `bias_se` its standard "
    "error, `z_sd` the standard deviation of that quotient (1 where beliefs are calibrated). "
    "`cov_50` to `cov_95`: share of worlds whose central interval holds the truth, the interval of "
    "a Student t with the belief's own degrees of freedom; `cov_90_se` the standard error of a "
    "coverage of 0.9. `mace` is the mean over the five of |coverage - nominal|, `mace_se` its "
    "standard error by the bootstrap. `moved`: mean share of the target's steps whose action was "
    f"not logged. `passes`: |bias| < {BIAS_BAR} and |cov_90 - 0.9| <= {COVERAGE_BAR} + "
    "2 cov_90_se. Calibrated beliefs show a mace near 0.02 in 200 worlds.",
    "The truth is exact; where terminations absorb, nothing is earned after them, and where they "
    "restart, it is the value of playing again and again. Every row uses the same fixed key and "
    "the same worlds up to their terminations, so rows are not independent.",
)


class Kind(NamedTuple):
    """One row of the table.

    Attributes
    ----------
    name
        Name of the row.
    gamma
        Discount.
    n_episodes, max_steps
        Size of a log.
    termination
        Probability that a step ends the episode.
    on_termination
        How that is read.
    """

    name: str
    gamma: float
    n_episodes: int
    max_steps: int
    termination: float = 0.0
    on_termination: str = "restart"


# 1,006 episodes that end with probability 0.05 a step, or after 100, have 20,000 steps on average.
KINDS = (
    Kind("discounted", 0.95, 100, 200),
    Kind("undiscounted", 1.0, 100, 200),
    Kind("absorbing terminations", 0.95, 1006, 100, 0.05, "absorb"),
    Kind("restarting terminations", 0.95, 1006, 100, 0.05),
    Kind("restarting terminations, undiscounted", 1.0, 1006, 100, 0.05),
    Kind("short episodes", 0.95, 4000, 5),
)


def setting_of(kind: Kind, seed: int) -> tuple[Setting, float]:
    """One world of a row, with the target's true value.

    Parameters
    ----------
    kind
        The row.
    seed
        Which world, and which random policy its family starts from.
    """
    world = make_world(
        "garnet",
        alpha=BEHAVIOR,
        candidates=[TARGET],
        world_seed=seed,
        termination=kind.termination,
    )
    (target,) = world.candidates.values()
    # The world itself starts anew after a termination; the game in it ends there, and writes logs.
    game: Any = world.env.unwrapped
    setting = Setting(
        f"{kind.name}, world {seed}",
        game,
        world.behavior,
        target,
        kind.n_episodes,
        kind.max_steps,
        kind.gamma,
        kind.on_termination,
    )
    lived = game if kind.on_termination == "absorb" else world.env
    return setting, float(true_value(lived, target, kind.gamma))


def summarize(kind: Kind, believed: Believed, truth: Float[np.ndarray, " T"]) -> dict[str, object]:
    """Hold the beliefs of all worlds against their true values: one row of the table."""
    off = (believed.mean - truth) / believed.sd
    n = len(off)
    mass = central_mass(believed.mean, believed.sd, believed.df, truth)
    found = measure_coverage(mass, seed=SEED)
    bias, error = float(np.mean(off)), float(np.sqrt(NOMINAL * (1.0 - NOMINAL) / n))
    shares = {f"cov_{100 * q:.0f}": float(c) for q, c in zip(LEVELS, found.levels, strict=True)}
    near = abs(shares["cov_90"] - NOMINAL) <= COVERAGE_BAR + 2.0 * error
    return {
        "kind": kind.name,
        "gamma": kind.gamma,
        "termination": kind.termination,
        "read_as": kind.on_termination if kind.termination else None,
        "episodes": kind.n_episodes,
        "steps": kind.max_steps,
        "transitions": float(np.mean(believed.n_transitions)),
        "worlds": n,
        "bias": bias,
        "bias_se": float(np.std(off, ddof=1) / np.sqrt(n)),
        "z_sd": float(np.std(off, ddof=1)),
        **shares,
        "cov_90_se": error,
        "mace": found.mace,
        "mace_se": found.mace_error,
        "moved": float(np.mean(believed.moved)),
        "passes": abs(bias) < BIAS_BAR and near,
    }


def run_kind(kind: Kind, n_worlds: int) -> dict[str, object]:
    """One row: a log and a belief of each world."""
    made = [setting_of(kind, seed) for seed in range(n_worlds)]
    settings, truths = zip(*made, strict=True)
    believed = run_worlds(settings, jax.random.key(SEED), {"default": {}})["default"]
    return summarize(kind, believed, np.array(truths))


def main(n_worlds: int = TRIALS, folder: Path = RESULTS, kinds: Sequence[Kind] = KINDS) -> None:
    """Fill the table and print it."""
    rows = []
    for kind in kinds:
        started = time.perf_counter()
        rows.append(run_kind(kind, n_worlds))
        print(f"{kind.name}: {time.perf_counter() - started:.0f} s", flush=True)
    command = COMMAND if n_worlds == TRIALS else f"{COMMAND} --trials {n_worlds}"
    print(write_table("garnet", rows, command=command, notes=NOTES, folder=folder))
