"""Values of policies in worlds that have no table, by playing them.

The value is an average over independent episodes, with its standard error.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from bayesdice_ppl.checks import discount, whole
from bayesdice_ppl.errors import EnvironmentSpecError, SettingsError
from bayesdice_ppl.keys import check_key
from bayesdice_ppl.simulation.true_values import TrueValue
from bayesdice_ppl.simulation.vectorized import PlayedEpisodes, play

LEFT_OUT = 1e-4
"""Share of the discounted steps beyond the horizon, when none is given."""
LONGEST = 100_000
"""Most steps of an episode by default."""
AVERAGE_HORIZON = 1_000
"""Steps of an episode at gamma = 1, when none are given; the first half is not counted."""


def simulated_value(
    env: Any,
    policy: Any,
    gamma: float,
    *,
    n_episodes: int,
    rng_key: jax.Array,
    horizon: int | None = None,
) -> TrueValue:
    """Estimate the normalized value of a policy by playing it.

    Parameters
    ----------
    env
        Any Gymnasium environment with discrete or vector observations and actions.
    policy
        A policy for its actions.
    gamma
        Discount in [0, 1].
    n_episodes
        Independent episodes, at least 2.
    rng_key
        A JAX key.
    horizon
        Steps of each. By default as many as leave out one discounted step in 10,000; those left
        out are taken to be like the others. At gamma = 1, 1,000 steps, of which the first half is
        not counted, so that the start does not matter.

    Returns
    -------
    TrueValue
        In reward per step, with its standard error.

    Raises
    ------
    EnvironmentSpecError
        The world cannot be played, or at gamma = 1 it terminates.
    PoliciesError
        The policy does not fit the world.
    SettingsError
        A number is out of its range, or `rng_key` is not one JAX key.
    """
    discount(gamma)
    check_key(rng_key)
    n_episodes = whole("n_episodes", n_episodes, 2)
    if horizon is None:
        horizon = _default_horizon(gamma)
        if horizon > LONGEST:
            raise SettingsError(
                f"gamma: {gamma} needs episodes of {horizon:,} steps. Pass a horizon, or use "
                "gamma = 1, the average reward, which is close to it."
            )
    horizon = whole("horizon", horizon)
    batches = play(env, policy, n_episodes, horizon, rng_key)
    earned = np.concatenate([_earned(batch, gamma, horizon) for batch in batches])
    error = earned.std(ddof=1) / math.sqrt(len(earned))
    return TrueValue(float(earned.mean()), error, 0.0 if gamma == 1 else gamma**horizon)


def _default_horizon(gamma: float) -> int:
    if gamma == 1:
        return AVERAGE_HORIZON
    return 1 if gamma == 0 else max(1, math.ceil(math.log(LEFT_OUT) / math.log(gamma)))


def _earned(episodes: PlayedEpisodes, gamma: float, horizon: int) -> Float[np.ndarray, " E"]:
    # A step may be both; then it is a termination.
    cut = episodes.truncated & ~episodes.terminated & episodes.logged
    if np.any(cut[:, : horizon - 1]):
        step = int(np.flatnonzero(cut.any(axis=0))[0]) + 1
        raise EnvironmentSpecError(
            f"env: the world itself cuts an episode after {step} steps, so that what follows is "
            "unknown. Pass a horizon that is no longer, or the world without its limit (such as "
            "its `unwrapped`)."
        )
    return _averages(episodes, horizon) if gamma == 1 else _discounted(episodes, gamma, horizon)


def _discounted(episodes: PlayedEpisodes, gamma: float, horizon: int) -> Float[np.ndarray, " E"]:
    """(1 - gamma) sum_t gamma^t r_t of each episode."""
    n_steps = episodes.reward.shape[1]
    weight = (1.0 - gamma) * gamma ** np.arange(n_steps)
    earned = np.where(episodes.logged, episodes.reward, 0.0) @ weight
    # Nothing is earned after a termination; elsewhere there are steps beyond the horizon.
    ended = np.any(episodes.terminated & episodes.logged, axis=1)
    return np.where(ended, earned, earned / (1.0 - gamma**horizon))


def _averages(episodes: PlayedEpisodes, horizon: int) -> Float[np.ndarray, " E"]:
    """Mean reward of the second half of each episode."""
    if np.any(episodes.terminated & episodes.logged):
        raise EnvironmentSpecError(
            "gamma = 1: this world terminates, so that it has no average reward. Wrap it in "
            "bayesdice_ppl.envs.Restart, or use gamma < 1."
        )
    return episodes.reward[:, horizon // 2 :].mean(axis=1)
