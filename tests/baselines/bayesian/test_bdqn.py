"""BDQN against conjugate normal algebra, one Bellman backup, and exact values."""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.baselines.bayesian.bdqn import bdqn, frozen_network
from bayesdice_ppl.baselines.bayesian.last_layer import fitted_rows, state_values
from bayesdice_ppl.baselines.interface import Baseline, Query
from bayesdice_ppl.baselines.value import q_network, q_training
from bayesdice_ppl.baselines.value.fitted_q import fitted_q
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.policies import TabularPolicy
from bayesdice_ppl.simulation import make_world, simulate
from tests.baselines.exhaustive import (
    OUTCOMES,
    POLICY,
    TARGET,
    exact_value,
    exhaustive_logs,
    logged_share,
    make_logs,
)
from tests.linear_world import GAMMA, POLICIES, chain_log

KEY = jax.random.key(0)
DISCOUNTED = [(0.9, "restart"), (0.9, "absorb"), (0.0, "restart")]


def test_it_is_a_baseline():
    found = bdqn()
    assert isinstance(found, Baseline)
    assert (found.name, found.short, found.gives) == ("bdqn", "bdqn", "draws")
    assert found.needs.rng_key
    assert not found.needs.propensities


def bandit_log(seed, pulls, n_arms):
    """Arms of mean 0, 1, ..., of which the first are pulled."""
    rng = np.random.default_rng(seed)
    arms = np.repeat(np.arange(len(pulls)), pulls)
    rewards = arms + 0.7 * rng.normal(size=len(arms))
    rows = [(i, 0, 0, a, r, 0, True) for i, (a, r) in enumerate(zip(arms, rewards, strict=True))]
    return make_logs(rows, 1, n_arms), arms, rewards


def arm(k, n_arms):
    return TabularPolicy(np.eye(n_arms)[[k]])


@pytest.mark.slow
def test_a_bandits_arms_under_a_flat_prior():
    pulls, draws = (20, 60, 150), 20_000
    logs, arms, rewards = bandit_log(1, pulls, 3)
    means = np.array([rewards[arms == k].mean() for k in range(3)])
    noise = ((rewards - means[arms]) ** 2).sum() / (len(rewards) - 3)
    for k in range(3):
        found = bdqn(1e3, draws=draws).estimate(logs, arm(k, 3), gamma=0.0, rng_key=KEY)
        sd = (noise / pulls[k]) ** 0.5
        assert found.value == pytest.approx(means[k], abs=1e-4 * sd)
        assert abs(found.draws.mean() - means[k]) < 5 * sd / draws**0.5
        assert abs(found.draws.std() / sd - 1.0) < 5 / (2 * draws) ** 0.5
        # The standard error of a 5 % quantile of a normal sample is 2.11 sd / sqrt(draws).
        assert abs(found.lower - (means[k] - 1.6449 * sd)) < 5 * 2.11 * sd / draws**0.5
        assert abs(found.upper - (means[k] + 1.6449 * sd)) < 5 * 2.11 * sd / draws**0.5


@pytest.mark.slow
def test_a_bandits_arms_under_an_informative_prior():
    # The fourth arm was never pulled, so that its draws are the prior of every arm.
    pulls, draws = (5, 8, 20), 20_000
    logs, arms, rewards = bandit_log(2, pulls, 4)
    method = bdqn(0.05, draws=draws, regressions=50)
    found = [method.estimate(logs, arm(k, 4), gamma=0.0, rng_key=KEY) for k in range(4)]
    assert found[3].value == pytest.approx(rewards.mean(), rel=1e-12)
    # All four networks are the same one: at gamma = 0 the candidate is not in the training.
    center, prior = rewards.mean(), found[3].draws.var()
    means = np.array([rewards[arms == k].mean() for k in range(3)])
    count, noise = np.array(pulls), 1.0
    for _ in range(1000):
        variance = 1.0 / (count / noise + 1.0 / prior)
        posterior = center + variance * count / noise * (means - center)
        squares = ((rewards - posterior[arms]) ** 2).sum()
        noise = (squares + (count * variance).sum()) / len(rewards)
    assert (np.abs(posterior - means) > 0.2 * np.abs(means - center)).all()
    # The prior's variance is known from draws: 1 % at two standard errors each.
    off = 5 * (2 / draws) ** 0.5
    for k in range(3):
        assert abs(found[k].value - posterior[k]) < off * abs(means[k] - center)
        assert abs(found[k].draws.var() / variance[k] - 1.0) < 2 * off


