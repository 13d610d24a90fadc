"""Worlds that are played, judged by worlds whose table is hidden from the player."""

import threading

import gymnasium
import jax
import numpy as np
import pytest
from scipy.stats import norm

import bayesdice_ppl.envs as envs
from bayesdice_ppl import GaussianPolicy, TabularPolicy, fit, simulate, true_value
from bayesdice_ppl.errors import EnvironmentSpecError, LogsError, PoliciesError, SettingsError
from bayesdice_ppl.simulation.vectorized import COPIES
from tests.marks import slow

KEY = jax.random.key(8)


class Hidden(gymnasium.Wrapper):
    """A tabular world whose table cannot be read: it has to be played."""

    def step(self, action):
        return self.env.step(int(action))


class Vectors(gymnasium.ObservationWrapper):
    """States as vectors (the number and its square)."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(0, 1e6, (2,), np.float64)

    def observation(self, observation):
        return np.array([observation, observation**2], dtype=np.float64)


GARNET = envs.Garnet(6, 3, 3, seed=2)
ENDING = envs.Garnet(6, 3, 3, seed=2, termination=0.1)
POLICY = TabularPolicy(np.random.default_rng(0).dirichlet(np.ones(3), size=6))


@pytest.mark.parametrize("gamma", [0.0, slow(0.5), 0.9, slow(1.0)])
@pytest.mark.parametrize("env", [GARNET, ENDING], ids=["endless", "ending"])
def test_simulated_values_agree_with_exact_ones(env, gamma):
    if env is ENDING and gamma == 1:
        with pytest.raises(EnvironmentSpecError, match=r"terminates.*Restart"):
            true_value(Hidden(env), POLICY, gamma, rng_key=KEY, n_episodes=50)
        return
    found = true_value(Hidden(env), POLICY, gamma, rng_key=KEY, n_episodes=2 * COPIES + 5)
    expected = true_value(env, POLICY, gamma)
    assert 0 < found.standard_error < 0.05
    assert abs(found - expected) <= 5 * found.standard_error + found.left_out
    assert found.left_out <= 1e-4
    assert not found.exact
    assert expected.exact
    assert "standard_error" in repr(found)


def test_the_standard_error_is_that_of_repetitions():
    values = [
        true_value(Hidden(GARNET), POLICY, 0.8, rng_key=key, n_episodes=30)
        for key in jax.random.split(KEY, 40)
    ]
    claimed = np.sqrt(np.mean([value.standard_error**2 for value in values]))
    # The sd of 40 repetitions has a relative standard error of 0.11.
    assert np.std(values, ddof=1) == pytest.approx(claimed, rel=0.5)


def test_a_short_horizon_is_said():
    found = true_value(Hidden(GARNET), POLICY, 0.9, rng_key=KEY, n_episodes=20, horizon=5)
    assert found.left_out == pytest.approx(0.9**5)


@pytest.mark.slow
def test_hidden_and_open_worlds_give_logs_of_one_kind():
    logs = simulate(Hidden(ENDING), POLICY, COPIES + 40, 12, rng_key=KEY)
    frame = logs.to_dataframe()
    assert logs.n_episodes == COPIES + 40
    last = frame.group_by("episode_id").last()
    assert (last["terminated"] ^ last["truncated"]).all()
    assert frame["terminated"].sum() == last["terminated"].sum() > 0
    np.testing.assert_array_equal(
        frame["propensity"], POLICY.probabilities[frame["state"], frame["action"]]
    )
    # Next states are the next row's, and those of the last rows are what was seen then.
    inside = frame["episode_id"].to_numpy()[1:] == frame["episode_id"].to_numpy()[:-1]
    np.testing.assert_array_equal(
        frame["state"].to_numpy()[1:][inside], frame["next_state"].to_numpy()[:-1][inside]
    )
    moves = ENDING.outcomes
    possible = {
        (int(s), int(a), int(t))
        for (s, a, k) in zip(*np.nonzero(moves.probability), strict=True)
        for t in [moves.next_state[s, a, k]]
    }
    assert set(zip(frame["state"], frame["action"], frame["next_state"], strict=True)) <= possible
    belief = fit(logs, {"same": POLICY}, gamma=0.9, rng_key=KEY, inference="exact")
    assert belief["posterior/value"].shape[-1] == 1


def test_the_same_key_plays_the_same_and_another_does_not():
    once, twice = (simulate(Hidden(GARNET), POLICY, 5, 9, rng_key=KEY) for _ in range(2))
    other = simulate(Hidden(GARNET), POLICY, 5, 9, rng_key=jax.random.key(9))
    assert once.to_dataframe().equals(twice.to_dataframe())
    assert not once.to_dataframe().equals(other.to_dataframe())


def test_the_users_own_environment_is_left_as_it_is():
    env = Hidden(envs.RiverSwim())
    env.reset(seed=3)
    for _ in range(10):
        env.step(1)
    place = env.unwrapped._state
    simulate(env, TabularPolicy(np.full((6, 2), 0.5)), 4, 20, rng_key=KEY)
    assert env.unwrapped._state == place


def test_a_time_limit_is_not_part_of_the_world():
    limited = gymnasium.wrappers.TimeLimit(Hidden(GARNET), max_episode_steps=3)
    assert simulate(limited, POLICY, 2, 8, rng_key=KEY).n_transitions == 16
    # One that is hidden in the middle is, and then no value can be told.
    inner = Hidden(gymnasium.wrappers.TimeLimit(GARNET, max_episode_steps=3))
    assert simulate(inner, POLICY, 2, 8, rng_key=KEY).n_transitions == 6
    with pytest.raises(EnvironmentSpecError, match="cuts an episode after 3 steps"):
        true_value(inner, POLICY, 0.9, rng_key=KEY)


@pytest.mark.slow
def test_cart_pole_costs_its_falls():
    env = envs.InfiniteCartPole()
    steady, shaky = (
        true_value(env, envs.cart_pole_policy(alpha), 0.99, rng_key=KEY, n_episodes=60)
        for alpha in (1.0, 0.0)
    )
    assert -0.01 < steady < 0
    assert steady > shaky + 5 * (steady.standard_error + shaky.standard_error)
    # Pushed at random the pole falls every 22 steps or so.
    assert shaky == pytest.approx(-1 / 22, abs=0.015)
    logs = simulate(env, envs.cart_pole_policy(0.5), 6, 50, rng_key=KEY)
    assert logs.vector_states
    assert not logs.vector_actions
    np.testing.assert_allclose(np.unique(logs.propensity), [0.35, 0.65])
    assert set(np.unique(logs.reward)) <= {0.0, -1.0}
    again = type(logs).from_dataframe(logs.to_dataframe(), actions=[0, 1])
    np.testing.assert_array_equal(again.observation, logs.observation)
    np.testing.assert_array_equal(again.next_observation, logs.next_observation)


def test_reacher_logs_hold_the_drawn_actions_and_their_densities():
    policy = GaussianPolicy(envs.continuous.reacher_action, 0.4)
    logs = simulate(envs.InfiniteReacher(), policy, 3, 40, rng_key=KEY)
    assert logs.observation.shape == (120, 10)
    assert logs.action_vector.shape == (120, 2)
    mean = np.asarray(envs.continuous.reacher_action(logs.observation))
    np.testing.assert_allclose(
        logs.propensity, norm.pdf(logs.action_vector, mean, 0.4).prod(axis=1), rtol=1e-4
    )
    # The square that is charged is the clipped action's.
    clipped = np.clip(logs.action_vector, -1, 1)
    assert np.any(clipped != logs.action_vector)
    distance = np.linalg.norm(logs.next_observation[:, 8:10], axis=1)
    # Where arm or target were drawn afresh, what was reached is not what is seen next.
    same_game = np.all(logs.next_observation[:, 4:6] == logs.observation[:, 4:6], axis=1)
    assert np.any(same_game & np.any(clipped != logs.action_vector, axis=1))
    charged = -logs.reward - np.sum(clipped**2, axis=1)
    np.testing.assert_allclose(charged[same_game], distance[same_game], atol=1e-6)
    with pytest.raises(LogsError, match="at least 10 episodes in the log, found 3"):
        fit(logs, {"p": policy}, gamma=0.9, rng_key=KEY)


@pytest.mark.parametrize(
    ("env", "policy", "error", "message"),
    [
        (Hidden(GARNET), GaussianPolicy(lambda o: o, 1.0), PoliciesError, "probs"),
        (envs.InfiniteReacher(), POLICY, PoliciesError, "vectors of 2"),
        (envs.InfiniteReacher(), GaussianPolicy(lambda o: o, 1.0), PoliciesError, "expected .1, 4"),
        (Hidden(GARNET), TabularPolicy(np.full((6, 4), 0.25)), PoliciesError, "action 3 is not"),
    ],
    ids=["continuous", "discrete", "size", "actions"],
)
def test_policies_of_another_world_are_refused(env, policy, error, message):
    with pytest.raises(error, match=message):
        simulate(env, policy, 4, 3, rng_key=KEY)


def test_a_tables_labels_say_which_column_is_which_action():
    order = [2, 0, 1]
    shuffled = TabularPolicy(POLICY.probabilities[:, order], actions=order)
    one, other = (
        simulate(Hidden(GARNET), policy, 40, 20, rng_key=KEY).to_dataframe()
        for policy in (POLICY, shuffled)
    )
    np.testing.assert_array_equal(one["action"], other["action"])
    np.testing.assert_array_equal(one["propensity"], other["propensity"])
    with pytest.raises(PoliciesError, match="action 'a' is not one of this world's"):
        simulate(
            Hidden(GARNET),
            TabularPolicy(POLICY.probabilities, actions=["a", "b", "c"]),
            4,
            3,
            rng_key=KEY,
        )


class _Odd:
    """A policy whose outputs can be spoiled."""

    def __init__(self, action=0.0, log_prob=0.0):
        self.action, self.given = action, log_prob

    def sample(self, rng_key, obs, n):
        return np.full((n, len(obs), 2), self.action)

    def log_prob(self, obs, action):
        return self.given if np.ndim(self.given) else np.full(len(obs), self.given)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (_Odd(action=np.nan), "not finite"),
        (_Odd(log_prob=2000.0), "finite density"),
        (_Odd(log_prob=-2000.0), "positive"),
        (_Odd(log_prob=np.zeros((4, 2))), r"shape \(4, 2\)"),
        (_Odd(log_prob=np.zeros((1, 4))), r"shape \(1, 4\)"),
    ],
    ids=["action", "large", "small", "columns", "rows"],
)
def test_draws_and_densities_that_cannot_be_logged_are_refused(policy, message):
    with pytest.raises(PoliciesError, match=message):
        simulate(envs.InfiniteReacher(), policy, 4, 3, rng_key=KEY)


def test_a_world_that_gives_no_numbers_is_refused():
    class Broken(Hidden):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, float("nan"), *rest

    with pytest.raises(EnvironmentSpecError, match="reward that is not finite, at step 0"):
        simulate(Broken(GARNET), POLICY, 4, 3, rng_key=KEY)


def test_absurd_sizes_are_refused_at_once():
    for env in (GARNET, envs.InfiniteCartPole()):
        policy = POLICY if env is GARNET else envs.cart_pole_policy(0.5)
        with pytest.raises(SettingsError, match="GiB of memory"):
            simulate(env, policy, 10**6, 10**6, rng_key=KEY)
    with pytest.raises(SettingsError, match="gamma = 1"):
        true_value(Hidden(GARNET), POLICY, 1 - 1e-9, rng_key=KEY)


def test_a_world_that_cannot_be_copied_is_refused():
    class Locked(Hidden):
        def __init__(self, env):
            super().__init__(env)
            self.lock = threading.Lock()

    with pytest.raises(EnvironmentSpecError, match="could not be copied"):
        simulate(Locked(GARNET), POLICY, 4, 3, rng_key=KEY)


def test_a_step_that_both_ends_and_is_cut_has_ended():
    class Both(Hidden):
        def step(self, action):
            observation, reward, terminated, _, info = super().step(action)
            return observation, reward, terminated, terminated, info

    found = true_value(Both(ENDING), POLICY, 0.9, rng_key=KEY, n_episodes=200)
    assert abs(found - true_value(ENDING, POLICY, 0.9)) <= 5 * found.standard_error + 1e-4


def test_what_depends_on_the_past_has_no_table():
    fickle = envs.Restart(gymnasium.make("Taxi-v4", fickle_passenger=True))
    with pytest.raises(SettingsError, match="no table"):
        true_value(fickle, envs.taxi_policy(envs.InfiniteTaxi(), 0.5), 0.9)


def test_a_restarted_game_has_no_time_limit():
    env = envs.Restart(gymnasium.make("CartPole-v1"))
    assert simulate(env, envs.cart_pole_policy(0.5), 2, 1200, rng_key=KEY).n_transitions == 2400


def test_simulated_values_are_never_called_exact():
    env = envs.InfiniteCartPole()
    at_once = true_value(env, envs.cart_pole_policy(0.5), 0.0, rng_key=KEY, n_episodes=4)
    assert at_once == 0.0
    assert at_once.standard_error == 0.0
    assert not at_once.exact
    assert f"{at_once}" == "0.0"


def test_probabilities_that_are_none_are_refused():
    class Half:
        def probs(self, obs):
            return np.full((len(obs), 3), 0.3)

    with pytest.raises(PoliciesError, match="sum to 1"):
        simulate(Hidden(GARNET), Half(), 2, 3, rng_key=KEY)


def test_worlds_of_pictures_are_refused():
    class Pictures(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 1, (4, 4, 3))
        action_space = gymnasium.spaces.Discrete(2)

    with pytest.raises(EnvironmentSpecError, match="observation_space"):
        simulate(Pictures(), POLICY, 2, 3, rng_key=KEY)


def test_a_simulated_value_needs_a_key_and_sound_numbers():
    with pytest.raises(SettingsError, match=r"rng_key.*no table"):
        true_value(Hidden(GARNET), POLICY, 0.9)
    for given, message in (
        ({"n_episodes": 1}, "n_episodes"),
        ({"horizon": 0}, "horizon"),
        ({"rng_key": 3}, "rng_key"),
    ):
        with pytest.raises(SettingsError, match=message):
            true_value(Hidden(GARNET), POLICY, 0.9, **{"rng_key": KEY, **given})


def test_vector_states_are_kept_row_by_row():
    logs = simulate(Vectors(GARNET), _OfVectors(), 3, 4, rng_key=KEY)
    np.testing.assert_array_equal(logs.observation[:, 1], logs.observation[:, 0] ** 2)
    np.testing.assert_array_equal(logs.observation[1:4], logs.next_observation[:3])


class _OfVectors:
    def probs(self, obs):
        return POLICY.probabilities[np.asarray(obs)[:, 0].astype(int)]
