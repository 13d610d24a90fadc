"""Reference policies: the right action, as often as alpha says."""

import itertools

import numpy as np
import pytest

import bayesdice_ppl.envs as envs
from bayesdice_ppl.errors import EnvironmentSpecError

LAKE = envs.InfiniteFrozenLake()
TAXI = envs.InfiniteTaxi()
# Optimum at discount 0.99 of the 4x4 lake, which is played again after each end.
LAKE_OPTIMUM = [0, 1, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]


def value(env, policy, gamma):
    """Dense and independent of the library's own."""
    moves = np.einsum("sa,sat->st", policy, env.transition_matrix)
    rewards = np.sum(policy * env.reward_matrix, axis=1)
    return np.linalg.solve(np.eye(len(moves)) - gamma * moves, rewards)


def test_bandit_policy():
    env = envs.Bandit((0.1, 0.8, 0.3))
    np.testing.assert_allclose(
        envs.bandit_policy(env, 0.6).probabilities, [[0.2, 0.6, 0.2]], atol=1e-15
    )
    np.testing.assert_allclose(envs.bandit_policy(env, 0.0).probabilities, [[0.5, 0.0, 0.5]])
    np.testing.assert_allclose(envs.bandit_policy(env, 1.0).probabilities, [[0.0, 1.0, 0.0]])


def test_lake_policy():
    assert envs.optimal_actions(LAKE.outcomes).tolist() == LAKE_OPTIMUM
    behavior = envs.frozen_lake_policy(LAKE, 0.0).probabilities
    assert behavior.shape == (16, 4)
    np.testing.assert_allclose(behavior[0], [0.85, 0.05, 0.05, 0.05])
    target = envs.frozen_lake_policy(LAKE, 0.9).probabilities
    np.testing.assert_allclose(target[0], [0.985, 0.005, 0.005, 0.005])
    np.testing.assert_allclose(target.argmax(axis=1), LAKE_OPTIMUM)
    np.testing.assert_allclose(
        envs.frozen_lake_policy(LAKE, 1.0).probabilities, np.eye(4)[LAKE_OPTIMUM]
    )


def test_garnet_policy():
    env = envs.Garnet(seed=3)
    random = envs.garnet_policy(env, 0.0, seed=1).probabilities
    best = envs.garnet_policy(env, 1.0, seed=1).probabilities
    assert np.all(random > 0)
    assert set(np.unique(best)) == {0.0, 1.0}
    np.testing.assert_allclose(
        envs.garnet_policy(env, 0.25, seed=1).probabilities, 0.75 * random + 0.25 * best
    )
    assert not np.allclose(envs.garnet_policy(env, 0.0, seed=2).probabilities, random)


def test_contextual_bandit_policy():
    env = envs.ContextualBandit(((0.9, 0.1, 0.2), (0.3, 0.3, 0.8)))
    np.testing.assert_allclose(
        envs.contextual_bandit_policy(env, 0.6).probabilities, [[0.6, 0.2, 0.2], [0.2, 0.2, 0.6]]
    )
    with pytest.raises(EnvironmentSpecError, match="2 or more arms"):
        envs.contextual_bandit_policy(envs.ContextualBandit(((0.5,), (0.6,))), 0.5)


def test_river_swim_policy():
    swim = np.tile([0.0, 1.0], (6, 1))
    for alpha in (0.0, 0.4, 1.0):
        np.testing.assert_allclose(
            envs.river_swim_policy(envs.RiverSwim(), alpha).probabilities,
            alpha * swim + (1 - alpha) / 2,
        )


def test_taxi_policy():
    np.testing.assert_allclose(envs.taxi_policy(TAXI, 0.0).probabilities, 1 / 6)
    soft = envs.taxi_policy(TAXI, 1.0).probabilities
    np.testing.assert_allclose(
        envs.taxi_policy(TAXI, 0.25).probabilities, 0.25 * soft + 0.75 / 6, rtol=1e-12
    )
    # Log ratios of a softmax are differences of action values, which obey Bellman's equation.
    values = envs.optimal_action_values(TAXI.outcomes)
    following = TAXI.reward_matrix + 0.99 * TAXI.transition_matrix @ values.max(axis=1)
    np.testing.assert_allclose(values, following, atol=1e-6)
    np.testing.assert_allclose(
        np.log(soft) - np.log(soft[:, :1]), values - values[:, :1], atol=1e-9
    )
    cold = envs.taxi_policy(TAXI, 1.0, temperature=0.01).probabilities
    best = envs.optimal_actions(TAXI.outcomes)
    tied = values >= values.max(axis=1, keepdims=True) - 1e-6
    assert np.all(cold[~tied] < 1e-12)
    assert np.all(tied[np.arange(500), best])
    with pytest.raises(EnvironmentSpecError, match="temperature"):
        envs.taxi_policy(TAXI, 0.5, temperature=0.0)


