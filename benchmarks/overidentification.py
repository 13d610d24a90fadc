"""Overidentification: the size of J under a right ratio, and its power under a wrong one.

Two worlds whose ratios are known: a bandit of normal actions, and a linear-Gaussian world at
gamma = 1. With features that are linear in state and action, a log-linear ratio is exactly right
for candidates that shift the logging policy's mean, and wrong for those that change its spread or
its slope.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl

import bayesdice_ppl as bd
from bayesdice_ppl.belief.schema import BeliefView
from benchmarks.tables import RESULTS, write_table

TRIALS = 1_000
COMMAND = "python -m benchmarks overidentification"
SIZES = (0.01, 0.05, 0.1)
N, EPISODES, STEPS = 500, 40, 30
NOTES = (
    "One row is one candidate over all logs. `right`: whether the features hold its ratio exactly. "
    "`size_*`: share of logs whose J has a p-value below that, which is the size of the test for "
    "right ratios and its power for others. `untested`: share of logs in which nothing was left to "
    "test. `tests`: mean number of directions. `met`: median of P(ell <= epsilon). `cov_90`: share "
    "of 90 % intervals that hold the true value, in closed form; `bias_sd`: mean of (mean - truth) "
    "over the believed sd; `abstained`: share of logs in which the belief abstains.",
    f"Bandit: {N} rows, s ~ N(0, 1), a ~ N(s / 2, 1), behavior='none', polynomial(1) of both. "
    f"Linear-Gaussian: {EPISODES} episodes of {STEPS} steps from the stationary start, "
    "s' = s / 2 + a + e, polynomial(1) of both with behavior='none', or of the state beside the "
    "logged action ratio. All with models.linear('exp'). Log i of a world is drawn by "
    "`default_rng([world, i])`.",
)


class Linear(NamedTuple):
    """A normal policy, a ~ N(slope s + shift, sd^2)."""

    slope: float
    shift: float
    sd: float

    @property
    def policy(self) -> bd.GaussianPolicy:
        """The policy as a candidate."""
        return bd.GaussianPolicy(lambda obs: self.slope * obs + self.shift, self.sd)


def bandit_log(seed: int) -> bd.Logs:
    """A bandit of normal actions."""
    rng = np.random.default_rng([0, seed])
    s = rng.normal(size=N)
    a = 0.5 * s + rng.normal(size=N)
    reward = np.sin(2.0 * s) + a * s - 0.3 * a**2 + rng.normal(size=N)
    return bd.Logs.from_dataframe(pl.DataFrame({"obs_0": s, "action_0": a, "reward": reward}))


def bandit_value(policy: Linear) -> float:
    """E[a s] - 0.3 E[a^2]; E[sin 2s] is zero."""
    return policy.slope - 0.3 * (policy.slope**2 + policy.shift**2 + policy.sd**2)


def linear_log(seed: int) -> bd.Logs:
    """A linear-Gaussian world from its stationary start."""
    rng = np.random.default_rng([1, seed])
    s = np.sqrt(0.5 / (1.0 - 0.3**2)) * rng.normal(size=EPISODES)
    rows = []
    for step in range(STEPS):
        u = rng.normal(size=EPISODES)
        a = -0.2 * s + 0.5 * u
        following = 0.5 * s + a + 0.5 * rng.normal(size=EPISODES)
        reward = -(s**2) - 0.5 * a**2 + np.sin(2.0 * s)
        density = np.exp(-0.5 * u**2) / np.sqrt(2.0 * np.pi) / 0.5
        rows.append(
            (np.arange(EPISODES), np.full(EPISODES, step), s, a, reward, following, density)
        )
        s = following
    names = ("episode_id", "step", "obs_0", "action_0", "reward", "next_obs_0", "propensity")
    columns = (np.concatenate(part) for part in zip(*rows, strict=True))
    frame = pl.DataFrame(dict(zip(names, columns, strict=True)))
    return bd.Logs.from_dataframe(frame.sort("episode_id", "step"))


def linear_value(policy: Linear) -> float:
    """Mean reward under the stationary normal law of s."""
    pull = 0.5 + policy.slope
    mean = policy.shift / (1.0 - pull)
    variance = (policy.sd**2 + 0.25) / (1.0 - pull**2)
    action = policy.slope**2 * variance + (policy.slope * mean + policy.shift) ** 2 + policy.sd**2
    wave = np.sin(2.0 * mean) * np.exp(-2.0 * variance)
    return float(-(variance + mean**2) - 0.5 * action + wave)


class World(NamedTuple):
    """How logs are made and fitted, and who is judged: name -> (policy, whether it is right)."""

    make: Callable[[int], bd.Logs]
    value: Callable[[Linear], float]
    given: Mapping[str, Any]
    candidates: Mapping[str, tuple[Linear, bool]]


_SHIFTED = {
    "shifted": (Linear(-0.2, 0.15, 0.5), True),
    "steeper": (Linear(-0.6, 0.0, 0.5), False),
    "wider": (Linear(-0.2, 0.0, 0.7), False),
}
_EXP = bd.models.linear("exp")
WORLDS = {
    "bandit": World(
        bandit_log,
        bandit_value,
        {"gamma": 0.0, "behavior": "none", "features": bd.features.polynomial(1)},
        {
            "shifted": (Linear(0.5, 0.4, 1.0), True),
            "narrower": (Linear(0.5, 0.0, 0.7), False),
            "steeper": (Linear(0.8, 0.0, 1.0), False),
        },
    ),
    "linear-Gaussian, (s, a)": World(
        linear_log,
        linear_value,
        {"gamma": 1.0, "behavior": "none", "features": bd.features.polynomial(1)},
        _SHIFTED,
    ),
    "linear-Gaussian, state": World(
        linear_log,
        linear_value,
        {"gamma": 1.0, "behavior": "logged", "features": bd.features.polynomial(1, of="state")},
        _SHIFTED,
    ),
}


def cell_rows(name: str, world: World, trials: int) -> list[dict[str, object]]:
    """One row for each candidate of a world."""
    policies = {key: each.policy for key, (each, _) in world.candidates.items()}
    found = []
    for seed in range(trials):
        key = jax.random.key(seed)
        belief = bd.fit(
            world.make(seed), policies, rng_key=key, model=_EXP, draws=100, **world.given
        )
        view, data = BeliefView(belief), belief["constant_data"]
        abstained = {each.policy for each in view.support_warnings or () if each.abstain}
        found.append(
            np.stack(
                [
                    data["j_p_value"].values,
                    data["j_tests"].values,
                    view.constraint_probability,
                    view.guide_mean,
                    view.guide_sd,
                    [each in abstained for each in policies],
                ]
            )
        )
    p, tests, met, mean, sd, away = np.moveaxis(np.array(found), 1, 0)
    rows: list[dict[str, object]] = []
    for j, (candidate, (policy, right)) in enumerate(world.candidates.items()):
        z = (mean[:, j] - world.value(policy)) / sd[:, j]
        rows.append(
            {"world": name, "candidate": candidate, "right": right, "logs": trials}
            | {f"size_{100 * size:.0f}": float(np.mean(p[:, j] < size)) for size in SIZES}
            | {
                "untested": float(np.mean(np.isnan(p[:, j]))),
                "tests": float(tests[:, j].mean()),
                "met": float(np.median(met[:, j])),
                "cov_90": float(np.mean(np.abs(z) < 1.645)),
                "bias_sd": float(z.mean()),
                "abstained": float(away[:, j].mean()),
            }
        )
    return rows


def main(trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Judge J in every world and write the table."""
    rows = []
    for name, world in WORLDS.items():
        rows += cell_rows(name, world, trials)
        print(rows[-len(world.candidates) :], flush=True)
    command = COMMAND if trials == TRIALS else f"{COMMAND} --trials {trials}"
    print(write_table("overidentification", rows, command=command, notes=NOTES, folder=folder))
