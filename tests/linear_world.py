"""A linear world with Gaussian noise, in which the value of a linear policy is a sum of moments."""

import numpy as np
import polars as pl

import bayesdice_ppl as bd

GAMMA = 0.8
DECAY, PUSH, NOISE = 0.7, 0.5, 0.3


def chain_log(seed, *, n_episodes, n_steps):
    """s' = 0.7 s + 0.5 a + 0.3 noise under a = 0.2 s + noise, reward -(s^2) + 0.3 a + noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(n_episodes):
        s = rng.normal()
        for step in range(n_steps):
            a = 0.2 * s + rng.normal()
            following = DECAY * s + PUSH * a + NOISE * rng.normal()
            reward = -(s**2) + 0.3 * a + 0.2 * rng.normal()
            rows.append((episode, step, s, a, reward, following))
            s = following
    names = ["episode_id", "step", "obs_0", "action_0", "reward", "next_obs_0"]
    return bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"))


def chain_value(gain, shift, sd, gamma):
    """(1 - gamma) sum gamma^t E r_t of a = gain s + shift + sd noise, by moments of s_t.

    At gamma = 1 the reward that is left after 2,000 steps, when the moments have settled.
    """
    mean, second, total = 0.0, 1.0, 0.0
    slope = DECAY + PUSH * gain
    for t in range(2000):
        total += (1 - gamma) * gamma**t * (-second + 0.3 * (gain * mean + shift))
        variance = PUSH**2 * sd**2 + NOISE**2
        mean, second = (
            slope * mean + PUSH * shift,
            slope**2 * second + 2 * slope * PUSH * shift * mean + (PUSH * shift) ** 2 + variance,
        )
    return total if gamma < 1.0 else -second + 0.3 * (gain * mean + shift)


TARGETS = {"damping": (-0.4, 0.0, 0.8), "pushing": (0.0, 0.3, 1.0), "calm": (0.1, -0.1, 0.7)}


def gaussian(gain, shift, sd):
    return bd.GaussianPolicy(lambda obs: gain * np.asarray(obs)[:, :1] + shift, sd)


class Drawn:
    """A policy that only draws: it does not say that its actions are normal."""

    def __init__(self, policy):
        self.sample, self.log_prob, self.mirror = policy.sample, policy.log_prob, policy.mirror


POLICIES = {name: gaussian(*numbers) for name, numbers in TARGETS.items()}
TRUTH = np.array([chain_value(*numbers, GAMMA) for numbers in TARGETS.values()])