def test_taxis_values_by_pencil_and_paper():
    """The taxi at R with its passenger there and bound for G: pick up, drive, deliver, repeat."""
    values = envs.optimal_action_values(TAXI.outcomes).max(axis=1)
    fresh = TAXI.initial_distribution @ values
    # From (0, 0) a wall beside column 1 makes the way to (0, 4) two down, four right, two up.
    n_moves = 8
    costs = np.append(-np.ones(1 + n_moves), 20.0)
    discounts = 0.99 ** np.arange(n_moves + 2)
    expected = costs @ discounts + 0.99 ** (n_moves + 2) * fresh
    assert values[TAXI.unwrapped.encode(0, 0, 0, 1)] == pytest.approx(expected, abs=1e-5)


def test_cart_pole_policy():
    leaning = np.array([[0.0, 0.0, 0.1, 0.0], [0.0, 0.0, -0.1, 0.0], [0.0, 0.0, 0.0, 1.0]])
    found = envs.cart_pole_policy(0.8).probs(leaning)
    # Index 0.8: 0.48 regulated, and half of the rest.
    np.testing.assert_allclose(found, [[0.26, 0.74], [0.74, 0.26], [0.26, 0.74]])


@pytest.mark.parametrize(("alpha", "sd"), [(0.0, 0.4), (0.5, 0.25), (1.0, 0.1)])
def test_reacher_policy(alpha, sd):
    policy = envs.reacher_policy(alpha)
    assert policy.sd == pytest.approx(sd)
    obs = np.random.default_rng(0).normal(size=(7, 10))
    np.testing.assert_array_equal(policy.mean(obs), envs.continuous.reacher_action(obs))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(5))
def test_optimal_actions_beat_every_other_policy(seed, gamma):
    env = envs.Garnet(5, 2, 2, seed=seed)
    best = value(env, np.eye(2)[envs.optimal_actions(env.outcomes, gamma=gamma)], gamma)
    for actions in itertools.product(range(2), repeat=5):
        assert np.all(value(env, np.eye(2)[list(actions)], gamma) <= best + 1e-9)


def test_ties_go_to_the_lowest_action():
    assert envs.optimal_actions(envs.Bandit((0.3, 0.7, 0.7)).outcomes).tolist() == [1]
    no_reward = envs.Bandit((0.0, 0.0))
    assert envs.optimal_actions(no_reward.outcomes).tolist() == [0]


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan"), "0.5", None, True])
def test_alpha_outside_its_range_is_refused(alpha):
    for build in (
        lambda: envs.bandit_policy(envs.Bandit(), alpha),
        lambda: envs.frozen_lake_policy(LAKE, alpha),
        lambda: envs.garnet_policy(envs.Garnet(seed=0), alpha, seed=0),
        lambda: envs.contextual_bandit_policy(envs.ContextualBandit(), alpha),
        lambda: envs.river_swim_policy(envs.RiverSwim(), alpha),
        lambda: envs.taxi_policy(TAXI, alpha),
        lambda: envs.cart_pole_policy(alpha),
        lambda: envs.reacher_policy(alpha),
    ):
        with pytest.raises(EnvironmentSpecError, match=r"alpha: expected a number in \[0, 1\]"):
            build()


def test_a_family_is_refused_in_a_foreign_world():
    with pytest.raises(EnvironmentSpecError, match="bandit of 2 or more arms"):
        envs.bandit_policy(LAKE, 0.5)
    with pytest.raises(EnvironmentSpecError, match="gamma"):
        envs.optimal_actions(LAKE.outcomes, gamma=1.0)
