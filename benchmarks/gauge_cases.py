"""Each gauge on a case that was built for it, and on the same case without the fault.

A warning is worth reading if it speaks where there is something to say, and is silent elsewhere.
Every gauge of `bayesdice_ppl.fitting.gauges` has one pair of logs here, which differ in the fault
alone.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl

import bayesdice_ppl as bd
from bayesdice_ppl.baselines.support import warn_of_support
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.gauges import Gauge
from benchmarks.gauge_logs import bandit, drawn, drift, process, pushing, table
from benchmarks.tables import RESULTS, write_table

COMMAND = "python -m benchmarks gauge_cases"
NOTES = (
    "`fault`, `without`: what differs between two logs that are alike otherwise. `number`: the "
    "gauge's on the first, of the candidate where it is farthest past its threshold; `says`: "
    "whether the belief warns or abstains by it there; `without it`: the same of the second log, "
    "where it should be silent.",
)


class Asked(NamedTuple):
    """A log and a question.

    Attributes
    ----------
    frame
        The log.
    policies
        Name -> candidate.
    options
        Of `bayesdice_ppl.fit`, or of a method in ``bayesdice_ppl.baselines``.
    actions
        The action space; None: as logged.
    method
        Another method than the belief of `bayesdice_ppl.fit`.
    """

    frame: pl.DataFrame
    policies: Mapping[str, Any]
    options: Mapping[str, Any]
    actions: list[int] | None = None
    method: str | None = None


class Case(NamedTuple):
    """A pair of logs for one gauge: `make(True)` has the fault, `make(False)` does not."""

    gauge: Gauge
    fault: str
    without: str
    make: Callable[[bool], Asked]


TILTED = {"a": table([0.6, 0.3, 0.1]), "b": table([0.2, 0.2, 0.6])}
MDP = {"a": table([0.6, 0.3, 0.1], states=6), "b": table([0.2, 0.2, 0.6], states=6)}
BANDIT = {"gamma": 0.0}
MOVED = {"gamma": 0.0, "prior": bd.Prior(unseen="moved")}


def _unlogged(fault: bool) -> Asked:
    share = 0.2 if fault else 0.01
    frame = bandit(chances=np.tile([0.5, 0.5, 0.0], (4, 1)))
    policies = {"a": table([0.5 * (1 - share), 0.5 * (1 - share), share])}
    return Asked(frame, policies, MOVED, [0, 1, 2])


def _unlogged_shift(fault: bool) -> Asked:
    frame = bandit(20_000 if fault else 200, chances=np.tile([0.5, 0.5, 0.0], (4, 1)))
    policies = {"a": table([0.49, 0.495, 0.015])}
    return Asked(frame, policies, MOVED, [0, 1, 2])


def _unseen(fault: bool) -> Asked:
    frame = bandit(5000, chances=np.tile([0.5, 0.5, 0.0], (4, 1)))
    policies = {"a": table([0.3, 0.3, 0.4] if fault else [0.6, 0.4, 0.0])}
    return Asked(frame, policies, BANDIT, [0, 1, 2])


def _dead_end(fault: bool, gamma: float) -> Asked:
    """A state that episodes only end in, at their cut: nothing of it is logged."""
    frame = process()
    n = frame.height
    last = np.arange(n) % 20 == 19
    following = np.where(last & (np.arange(n) % 40 == 39), 6, frame["next_state"].to_numpy())
    if fault:
        frame = frame.with_columns(next_state=following)
    rows = [[0.6, 0.3, 0.1]] * 7
    return Asked(frame, {"a": bd.TabularPolicy(np.array(rows))}, {"gamma": gamma}, [0, 1, 2])


def _predicted(fault: bool) -> Asked:
    return _dead_end(fault, 0.9)


def _lost(fault: bool) -> Asked:
    return _dead_end(fault, 1.0)


def _effective(fault: bool) -> Asked:
    chances = np.tile([0.495, 0.495, 0.01] if fault else [1 / 3] * 3, (4, 1))
    return Asked(bandit(1000, chances=chances), {"a": table([0.0, 0.0, 1.0])}, BANDIT)


def _episodes(fault: bool) -> Asked:
    rows = [[0.05, 0.05, 0.9] if fault else [0.36, 0.34, 0.3]] * 6
    policies = {"a": bd.TabularPolicy(np.array(rows))}
    frame = process().with_columns(propensity=pl.lit(1 / 3))
    return Asked(frame, policies, {"gamma": 0.99}, method="pdis")


def _influential(fault: bool) -> Asked:
    frame = process(60, 10)
    if fault:
        first = pl.col("episode_id") == 0
        frame = frame.with_columns(reward=pl.when(first).then(60.0).otherwise("reward"))
    return Asked(frame, MDP, {"gamma": 0.9, "cluster": "transition"})


def _one_start(fault: bool) -> Asked:
    frame = process(1 if fault else 40, 1600 if fault else 40)
    return Asked(frame, MDP, {"gamma": 0.95})


def _negative(fault: bool) -> Asked:
    policies = {"a": pushing(-2.0 if fault else -0.35, 0.4)}
    features = bd.features.fourier(20)
    frame = drift().drop("propensity")
    options = {"gamma": 0.9, "features": features, "behavior": "none"}
    options |= {"model": bd.models.linear()}
    return Asked(frame, policies, options)


def _constant(fault: bool) -> Asked:
    frame = bandit()
    return Asked(frame.with_columns(reward=pl.lit(1.0)) if fault else frame, TILTED, BANDIT)


def _left_out(fault: bool) -> Asked:
    frame = process(200, 3 if fault else 20).drop("next_state")
    return Asked(frame, MDP, {"gamma": 0.9})


def _freedom(fault: bool) -> Asked:
    frame = bandit(300)
    users = np.arange(300) % (3 if fault else 60)
    shift = np.random.default_rng(1).normal(size=60)[users]
    frame = frame.with_columns(reward=pl.col("reward") + shift, user_id=pl.Series(users))
    return Asked(frame, TILTED, {"gamma": 0.0, "cluster": "user_id"})


def _adaptive(fault: bool) -> Asked:
    """Thompson sampling on two arms that are alike, or fixed shares."""
    rng = np.random.default_rng(3)
    total, count, rows = np.zeros(2), np.zeros(2), []
    for _ in range(600):
        draw = total / (count + 1.0) + rng.normal(size=2) / np.sqrt(count + 1.0)
        arm = int(np.argmax(draw)) if fault else int(rng.integers(2))
        reward = float(rng.normal())
        total[arm] += reward
        count[arm] += 1.0
        rows.append((0, arm, reward))
    frame = pl.DataFrame(rows, schema=["state", "action", "reward"], orient="row")
    policies = {"a": bd.TabularPolicy([[1.0, 0.0]]), "b": bd.TabularPolicy([[0.0, 1.0]])}
    return Asked(frame, policies, BANDIT)


def _short(fault: bool) -> Asked:
    """Errors that wander along the whole log, or that forget within a few rows."""
    rng = np.random.default_rng(4)
    frame = bandit(1500)
    keep, error = 0.999 if fault else 0.5, np.zeros(1500)
    for t in range(1, 1500):
        error[t] = keep * error[t - 1] + np.sqrt(1 - keep**2) * rng.normal()
    return Asked(frame.with_columns(reward=pl.col("reward") + 2.0 * error), TILTED, BANDIT)


def _shared(fault: bool) -> Asked:
    frame = bandit(1400)
    color = np.random.default_rng(5).permutation(np.arange(1400) % 7)
    shift = np.random.default_rng(6).normal(size=7)[color] if fault else 0.0
    names = pl.Series([f"color {k}" for k in color])
    frame = frame.with_columns(reward=pl.col("reward") + shift, color=names)
    return Asked(frame, TILTED, BANDIT)


def _wide(fault: bool) -> Asked:
    """Two parts between which the log never goes, at gamma = 1: one earns 0, and one 1."""
    frame = process(40, 40, 3).with_columns(reward=0.02 * pl.col("reward"))
    if fault:
        other = process(40, 40, 3, seed=9).with_columns(
            pl.col("episode_id") + 100,
            pl.col("state") + 3,
            pl.col("next_state") + 3,
            reward=1.0 + 0.02 * pl.col("reward"),
        )
        frame = pl.concat([frame, other])
    return Asked(frame, MDP, {"gamma": 1.0})


def _narrow(fault: bool) -> Asked:
    frame = bandit(noise=0.0 if fault else 1.0)
    first = frame.with_columns(state=pl.lit(0), action=pl.int_range(pl.len()) % 3)
    if fault:
        first = first.with_columns(reward=pl.col("action").cast(pl.Float64))
    return Asked(first, {"a": bd.TabularPolicy([[1.0, 0.0, 0.0]])}, BANDIT)


def _features(fault: bool) -> Asked:
    frame = drift(10 if fault else 80, 40)
    options = {"gamma": 0.9, "features": bd.features.fourier(100 if fault else 30)}
    return Asked(frame, {"a": pushing(-0.4)}, options)


def _capped(fault: bool) -> Asked:
    return Asked(drift(), {"a": pushing(-0.3, 0.01 if fault else 0.3)}, {"gamma": 0.0})


def _outside(fault: bool) -> Asked:
    return Asked(drift(), {"a": pushing(0.25 if fault else -0.4)}, {"gamma": 0.95})


def _unjudged(fault: bool) -> Asked:
    frame = drift()
    if fault:
        clock = pl.col("step").cast(pl.Float64)
        frame = frame.with_columns(obs_1=clock, next_obs_1=clock + 1.0)
    return Asked(frame, {"a": pushing(-0.4)}, {"gamma": 0.99})


def _clone(fault: bool) -> Asked:
    """Pushes to the left or to the right, and never between: no normal policy acts so."""
    rng = np.random.default_rng(7)
    frame = drift().drop("propensity")
    if fault:
        sign = np.where(rng.random(frame.height) < 0.5, 3.0, -3.0)
        frame = frame.with_columns(action_0=pl.Series(sign + 0.01 * rng.standard_t(1.5, len(sign))))
    return Asked(frame, {"a": pushing(-0.4)}, {"gamma": 0.0})


def _tail(fault: bool) -> Asked:
    share = 0.002 if fault else 0.1
    return Asked(bandit(), TILTED, {"gamma": 0.0, "statistic": bd.statistics.cvar(share)})


def _unmet(fault: bool) -> Asked:
    prior = bd.Prior(ratio_sd=1e-4) if fault else bd.Prior()
    options = {"gamma": 0.9, "features": bd.features.fourier(20), "behavior": "none"}
    options |= {"model": bd.models.linear(), "prior": prior}
    return Asked(drift().drop("propensity"), {"a": pushing(-0.5)}, options)


def _other_functions(fault: bool) -> Asked:
    features = bd.features.polynomial(1) if fault else bd.features.fourier(40)
    options = {"gamma": 0.9, "features": features, "behavior": "none"}
    options |= {"model": bd.models.linear()}
    return Asked(drift(200).drop("propensity"), {"a": pushing(-0.8)}, options)


def _networks(fault: bool) -> Asked:
    options: dict[str, Any] = {"gamma": 0.9}
    if fault:
        options |= {"model": bd.models.mean_deviation(width=8), "features": bd.features.fourier(20)}
        options |= {"inference": bd.inference.MinMax(steps=60, restarts=1)}
    return Asked(drift(), {"a": pushing(-0.4)}, options)


def _mode(fault: bool) -> Asked:
    options: dict[str, Any] = {"gamma": 0.9}
    if fault:
        model, features = bd.models.linear("exp"), bd.features.polynomial(4)
        options |= {"model": model, "features": features, "behavior": "none"}
    return Asked(drift(20), {"a": pushing(2.0 if fault else -0.4)}, options)


def _weights(fault: bool) -> Asked:
    frame = drift()
    if fault:
        frame = frame.with_columns(pl.col("propensity") * 1.5)
    return Asked(frame, {"a": pushing(-0.4)}, {"gamma": 0.0})


def _convergence(fault: bool) -> Asked:
    engine = bd.inference.Svi(windows=2 if fault else 5, steps=5 if fault else None)
    return Asked(process(40, 10, 4), MDP, {"gamma": 0.9, "inference": engine})


def _mixing(fault: bool) -> Asked:
    engine = bd.inference.Nuts(warmup=2 if fault else 300, start_scale=20.0 if fault else 2.0)
    options = {"gamma": 0.0, "inference": engine, "draws": 400}
    return Asked(bandit(400, 2), {"a": table([0.6, 0.3, 0.1], states=2)}, options)


def _heavy(fault: bool) -> Asked:
    frame = bandit(600)
    rng = np.random.default_rng(8)
    errors = rng.pareto(1.2, 600) if fault else rng.normal(size=600)
    return Asked(frame.with_columns(reward=pl.Series(errors)), TILTED, BANDIT)


def _few_errors(fault: bool) -> Asked:
    frame = bandit(600)
    rng = np.random.default_rng(9)
    paid = np.zeros(600)
    paid[rng.choice(600, 2 if fault else 200, replace=False)] = 1.0
    return Asked(frame.with_columns(reward=pl.Series(paid)), TILTED, BANDIT)


def _propensities(fault: bool) -> Asked:
    frame = bandit(chances=np.tile([0.6, 0.3, 0.1], (4, 1)))
    right = np.array([0.6, 0.3, 0.1])[frame["action"].to_numpy()]
    return Asked(
        frame.with_columns(propensity=pl.lit(1 / 3) if fault else pl.Series(right)), TILTED, BANDIT
    )


def _together(fault: bool) -> Asked:
    """Other shares of actions in the second half, and with the fault other rewards."""
    rng = np.random.default_rng(4)
    late = np.arange(4000) >= 2000
    action = (rng.random(4000) < np.where(late, 0.8, 0.3)).astype(int)
    reward = 0.3 * action + (0.5 * late if fault else 0.0) + rng.normal(size=4000)
    frame = pl.DataFrame({"state": np.zeros(4000, dtype=int), "action": action, "reward": reward})
    return Asked(frame, {"a": bd.TabularPolicy([[0.1, 0.9]])}, BANDIT)


def _apart(fault: bool) -> Asked:
    """Three hospitals with other shares of actions each, and with the fault other patients."""
    rng = np.random.default_rng(12)
    site = rng.integers(3, size=3000)
    action = drawn(rng, np.array([[0.8, 0.1, 0.1], [0.3, 0.4, 0.3], [0.1, 0.1, 0.8]])[site])
    reward = rng.normal(size=3000) + (0.5 * site if fault else 0.0)
    names = pl.Series([f"hospital {k}" for k in site])
    frame = pl.DataFrame({"state": rng.integers(4, size=3000), "action": action, "reward": reward})
    return Asked(frame.with_columns(hospital=names), TILTED, BANDIT)


def _changed(fault: bool) -> Asked:
    late = pl.int_range(pl.len()) >= 2000
    frame = bandit(4000)
    if fault:
        frame = frame.with_columns(reward=pl.col("reward") + late.cast(pl.Float64))
    return Asked(frame, TILTED, BANDIT)


def _hidden(fault: bool) -> Asked:
    """A policy that saw who was in need: action 0 for them, action 2 for the others."""
    rng = np.random.default_rng(10)
    needy = rng.random(4000) < 0.5
    chances = np.where(needy[:, None], [0.7, 0.2, 0.1], [0.1, 0.2, 0.7])
    action = drawn(rng, chances)
    reward = rng.normal(size=4000) - (2.0 * needy if fault else 0.0)
    frame = pl.DataFrame(
        {
            "state": rng.integers(4, size=4000),
            "action": action,
            "reward": reward,
            "propensity": chances[np.arange(4000), action],
        }
    )
    return Asked(frame, TILTED, BANDIT)


def _past(fault: bool) -> Asked:
    """The action before decides what an action pays: it is no part of the state."""
    frame = process(200, 20)
    before = pl.col("action").shift(1).over("episode_id").fill_null(0)
    if fault:
        frame = frame.with_columns(reward=pl.col("reward") + 3.0 * (before == pl.col("action")))
    return Asked(frame, MDP, {"gamma": 0.9})


CASES = (
    Case(
        gauges.UNLOGGED,
        "a fifth of steps by an action never logged, whose probability is moved",
        "a hundredth",
        _unlogged,
    ),
    Case(
        gauges.UNLOGGED_SHIFT,
        "1.5 % of steps by such an action, 20,000 rows",
        "200 rows",
        _unlogged_shift,
    ),
    Case(gauges.UNSEEN, "two fifths of steps by an action never logged", "none", _unseen),
    Case(
        gauges.LOST,
        "a state that is only reached where episodes are cut, gamma 1",
        "no such state",
        _lost,
    ),
    Case(gauges.PREDICTED, "the same, gamma 0.9", "no such state", _predicted),
    Case(
        gauges.EFFECTIVE,
        "the candidate's one action is a hundredth of 1,000 rows",
        "a third",
        _effective,
    ),
    Case(
        gauges.EPISODES,
        "importance sampling over 20 steps, the candidate far from the log",
        "close to it",
        _episodes,
    ),
    Case(gauges.EPISODE, "one of 60 episodes earns 60 a step", "it does not", _influential),
    Case(gauges.STARTS, "one episode of 1,600 steps", "40 of 40", _one_start),
    Case(
        gauges.NEGATIVE, "a linear ratio, the candidate far from the log", "close to it", _negative
    ),
    Case(gauges.CONSTANT, "every reward is 1", "they vary", _constant),
    Case(gauges.LEFT_OUT, "cut episodes of 3 steps without next states", "of 20 steps", _left_out),
    Case(gauges.FREEDOM, "three users with effects of their own", "60", _freedom),
    Case(gauges.ADAPTIVE, "logged by Thompson sampling", "by fixed shares", _adaptive),
    Case(
        gauges.SHORT, "errors that wander over the whole log", "that forget in a few rows", _short
    ),
    Case(gauges.SHARED, "seven colors with effects of their own", "without", _shared),
    Case(
        gauges.WIDE, "two parts of the log between which nothing goes, gamma 1", "one part", _wide
    ),
    Case(gauges.NARROW, "nothing varies within a pair", "rewards do", _narrow),
    Case(gauges.FEATURES, "100 features for 400 transitions", "30 for 3,200", _features),
    Case(gauges.CAPPED, "a candidate of a 40th of the log's sd", "of three quarters", _capped),
    Case(
        gauges.OUTSIDE,
        "a candidate under which the point runs away",
        "under which it stays",
        _outside,
    ),
    Case(
        gauges.UNJUDGED, "a clock in the state, and longer than the episodes", "no clock", _unjudged
    ),
    Case(gauges.CLONE, "a logging policy of two far peaks", "a normal one", _clone),
    Case(gauges.TAIL, "the worst 0.2 % of 2,000 rows", "the worst tenth", _tail),
    Case(gauges.UNMET, "a prior that holds the ratio at 1", "the default prior", _unmet),
    Case(
        gauges.OTHER_TESTS,
        "features that are lines, the candidate far from the log",
        "waves",
        _other_functions,
    ),
    Case(gauges.NETWORKS, "networks on vectors", "the default model", _networks),
    Case(
        gauges.MODE,
        "a candidate under which the point runs away, in polynomials",
        "one under which it stays, in waves",
        _mode,
    ),
    Case(gauges.WEIGHTS, "densities 1.5 times too large", "right ones", _weights),
    Case(gauges.DRIFT, "SVI stopped after 10 steps", "its default", _convergence),
    Case(gauges.MIXING, "NUTS with 2 steps of warmup", "with 300", _mixing),
    Case(gauges.HEAVY, "Pareto rewards without a variance", "normal ones", _heavy),
    Case(gauges.FEW_ERRORS, "two of 600 rows pay", "200 of them", _few_errors),
    Case(gauges.PROPENSITIES, "equal propensities for unequal shares", "right ones", _propensities),
    Case(
        gauges.TOGETHER,
        "actions and rewards that change together from day to day",
        "actions alone",
        _together,
    ),
    Case(
        gauges.APART,
        "three hospitals with other patients and other shares of actions",
        "with the same patients",
        _apart,
    ),
    Case(gauges.CHANGED, "rewards changed half-way", "they did not", _changed),
    Case(gauges.HIDDEN, "the policy saw what moves rewards", "what does not", _hidden),
    Case(gauges.PAST, "the action before moves the reward", "it does not", _past),
)


def heard(gauge: Gauge, asked: Asked) -> list[tuple[float | None, bool]]:
    """Number and abstention of every warning of a gauge on a log."""
    logs = bd.Logs.from_dataframe(asked.frame, actions=asked.actions)
    if asked.method is not None:
        found = bd.baselines.estimate_all(
            bd.baselines.make(asked.method),
            logs,
            asked.policies,
            rng_key=jax.random.key(0),
            **asked.options,
        )
        told = warn_of_support(found)
    else:
        belief = bd.fit(logs, asked.policies, rng_key=jax.random.key(0), **asked.options)
        told = json.loads(belief.attrs["support_warnings"])
    return [(each["number"], each["abstain"]) for each in told if each["name"] == gauge.name]


def row_of(case: Case) -> dict[str, object]:
    """A row of the table."""
    loud, quiet = heard(case.gauge, case.make(True)), heard(case.gauge, case.make(False))
    numbers = [number for number, _ in loud if number is not None]
    worst = (min if case.gauge.falls else max)(numbers, default=None)
    return {
        "gauge": case.gauge.name,
        "fault": case.fault,
        "number": worst,
        "says": _said(loud),
        "without": case.without,
        "without it": _said(quiet),
    }


def _said(told: list[tuple[float | None, bool]]) -> str:
    if not told:
        return "nothing"
    return "abstains" if any(abstain for _, abstain in told) else "warns"


def main(folder: Path = RESULTS) -> None:
    """Print and write the table."""
    rows = []
    for case in CASES:
        rows.append(row_of(case))
        print(rows[-1], flush=True)
    print(write_table("gauge_cases", rows, command=COMMAND, notes=NOTES, folder=folder))
