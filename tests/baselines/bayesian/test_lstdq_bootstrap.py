"""The bootstrap of LSTDQ against LSTDQ on repeated episodes, Rubin's moments, and other logs."""

import jax
import numpy as np
import pytest

from bayesdice_ppl import features
from bayesdice_ppl.baselines.bayesian import lstdq_bootstrap as bootstrap
from bayesdice_ppl.baselines.bayesian.lstdq_bootstrap import (
    find_units,
    lstdq_bootstrap,
    solve_weighted,
)
from bayesdice_ppl.baselines.interface import Baseline, Query
from bayesdice_ppl.baselines.value.bellman import solve_value
from bayesdice_ppl.baselines.value.lstdq import lstdq
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.policies import TabularPolicy
from tests.baselines.enumerable import CANDIDATE, small_log
from tests.baselines.exhaustive import POLICY, SETTINGS, exhaustive_logs, make_logs
from tests.linear_world import GAMMA, POLICIES, chain_log

KEY = jax.random.key(2)


def table_features(n_states, d=3):
    return features.table(
        np.random.default_rng(0).normal(size=(n_states, 2, d)),
        states=range(n_states),
        actions=range(2),
    )


def weighted(logs, policy, gamma, termination, weights, *, ridge=0.0, chosen=None):
    rows = Query(logs, policy, gamma, on_termination=termination).rows(chosen)
    return solve_weighted(rows, find_units(logs, gamma), np.asarray(weights, dtype=float), ridge)


def repeated(logs, times):
    """The log with episode e as often as ``times[e]`` says."""
    columns = (logs.step, logs.state, logs.action, logs.reward, logs.next_state, logs.terminated)
    rows = [
        (number, *(column[i] for column in columns))
        for number, e in enumerate(np.repeat(np.arange(len(times)), times))
        for i in np.flatnonzero(logs.episode == e)
    ]
    return make_logs(rows, len(logs.state_labels), len(logs.action_labels))


def within(sample, exact, errors=5.0):
    return abs(np.mean(sample) - exact) < errors * np.std(sample) / np.sqrt(len(sample))


def test_it_is_a_baseline():
    found = lstdq_bootstrap()
    assert isinstance(found, Baseline)
    assert (found.name, found.short) == ("lstdq_bootstrap", "lstdq_bootstrap")
    assert (found.gives, found.needs.rng_key, found.needs.labels) == ("draws", True, False)


@pytest.mark.parametrize(("gamma", "termination"), SETTINGS)
@pytest.mark.parametrize("ridge", [None, 0.3])
@pytest.mark.parametrize("chosen", [None, table_features(4)], ids=["labels", "features"])
def test_equal_weights_are_lstdq(plain, chosen, ridge, gamma, termination):
    logs, policy = plain.log(1), plain.policies(1, 1)["p0"]
    plainly = lstdq(ridge, features=chosen)
    exact = plainly.estimate(logs, policy, gamma=gamma, on_termination=termination).value
    ones = np.ones((3, logs.n_episodes if gamma else logs.n_transitions))
    query = Query(logs, policy, gamma, on_termination=termination)
    standard = query.standard.logs
    found = weighted(standard, policy, gamma, termination, ones, ridge=ridge, chosen=chosen)
    assert np.allclose(query.units.back(found), exact, rtol=1e-9)


@pytest.mark.parametrize(("gamma", "termination"), [s for s in SETTINGS if s[0] > 0.0])
@pytest.mark.parametrize("chosen", [None, table_features(4)], ids=["labels", "features"])
def test_whole_weights_are_repeated_episodes(plain, monkeypatch, chosen, gamma, termination):
    # Batches of one draw, and chunks of few rows.
    monkeypatch.setattr(bootstrap, "ENTRIES", 60)
    logs, policy = plain.log(2, n_episodes=8), plain.policies(2, 1)["p0"]
    times = np.random.default_rng(3).integers(1, 4, size=(3, 8))
    found = weighted(logs, policy, gamma, termination, times, chosen=chosen)
    for value, one in zip(found, times, strict=True):
        # In one unit of reward, as the mean of the repeated log is another one.
        again = Query(repeated(logs, one), policy, gamma, on_termination=termination)
        assert value == pytest.approx(solve_value(again.rows(chosen), 0.0), rel=1e-8)


