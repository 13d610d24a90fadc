"""LSTDQ against exact values, plain loops, finite differences and pencil and paper."""

import jax
import numpy as np
import pytest

from bayesdice_ppl import features
from bayesdice_ppl.baselines.interface import Baseline, Query
from bayesdice_ppl.baselines.value import bellman
from bayesdice_ppl.baselines.value.bellman import evaluate, solve_value
from bayesdice_ppl.baselines.value.lstdq import lstdq
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.policies import TabularPolicy
from tests.baselines.exhaustive import (
    POLICY,
    SETTINGS,
    exact_value,
    exhaustive_logs,
    make_logs,
)
from tests.linear_world import GAMMA, POLICIES, TRUTH, chain_log


def random_features(seed, d=3):
    return features.table(
        np.random.default_rng(seed).normal(size=(4, 2, d)), states=range(4), actions=range(2)
    )


def test_it_is_a_baseline():
    found = lstdq()
    assert isinstance(found, Baseline)
    assert (found.name, found.gives, found.needs.rng_key) == ("lstdq", "estimate", False)


@pytest.mark.parametrize(("gamma", "termination"), SETTINGS)
def test_exact_on_exhaustive_logs(gamma, termination):
    exact = exact_value(gamma, termination)
    how = {"gamma": gamma, "on_termination": termination}
    found = lstdq(ridge=0.0).estimate(exhaustive_logs(), POLICY, **how)
    assert found.value == pytest.approx(exact, rel=1e-10)
    assert found.lower is None
    assert found.draws is None
    # The ridge is one millionth of a transition beside four or more, over ten steps at most.
    assert lstdq().estimate(exhaustive_logs(), POLICY, **how).value == pytest.approx(
        exact, abs=1e-4
    )


@pytest.mark.parametrize(("gamma", "termination"), SETTINGS)
@pytest.mark.parametrize("seed", range(4))
def test_episodes_of_all_lengths_against_plain_loops(plain, seed, gamma, termination):
    logs, policy = plain.log(seed), plain.policies(seed, 1)["p0"]
    _, value = plain.problem(logs, policy, gamma=gamma, restart=termination == "restart").solve()
    method = lstdq(ridge=0.0, renormalize=True)
    found = method.estimate(logs, policy, gamma=gamma, on_termination=termination)
    assert found.value == pytest.approx(value, rel=1e-9)


def test_what_was_never_logged_is_worth_the_mean_reward():
    rows = [(0, 0, 0, 0, 1.0, 1, False), (0, 1, 1, 0, 4.0, 0, False)]
    logs = make_logs(rows, 2, 2)
    policy = TabularPolicy([[0.5, 0.5], [0.25, 0.75]])
    gamma = 0.8
    # Less the mean reward 5 / 2, Q0 = -3 / 2 + gamma Q1 / 4 and Q1 = 3 / 2 + gamma Q0 / 2; the
    # other action's Q is 0 in both states.
    q0 = 1.5 * (gamma / 4 - 1) / (1 - gamma**2 / 8)
    plain = lstdq(ridge=0.0).estimate(logs, policy, gamma=gamma)
    assert plain.value == pytest.approx(2.5 + (1 - gamma) * q0 / 2, rel=1e-12)
    # Renormalized, the policy always takes the logged action.
    q0 = (1 + 4 * gamma) / (1 - gamma**2)
    renormalized = lstdq(ridge=0.0, renormalize=True).estimate(logs, policy, gamma=gamma)
    assert renormalized.value == pytest.approx((1 - gamma) * q0, rel=1e-12)


def test_what_was_never_logged_is_a_fresh_start_in_the_average():
    # From state 1 half of the policy is unknown and counts as going back to the start.
    rows = [(0, 0, 0, 0, 1.0, 1, False), (0, 1, 1, 0, 4.0, 1, False)]
    logs = make_logs(rows, 2, 2)
    policy = TabularPolicy([[1.0, 0.0], [0.5, 0.5]])
    # Relative values: V0 = 0 = 1 - rho + V1, V1 = (4 - rho + V1) / 2, so rho = 5 / 2.
    found = lstdq(ridge=0.0).estimate(logs, policy, gamma=1.0)
    assert found.value == pytest.approx(2.5, rel=1e-12)


@pytest.mark.parametrize(("gamma", "termination"), SETTINGS)
def test_the_sparse_system_is_the_dense_one(plain, monkeypatch, gamma, termination):
    logs, policy = plain.log(5), plain.policies(5, 1)["p0"]
    rows = Query(logs, policy, gamma, on_termination=termination).rows()
    dense = evaluate(rows, 1e-6)
    monkeypatch.setattr(bellman, "DENSE_STATES", 1)
    sparse = evaluate(rows, 1e-6)
    assert solve_value(rows, 1e-6) == pytest.approx(dense.value, rel=1e-10)
    assert sparse.value == pytest.approx(dense.value, rel=1e-10)
    assert np.allclose(sparse.ratio, dense.ratio, rtol=1e-9)
    assert np.allclose(sparse.error, dense.error, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("gamma", "termination"), SETTINGS)
@pytest.mark.parametrize("chosen", [None, random_features(0)], ids=["labels", "features"])
def test_slopes_are_those_of_finite_differences(plain, chosen, gamma, termination):
    logs, policy = plain.log(6, n_episodes=4), plain.policies(6, 1)["p0"]
    rows = Query(logs, policy, gamma, on_termination=termination).rows(chosen)
    at = evaluate(rows, 0.5)
    weight, start_weight = rows.step.weight, rows.step.start_weight
    size = 1e-6
    for i, bump in enumerate(size * np.eye(len(weight))):
        up, down = (evaluate(rows, 0.5, weight + b, start_weight).value for b in (bump, -bump))
        slope = at.ratio[i] * at.error[i]
        assert (up - down) / (2 * size) == pytest.approx(slope, rel=1e-5, abs=1e-7)
    for i, bump in enumerate(size * np.eye(len(start_weight))):
        up, down = (evaluate(rows, 0.5, weight, start_weight + b).value for b in (bump, -bump))
        slope = at.entry * at.start_value[i]
        assert (up - down) / (2 * size) == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_features_that_tell_all_pairs_apart_are_the_labels():
    table = np.eye(6).reshape(3, 2, 6)
    same = lstdq(ridge=0.0, features=features.table(table, states=range(3), actions=range(2)))
    for gamma, termination in SETTINGS:
        found = same.estimate(exhaustive_logs(), POLICY, gamma=gamma, on_termination=termination)
        assert found.value == pytest.approx(exact_value(gamma, termination), rel=1e-8)


def test_vectors_near_the_truth():
    # Six logs: the mean error within 5 of its own standard errors.
    errors = np.array(
        [
            [
                lstdq().estimate(logs, policy, gamma=GAMMA, rng_key=jax.random.key(seed)).value
                for policy in POLICIES.values()
            ]
            for seed in range(6)
            for logs in [chain_log(seed, n_episodes=60, n_steps=30)]
        ]
    )
    errors = errors - TRUTH
    se = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    assert np.all(np.abs(errors.mean(axis=0)) < 5 * se)
    # Each policy's value is a tenth or more away from the logging policy's, and told apart.
    assert np.all(se < 0.05)


def test_bad_settings_are_refused():
    with pytest.raises(SettingsError, match="ridge"):
        lstdq(ridge=-1.0)
    with pytest.raises(SettingsError, match="rng_key"):
        lstdq().estimate(chain_log(0, n_episodes=3, n_steps=5), POLICIES["calm"], gamma=0.5)
