"""Logs of a policy at work in a world.

Tabular worlds are sampled from their table (see `sampling`). Rewards, next states and propensities
are read from it in float64, so that the logs hold its exact numbers.
Other worlds are played in many copies at once (see `vectorized`).
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from bayesdice_ppl.checks import whole
from bayesdice_ppl.envs.tabular import TabularEnv, find_tabular, thresholds
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.keys import check_key, split_key, uniform_numbers
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.simulation.sampling import Limits, walk_table
from bayesdice_ppl.simulation.tables import policy_table
from bayesdice_ppl.simulation.vectorized import PlayedEpisodes, play

SPACES = ("observation_space", "action_space")
STEP_BYTES, MOST_BYTES = 160, 16 * 2**30
"""Memory that a tabular step takes while its log is made, and the most that is asked for."""


def simulate(env: Any, policy: Any, n_episodes: int, max_steps: int, *, rng_key: jax.Array) -> Logs:
    """Play a policy in a world and log it, propensities included.

    Parameters
    ----------
    env
        A world, as made by `gymnasium.make` or bare: a tabular one, or any Gymnasium environment
        whose observations and actions are integers or vectors. It is itself left as it is.
    policy
        A policy for its states and actions: in a tabular world a tabular one, or its
        probabilities (S, A); elsewhere one with ``probs`` for actions that are integers, and with
        ``sample`` and ``log_prob`` for vectors.
    n_episodes
        Number of episodes, at least 1.
    max_steps
        Steps in each, at least 1, in place of any time limit that `gymnasium.make` has set. The
        last one is marked truncated: the world goes on after it. In a world that terminates, an
        episode may be shorter and then ends in a termination.
    rng_key
        A JAX key, such as `jax.random.key(1)`. The same key gives the same logs.

    Returns
    -------
    Logs
        One row per step, with successors and propensities (for actions that are vectors, their
        densities). Tabular states and actions are the world's integers.

    Raises
    ------
    EnvironmentSpecError
        If the world can neither be read as a table nor played.
    PoliciesError
        If the policy does not fit the world.
    SettingsError
        If a number is below 1, there is one step in all, or `rng_key` is not one JAX key.
    """
    n_episodes, max_steps = whole("n_episodes", n_episodes), whole("max_steps", max_steps)
    if n_episodes * max_steps < 2:
        raise SettingsError("n_episodes, max_steps: expected two steps in all or more, found one.")
    check_key(rng_key)
    world = find_tabular(env)
    # Bytes that a step takes while the log is made.
    vector = 0 if world is not None else sum(_width(env, name) for name in SPACES)
    needed = n_episodes * max_steps * (STEP_BYTES + 24 * vector)
    if needed > MOST_BYTES:
        raise SettingsError(
            f"n_episodes, max_steps: expected a log of at most {MOST_BYTES >> 30} GiB of memory, "
            f"found {n_episodes:,} x {max_steps:,} steps of about {needed / 2**30:,.0f} GiB."
        )
    if world is not None:
        return _sampled(world, policy, n_episodes, max_steps, rng_key)
    return _logged(list(play(env, policy, n_episodes, max_steps, rng_key)), env)


def _width(env: Any, name: str) -> int:
    return int(np.prod(getattr(getattr(env, name, None), "shape", None) or (1,)))


def _sampled(
    world: TabularEnv, policy: Any, n_episodes: int, max_steps: int, rng_key: jax.Array
) -> Logs:
    outcomes = world.outcomes
    probabilities = policy_table(world, policy)
    start_key, step_key = split_key(rng_key)
    shares = (world.initial_distribution, probabilities, outcomes.probability)
    played = walk_table(
        outcomes,
        Limits(*map(thresholds, shares)),
        uniform_numbers(start_key, (n_episodes,)),
        uniform_numbers(step_key, (max_steps, 2, n_episodes)),
    )
    logged = played.logged
    lengths = logged.sum(axis=1)
    state, action, outcome = (
        field[logged].astype(np.int64) for field in (played.state, played.action, played.outcome)
    )
    # Flat look-ups: several times as fast as three indices at once.
    n_states, n_actions, n_outcomes = outcomes.probability.shape
    pair = state * n_actions + action
    at = pair * n_outcomes + outcome
    next_state = outcomes.next_state.ravel()[at]
    terminated = outcomes.terminated.ravel()[at]
    seen_states = _seen(n_states, state, next_state)
    seen_actions = _seen(n_actions, action)
    return Logs(
        **_places(lengths, terminated),
        state=_codes(seen_states)[state],
        action=_codes(seen_actions)[action],
        reward=outcomes.reward.ravel()[at],
        next_state=_codes(seen_states)[next_state],
        propensity=probabilities.ravel()[pair],
        state_labels=np.flatnonzero(seen_states),
        action_labels=np.flatnonzero(seen_actions),
        declared_actions=np.arange(n_actions),
    )


def _places(lengths: np.ndarray, terminated: np.ndarray) -> dict[str, Any]:
    """Where each row stands, for episodes of these lengths, and which of them end there."""
    n_episodes, n_rows = len(lengths), int(lengths.sum())
    ends = np.cumsum(lengths)
    last = np.zeros(n_rows, dtype=bool)
    last[ends - 1] = True
    return {
        "episode": np.repeat(np.arange(n_episodes), lengths),
        "step": np.arange(n_rows) - np.repeat(ends - lengths, lengths),
        "terminated": terminated,
        "truncated": last & ~terminated,
        "episode_labels": np.arange(n_episodes),
        "row": np.arange(1, n_rows + 1),
    }


def _seen(n_labels: int, *codes: np.ndarray) -> np.ndarray:
    seen = np.zeros(n_labels, dtype=bool)
    for some in codes:
        seen[some] = True
    return seen


def _codes(seen: np.ndarray) -> np.ndarray:
    """Place of each label among those that were seen."""
    return np.cumsum(seen) - 1


def _logged(batches: list[PlayedEpisodes], env: Any) -> Logs:
    lengths = np.concatenate([batch.logged.sum(axis=1) for batch in batches])
    fields = {
        name: np.concatenate([getattr(batch, name)[batch.logged] for batch in batches])
        for name in ("action", "reward", "terminated", "propensity")
    }
    before = np.concatenate([batch.observation[:, :-1][batch.logged] for batch in batches])
    # The last observation of each episode comes after all rows; elsewhere the next row is next.
    after = np.concatenate(
        [
            batch.observation[np.arange(len(batch.logged)), batch.logged.sum(axis=1)]
            for batch in batches
        ]
    )
    n_rows = len(before)
    ends = np.cumsum(lengths) - 1
    successor = np.arange(1, n_rows + 1)
    successor[ends] = n_rows + np.arange(len(lengths))
    states = np.concatenate([before, after])
    actions = fields["action"]
    state_labels, state = _labels(states)
    action_labels, action = _labels(actions)
    discrete = actions.ndim == 1
    return Logs(
        **_places(lengths, fields["terminated"].astype(bool)),
        state=state[:n_rows],
        action=action,
        reward=fields["reward"].astype(np.float64),
        next_state=state[successor],
        propensity=fields["propensity"],
        state_labels=state_labels,
        action_labels=action_labels,
        declared_actions=np.arange(env.action_space.n) if discrete else None,
    )


def _labels(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels and codes: integers by their kind, vectors each with a code of its own."""
    if values.ndim == 1:
        labels, codes = np.unique(values.astype(np.int64), return_inverse=True)
        return labels, codes.ravel()
    return values.astype(np.float64), np.arange(len(values))
