"""Reference policies: the right action, as often as alpha says."""

import itertools

import numpy as np
import pytest

import bayesdice_ppl.envs as envs
from bayesdice_ppl.errors import EnvironmentSpecError

LAKE = envs.InfiniteFrozenLake()
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


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_alpha_outside_its_range_is_refused(alpha):
    for build in (
        lambda: envs.bandit_policy(envs.Bandit(), alpha),
        lambda: envs.frozen_lake_policy(LAKE, alpha),
        lambda: envs.garnet_policy(envs.Garnet(seed=0), alpha, seed=0),
    ):
        with pytest.raises(EnvironmentSpecError, match=r"alpha: expected a number in \[0, 1\]"):
            build()


def test_a_family_is_refused_in_a_foreign_world():
    with pytest.raises(EnvironmentSpecError, match="bandit of 2 or more arms"):
        envs.bandit_policy(LAKE, 0.5)
    with pytest.raises(EnvironmentSpecError, match="gamma"):
        envs.optimal_actions(LAKE.outcomes, gamma=1.0)
