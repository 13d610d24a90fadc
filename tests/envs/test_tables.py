"""Tables of outcomes: they are models, and restarting one gives another."""

import gymnasium
import numpy as np
import pytest

import bayesdice_ppl.envs as envs
from bayesdice_ppl.envs.tabular import check_table, compact, thresholds
from bayesdice_ppl.errors import EnvironmentSpecError

WORLDS = {
    "bandit": envs.Bandit((0.1, 0.9, 0.0)),
    "lake": envs.InfiniteFrozenLake(),
    "lake_8x8": envs.InfiniteFrozenLake(map_name="8x8"),
    "lake_firm": envs.InfiniteFrozenLake(is_slippery=False),
    "lake_own": envs.InfiniteFrozenLake(desc=["SFS", "HFG"]),
    "garnet": envs.Garnet(seed=1),
    "garnet_restarted": envs.Restart(envs.Garnet(seed=2, termination=0.2)),
}


@pytest.mark.parametrize("env", WORLDS.values(), ids=WORLDS.keys())
def test_matrices_are_stochastic(env):
    assert isinstance(env, envs.TabularEnv)
    check_table(env.outcomes, env.initial_distribution)
    n_states, n_actions = env.outcomes.probability.shape[:2]
    assert not env.outcomes.terminated.any()
    assert env.transition_matrix.shape == (n_states, n_actions, n_states)
    assert np.all(env.transition_matrix >= 0)
    np.testing.assert_allclose(env.transition_matrix.sum(axis=-1), 1.0, atol=1e-12)
    assert env.reward_matrix.shape == (n_states, n_actions)
    assert np.all((env.reward_matrix >= 0) & (env.reward_matrix <= 1))


def test_transition_and_reward_matrices_by_hand():
    outcomes = envs.Outcomes(
        probability=np.array([[[0.5, 0.3, 0.2]], [[1.0, 0.0, 0.0]]]),
        next_state=np.array([[[1, 1, 0]], [[0, 0, 0]]]),
        reward=np.array([[[1.0, -1.0, 5.0]], [[2.0, 9.0, 9.0]]]),
        terminated=np.array([[[False, False, True]], [[False, False, False]]]),
    )
    np.testing.assert_allclose(envs.transition_matrix(outcomes), [[[0.0, 0.8]], [[1.0, 0.0]]])
    np.testing.assert_allclose(envs.reward_matrix(outcomes), [[1.2], [2.0]])


def test_restart_sends_each_ending_to_the_start_states():
    outcomes = envs.Outcomes(
        probability=np.array([[[0.4, 0.6]], [[1.0, 0.0]], [[1.0, 0.0]]]),
        next_state=np.array([[[1, 2]], [[0, 0]], [[2, 2]]]),
        reward=np.array([[[0.0, 1.0]], [[3.0, 0.0]], [[0.0, 0.0]]]),
        terminated=np.array([[[False, True]], [[False, False]], [[True, True]]]),
    )
    start = np.array([0.25, 0.75, 0.0])
    infinite = envs.restart_outcomes(outcomes, start)
    check_table(infinite, start)
    assert infinite.probability.shape == (3, 1, 3)
    np.testing.assert_allclose(
        envs.transition_matrix(infinite),
        [[[0.15, 0.85, 0.0]], [[1.0, 0.0, 0.0]], [[0.25, 0.75, 0.0]]],
    )
    np.testing.assert_allclose(envs.reward_matrix(infinite), envs.reward_matrix(outcomes))


def test_the_lake_is_gymnasiums_own_with_its_ends_at_the_start():
    lake = envs.InfiniteFrozenLake()
    game = gymnasium.make("FrozenLake-v1").unwrapped
    expected = np.zeros((16, 4, 16))
    for state, actions in game.P.items():
        for action, rows in actions.items():
            for probability, next_state, _, terminated in rows:
                expected[state, action, 0 if terminated else next_state] += probability
    np.testing.assert_allclose(lake.transition_matrix, expected, atol=1e-15)
    holes_and_goal = [5, 7, 11, 12, 15]
    frozen = np.setdiff1d(np.arange(16), holes_and_goal)
    assert not lake.transition_matrix[np.ix_(frozen, range(4), holes_and_goal)].any()
    # Only a step from state 14 reaches the goal.
    assert np.flatnonzero(lake.reward_matrix.any(axis=1)).tolist() == [14]