@pytest.mark.parametrize("chosen", [None, table_features(3)], ids=["labels", "features"])
def test_rows_are_repeated_in_a_bandit(chosen):
    # In the exhaustive log each row is an episode of its own.
    logs = exhaustive_logs()
    times = np.random.default_rng(4).integers(1, 4, size=(3, logs.n_transitions))
    found = weighted(logs, POLICY, 0.0, "restart", times, chosen=chosen)
    for value, one in zip(found, times, strict=True):
        again = Query(repeated(logs, one), POLICY, 0.0)
        assert value == pytest.approx(solve_value(again.rows(chosen), 0.0), rel=1e-8)


@pytest.mark.parametrize("chosen", [None, table_features(2)], ids=["labels", "features"])
def test_rows_of_a_bandits_long_episodes_have_weights_of_their_own(chosen):
    # Two episodes, of three rows and of two; their contexts have the weights of rows 0 and 3.
    rows = [(0, 0, 0, 0), (0, 1, 1, 0), (0, 2, 0, 1), (1, 0, 1, 1), (1, 1, 1, 0)]
    rewards, weights = np.array([1.0, 2.0, 5.0, -1.0, 4.0]), np.array([0.4, 1.3, 0.9, 1.5, 0.9])
    logs = make_logs([(*row, r, 0, False) for row, r in zip(rows, rewards, strict=True)], 2, 2)
    target = np.array([[0.3, 0.7], [0.6, 0.4]])
    if chosen is None:
        q = np.zeros((2, 2))
        for pair in ((0, 0), (0, 1), (1, 0), (1, 1)):
            here = np.array([row[2:] == pair for row in rows])
            q[pair] = np.average(rewards[here], weights=weights[here])
    else:
        phi = np.random.default_rng(0).normal(size=(2, 2, 3))  # those of table_features
        root = np.sqrt(weights)
        design = np.array([phi[row[2:]] for row in rows]) * root[:, None]
        q = phi @ np.linalg.lstsq(design, rewards * root)[0]
    exact = np.average((target * q).sum(axis=1), weights=weights[[0, 3]])
    found = weighted(logs, TabularPolicy(target), 0.0, "restart", [weights], chosen=chosen)
    assert found[0] == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("most_dense", [1200, 1])
def test_parts_that_do_not_reach_each_other_have_no_one_average(monkeypatch, most_dense):
    monkeypatch.setattr(bootstrap, "DENSE_STATES", most_dense)
    monkeypatch.setattr("bayesdice_ppl.baselines.value.bellman.DENSE_STATES", most_dense)
    logs = make_logs([(s, 0, s, 0, float(s), s, False) for s in (0, 1)], 2, 1)
    with pytest.raises(LogsError, match="no single solution"):
        weighted(logs, TabularPolicy([[1.0], [1.0]]), 1.0, "restart", [[1.0, 1.0]])


@pytest.mark.parametrize(("gamma", "termination"), SETTINGS)
def test_many_states_are_solved_one_by_one(plain, monkeypatch, gamma, termination):
    logs, policy = plain.log(5), plain.policies(5, 1)["p0"]
    units = logs.n_episodes if gamma else logs.n_transitions
    weights = np.random.default_rng(0).exponential(size=(4, units))
    weights /= weights.mean(axis=1, keepdims=True)
    dense = weighted(logs, policy, gamma, termination, weights, ridge=1e-3)
    monkeypatch.setattr(bootstrap, "DENSE_STATES", 1)
    monkeypatch.setattr("bayesdice_ppl.baselines.value.bellman.DENSE_STATES", 1)
    sparse = weighted(logs, policy, gamma, termination, weights, ridge=1e-3)
    assert np.allclose(sparse, dense, rtol=1e-9)


