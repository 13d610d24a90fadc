"""Calibration: do 90 % intervals hold the true value in 90 % of all logs.

A thousand logs a cell are simulated where the true value is known, the closed-form belief is made
from each, and its central intervals are held against the truth.
"""

import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayesdice_ppl.envs import Bandit, InfiniteFrozenLake, frozen_lake_policy
from bayesdice_ppl.policies import TabularPolicy
from bayesdice_ppl.simulation import true_value
from benchmarks.coverage import LEVELS, central_mass, measure_coverage
from benchmarks.layout import Setting
from benchmarks.tables import RESULTS, write_table
from benchmarks.trials import Believed, run_trials

SEED = 0
TRIALS = 1000
BAR = 0.02
"""Largest MACE, the mean over the levels of |coverage - nominal|; 2 Monte Carlo errors on top."""

FORMS: dict[str, dict[str, Any]] = {
    "default": {},
    "without small_sample": {"small_sample": False},
    'preset="paper"': {"preset": "paper"},
}
COMMAND = "python -m benchmarks calibration"
NOTES = (
    "One row is one cell and one form of the belief, all forms on the same logs. "
    "`default`: the library's defaults (Mahalanobis penalty, value constraint, small-sample rule "
    "with a Student t). `without small_sample`: the same without that rule. "
    '`preset="paper"`: squared penalty, no value constraint.',
    "`cov_50` to `cov_95`: share of trials whose central interval holds the true value; `mace`: "
    "mean over the five of |coverage - nominal|; `mace_se`: its Monte Carlo standard error, by the "
    f"bootstrap over trials; `passes`: mace <= {BAR} + 2 mace_se. A perfectly calibrated belief "
    "shows a mace near 0.01 at 1,000 trials.",
    "`bias_sd`: mean error of the posterior mean, in mean posterior standard deviations. "
    "`sd_ratio`: mean posterior standard deviation over that of the posterior means across "
    "trials. `moved_mass`: median share of the target's steps with an unlogged action; `moved`: "
    "trials in which there is any. `degenerate`: trials whose logged rewards are all equal. "
    "Every trial counts, these included.",
    "Every cell uses the same fixed key, so cells of one size share their random draws.",
)


def calibration_settings() -> list[Setting]:
    """List the cells of the table: 6 bandits and 3 frozen lakes."""
    bandit = Bandit((0.75, 0.25))
    target = TabularPolicy(np.array([[0.9, 0.1]]))
    cells = [
        Setting(
            f"bandit, behavior {share}, n={n}",
            bandit,
            TabularPolicy(np.array([[share, 1.0 - share]])),
            target,
            n,
            1,
            0.0,
        )
        for share in (0.5, 0.2)
        for n in (50, 100, 200)
    ]
    lake = InfiniteFrozenLake()
    behavior, candidate = frozen_lake_policy(lake, 0.0), frozen_lake_policy(lake, 0.9)
    cells += [
        Setting(f"frozen lake, {m} episodes", lake, behavior, candidate, m, 100, 0.99)
        for m in (10, 25, 50)
    ]
    return cells


def summarize(setting: Setting, form: str, believed: Believed) -> dict[str, object]:
    """Hold the beliefs of all trials against the true value: one row of the table."""
    truth = true_value(setting.env, setting.target, setting.gamma)
    mean, sd = believed.mean, believed.sd
    found = measure_coverage(central_mass(mean, sd, believed.df, truth), seed=SEED)
    row: dict[str, object] = {"cell": setting.name, "form": form, "trials": len(mean)}
    for level, share in zip(LEVELS, found.levels, strict=True):
        row[f"cov_{100 * level:.0f}"] = float(share)
    return row | {
        "mace": found.mace,
        "mace_se": found.mace_error,
        "passes": found.mace <= BAR + 2.0 * found.mace_error,
        "bias_sd": float(np.mean(mean - truth) / np.mean(sd)),
        "sd_ratio": float(np.mean(sd) / np.std(mean)),
        "moved_mass": float(np.median(believed.moved)),
        "moved": int(np.sum(believed.moved > 1e-12)),
        "degenerate": int(np.sum(believed.degenerate)),
    }


def main(n_trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Fill the calibration table and print it."""
    rows = []
    for setting in calibration_settings():
        started = time.perf_counter()
        found = run_trials(setting, jax.random.key(SEED), n_trials, FORMS)
        rows += [summarize(setting, form, found[form]) for form in FORMS]
        print(f"{setting.name}: {time.perf_counter() - started:.0f} s", flush=True)
    command = COMMAND if n_trials == TRIALS else f"{COMMAND} --trials {n_trials}"
    print(write_table("calibration", rows, command=command, notes=NOTES, folder=folder))
