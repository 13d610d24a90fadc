"""Worlds: beliefs from plenty of logs must find the truth that each tabular world has.

From 200,000 transitions the posterior mean of every candidate's value should lie within five
posterior standard deviations of the exact one, and the reweighted log should look like the
candidate's own occupancy: sum over pairs of |ratio * share of the log - occupancy| is twice the
total variation between them.
"""

import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import bayesdice_ppl as bd
from bayesdice_ppl.simulation import World, make_world, true_value
from bayesdice_ppl.simulation.tables import policy_moves
from bayesdice_ppl.simulation.truth import occupancy
from benchmarks.tables import RESULTS, write_table

COMMAND = "python -m benchmarks worlds"
EPISODES, STEPS, SEED = 2_000, 100, 11
BEHAVIOR = 0.5


class Setting(NamedTuple):
    """One row group of the table.

    Attributes
    ----------
    world
        Name for `make_world`.
    gamma
        Discount; None is the world's usual one.
    inference
        Engine of the fit.
    bar
        Largest distance between the reweighted log and the candidate's occupancy.
    """

    world: str
    gamma: float | None
    inference: str
    bar: float


SETTINGS = (
    Setting("bandit", None, "svi", 0.05),
    Setting("contextualbandit", None, "svi", 0.05),
    Setting("frozenlake", None, "svi", 0.05),
    Setting("frozenlake", 1.0, "svi", 0.05),
    Setting("garnet", None, "svi", 0.05),
    Setting("garnet", 1.0, "svi", 0.05),
    Setting("riverswim", None, "svi", 0.05),
    Setting("riverswim", 1.0, "svi", 0.05),
    Setting("taxi", None, "exact", 0.10),
)
NOTES = (
    f"{EPISODES:,} episodes of {STEPS} steps of the logging policy alpha = {BEHAVIOR}. `error` is "
    "the posterior mean's distance from the truth in posterior standard deviations (bar: 5). "
    "`distance` is sum |ratio * share of the log - occupancy| over state-action pairs, at the "
    "posterior mean of the ratio (bar: 0.05, for Taxi 0.10). `moved` is the share of the "
    "candidate's steps at which the log lacks its action.",
    "`seconds` is the fit of all five candidates, compilation included. Candidates of one world "
    "are judged on one log, so their errors are not independent. Taxi has 2,400 pairs, past what "
    "SVI is meant for, and is fitted in closed form.",
)


def fit_setting(setting: Setting) -> list[dict[str, Any]]:
    """Simulate, fit, and hold every candidate against the truth, a row each."""
    world = make_world(setting.world, alpha=BEHAVIOR)
    gamma = world.gamma_hint if setting.gamma is None else setting.gamma
    key_logs, key_fit = jax.random.split(jax.random.key(SEED))
    logs = bd.simulate(world.env, world.behavior, EPISODES, STEPS, rng_key=key_logs)
    started = time.perf_counter()
    belief = bd.fit(
        logs, world.candidates, gamma=gamma, rng_key=key_fit, inference=setting.inference
    )
    seconds = time.perf_counter() - started
    distances = occupancy_distances(world, belief, gamma)
    known = belief["constant_data"].dataset
    rows = []
    for j, (name, policy) in enumerate(world.candidates.items()):
        truth = true_value(world.env, policy, gamma)
        mean, sd = float(known["guide_mean"][j]), float(known["guide_sd"][j])
        rows.append(
            {
                "world": setting.world,
                "gamma": gamma,
                "policy": name,
                "truth": float(truth),
                "mean": mean,
                "sd": sd,
                "error": (mean - truth) / sd,
                "distance": distances[j],
                "moved": float(known["moved_mass"][j]),
                "seconds": seconds,
                "within": bool(abs(mean - truth) <= 5 * sd and distances[j] <= setting.bar),
            }
        )
    return rows


def occupancy_distances(world: World, belief: Any, gamma: float) -> list[float]:
    """Sum over pairs of |ratio * share of the log - occupancy|, for each candidate."""
    known = belief["constant_data"].dataset
    pair = (known["pair_state"].values.astype(int), known["pair_action"].values.astype(int))
    share = known["pair_count"].values / known["pair_count"].values.sum()
    ratio = belief["posterior/weights"].values.mean(axis=(0, 1))
    outcomes = world.env.outcomes
    found = []
    for j, policy in enumerate(world.candidates.values()):
        moves = policy_moves(outcomes, policy.probabilities)
        states = occupancy(moves, world.env.initial_distribution, gamma)
        reweighted = np.zeros(policy.probabilities.shape)
        reweighted[pair] = ratio[j] * share
        found.append(float(np.abs(reweighted - states[:, None] * policy.probabilities).sum()))
    return found


def main(folder: Path = RESULTS) -> None:
    """Fill the table and print it."""
    rows = [row for setting in SETTINGS for row in fit_setting(setting)]
    print(write_table("worlds", rows, command=COMMAND, notes=NOTES, folder=folder))
