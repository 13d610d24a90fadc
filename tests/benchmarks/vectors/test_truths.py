"""True values against plain rollouts through Gymnasium, and through loops."""

import gymnasium
import numpy as np
import pytest

from benchmarks.vectors.bandit import directions
from benchmarks.vectors.truths import known_truths
from benchmarks.vectors.worlds import WORLDS, make_world

GAMMA, STEPS = 0.99, 600


def rollouts(env, choose, n, *, restart):
    """(1 - gamma) sum gamma^t r_t of n copies, played by Gymnasium side by side."""
    options = {"sutton_barto_reward": True} if restart else {}
    copies = [gymnasium.make(env, **options).unwrapped for _ in range(n)]
    obs = np.array([copy.reset(seed=one)[0] for one, copy in enumerate(copies)], dtype=float)
    earned, alive = np.zeros(n), np.ones(n, dtype=bool)
    for step in range(STEPS):
        action = choose(obs)
        for one in np.flatnonzero(alive):
            seen, reward, terminated, _, _ = copies[one].step(action[one])
            earned[one] += (1 - GAMMA) * GAMMA**step * float(reward)
            if terminated and restart:
                seen, _ = copies[one].reset()
            alive[one] = restart or not terminated
            obs[one] = seen
    return earned


@pytest.mark.parametrize(("name", "candidate"), [("pendulum", "good"), ("pendulum_swing", "weak")])
def test_pendulum_against_gymnasium(name, candidate):
    policy, rng = make_world(name).policies[candidate], np.random.default_rng(11)

    def choose(obs):
        return policy.mean(obs) + float(policy.sd) * rng.normal(size=(len(obs), 1))

    earned = rollouts("Pendulum-v1", choose, 30, restart=False)
    error = earned.std(ddof=1) / np.sqrt(30)
    left_out = 16.3 * GAMMA**STEPS
    truth = known_truths(name)[candidate].value
    assert truth - 4.5 * error < earned.mean() < truth + 4.5 * error + left_out


@pytest.mark.parametrize(
    ("name", "candidate"), [("cartpole_restart", "drifting"), ("cartpole_absorb", "medium")]
)
def test_cart_pole_against_gymnasium(name, candidate):
    policy, rng = make_world(name).policies[candidate], np.random.default_rng(12)

    def choose(obs):
        return (rng.random(len(obs)) < policy.probs(obs)[:, 1]).astype(int)

    earned = rollouts("CartPole-v1", choose, 80, restart=name == "cartpole_restart")
    error = earned.std(ddof=1) / np.sqrt(80)
    assert abs(earned.mean() - known_truths(name)[candidate].value) < 4.5 * error + GAMMA**STEPS


@pytest.mark.parametrize("candidate", ["good", "far"])
def test_the_bandit_against_a_loop(candidate):
    rng, policy = np.random.default_rng(13), make_world("bandit_500").policies[candidate]
    wave, slope, _ = directions()
    earned = []
    for _ in range(3_000):
        x = rng.normal(size=10)
        a = rng.choice(5, p=policy.probs(x[None])[0])
        earned.append(np.sin(wave[a] @ x) + np.tanh(slope[a] @ x) + 0.3 * x[a] * x[5 + a])
    error = np.std(earned) / np.sqrt(len(earned))
    for name in ("bandit_500", "bandit_5000"):
        assert abs(np.mean(earned) - known_truths(name)[candidate].value) < 4.5 * error


@pytest.mark.parametrize("name", WORLDS)
def test_every_candidate_has_a_truth_that_is_sure_enough(name):
    most = {
        "pendulum": 0.011,
        "pendulum_swing": 0.011,
        "cartpole_restart": 1e-4,
        "cartpole_absorb": 1e-3,
    }.get(name, 1e-3)
    truths = known_truths(name)
    assert list(truths) == list(make_world(name).policies)
    assert all(0.0 < found.standard_error < most for found in truths.values())
