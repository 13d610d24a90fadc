"""Fitted Q evaluation against exact values, LSTDQ, a world that diverges, and repeated keys."""

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl import features
from bayesdice_ppl.baselines.interface import Baseline
from bayesdice_ppl.baselines.value import bellman, q_training
from bayesdice_ppl.baselines.value.fitted_q import fitted_q
from bayesdice_ppl.baselines.value.lstdq import lstdq
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.policies import TabularPolicy
from bayesdice_ppl.simulation import make_world, simulate
from tests.baselines.exhaustive import (
    POLICY,
    SETTINGS,
    exact_value,
    exhaustive_logs,
    make_logs,
)
from tests.linear_world import GAMMA, POLICIES, chain_log
from tests.marks import slow


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_it_is_a_baseline(model):
    found = fitted_q(model)
    assert isinstance(found, Baseline)
    assert found.name == f"fitted_q_{model}"
    assert found.gives == "estimate"
    assert found.needs.rng_key == (model == "mlp")


@pytest.mark.parametrize(("gamma", "termination"), SETTINGS)
def test_linear_is_exact_on_exhaustive_logs(gamma, termination):
    found = fitted_q(ridge=0.0).estimate(
        exhaustive_logs(), POLICY, gamma=gamma, on_termination=termination
    )
    assert found.value == pytest.approx(exact_value(gamma, termination), rel=1e-9)


