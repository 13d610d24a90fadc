"""Importance sampling against lists of all episodes, plain loops and closed forms."""

import jax
import numpy as np
import polars as pl
import pytest
from scipy import stats

from bayesdice_ppl import Logs, TabularPolicy
from bayesdice_ppl.baselines.weighting.importance_sampling import importance_sampling
from bayesdice_ppl.errors import LogsError
from tests.baselines.enumerable import (
    BEHAVIOR,
    CANDIDATE,
    CASES,
    ENDING,
    TARGET,
    WORLDS,
    by_episode,
    discount,
    exhaustive_log,
    horizon_value,
    products,
    small_log,
    termination,
)

ALL = [(kind, normalized) for kind in ("per_step", "trajectory") for normalized in (False, True)]
LOGS = {name: exhaustive_log(world) for name, world in WORLDS.items()}


@pytest.mark.parametrize(("world", "gamma", "restart"), CASES)
@pytest.mark.parametrize(("kind", "normalized"), ALL)
def test_its_expectation_over_all_episodes_is_the_value(kind, normalized, world, gamma, restart):
    method = importance_sampling(kind, normalized=normalized)
    found = method.estimate(
        LOGS[world], CANDIDATE, gamma=gamma, on_termination=termination(restart)
    )
    exact = horizon_value(WORLDS[world], gamma, restart=restart)
    assert abs(found.value - exact) < 1e-12
    logged = importance_sampling(kind, normalized=normalized).estimate(
        LOGS[world], TabularPolicy(BEHAVIOR), gamma=gamma, on_termination=termination(restart)
    )
    assert abs(logged.value - exact) > 0.02


@pytest.mark.parametrize("restart", [True, False])
def test_cuts_at_several_lengths_do_not_count_as_survival_or_as_its_end(restart):
    logs = exhaustive_log(ENDING, cut=(1, 2, 3))
    found = importance_sampling().estimate(
        logs, CANDIDATE, gamma=0.9, on_termination=termination(restart)
    )
    assert abs(found.value - horizon_value(ENDING, 0.9, restart=restart)) < 1e-12


def literal(logs, gamma, kind, normalized, *, restart):
    """The estimate by loops over episodes of one common horizon, in textbook notation."""
    episodes = by_episode(logs)
    m, horizon = len(episodes), max(len(e) for e in episodes)
    rho = [products(e) for e in episodes]
    padded = [w + [w[-1]] * (horizon - len(w)) for w in rho]
    if kind == "trajectory":
        padded = [[w[-1]] * horizon for w in rho]
    total = [sum(w[t] for w in padded) if normalized else m for t in range(horizon)]
    earned = weight = 0.0
    for e, w in zip(episodes, padded, strict=True):
        for t, row in enumerate(e):
            earned += discount(gamma, t) * w[t] / total[t] * row["reward"]
            weight += discount(gamma, t) * w[t] / total[t]
    if not any(row["terminated"] for e in episodes for row in e):
        return earned / sum(discount(gamma, t) for t in range(horizon))
    if restart:
        return earned / weight
    outlasts = sum(
        w[-1] / total[-1] for e, w in zip(episodes, padded, strict=True) if not e[-1]["terminated"]
    )
    if normalized:
        return earned / (1.0 - gamma**horizon * outlasts)
    ended = sum(w[-1] / m for e, w in zip(episodes, padded, strict=True) if e[-1]["terminated"])
    share = sum(e[-1]["terminated"] for e in episodes) / m
    return earned / (
        (1.0 - share) * (1.0 - gamma**horizon) + share + gamma**horizon * (ended - share)
    )


@pytest.mark.parametrize(("world", "gamma", "restart"), CASES)
@pytest.mark.parametrize(("kind", "normalized"), ALL)
def test_small_logs_against_plain_loops(kind, normalized, world, gamma, restart):
    logs = small_log(3, world=WORLDS[world])
    found = importance_sampling(kind, normalized=normalized).estimate(
        logs, CANDIDATE, gamma=gamma, on_termination=termination(restart)
    )
    exact = literal(logs, gamma, kind, normalized, restart=restart)
    assert found.value == pytest.approx(exact, rel=1e-12)
    assert found.lower is found.upper is found.draws is None


