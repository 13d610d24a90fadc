"""Logs of a policy at work in a tabular world.

The world is sampled in JAX (see `sampling`); rewards, successors and propensities are then looked
up in float64, so that the logs hold the table's own numbers and not their float32 images.
"""

from typing import Any

import jax
import numpy as np
import polars as pl

from bayesdice_ppl.envs.tabular import as_tabular
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.simulation.sampling import sample_transitions
from bayesdice_ppl.simulation.tables import policy_table


def simulate(env: Any, policy: Any, n_episodes: int, max_steps: int, *, rng_key: jax.Array) -> Logs:
    """Play a policy in a world and log it, propensities included.

    Parameters
    ----------
    env
        A tabular world, as made by `gymnasium.make` or bare.
    policy
        A tabular policy for its states and actions, or its probabilities (S, A).
    n_episodes
        Number of episodes, at least 1.
    max_steps
        Steps in each, at least 1. The last one is marked truncated: the world goes on after it.
        In a world that terminates, an episode may be shorter and then ends in a termination.
    rng_key
        A JAX key, such as `jax.random.key(1)`. The same key gives the same logs.

    Returns
    -------
    Logs
        One row per step, with successor states and propensities; states and actions are the
        world's integers.

    Raises
    ------
    EnvironmentSpecError
        If the world is not tabular.
    PoliciesError
        If the policy does not fit the world.
    SettingsError
        If a number is below 1 or `rng_key` is not one JAX key.
    """
    world = as_tabular(env)
    outcomes = world.outcomes
    probabilities = policy_table(world, policy)
    for name, number in (("n_episodes", n_episodes), ("max_steps", max_steps)):
        if not isinstance(number, int | np.integer) or number < 1:
            raise SettingsError(f"{name}: expected an integer of at least 1, got {number!r}")
    _check_key(rng_key)

    played = sample_transitions(
        outcomes,
        world.initial_distribution,
        probabilities,
        int(n_episodes),
        int(max_steps),
        rng_key,
    )
    logged = np.asarray(played.logged)
    episode, step = np.nonzero(logged)
    state, action, outcome = (
        np.asarray(field)[logged].astype(np.int64)
        for field in (played.state, played.action, played.outcome)
    )
    at = (state, action, outcome)
    terminated = outcomes.terminated[at]
    frame = pl.DataFrame(
        {
            "episode_id": episode,
            "step": step,
            "state": state,
            "action": action,
            "reward": outcomes.reward[at],
            "next_state": outcomes.next_state[at],
            "terminated": terminated,
            "truncated": (step == max_steps - 1) & ~terminated,
            "propensity": probabilities[state, action],
        }
    )
    return Logs.from_dataframe(frame, actions=range(outcomes.probability.shape[1]))


def _check_key(rng_key: Any) -> None:
    if isinstance(rng_key, jax.Array):
        typed = jax.dtypes.issubdtype(rng_key.dtype, jax.dtypes.prng_key) and rng_key.ndim == 0
        raw = rng_key.dtype == np.uint32 and rng_key.ndim == 1
        if typed or raw:
            return
    raise SettingsError(
        f"rng_key: expected one JAX key, such as jax.random.key(1), got {rng_key!r}"
    )