@pytest.mark.parametrize(("gamma", "termination"), SETTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_linear_ends_where_lstdq_does(plain, seed, gamma, termination):
    # So few rows that some pairs are not logged.
    logs = plain.log(seed, n_episodes=3, n_actions=3)
    policy = plain.policies(seed, 1, n_actions=3)["p0"]
    assert len({(row["state"], row["action"]) for row in plain.rows(logs)}) < 12
    how = {"gamma": gamma, "on_termination": termination}
    expected = lstdq(ridge=0.5).estimate(logs, policy, **how).value
    found = fitted_q(ridge=0.5).estimate(logs, policy, **how).value
    assert found == pytest.approx(expected, rel=1e-9)


def test_linear_on_features_ends_where_lstdq_does():
    logs, key = chain_log(1, n_episodes=30, n_steps=10), jax.random.key(1)
    for gamma in (GAMMA, 1.0):
        found, expected = (
            method.estimate(logs, POLICIES["calm"], gamma=gamma, rng_key=key).value
            for method in (fitted_q(ridge=0.1), lstdq(ridge=0.1))
        )
        assert found == pytest.approx(expected, rel=1e-7)


def test_the_sparse_iteration_is_the_dense_one(plain, monkeypatch):
    logs, policy = plain.log(5), plain.policies(5, 1)["p0"]
    for gamma, termination in SETTINGS:
        how = {"gamma": gamma, "on_termination": termination}
        dense = fitted_q().estimate(logs, policy, **how).value
        with monkeypatch.context() as patch:
            patch.setattr(bellman, "DENSE_STATES", 1)
            sparse = fitted_q().estimate(logs, policy, **how).value
        assert sparse == pytest.approx(dense, rel=1e-10)


def test_a_world_that_alternates_settles_in_the_average():
    rows = [(0, 0, 0, 0, 1.0, 1, False), (0, 1, 1, 0, 4.0, 0, False)]
    logs = make_logs(rows, 2, 1)
    found = fitted_q(ridge=0.0).estimate(logs, TabularPolicy([[1.0], [1.0]]), gamma=1.0)
    assert found.value == pytest.approx(2.5, rel=1e-9)


def test_divergence_is_an_error():
    # Tsitsiklis and Van Roy's two states, w and 2 w, of which only the way up is logged, and an end
    # that is worth 0.
    rows = [(0, 0, 0, 0, 1.0, 1, False), (1, 0, 0, 0, 0.0, 1, False), (2, 0, 0, 0, 0.5, 1, True)]
    logs = make_logs(rows, 2, 1)
    policy = TabularPolicy([[1.0], [1.0]])
    doubling = features.table([[[1.0]], [[2.0]]], states=[0, 1], actions=[0])
    with pytest.raises(LogsError, match="diverges"):
        fitted_q(features=doubling).estimate(logs, policy, gamma=0.9, on_termination="absorb")
    # The equation itself has a solution: w = 1 / 2 + 2 / 3 * 1.8 w.
    found = lstdq(ridge=0.0, features=doubling).estimate(
        logs, policy, gamma=0.9, on_termination="absorb"
    )
    assert found.value == pytest.approx(0.1 * 0.5 / (1 - 1.2), rel=1e-9)


@pytest.mark.parametrize(
    ("gamma", "termination"),
    [each if each == (0.9, "absorb") else slow(*each) for each in SETTINGS],
)
def test_the_network_on_labels(gamma, termination):
    # Eight keys give its spread; the log is exhaustive, so that all that is left is the network's.
    values = np.array(
        [
            fitted_q("mlp")
            .estimate(
                exhaustive_logs(),
                POLICY,
                gamma=gamma,
                on_termination=termination,
                rng_key=jax.random.key(seed),
            )
            .value
            for seed in range(8)
        ]
    )
    exact, spread = exact_value(gamma, termination), values.std(ddof=1)
    assert spread < 0.01
    assert abs(values.mean() - exact) < 5 * spread / np.sqrt(8)


@pytest.mark.slow
def test_the_network_on_vectors():
    logs = chain_log(3, n_episodes=40, n_steps=20)
    method = fitted_q("mlp", refits=40, action_draws=4)
    values = np.array(
        [
            method.estimate(
                logs, POLICIES["pushing"], gamma=GAMMA, rng_key=jax.random.key(seed)
            ).value
            for seed in range(4)
        ]
    )
    # Another estimator on the same log, of which neither sees more than the other.
    other = lstdq().estimate(logs, POLICIES["pushing"], gamma=GAMMA, rng_key=jax.random.key(0))
    spread = values.std(ddof=1)
    assert spread < 0.05
    assert abs(values.mean() - other.value) < 5 * spread


@pytest.mark.slow
def test_the_network_on_vectors_with_labeled_actions():
    world = make_world("cartpole")
    logs = simulate(world.env, world.behavior, 10, 60, rng_key=jax.random.key(0))
    assert logs.vector_states
    assert not logs.vector_actions
    policy = world.candidates["alpha_0.75"]
    values = [
        fitted_q("mlp", refits=30)
        .estimate(logs, policy, gamma=0.9, rng_key=jax.random.key(k))
        .value
        for k in range(3)
    ]
    other = lstdq().estimate(logs, policy, gamma=0.9, rng_key=jax.random.key(0)).value
    assert np.std(values) < 0.05
    assert np.mean(values) == pytest.approx(other, abs=0.1)


def test_the_same_key_gives_the_same_value_and_nothing_is_compiled_anew():
    method = fitted_q("mlp", refits=4, steps=5, width=8)
    sizes = ((0, 9, 20), (1, 8, 23))
    logs = [chain_log(seed, n_episodes=m, n_steps=n) for seed, m, n in sizes]
    assert len({log.n_transitions for log in logs}) == 2
    how = {"gamma": 0.5, "rng_key": jax.random.key(2)}
    first = [method.estimate(logs[0], POLICIES["calm"], **how).value]
    compiled = q_training.train._cache_size()
    first.append(method.estimate(logs[1], POLICIES["calm"], **how).value)
    again = [method.estimate(log, POLICIES["calm"], **how).value for log in logs]
    assert first == again
    assert first[0] != first[1]
    assert q_training.train._cache_size() == compiled


@pytest.mark.slow
def test_rewards_in_other_units_are_values_in_other_units():
    frame = exhaustive_logs().to_dataframe()
    for termination in ("restart", "absorb"):
        values = []
        for scale in (1.0, 1000.0):
            logs = bd.Logs.from_dataframe(
                frame.with_columns(reward=frame["reward"] * scale), actions=[0, 1]
            )
            found = fitted_q("mlp", refits=8).estimate(
                logs, POLICY, gamma=0.5, rng_key=jax.random.key(0), on_termination=termination
            )
            values.append(found.value / scale)
        assert values[0] == pytest.approx(values[1], rel=1e-3)


def test_bad_settings_are_refused():
    with pytest.raises(SettingsError, match="model"):
        fitted_q("forest")
    with pytest.raises(SettingsError, match="refits"):
        fitted_q("mlp", refits=3)
    with pytest.raises(SettingsError, match="even"):
        fitted_q("mlp", action_draws=3)
    with pytest.raises(SettingsError, match="learning_rate"):
        fitted_q("mlp", learning_rate=0.0)
    with pytest.raises(SettingsError, match="rng_key"):
        fitted_q("mlp").estimate(exhaustive_logs(), POLICY, gamma=0.5)
