"""What each world is: arms, maps, random MDPs."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components
from scipy.stats import binomtest

import bayesdice_ppl.envs as envs
from bayesdice_ppl.errors import EnvironmentSpecError


def test_bandit_pays_its_arms():
    env = envs.Bandit((0.2, 1.0, 0.0))
    np.testing.assert_allclose(env.reward_matrix, [[0.2, 1.0, 0.0]])
    np.testing.assert_allclose(envs.Bandit().reward_matrix, [[0.75, 0.25]])


@pytest.mark.parametrize(
    "arms", ["a", ["a"], (), (0.5, 1.2), (-0.1, 0.5), (float("nan"), 0.5), ((0.5,),)]
)
def test_bandit_refuses_what_is_no_probability(arms):
    with pytest.raises(EnvironmentSpecError, match="arms"):
        envs.Bandit(arms)


def test_contexts_are_drawn_anew_whatever_was_done():
    arms = np.array([[0.2, 0.9], [0.5, 0.0], [0.1, 1.0]])
    shares = np.array([0.5, 0.2, 0.3])
    env = envs.ContextualBandit(arms, shares)
    np.testing.assert_allclose(env.reward_matrix, arms)
    np.testing.assert_allclose(env.transition_matrix, np.broadcast_to(shares, (3, 2, 3)))
    np.testing.assert_allclose(env.initial_distribution, shares)
    np.testing.assert_allclose(envs.ContextualBandit().initial_distribution, 1 / 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arms": ()}, "arms"),
        ({"arms": (0.5, 0.5)}, "arms"),
        ({"arms": ((0.5, 0.5), (0.5,))}, "arms: expected probabilities"),
        ({"contexts": ("a",) * 4}, "contexts: expected 4"),
        ({"arms": ((0.5, 1.5),)}, "arms"),
        ({"contexts": (0.5, 0.5)}, "contexts: expected 4"),
        ({"contexts": (0.5, 0.5, 0.5, 0.5)}, "sum to 1"),
        ({"contexts": (1.5, -0.5, 0.0, 0.0)}, "contexts"),
    ],
)
def test_contextual_bandit_refuses_impossible_arguments(arguments, message):
    with pytest.raises(EnvironmentSpecError, match=message):
        envs.ContextualBandit(**arguments)


def test_the_river_is_the_published_one():
    env = envs.RiverSwim(4)
    left, right = env.transition_matrix[:, 0], env.transition_matrix[:, 1]
    np.testing.assert_allclose(left, [[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
    np.testing.assert_allclose(
        right, [[0.4, 0.6, 0, 0], [0.05, 0.6, 0.35, 0], [0, 0.05, 0.6, 0.35], [0, 0, 0.4, 0.6]]
    )
    np.testing.assert_allclose(env.reward_matrix, [[0.005, 0], [0, 0], [0, 0], [0, 1]])
    np.testing.assert_allclose(env.initial_distribution, [1, 0, 0, 0])
    for length in (1, 0, 2.5):
        with pytest.raises(EnvironmentSpecError, match="at least 2"):
            envs.RiverSwim(length)


def test_a_table_past_all_memory_is_refused_before_it_is_made():
    env = envs.Restart(envs.Garnet(3000, 2, 2, seed=0, termination=0.1, reward_sparsity=0.0))
    with pytest.raises(EnvironmentSpecError, match=r"outcomes, past the 20,000,000"):
        _ = env.outcomes


def test_a_delivered_taxi_takes_the_next_passenger():
    env = envs.InfiniteTaxi()
    # At R with a passenger for R: dropping off pays 20 and leads to each of 300 fresh starts.
    at_goal = env.unwrapped.encode(0, 0, 4, 0)
    assert env.reward_matrix[at_goal, 5] == 20
    np.testing.assert_allclose(env.transition_matrix[at_goal, 5], env.initial_distribution)
    assert np.sum(env.initial_distribution > 0) == 300
    assert np.max(np.sum(env.outcomes.probability > 0, axis=-1)) == 300
    assert not env.outcomes.terminated.any()


def test_cart_pole_is_set_upright_again():
    env = envs.InfiniteCartPole()
    env.reset(seed=0)
    falls = 0
    for _ in range(200):
        observation, reward, terminated, _, info = env.step(0)
        assert not terminated
        assert reward == (-1.0 if info["restarted"] else 0.0)
        assert not info["restarted"] or np.all(np.abs(observation) <= 0.05)
        falls += info["restarted"]
    assert falls > 10


def test_reacher_clips_the_torques_that_it_is_given():
    env = envs.InfiniteReacher(restart_probability=0.0)
    steps = []
    for action in ([1.0, -1.0], [7.0, -3.0]):
        env.reset(seed=4)
        steps.append([env.step(np.array(action))[:2] for _ in range(3)])
    np.testing.assert_array_equal(*[[observation for observation, _ in run] for run in steps])
    np.testing.assert_array_equal(*[[reward for _, reward in run] for run in steps])


def test_reacher_gets_a_new_target_as_often_as_it_was_told():
    env = envs.InfiniteReacher()
    observation, _ = env.reset(seed=5)
    n_steps, n_restarts = 4000, 0
    for _ in range(n_steps):
        following, _, _, _, info = env.step(np.zeros(2))
        moved = np.any(following[4:6] != observation[4:6])
        assert moved == info["restarted"]
        n_restarts += moved
        observation = following
    assert binomtest(n_restarts, n_steps, 0.03).pvalue > 1e-4


def test_lake_refuses_unknown_maps():
    with pytest.raises(EnvironmentSpecError, match="4x4, 8x8"):
        envs.InfiniteFrozenLake(map_name="5x5")
    with pytest.raises(EnvironmentSpecError, match="no start"):
        envs.InfiniteFrozenLake(desc=["FG"])


def test_garnet_has_the_shape_that_was_asked_for():
    env = envs.Garnet(30, 3, 5, seed=4, reward_sparsity=0.8)
    assert np.all(np.sum(env.transition_matrix > 0, axis=-1) == 5)
    assert np.sum(env.reward_matrix > 0) == 90 - 72
    assert set(np.unique(env.outcomes.reward)) == {0.0, 1.0}
    np.testing.assert_allclose(env.initial_distribution, 1 / 30)


def test_garnet_rewards_do_not_tell_where_the_step_leads():
    outcomes = envs.Garnet(6, 2, 3, seed=8).outcomes
    joint = np.zeros((6, 2, 6, 2))
    state, action, _ = np.indices(outcomes.probability.shape)
    np.add.at(
        joint,
        (state, action, outcomes.next_state, outcomes.reward.astype(int)),
        outcomes.probability,
    )
    product = joint.sum(3)[..., :, None] * joint.sum(2)[..., None, :]
    np.testing.assert_allclose(joint, product, atol=1e-14)


def test_garnet_is_its_seed():
    one, same, other = (envs.Garnet(seed=seed).outcomes for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one.next_state, other.next_state)


@pytest.mark.parametrize("seed", range(20))
def test_every_deterministic_policy_of_an_irreducible_garnet_goes_everywhere(seed):
    env = envs.Garnet(15, 3, 2, seed=seed)
    actions = np.random.default_rng(seed).integers(3, size=15)
    moves = env.transition_matrix[np.arange(15), actions]
    assert connected_components(moves > 0, directed=True, connection="strong")[0] == 1


def test_garnet_terminates_as_often_as_it_was_told():
    ending = np.linspace(0, 0.5, 8).reshape(4, 2)
    env = envs.Garnet(4, 2, 2, seed=0, termination=ending)
    outcomes = env.outcomes
    np.testing.assert_allclose(np.sum(outcomes.probability * outcomes.terminated, -1), ending)
    np.testing.assert_allclose(env.transition_matrix.sum(-1), 1 - ending)
    endless = envs.Restart(env)
    np.testing.assert_allclose(endless.transition_matrix.sum(-1), 1.0)
    np.testing.assert_allclose(
        endless.transition_matrix, env.transition_matrix + ending[..., None] / 4
    )
    np.testing.assert_allclose(endless.reward_matrix, env.reward_matrix)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_states": 0}, "n_states"),
        ({"branching": 21}, "n_states = 20"),
        ({"branching": 1}, "irreducible=False"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"reward_sparsity": 1.0}, "reward_sparsity"),
        ({"termination": 1.0}, "termination"),
        ({"termination": np.zeros((2, 2))}, "termination"),
    ],
)
def test_garnet_refuses_impossible_arguments(arguments, message):
    with pytest.raises(EnvironmentSpecError, match=message):
        envs.Garnet(**{"seed": 0, **arguments})


def test_the_smallest_garnet():
    env = envs.Garnet(1, 1, 1, seed=0)
    np.testing.assert_allclose(env.transition_matrix, [[[1.0]]])
    assert 0 < env.reward_matrix[0, 0] < 1
