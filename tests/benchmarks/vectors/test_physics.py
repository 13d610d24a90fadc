"""The simulators take the steps that Gymnasium takes."""

import gymnasium
import numpy as np
import pytest

from benchmarks.vectors import physics


def test_pendulum_steps_as_gymnasium_does():
    rng = np.random.default_rng(1)
    env = gymnasium.make("Pendulum-v1").unwrapped
    state = np.stack([rng.uniform(-9, 9, 300), rng.uniform(-8, 8, 300)], axis=1)
    torque = rng.normal(scale=2.0, size=300)
    found = physics.step_pendulum(state, torque)
    seen = physics.observe_pendulum(found.state)
    env.reset(seed=0)
    for one in range(300):
        env.state = state[one].copy()
        obs, reward, terminated, _, _ = env.step(torque[one : one + 1])
        np.testing.assert_allclose(found.state[one], env.state, rtol=0, atol=1e-12)
        np.testing.assert_allclose(seen[one], obs, rtol=0, atol=1e-6)
        assert found.reward[one] == pytest.approx(reward, abs=1e-12)
        assert found.terminated[one] == terminated
    assert np.abs(found.state[:, 1]).max() == physics.LARGEST_SPEED, "some reach the limit"


@pytest.mark.parametrize("fined", [False, True])
def test_cart_pole_steps_as_gymnasium_does(fined):
    rng = np.random.default_rng(2)
    env = gymnasium.make("CartPole-v1", sutton_barto_reward=fined).unwrapped
    state = rng.uniform([-2.5, -2, -0.22, -2], [2.5, 2, 0.22, 2], size=(400, 4))
    action = rng.integers(2, size=400)
    step = physics.step_fined_cart_pole if fined else physics.step_paid_cart_pole
    found = step(state, action)
    for one in range(400):
        env.reset(seed=0)
        env.state = tuple(state[one])
        _, reward, terminated, _, _ = env.step(int(action[one]))
        np.testing.assert_allclose(found.state[one], env.state, rtol=0, atol=1e-12)
        assert found.reward[one] == reward
        assert found.terminated[one] == terminated
    assert 0.05 < found.terminated.mean() < 0.95


@pytest.mark.parametrize(
    ("name", "start"),
    [("Pendulum-v1", physics.start_pendulum), ("CartPole-v1", physics.start_cart_pole)],
)
def test_starts_are_spread_as_gymnasium_spreads_them(name, start):
    env, n = gymnasium.make(name).unwrapped, 2_000
    env.reset(seed=3)
    drawn = []
    for _ in range(n):
        env.reset()
        drawn.append(env.state)
    theirs, ours = np.array(drawn), start(np.random.default_rng(4), n)
    width = np.abs(theirs).max(axis=0)
    assert np.all(np.abs(ours) <= width * 1.01)
    for power in (1, 2):
        gap = (theirs**power).mean(axis=0) - (ours**power).mean(axis=0)
        error = np.sqrt(((theirs**power).var(axis=0) + (ours**power).var(axis=0)) / n)
        assert np.all(np.abs(gap) < 4.5 * error)