def test_thresholds_never_pick_the_impossible():
    probability = np.array([[0.0, 0.1, 0.2, 0.0, 0.7, 0.0], [1.0, 0, 0, 0, 0, 0]])
    limits = thresholds(probability)
    for draw, expected in [(0.0, 1), (0.0999, 1), (0.1, 2), (0.31, 4), (1 - 1e-16, 4), (1.0, 4)]:
        assert np.searchsorted(limits[0], draw, side="right") == expected
    assert np.searchsorted(limits[1], 0.5, side="right") == 0


def test_compact_merges_equal_outcomes_and_drops_impossible_ones():
    packed = compact(
        envs.Outcomes(
            probability=np.array([[[0.1, 0.2, 0.0, 0.3, 0.4]], [[0.0, 1.0, 0.0, 0.0, 0.0]]]),
            next_state=np.array([[[1, 0, 0, 1, 1]], [[0, 1, 0, 0, 0]]]),
            reward=np.array([[[2.0, 0.0, 7.0, 2.0, 0.0]], [[7.0, 5.0, 7.0, 7.0, 7.0]]]),
            terminated=np.zeros((2, 1, 5), dtype=bool),
        )
    )
    np.testing.assert_allclose(packed.probability, [[[0.2, 0.4, 0.4]], [[1.0, 0.0, 0.0]]])
    np.testing.assert_array_equal(packed.next_state, [[[0, 1, 1]], [[1, 0, 0]]])
    np.testing.assert_array_equal(packed.reward, [[[0.0, 0.0, 2.0]], [[5.0, 0.0, 0.0]]])


@pytest.mark.parametrize("env", WORLDS.values(), ids=WORLDS.keys())
def test_compact_leaves_the_model_as_it_is(env):
    padded = envs.Outcomes(*(np.concatenate([field, field], -1) for field in env.outcomes))
    padded.probability[...] /= 2
    packed = compact(padded)
    assert packed.probability.shape[-1] <= env.outcomes.probability.shape[-1]
    np.testing.assert_allclose(envs.transition_matrix(packed), env.transition_matrix, atol=1e-15)
    np.testing.assert_allclose(envs.reward_matrix(packed), env.reward_matrix, atol=1e-15)
    again = compact(packed)
    assert all(np.array_equal(a, b) for a, b in zip(again, packed, strict=True))


def good_table():
    shape = (2, 1, 2)
    return envs.Outcomes(
        np.full(shape, 0.5), np.zeros(shape, int), np.zeros(shape), np.zeros(shape, bool)
    )


@pytest.mark.parametrize(
    ("change", "start", "message"),
    [
        ({"probability": np.full((2, 1, 2), 0.4)}, [1.0, 0.0], "sum to 1"),
        ({"probability": np.array([[[1.5, -0.5]]] * 2)}, [1.0, 0.0], "nonnegative"),
        ({"probability": np.full((2, 1, 2), np.nan)}, [1.0, 0.0], "nonnegative"),
        ({"next_state": np.full((2, 1, 2), 2)}, [1.0, 0.0], "expected states 0 to 1"),
        ({"reward": np.full((2, 1, 2), np.inf)}, [1.0, 0.0], "finite"),
        ({"reward": np.zeros((2, 1))}, [1.0, 0.0], "one shape"),
        ({}, [1.0], r"shape \(2,\)"),
        ({}, [0.5, 0.4], "initial_distribution"),
    ],
)
def test_a_table_that_is_no_model_is_refused(change, start, message):
    with pytest.raises(EnvironmentSpecError, match=message):
        envs.TableEnv(good_table()._replace(**change), np.array(start))
