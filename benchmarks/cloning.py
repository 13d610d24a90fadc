"""Cloning: the value of a known policy by weighting, with the logging policy known or cloned.

Each log is a contextual bandit. A reward is weighted by pi(a|x) / mu(a|x), mu being the logging
policy itself, its clone by the same rows, or by a clone that has not seen the row's fold.
"""

import time
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import polars as pl
from scipy.special import softmax
from scipy.stats import norm

from bayesdice_ppl import Logs
from bayesdice_ppl.policies import clone_policy
from benchmarks.tables import RESULTS, write_table

TRIALS = 40
WORLDS = (
    ("labels", "linear", 500),
    ("labels", "linear", 2_500),
    ("labels", "curved", 2_500),
    ("labels", "curved", 8_000),
    ("vectors", "linear", 500),
    ("vectors", "linear", 2_500),
    ("vectors", "curved", 2_500),
    ("vectors", "curved", 8_000),
)
COMMAND = "python -m benchmarks cloning"
NOTES = (
    "One row is one kind of action, logging policy and number of rows. `labels`: ten standard "
    "normal contexts, five actions, a softmax; `vectors`: three contexts, one number, a Gaussian. "
    "`linear` logging policies have linear scores, or a linear mean and a constant spread; "
    "`curved` ones do not. The policy that is judged is another of the same kind.",
    "`network`: share of logs in which the clone is a network; `poor`: in which its report says "
    "that it is poor. `bias`, `sd`: of the mean of weight times reward divided by the mean weight "
    "(`known`: with the logging policy itself; `in_sample`, `held_out`: with its clone by all rows "
    "or by other folds). `error`: standard error of the bias with the policy known. `weight`: mean "
    "weight, which is 1 with the policy known.",
)


class Bandit(NamedTuple):
    """A log, the probabilities of its actions, and the mean reward of the policy to be judged.

    Attributes
    ----------
    logs
        Rows, each an episode.
    logging, target
        Log probability of each action under the two policies, shapes (n,).
    value
        Mean over the contexts of the log's own kind, from many draws.
    """

    logs: Logs
    logging: np.ndarray
    target: np.ndarray
    value: float


def labels(n: int, curved: bool, seed: int) -> Bandit:
    """Draw a log of five actions."""
    fixed = np.random.default_rng(99)
    first, second, gains = fixed.normal(size=(3, 10, 5)) * np.array([0.4, 0.6, 0.3])[:, None, None]

    def policies(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores = 2.0 * np.tanh(2.0 * x[:, :5]) if curved else x @ first
        return softmax(scores, axis=1), softmax(x @ second, axis=1)

    many = np.random.default_rng(5).normal(size=(400_000, 10))
    value = np.mean(np.sum(policies(many)[1] * (many @ gains), axis=1))
    rng = np.random.default_rng(seed)
    x, rows = rng.normal(size=(n, 10)), np.arange(n)
    logging, target = policies(x)
    action = np.minimum((logging.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), 4)
    reward = (x @ gains)[rows, action] + rng.normal(size=n)
    frame = {f"obs_{k}": each for k, each in enumerate(x.T)} | {"action": action, "reward": reward}
    logs = Logs.from_dataframe(pl.DataFrame(frame), actions=range(5))
    return Bandit(logs, np.log(logging[rows, action]), np.log(target[rows, action]), float(value))


def vectors(n: int, curved: bool, seed: int) -> Bandit:
    """Draw a log of actions that are numbers."""

    def laws(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        if curved:
            mean, sd = 2.0 * np.tanh(2.0 * x[:, 0]) * np.cos(x[:, 1]), np.exp(0.3 * x[:, 2] - 0.4)
        else:
            mean, sd = x[:, 0] - 0.5 * x[:, 1], np.full(len(x), 0.7)
        return mean, sd, mean + 0.3 * x[:, 2], 0.9 * sd

    many = np.random.default_rng(5).normal(size=(400_000, 3))
    *_, mean, sd = laws(many)
    # E sin(A) of a normal number is sin(mean) exp(-variance / 2).
    value = np.mean(np.sin(mean) * np.exp(-0.5 * sd**2) + 0.5 * many[:, 1] * mean)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    mean, sd, other, narrow = laws(x)
    action = mean + sd * rng.normal(size=n)
    reward = np.sin(action) + 0.5 * x[:, 1] * action + 0.5 * rng.normal(size=n)
    frame = {f"obs_{k}": each for k, each in enumerate(x.T)}
    logs = Logs.from_dataframe(pl.DataFrame(frame | {"action_0": action, "reward": reward}))
    densities = norm.logpdf(action, mean, sd), norm.logpdf(action, other, narrow)
    return Bandit(logs, *densities, float(value))


def run(actions: str, form: str, n: int, trials: int) -> dict[str, object]:
    """One row of the table."""
    estimates: dict[str, list[float]] = {"known": [], "in_sample": [], "held_out": []}
    weights: dict[str, list[float]] = {"known": [], "in_sample": [], "held_out": []}
    network, poor, value = 0, 0, 0.0
    for seed in range(trials):
        bandit = (labels if actions == "labels" else vectors)(n, form == "curved", seed)
        clone = clone_policy(bandit.logs, jax.random.key(seed))
        network += clone.report.form != "linear"
        poor += clone.report.poor
        value = bandit.value
        known = {"known": bandit.logging, "in_sample": clone.in_sample, "held_out": clone.held_out}
        for name, logging in known.items():
            weight = np.exp(bandit.target - logging)
            estimates[name].append(float(weight @ bandit.logs.reward / weight.sum()))
            weights[name].append(float(weight.mean()))
    found: dict[str, object] = {
        "actions": actions,
        "logging": form,
        "rows": n,
        "network": network / trials,
        "poor": poor / trials,
    }
    for name, each in estimates.items():
        found[f"bias_{name}"] = float(np.mean(each) - value)
    for name, each in estimates.items():
        found[f"sd_{name}"] = float(np.std(each, ddof=1))
    found["error"] = float(np.std(estimates["known"], ddof=1) / np.sqrt(trials))
    for name in ("in_sample", "held_out"):
        found[f"weight_{name}"] = float(np.mean(weights[name]))
    return found


def main(n_trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Fill the table of clones and print it."""
    rows = []
    for world in WORLDS:
        started = time.perf_counter()
        rows.append(run(*world, n_trials))
        print(f"{world}: {time.perf_counter() - started:.0f} s", flush=True)
    command = COMMAND if n_trials == TRIALS else f"{COMMAND} --trials {n_trials}"
    print(write_table("cloning", rows, command=command, notes=NOTES, folder=folder))
