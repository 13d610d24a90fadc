"""Statistics: do 90 % intervals of tail means and quantiles hold the simulated truth.

Logs are simulated where the policy's occupancy is known, a normal noise is added to every reward so
that its distribution is continuous, and `bayesdice_ppl.fit` believes in several statistics of it at
once. The true values come from the exact occupancy and the mixture of normals that it weights.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl
from scipy.optimize import brentq
from scipy.stats import norm

import bayesdice_ppl as bd
from bayesdice_ppl.envs import Garnet, InfiniteFrozenLake, frozen_lake_policy, garnet_policy
from bayesdice_ppl.policies import TabularPolicy
from bayesdice_ppl.simulation.tables import policy_moves
from bayesdice_ppl.simulation.truth import occupancy
from benchmarks.tables import RESULTS, write_table

TRIALS = 200
NOMINAL, BAR = 0.9, 0.05
STATISTICS = ("mean", "cvar(0.1)", "cvar(0.5)", "quantile(0.1)", "quantile(0.5)", "quantile(0.9)")
VARIANCE = "variance"
COMMAND = "python -m benchmarks statistics"
NOTES = (
    "One row is one statistic of the one-step reward of one policy: 90 % intervals (5 % to 95 % of "
    "the draws) of `bayesdice_ppl.fit(..., inference='exact', statistic=[...])` over simulated "
    "logs. `raw`: rewards as the world pays them, 0 or 1, where only tail means are not a whole "
    "atom; `noisy`: with a normal noise of the given sd added to each.",
    f"`coverage` with its Monte Carlo error `error`; `passes`: within {BAR} of {NOMINAL} plus 2 "
    "errors. `bias_sd`: mean error of the belief's mean, in its mean sd. `sd_ratio`: mean sd of "
    "the draws over the sd of the means across logs.",
)


class Case(NamedTuple):
    """A world, its two policies and the size of a log; the noise's sd, 0 for none."""

    name: str
    env: Any
    behavior: TabularPolicy
    target: TabularPolicy
    gamma: float
    n_episodes: int
    max_steps: int
    noise: float


def statistic_cases() -> list[Case]:
    """The worlds of the table."""
    lake = InfiniteFrozenLake()
    garnet = Garnet(seed=0)
    lake_policies = frozen_lake_policy(lake, 0.0), frozen_lake_policy(lake, 0.9)
    garnet_policies = [garnet_policy(garnet, alpha, seed=1) for alpha in (0.3, 0.8)]
    cases = []
    for noise, name in ((0.0, "raw"), (0.5, "noisy, sd 0.5")):
        cases += [
            Case(f"FrozenLake, {name}", lake, *lake_policies, 0.99, 400, 50, noise),
            Case(f"Garnet, {name}", garnet, *garnet_policies, 0.95, 500, 25, noise),
        ]
    return cases


def reward_law(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Rewards that the world pays under the target's occupancy, and their probabilities."""
    outcomes, policy = case.env.outcomes, case.target.probabilities
    moves = policy_moves(outcomes, policy)
    share = occupancy(moves, case.env.initial_distribution, case.gamma)
    mass = share[:, None, None] * policy[:, :, None] * outcomes.probability
    return outcomes.reward.ravel(), mass.ravel()


def true_statistic(case: Case, name: str) -> float:
    """A statistic of the target's one-step reward, by the mixture's distribution function."""
    reward, mass = reward_law(case)
    mean = float(mass @ reward)
    kind, _, number = name.partition("(")
    if kind == "mean":
        return mean
    if kind == "variance":
        return float(mass @ (reward - mean) ** 2 + case.noise**2)
    alpha = float(number.rstrip(")"))
    if case.noise == 0.0:
        order = np.argsort(reward)
        total = np.cumsum(mass[order])
        quantile = float(reward[order][np.searchsorted(total, alpha - 1e-12)])
        below = float(mass @ np.maximum(quantile - reward, 0.0))
    else:
        quantile = _root(lambda x: mass @ norm.cdf((x - reward) / case.noise) - alpha)
        gap = (quantile - reward) / case.noise
        below = float(mass @ (case.noise * (gap * norm.cdf(gap) + norm.pdf(gap))))
    return quantile if kind == "quantile" else quantile - below / alpha


def _root(function: Callable[[float], float]) -> float:
    return float(brentq(function, -20.0, 20.0, xtol=1e-12))


def names_of(case: Case) -> list[str]:
    """The statistics that are not degenerate there: of two atoms a quantile is one of them."""
    if case.noise:
        return [*STATISTICS, VARIANCE]
    # As deep as the share of silent steps, so that the worst share holds some that pay.
    return ["mean", "cvar(0.99)", VARIANCE]


def run_case(case: Case, n_trials: int) -> list[dict[str, object]]:
    """Rows of one world."""
    names = names_of(case)
    draws = {name: np.empty((n_trials, 2000)) for name in names}
    for trial in range(n_trials):
        key_play, key_noise, key_fit = jax.random.split(jax.random.key(trial), 3)
        logs = bd.simulate(
            case.env,
            case.behavior,
            n_episodes=case.n_episodes,
            max_steps=case.max_steps,
            rng_key=key_play,
        )
        if case.noise:
            frame = logs.to_dataframe()
            noise = case.noise * np.asarray(jax.random.normal(key_noise, (len(frame),)))
            frame = frame.with_columns(pl.col("reward") + pl.Series(noise.astype(np.float64)))
            logs = bd.Logs.from_dataframe(frame)
        belief = bd.fit(
            logs,
            {"target": case.target},
            gamma=case.gamma,
            rng_key=key_fit,
            inference="exact",
            draws=2000,
            statistic=names,
        )
        for name in names:
            draws[name][trial] = belief[f"posterior/{name}"].values[0, :, 0]
    rows: list[dict[str, object]] = []
    for name in names:
        truth = true_statistic(case, name)
        low, high = np.quantile(draws[name], [0.05, 0.95], axis=1)
        covered = float(np.mean((low <= truth + 1e-12) & (truth <= high + 1e-12)))
        error = float(np.sqrt(NOMINAL * (1.0 - NOMINAL) / n_trials))
        mean, sd = draws[name].mean(axis=1), draws[name].std(axis=1)
        rows.append(
            {
                "world": case.name,
                "statistic": name,
                "trials": n_trials,
                "truth": truth,
                "coverage": covered,
                "error": error,
                "passes": abs(covered - NOMINAL) <= BAR + 2.0 * error,
                "bias_sd": float(np.mean(mean - truth) / np.mean(sd)),
                "sd_ratio": float(np.mean(sd) / np.std(mean)),
            }
        )
    return rows


def main(n_trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Fill the table of statistics and print it."""
    rows = []
    for case in statistic_cases():
        started = time.perf_counter()
        rows += run_case(case, n_trials)
        print(f"{case.name}: {time.perf_counter() - started:.0f} s", flush=True)
    command = COMMAND if n_trials == TRIALS else f"{COMMAND} --trials {n_trials}"
    print(write_table("statistics", rows, command=command, notes=NOTES, folder=folder))