def test_four_estimators_differ_on_a_small_log():
    logs = small_log(3)
    values = [
        importance_sampling(kind, normalized=n).estimate(logs, CANDIDATE, gamma=0.9).value
        for kind, n in ALL
    ]
    # With restarts the weights of whole episodes are normalized either way.
    assert values[2] == pytest.approx(values[3], rel=1e-12)
    assert len({round(v, 9) for v in values}) == 3


@pytest.mark.parametrize("kind", ["per_step", "trajectory"])
@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_a_constant_on_every_reward_moves_normalized_estimates_by_it(kind, gamma):
    logs = small_log(5)
    shifted = Logs.from_dataframe(
        logs.to_dataframe().with_columns(pl.col("reward") + 7.25), actions=[0, 1]
    )
    method = importance_sampling(kind)
    before = method.estimate(logs, CANDIDATE, gamma=gamma).value
    after = method.estimate(shifted, CANDIDATE, gamma=gamma).value
    assert after - before == pytest.approx(7.25, abs=1e-10)
    plain = importance_sampling("per_step", normalized=False)
    endless = small_log(5, world=WORLDS["endless"])
    moved = Logs.from_dataframe(
        endless.to_dataframe().with_columns(pl.col("reward") + 7.25), actions=[0, 1]
    )
    change = (
        plain.estimate(moved, CANDIDATE, gamma=gamma).value
        - plain.estimate(endless, CANDIDATE, gamma=gamma).value
    )
    assert abs(change - 7.25) > 0.1


