"""Logs of the worlds: their propensities, their ends, their candidates."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest, norm

from bayesdice_ppl.envs.continuous import CART_POLE_GAINS
from benchmarks.vectors.policies import SoftmaxPolicy, act
from benchmarks.vectors.worlds import LOGGING, WORLDS, make_world

SIMULATED = [name for name in WORLDS if not name.startswith("reacher")]
SIZES = {"pendulum": 16_000, "pendulum_swing": 16_000, "bandit_500": 500, "bandit_5000": 5_000}


@pytest.mark.parametrize("name", SIMULATED)
def test_propensities_are_the_policies_own(name):
    world = make_world(name)
    log = world.make(3)
    if log.vector_actions:
        own = np.exp(world.logging.log_prob(log.observation, log.action_vector))
    else:
        assert log.declared_actions.tolist() == log.action_labels.tolist()
        own = world.logging.probs(log.observation)[np.arange(log.n_transitions), log.action]
    # Densities by JAX are in single precision.
    np.testing.assert_allclose(log.propensity, own, rtol=1e-4)


@pytest.mark.parametrize("name", SIMULATED)
def test_a_seed_is_a_log(name):
    world = make_world(name)
    log, again, other = world.make(5), world.make(5), world.make(6)
    np.testing.assert_array_equal(log.reward, again.reward)
    np.testing.assert_array_equal(log.observation, again.observation)
    assert log.observation[0, 0] != other.observation[0, 0]
    assert log.n_transitions == SIZES.get(name, log.n_transitions)
    assert world.policies[LOGGING] is world.logging
    assert len(world.policies) >= 5


def test_the_time_limit_is_no_termination():
    log = make_world("cartpole_absorb").make(1)
    last = np.r_[log.episode[1:] != log.episode[:-1], True]
    place, angle = log.next_observation[:, 0], log.next_observation[:, 2]
    fallen = (np.abs(place) > 2.4) | (np.abs(angle) > 12 * np.pi / 180)
    np.testing.assert_array_equal(log.terminated, fallen)
    np.testing.assert_array_equal(log.truncated, last & ~fallen)
    assert np.all(log.step[log.truncated] == 199)
    assert log.truncated.any()
    within = ~last[:-1]
    np.testing.assert_array_equal(log.next_observation[:-1][within], log.observation[1:][within])
    assert 2_400 < log.n_transitions < 4_400


def test_labels_come_as_often_as_their_probabilities():
    rng = np.random.default_rng(8)
    weights, bias, obs = rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=3)
    action, propensity = act(SoftmaxPolicy(weights, bias), np.tile(obs, (40_000, 1)), rng)
    scores = [float(np.dot(weights[a], obs) + bias[a]) for a in range(4)]
    for a in range(4):
        chance = np.exp(scores[a]) / sum(np.exp(each) for each in scores)
        assert abs(np.mean(action == a) - chance) < 4.5 * np.sqrt(chance * (1 - chance) / 40_000)
        np.testing.assert_allclose(propensity[action == a], chance, rtol=1e-12)


@pytest.mark.parametrize("name", ["pendulum", "pendulum_swing"])
def test_torques_are_normal_around_the_controller(name):
    policy = make_world(name).policies["noisy"]
    angle, speed = 2.0, -1.5
    obs = np.tile([np.cos(angle), np.sin(angle), speed], (5_000, 1))
    action, _ = act(policy, obs, np.random.default_rng(9))
    energy = 0.5 * speed**2 + 15 * (np.cos(angle) - 1)
    near = (1 + np.cos(angle)) / 2
    if name == "pendulum":
        center = 2 * np.tanh(0.03 * -energy * speed / 2) - near * (np.sin(angle) + 0.2 * speed)
    else:
        center = -1.2
    assert kstest(action, norm(center, policy.sd).cdf).pvalue > 1e-4


def test_the_catch_of_the_swing_is_linear_and_bounded():
    mean = make_world("pendulum_swing").policies["good"].mean
    angle, speed = np.array([0.1, -0.05, 0.6, 0.6]), np.array([-0.3, 0.0, 0.0, 2.0])
    obs = np.stack([np.cos(angle), np.sin(angle), speed], axis=1)
    np.testing.assert_allclose(mean(obs)[:, 0], [-0.2, 0.4, -2.0, -2.0])
    # Level, too little energy: with the motion. Level and fast: against it.
    obs = np.array([[0.0, 1.0, 1.0], [0.0, 1.0, -1.0], [0.0, 1.0, 7.0], [0.0, -1.0, -7.0]])
    np.testing.assert_allclose(mean(obs)[:, 0], [2.0, -2.0, -2.0, 2.0])


@pytest.mark.parametrize("name", ["pendulum", "pendulum_swing"])
def test_controllers_take_arrays_of_jax(name):
    obs = make_world(name).make(0).observation[:500]
    for policy in make_world(name).policies.values():
        found = policy.mean(jnp.asarray(obs))
        assert isinstance(found, jnp.ndarray)
        assert found.shape == (500, 1)
        np.testing.assert_allclose(found, policy.mean(obs), atol=1e-3)


def test_a_pole_is_pushed_by_the_regulator():
    probs = make_world("cartpole_restart").policies["drifting"].probs
    obs = np.array([[0.1, -0.2, 0.03, 0.4]])
    score = 6.0 * float(np.dot(CART_POLE_GAINS, obs[0])) + 0.5
    np.testing.assert_allclose(probs(obs)[0, 1], 1 / (1 + np.exp(-score)))


def test_an_unknown_world_is_refused():
    with pytest.raises(ValueError, match="found 'moon'"):
        make_world("moon")
