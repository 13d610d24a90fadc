"""Play a simulator: whole logs of a policy, and true values by many long episodes."""

from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import GaussianPolicy
from benchmarks.vectors.physics import Simulator
from benchmarks.vectors.policies import SoftmaxPolicy, act

BATCH = 4_000
"""Copies that are played at once for a true value."""

LEFT_OUT = 1e-6
"""Most discounted weight beyond the horizon of a true value."""


class Value(NamedTuple):
    """A true value by simulation.

    Attributes
    ----------
    value, standard_error
        Reward per step.
    """

    value: float
    standard_error: float


def play_log(
    simulator: Simulator,
    policy: GaussianPolicy | SoftmaxPolicy,
    n_episodes: int,
    n_steps: int,
    rng: np.random.Generator,
    *,
    n_actions: int | None = None,
) -> Logs:
    """Log a policy at work, with next observations and propensities.

    Parameters
    ----------
    simulator
        The world.
    policy
        The logging policy.
    n_episodes, n_steps
        Episodes, and the time limit that cuts those that have not terminated.
    rng
        All that is random.
    n_actions
        Size of the action space; None for actions that are vectors.
    """
    state = simulator.start(rng, n_episodes)
    episode = np.arange(n_episodes)
    parts = []
    for step in range(n_steps):
        obs = simulator.observe(state)
        action, propensity = act(policy, obs, rng)
        state, reward, terminated = simulator.step(state, action)
        following = simulator.observe(state)
        rows = (episode, np.full(len(episode), step), obs, following)
        parts.append((*rows, action, propensity, reward, terminated))
        state, episode = state[~terminated], episode[~terminated]
        if not len(episode):
            break
    episode, steps, obs, following, *rest = (
        np.concatenate(field) for field in zip(*parts, strict=True)
    )
    columns = {"episode_id": episode, "step": steps}
    columns |= {f"obs_{k}": numbers for k, numbers in enumerate(obs.T)}
    columns |= {f"next_obs_{k}": numbers for k, numbers in enumerate(following.T)}
    names = ("action" if n_actions else "action_0", "propensity", "reward", "terminated")
    columns |= dict(zip(names, rest, strict=True))
    frame = pl.DataFrame(columns).sort("episode_id", "step")
    return Logs.from_dataframe(frame, actions=list(range(n_actions)) if n_actions else None)


def horizon(gamma: float) -> int:
    """Steps that leave out at most one millionth of the discounted weight."""
    return int(np.ceil(np.log(LEFT_OUT) / np.log(gamma)))


def play_value(
    simulator: Simulator,
    policy: GaussianPolicy | SoftmaxPolicy,
    gamma: float,
    n: int,
    seed: int,
    *,
    restart: bool,
) -> Value:
    """Mean of (1 - gamma) sum_t gamma^t r_t over episodes without a time limit.

    Parameters
    ----------
    simulator, policy
        The world, and the policy that is judged.
    gamma
        Discount below 1.
    n
        Number of episodes, a multiple of `BATCH`.
    seed
        Of all draws.
    restart
        Whether a fresh start follows a termination, and the sum goes on; else nothing is earned
        after it.
    """
    streams = np.random.SeedSequence(seed).spawn(n // BATCH)
    earned = np.concatenate(
        [
            _earn(simulator, policy, gamma, np.random.default_rng(stream), restart)
            for stream in streams
        ]
    )
    return Value(float(earned.mean()), float(earned.std(ddof=1) / np.sqrt(len(earned))))


def _earn(
    simulator: Simulator,
    policy: GaussianPolicy | SoftmaxPolicy,
    gamma: float,
    rng: np.random.Generator,
    restart: bool,
) -> Float[np.ndarray, " n"]:
    """What each of `BATCH` copies earns."""
    state = simulator.start(rng, BATCH)
    copy, earned, weight = np.arange(BATCH), np.zeros(BATCH), 1.0 - gamma
    for _ in range(horizon(gamma)):
        action, _ = act(policy, simulator.observe(state), rng)
        state, reward, terminated = simulator.step(state, action)
        earned[copy] += weight * reward
        weight *= gamma
        if not terminated.any():
            continue
        if restart:
            state[terminated] = simulator.start(rng, int(terminated.sum()))
        else:
            state, copy = state[~terminated], copy[~terminated]
    return earned