def cell_values(gamma, termination):
    """Q of the exhaustive log's six pairs, by iteration over the outcomes."""
    start = logged_share().sum(axis=1)
    q = np.zeros((3, 2))
    for _ in range(2000):
        v = (TARGET * q).sum(axis=1)
        after = start @ v if termination == "restart" else 0.0
        q = np.array(
            [
                [
                    sum(
                        quarters / 4 * (r + gamma * (after if ended else v[successor]))
                        for quarters, successor, r, ended in OUTCOMES[s, a][0]
                    )
                    for a in range(2)
                ]
                for s in range(3)
            ]
        )
    return q


@pytest.mark.parametrize(("gamma", "termination"), DISCOUNTED)
def test_the_spread_is_that_of_one_bellman_backup(gamma, termination):
    # Pairs have unbounded weights of their own under a wide prior, so that each Q is a sample mean
    # of targets that are held fixed, with one noise for all: the method, its fault included.
    q, draws = cell_values(gamma, termination), 20_000
    v, start = (TARGET * q).sum(axis=1), logged_share().sum(axis=1)
    after = start @ v if termination == "restart" else 0.0
    squares, variance, n = 0.0, 0.0, 0
    for (s, a), (outcomes, times) in OUTCOMES.items():
        for quarters, successor, r, ended in outcomes:
            error = r + gamma * (after if ended else v[successor]) - q[s, a]
            squares += quarters * times * error**2
        n += 4 * times
        variance += (start[s] * TARGET[s, a]) ** 2 / (4 * times)
    sd = (1.0 - gamma) * (squares / (n - 6) * variance) ** 0.5
    method = bdqn(100.0, regressions=100, draws=draws)
    found = method.estimate(
        exhaustive_logs(), POLICY, gamma=gamma, on_termination=termination, rng_key=KEY
    )
    assert found.value == pytest.approx(exact_value(gamma, termination), abs=1e-3 * sd)
    assert abs(found.draws.std() / sd - 1.0) < 5 / (2 * draws) ** 0.5


@pytest.mark.parametrize(("gamma", "termination"), DISCOUNTED)
def test_by_default_it_is_near_the_network_and_the_truth(gamma, termination):
    how = {"gamma": gamma, "on_termination": termination, "rng_key": KEY}
    found = bdqn().estimate(exhaustive_logs(), POLICY, **how)
    network = fitted_q("mlp").estimate(exhaustive_logs(), POLICY, **how)
    # The network of fitted Q evaluation has a spread below 0.01 over keys on this log.
    assert abs(found.value - exact_value(gamma, termination)) < 0.03
    assert abs(found.value - network.value) < 0.05
    assert found.lower < found.value < found.upper
    assert found.draws.shape == (1000,)


def test_vectors_are_near_the_network():
    # Over keys, that network's spread is below 0.05 here, as its own test asserts.
    logs = chain_log(3, n_episodes=40, n_steps=20)
    how = {"gamma": GAMMA, "rng_key": KEY}
    small = {"refits": 40, "action_draws": 4}
    found = bdqn(**small).estimate(logs, POLICIES["pushing"], **how)
    network = fitted_q("mlp", **small).estimate(logs, POLICIES["pushing"], **how)
    assert abs(found.value - network.value) < 0.15
    assert found.lower < found.value < found.upper


def test_vectors_with_labeled_actions_are_near_the_network():
    world = make_world("cartpole")
    logs = simulate(world.env, world.behavior, 10, 60, rng_key=KEY)
    how = {"gamma": 0.9, "rng_key": KEY}
    policy = world.candidates["alpha_0.75"]
    found = bdqn(refits=30).estimate(logs, policy, **how)
    network = fitted_q("mlp", refits=30).estimate(logs, policy, **how)
    assert abs(found.value - network.value) < 0.1


