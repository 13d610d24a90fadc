"""Marginalized importance sampling against the exact value, the true ratio and pencil and paper."""

import jax
import numpy as np
import polars as pl
import pytest
from scipy import stats

import bayesdice_ppl as bd
from bayesdice_ppl import GaussianPolicy, Logs, TabularPolicy
from bayesdice_ppl.baselines.interface import Baseline
from bayesdice_ppl.baselines.weighting.importance_sampling import importance_sampling
from bayesdice_ppl.baselines.weighting.marginalized import marginalized
from bayesdice_ppl.errors import LogsError, SettingsError
from tests.baselines.enumerable import (
    CANDIDATE,
    CASES,
    ENDLESS,
    START,
    TARGET,
    WORLDS,
    by_episode,
    endless_value,
    exhaustive_log,
    small_log,
    termination,
)


@pytest.mark.parametrize(("world", "gamma", "restart"), CASES)
def test_on_an_exhaustive_log_it_is_the_value_for_ever(world, gamma, restart):
    found = marginalized(ridge=0.0).estimate(
        exhaustive_log(WORLDS[world]), CANDIDATE, gamma=gamma, on_termination=termination(restart)
    )
    exact = endless_value(WORLDS[world], gamma, restart=restart)
    assert abs(found.value - exact) < 1e-9


def true_ratio_of_log(logs, world, gamma):
    """d^pi(s, a) / d^D(s, a), by iterating the target's state and counting the log's pairs."""
    now, visits = np.array(START), np.zeros(2)
    for t in range(2000):
        visits += (1.0 - gamma) * gamma**t * now
        after = np.zeros(2)
        for (state, action), outcomes in world.items():
            for chance, successor, _, _ in outcomes:
                after[successor] += now[state] * TARGET[state, action] * chance
        now = after
    count = np.zeros((2, 2))
    np.add.at(count, (logs.state, logs.action), 1.0)
    return visits[:, None] * TARGET * logs.n_transitions / count


@pytest.mark.parametrize("interval", ["student", "bernstein", "hoeffding", "bca"])
def test_intervals_are_of_the_sums_over_episodes(interval):
    logs = exhaustive_log(ENDLESS)
    ratio = true_ratio_of_log(logs, ENDLESS, 0.9)
    paid, mass = (
        np.array(
            [
                sum(ratio[row["state"], row["action"]] * of(row) for row in episode) / 3.0
                for episode in by_episode(logs)
            ]
        )
        for of in (lambda row: row["reward"], lambda row: 1.0)
    )
    # A ratio of means: an episode adds what it paid less the value of its mass.
    value = paid.mean() / mass.mean()
    y = value + paid - value * mass
    method = marginalized(interval=interval, ridge=0.0, resamples=100)
    found = method.estimate(logs, CANDIDATE, gamma=0.9, level=0.8, rng_key=jax.random.key(3))
    assert found.value == pytest.approx(y.mean(), rel=1e-9)
    m, width = len(y), max(y.max(), value) - min(y.min(), value)
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
        assert found.lower is not None
        assert found.upper is not None
        # The bootstrap of a mean of thousands is the normal interval.
        reach = stats.norm.ppf(0.9) * stats.sem(y)
        assert (found.upper - found.lower) / (2 * reach) == pytest.approx(1.0, abs=0.4)
        assert found.lower < y.mean() < found.upper
        return
    np.testing.assert_allclose([found.lower, found.upper], expected, rtol=1e-8)


def test_bandits_are_importance_sampling_on_a_fitted_behavior():
    frame = pl.DataFrame(
        {"state": [0, 0, 0, 1, 1], "action": [0, 1, 1, 0, 1], "reward": [1.0, 2.0, 4.0, 8.0, 9.0]}
    )
    logs = Logs.from_dataframe(frame, actions=[0, 1])
    policy = TabularPolicy([[0.3, 0.7], [0.9, 0.1]])
    options = {"interval": "student", "behavior": "fitted", "normalized": True}
    plain = importance_sampling(**options).estimate(logs, policy, gamma=0.0)
    found = marginalized(interval="student", ridge=0.0).estimate(logs, policy, gamma=0.0)
    np.testing.assert_allclose(found[:3], plain[:3], rtol=1e-12)