def test_rubins_moments_on_a_bandit():
    # Within an arm the weights are again Dirichlet(1, ..., 1): mean the sample's, and variance the
    # sum of squares over n (n + 1); arms are independent (Rubin 1981).
    rng = np.random.default_rng(0)
    rewards = (rng.normal(size=7), rng.normal(1.0, 2.0, size=5))
    rows = [(a, float(r)) for a, own in enumerate(rewards) for r in own]
    logs = make_logs([(i, 0, 0, a, r, 0, False) for i, (a, r) in enumerate(rows)], 1, 2)
    means = [own.mean() for own in rewards]
    variances = [np.sum((o - o.mean()) ** 2) / (len(o) * (len(o) + 1)) for o in rewards]
    method = lstdq_bootstrap(20_000, 0.0)
    for p in (1.0, 0.3):
        policy = TabularPolicy([[p, 1.0 - p]])
        found = method.estimate(logs, policy, gamma=0.0, level=0.8, rng_key=KEY)
        mean = p * means[0] + (1 - p) * means[1]
        variance = p**2 * variances[0] + (1 - p) ** 2 * variances[1]
        assert found.draws.shape == (20_000,)
        assert within(found.draws, mean)
        assert within((found.draws - mean) ** 2, variance)
        assert found.value == pytest.approx(found.draws.mean(), rel=1e-12)
        ends = np.quantile(found.draws, [0.1, 0.9])
        assert (found.lower, found.upper) == pytest.approx(tuple(ends), rel=1e-12)


def test_starts_have_the_weight_of_their_episode():
    # Two episodes of one step, from state 0 (worth 1) and state 1 (worth 0), absorbed: the value
    # is (1 - gamma) times the weight of the first, uniform on [0, 1].
    rows = [(0, 0, 0, 0, 1.0, 0, True), (1, 0, 1, 0, 0.0, 0, True)]
    logs, policy = make_logs(rows, 2, 1), TabularPolicy([[1.0], [1.0]])
    found = lstdq_bootstrap(20_000, 0.0).estimate(
        logs, policy, gamma=0.5, rng_key=KEY, on_termination="absorb"
    )
    assert within(found.draws, 0.25)
    assert within(found.draws**2, 0.25 / 3)


@pytest.mark.slow
def test_the_spread_is_that_of_other_logs():
    # Standard deviations of 300 logs' values, and of the bootstrap of 40 of them, 60 episodes each.
    gamma, n, m = 0.8, 300, 40
    logs = [small_log(seed, n_episodes=60) for seed in range(n)]
    values = [lstdq().estimate(one, CANDIDATE, gamma=gamma).value for one in logs]
    spreads = [
        lstdq_bootstrap(200).estimate(one, CANDIDATE, gamma=gamma, rng_key=KEY).draws.std(ddof=1)
        for one in logs[:m]
    ]
    sampling, boot = np.std(values, ddof=1), np.sqrt(np.mean(np.square(spreads)))
    error = np.hypot(sampling / np.sqrt(2 * (n - 1)), np.std(spreads, ddof=1) / np.sqrt(m))
    assert abs(boot - sampling) < 4.5 * error
    assert error < 0.06 * sampling


def test_draws_are_joint(plain):
    logs, policies = plain.log(3), plain.policies(3, 2)

    def draws(policy, key=KEY):
        return lstdq_bootstrap(50).estimate(logs, policy, gamma=0.9, rng_key=key).draws

    first = draws(policies["p0"])
    assert np.array_equal(first, draws(policies["p0"]))
    assert not np.allclose(first, draws(policies["p0"], jax.random.key(9)))
    near = TabularPolicy(0.99 * policies["p0"].probabilities + 0.005)
    assert np.corrcoef(first, draws(near))[0, 1] > 0.99


def test_vectors():
    logs = chain_log(0, n_episodes=30, n_steps=20)
    ask = {"gamma": GAMMA, "rng_key": KEY}
    found = lstdq_bootstrap(100).estimate(logs, POLICIES["calm"], **ask)
    center = lstdq().estimate(logs, POLICIES["calm"], **ask).value
    # The mean of the draws differs from the log's own value by noise and by a small bias.
    assert abs(found.value - center) < 0.5 * found.draws.std()
    assert found.lower < center < found.upper


def test_what_does_not_suit_is_refused(plain):
    logs = plain.log(0, n_episodes=1)
    policy = plain.policies(0, 1)["p0"]
    with pytest.raises(LogsError, match="there is only one"):
        lstdq_bootstrap().estimate(logs, policy, gamma=0.9, rng_key=KEY)
    with pytest.raises(SettingsError, match="rng_key"):
        lstdq_bootstrap().estimate(logs, policy, gamma=0.9)
    with pytest.raises(SettingsError, match="draws"):
        lstdq_bootstrap(draws=0)
    with pytest.raises(SettingsError, match="ridge"):
        lstdq_bootstrap(10, -1.0)