@pytest.mark.parametrize("vectors", [False, True])
def test_the_frozen_network_is_the_network(vectors):
    logs = chain_log(4, n_episodes=5, n_steps=7) if vectors else exhaustive_logs()
    query = Query(logs, POLICIES["calm"] if vectors else POLICY, 0.5)
    training = q_training.Training.of(bdqn(refits=4, steps=20, width=8))
    prepared = q_training.prepare_network(query, training, KEY)
    trained = q_training.train_network(prepared, training, KEY)
    layer, weights = frozen_network(prepared, trained, 0.5)
    rows = np.arange(logs.n_transitions)
    q = np.asarray(trained.network.of_rows(prepared.single, rows))
    v = np.asarray(trained.network.of_states(prepared.single))
    shift = float(trained.value) / (1.0 - 0.5) - float(trained.level)
    assert np.ptp(q) > 0.01
    np.testing.assert_allclose(fitted_rows(layer, weights), q + shift, atol=1e-5)
    # Padded states have no actions, where actions are labels.
    used = layer.policy.sum(axis=1) > 0
    np.testing.assert_allclose(state_values(layer, weights)[used], v[used] + shift, atol=1e-5)


@pytest.mark.slow
def test_the_spread_shrinks_with_the_root_of_the_log():
    frame, sds = exhaustive_logs().to_dataframe(), []
    n = len(frame)
    for copies in (4, 64):
        many = pl.concat(
            [frame.with_columns(episode_id=frame["episode_id"] + i * n) for i in range(copies)]
        )
        logs = bd.Logs.from_dataframe(many, actions=[0, 1])
        assert logs.n_episodes == copies * n
        found = bdqn(draws=4000, refits=20).estimate(logs, POLICY, gamma=0.9, rng_key=KEY)
        sds.append(found.draws.std())
    # Standard error of a ratio of two sds of 4,000 draws: 1.6 %.
    assert abs(sds[0] / sds[1] / 4.0 - 1.0) < 0.08


def test_the_same_key_gives_the_same_draws_and_nothing_is_compiled_anew():
    method = bdqn(refits=4, steps=5, width=8)
    logs = [chain_log(seed, n_episodes=m, n_steps=n) for seed, m, n in ((0, 9, 20), (1, 8, 23))]
    how = {"gamma": 0.5, "rng_key": jax.random.key(2)}
    first = method.estimate(logs[0], POLICIES["calm"], **how)
    features, trained = q_network.hidden_features._cache_size(), q_training.train._cache_size()
    again = method.estimate(logs[0], POLICIES["calm"], **how)
    method.estimate(logs[1], POLICIES["pushing"], **how)
    other = method.estimate(logs[0], POLICIES["calm"], gamma=0.5, rng_key=jax.random.key(3))
    np.testing.assert_array_equal(first.draws, again.draws)
    assert first.value == again.value
    assert (first.draws != other.draws).all()
    assert first.value != other.value
    assert q_training.train._cache_size() == trained
    assert q_network.hidden_features._cache_size() == features


def test_rewards_in_other_units_are_values_in_other_units():
    frame, found = exhaustive_logs().to_dataframe(), []
    for scale, shift in ((1.0, 0.0), (1000.0, 50.0)):
        logs = bd.Logs.from_dataframe(
            frame.with_columns(reward=frame["reward"] * scale + shift), actions=[0, 1]
        )
        estimate = bdqn(refits=8).estimate(logs, POLICY, gamma=0.5, rng_key=KEY)
        found.append((estimate.draws - shift) / scale)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3)


def test_a_constant_reward_is_the_value():
    frame = exhaustive_logs().to_dataframe()
    logs = bd.Logs.from_dataframe(frame.with_columns(reward=pl.lit(3.0)), actions=[0, 1])
    found = bdqn(refits=4).estimate(logs, POLICY, gamma=0.5, rng_key=KEY)
    assert found.value == pytest.approx(3.0, abs=1e-6)
    assert found.draws.std() < 1e-3


def test_bad_settings_are_refused():
    for settings, match in [
        ({"prior_sd": 0.0}, "prior_sd"),
        ({"regressions": 0}, "regressions"),
        ({"draws": 1}, "draws"),
        ({"refits": 3}, "refits"),
        ({"action_draws": 3}, "even"),
    ]:
        with pytest.raises(SettingsError, match=match):
            bdqn(**settings)
    with pytest.raises(SettingsError, match="rng_key"):
        bdqn().estimate(exhaustive_logs(), POLICY, gamma=0.5)
    with pytest.raises(SettingsError, match="a discount below 1, found 1"):
        bdqn().estimate(exhaustive_logs(), POLICY, gamma=1.0, rng_key=KEY)