def test_every_row_of_a_bandit_is_a_context_of_its_own():
    logs = small_log(2)
    lone = logs.to_dataframe().drop("episode_id", "step", "next_state", "terminated", "truncated")
    alone = Logs.from_dataframe(lone, actions=[0, 1])
    values = [
        marginalized(interval="student").estimate(log, CANDIDATE, gamma=0.0)
        for log in (logs, alone)
    ]
    np.testing.assert_allclose(values[0][:3], values[1][:3], rtol=1e-12)


def test_actions_never_logged_are_left_to_the_others():
    frame = pl.DataFrame({"state": [0, 0, 0], "action": [0, 1, 1], "reward": [1.0, 2.0, 4.0]})
    logs = Logs.from_dataframe(frame, actions=[0, 1, 2])
    policy = TabularPolicy([[0.2, 0.3, 0.5]])
    found = marginalized(ridge=0.0).estimate(logs, policy, gamma=0.0)
    assert found.value == pytest.approx(0.4 * 1.0 + 0.6 * 3.0, rel=1e-12)


def test_steps_past_the_edge_of_the_log_are_left_out():
    # Action 0 keeps to state 0; action 1 leads to state 1, of which nothing is logged.
    frame = pl.DataFrame(
        {
            "episode_id": [0, 0, 1, 1],
            "state": [0, 0, 0, 0],
            "action": [0, 1, 0, 1],
            "reward": [2.0, 6.0, 2.0, 6.0],
            "next_state": [0, 1, 0, 1],
        }
    )
    logs = Logs.from_dataframe(frame, actions=[0, 1])
    policy = TabularPolicy([[0.5, 0.5], [0.5, 0.5]])
    # All known steps are in state 0, where both actions are as likely.
    found = marginalized(ridge=0.0).estimate(logs, policy, gamma=0.9)
    assert found.value == pytest.approx(4.0, rel=1e-12)
    never = TabularPolicy([[0.0, 0.0, 1.0]] * 2)
    three = Logs.from_dataframe(frame, actions=[0, 1, 2])
    with pytest.raises(LogsError, match="takes none of the actions"):
        marginalized().estimate(three, never, gamma=0.9)


def test_it_needs_no_propensities_and_does_not_see_them():
    logs = small_log(3)
    other = Logs.from_dataframe(logs.to_dataframe().drop("propensity"), actions=[0, 1])
    values = [marginalized().estimate(log, CANDIDATE, gamma=0.9).value for log in (logs, other)]
    assert values[0] == values[1]


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_a_constant_on_every_reward_moves_it_by_the_constant(gamma):
    logs = small_log(3)
    shifted = Logs.from_dataframe(
        logs.to_dataframe().with_columns(pl.col("reward") + 7.25), actions=[0, 1]
    )
    values = [marginalized().estimate(log, CANDIDATE, gamma=gamma).value for log in (logs, shifted)]
    assert values[1] - values[0] == pytest.approx(7.25, abs=1e-9)


def test_vectors_on_features_that_can_express_the_reward():
    rng = np.random.default_rng(0)
    n = 60
    obs, action = rng.normal(size=n), rng.normal(size=n)
    logs = Logs.from_dataframe(
        pl.DataFrame({"obs_0": obs, "action_0": action, "reward": 1.0 + 2.0 * action - obs})
    )
    policy = GaussianPolicy(lambda x: 0.5 * x + 0.25, 0.7)
    method = marginalized(ridge=0.0, features=bd.features.polynomial(1))
    found = method.estimate(logs, policy, gamma=0.0, rng_key=jax.random.key(1))
    # The balance equation holds for every linear function, this reward among them.
    assert found.value == pytest.approx(np.mean(1.0 + 2.0 * (0.5 * obs + 0.25) - obs), rel=1e-5)


def test_names_needs_and_refusals():
    method = marginalized(interval="bca")
    assert isinstance(method, Baseline)
    assert (method.name, method.short, method.gives) == (
        "marginalized IS + bca",
        "mis:bca",
        "interval",
    )
    assert method.needs.rng_key
    assert not method.needs.propensities
    assert marginalized().gives == "estimate"
    with pytest.raises(SettingsError, match="give rng_key"):
        method.estimate(small_log(0), CANDIDATE, gamma=0.9)
    with pytest.raises(SettingsError, match="max_weight"):
        marginalized(interval="hoeffding", max_weight=0.01).estimate(
            small_log(0), CANDIDATE, gamma=0.9
        )
    for wrong in ({"interval": "t"}, {"ridge": -1.0}, {"reward_range": (2.0, 1.0)}):
        with pytest.raises(SettingsError, match="expected"):
            marginalized(**wrong)