@pytest.mark.parametrize("kind", ["per_step", "trajectory"])
def test_normalized_estimates_do_not_see_the_scale_of_the_propensities(kind):
    logs = small_log(5, world=WORLDS["endless"])
    halved = Logs.from_dataframe(
        logs.to_dataframe().with_columns(pl.col("propensity") * 0.5), actions=[0, 1]
    )
    values = [
        importance_sampling(kind, normalized=normalized).estimate(log, CANDIDATE, gamma=0.9).value
        for normalized in (True, False)
        for log in (logs, halved)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    assert values[3] / values[2] > 1.5


def test_at_gamma_0_every_row_stands_alone():
    logs = small_log(1)
    rows = [row for episode in by_episode(logs) for row in episode]
    ratio = np.array([TARGET[r["state"], r["action"]] / r["propensity"] for r in rows])
    reward = np.array([r["reward"] for r in rows])
    for kind in ("per_step", "trajectory"):
        plain = importance_sampling(kind, normalized=False).estimate(logs, CANDIDATE, gamma=0.0)
        assert plain.value == pytest.approx(np.mean(ratio * reward), rel=1e-12)
        weighted = importance_sampling(kind).estimate(logs, CANDIDATE, gamma=0.0)
        assert weighted.value == pytest.approx(np.average(reward, weights=ratio), rel=1e-12)


@pytest.mark.parametrize("interval", ["student", "bernstein", "hoeffding", "bca"])
def test_intervals_are_of_the_per_trajectory_estimates(interval):
    logs = small_log(7, world=WORLDS["endless"])
    episodes = by_episode(logs)
    share = np.array([0.9**t for t in range(5)]) / sum(0.9**t for t in range(5))
    y = np.array(
        [
            sum(c * w * row["reward"] for c, w, row in zip(share, products(e), e, strict=True))
            for e in episodes
        ]
    )
    key = jax.random.key(2)
    method = importance_sampling(normalized=False, interval=interval)
    found = method.estimate(logs, CANDIDATE, gamma=0.9, level=0.8, rng_key=key)
    assert found.value == pytest.approx(y.mean(), rel=1e-12)
    m, width = len(y), max(y.max(), 0.0) - min(y.min(), 0.0)
    if interval == "student":
        expected = stats.t.interval(0.8, m - 1, y.mean(), stats.sem(y))
    elif interval == "hoeffding":
        reach = width * np.sqrt(np.log(2 / 0.2) / (2 * m))
        expected = (y.mean() - reach, y.mean() + reach)
    elif interval == "bernstein":
        log_term = np.log(2 / 0.1)
        reach = np.sqrt(2 * y.var(ddof=1) * log_term / m) + 7 * width * log_term / (3 * (m - 1))
        expected = (y.mean() - reach, y.mean() + reach)
    else:
        seed = np.random.SeedSequence(np.asarray(jax.random.key_data(key)).tolist())
        result = stats.bootstrap(
            (y,),
            np.mean,
            n_resamples=2000,
            confidence_level=0.8,
            method="BCa",
            rng=np.random.default_rng(seed),
        )
        expected = result.confidence_interval
    np.testing.assert_allclose([found.lower, found.upper], expected, rtol=1e-9)


def test_bounds_given_beforehand_make_the_range():
    logs = small_log(7, world=WORLDS["endless"])
    largest = (TARGET / BEHAVIOR).max() ** 5
    method = importance_sampling(
        normalized=False, interval="hoeffding", reward_range=(-1.0, 3.0), max_weight=largest
    )
    found = method.estimate(logs, CANDIDATE, gamma=0.9, level=0.8)
    assert found.lower is not None
    assert found.upper is not None
    reach = 4.0 * largest * np.sqrt(np.log(2 / 0.2) / (2 * 12))
    assert found.upper - found.lower == pytest.approx(2 * reach, rel=1e-12)


def test_long_episodes_neither_overflow_nor_vanish():
    n = 2000
    rng = np.random.default_rng(0)
    action = rng.integers(2, size=2 * n)
    frame = pl.DataFrame(
        {
            "episode_id": np.repeat([0, 1], n),
            "state": np.zeros(2 * n, dtype=int),
            "action": action,
            "reward": action.astype(float),
            "propensity": np.full(2 * n, 0.999),
        }
    )
    logs, policy = Logs.from_dataframe(frame, actions=[0, 1]), TabularPolicy([[0.5, 0.5]])
    found = importance_sampling().estimate(logs, policy, gamma=1.0)
    # All weights of a step are the same, small as they are.
    assert found.value == pytest.approx(action.mean(), rel=1e-9)
    rare = frame.with_columns(propensity=pl.lit(1e-3))
    heavy = Logs.from_dataframe(rare, actions=[0, 1])
    assert importance_sampling().estimate(heavy, policy, gamma=1.0).value == pytest.approx(
        action.mean(), rel=1e-9
    )
    with pytest.raises(LogsError, match="overflows"):
        importance_sampling(normalized=False).estimate(heavy, policy, gamma=1.0)


def test_where_weight_runs_out_normalized_estimates_stop():
    frame = pl.DataFrame(
        {
            "episode_id": [0, 0, 0, 1, 1, 1],
            "state": [0] * 6,
            "action": [0, 1, 0, 1, 0, 0],
            "reward": [4.0, 100.0, 100.0, 50.0, 50.0, 50.0],
            "propensity": [0.5] * 6,
        }
    )
    logs = Logs.from_dataframe(frame, actions=[0, 1, 2])
    only_zero = TabularPolicy([[1.0, 0.0]])
    for gamma in (0.9, 1.0):
        found = importance_sampling().estimate(logs, only_zero, gamma=gamma)
        assert found.value == pytest.approx(4.0, rel=1e-12)
    with pytest.raises(LogsError, match="no importance weight is left"):
        importance_sampling("trajectory").estimate(logs, only_zero, gamma=0.9)
    never = TabularPolicy([[0.0, 0.0, 1.0]])
    with pytest.raises(LogsError, match="no importance weight is left"):
        importance_sampling().estimate(logs, never, gamma=0.9)
    assert importance_sampling(normalized=False).estimate(logs, never, gamma=0.9).value == 0.0
