"""Sampling of tabular worlds: all episodes of a log together, step by step.

A step is two table look-ups, one for the action and one for its outcome, with uniform numbers that
were drawn beforehand. `simulate` runs the steps in NumPy, so that no world waits for a compiler.
The same steps can be traced: calibration runs vmap them over keys, for a thousand logs at once.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bayesdice_ppl.arrays import library_of, scanned
from bayesdice_ppl.envs.tabular import Outcomes


class Transitions(NamedTuple):
    """Simulated transitions, every field (n_episodes, max_steps).

    Parameters
    ----------
    state, action
        Where each step started and what was done.
    outcome
        Which of the K outcomes of that pair followed.
    reward, next_state, terminated
        That outcome's entries in the table.
    propensity
        Probability of the action under the policy that was played.
    logged
        False for the steps after a termination, whose other entries mean nothing. True
        everywhere in a world that never ends.
    """

    state: Int[Array, "E T"]
    action: Int[Array, "E T"]
    outcome: Int[Array, "E T"]
    reward: Float[Array, "E T"]
    next_state: Int[Array, "E T"]
    terminated: Bool[Array, "E T"]
    propensity: Float[Array, "E T"]
    logged: Bool[Array, "E T"]


@partial(jax.jit, static_argnames=("n_episodes", "max_steps"))
def sample_transitions(
    outcomes: Outcomes,
    initial_distribution: Float[Array, " S"],
    policy_probabilities: Float[Array, "S A"],
    n_episodes: int,
    max_steps: int,
    rng_key: Array,
) -> Transitions:
    """Play a policy for many episodes.

    Parameters
    ----------
    outcomes
        The world's table, fields (S, A, K).
    initial_distribution
        (S,).
    policy_probabilities
        (S, A).
    n_episodes, max_steps
        How many episodes, of how many steps each; static, so a new size compiles anew.
    rng_key
        A JAX key. Logs of different sizes are different draws, also with the same key.

    Returns
    -------
    Transitions
        Fields (n_episodes, max_steps).

    Notes
    -----
    In JAX's default float32 the draws have a resolution of 2^-23, so probabilities are met within
    1.2e-7. Outcomes and actions of probability 0 never occur.
    """
    # All draws at once, so that the steps only look up. Episodes come last: each step, over all of
    # them, then reads contiguous memory.
    start_key, step_key = jax.random.split(rng_key)
    start_draws = jax.random.uniform(start_key, (n_episodes,))
    step_draws = jax.random.uniform(step_key, (max_steps, 2, n_episodes))
    table = jax.tree.map(jnp.asarray, outcomes)
    policy = jnp.asarray(policy_probabilities)
    limits = Limits(*map(_limits, (jnp.asarray(initial_distribution), policy, table.probability)))
    walk = walk_table(table, limits, start_draws, step_draws)
    at = (walk.state, walk.action, walk.outcome)
    return Transitions(
        state=walk.state,
        action=walk.action,
        outcome=walk.outcome,
        reward=table.reward[at],
        next_state=table.next_state[at],
        terminated=table.terminated[at],
        propensity=policy[walk.state, walk.action],
        logged=walk.logged,
    )


class Limits(NamedTuple):
    """Where uniform numbers divide what can follow: cumulative probabilities.

    Parameters
    ----------
    start, action, outcome
        Of the first states (S,), of each state's actions (S, A), of each pair's outcomes (S, A, K).
    """

    start: Float[Any, " S"]
    action: Float[Any, "S A"]
    outcome: Float[Any, "S A K"]


class Walk(NamedTuple):
    """Which entries of the table were visited; fields as in `Transitions`."""

    state: Int[Any, "E T"]
    action: Int[Any, "E T"]
    outcome: Int[Any, "E T"]
    logged: Bool[Any, "E T"]


def walk_table(
    table: Outcomes,
    limits: Limits,
    start_draws: Float[Any, " E"],
    step_draws: Float[Any, "T 2 E"],
) -> Walk:
    """Look up what uniform numbers mean in a table, for NumPy's arrays or JAX's.

    Parameters
    ----------
    table, limits
        The world's table, and its cumulative probabilities with those of the policy.
    start_draws, step_draws
        Uniform numbers for the first states, and for each step's action and outcome.
    """

    def step(
        carry: tuple[Int[Any, " E"], Bool[Any, " E"]], draws: Float[Any, "2 E"]
    ) -> tuple[tuple[Any, Any], tuple[Any, ...]]:
        state, alive = carry
        action = _pick(limits.action[state], draws[0])
        outcome = _pick(limits.outcome[state, action], draws[1])
        next_state = table.next_state[state, action, outcome].astype(state.dtype)
        ended = table.terminated[state, action, outcome]
        return (next_state, alive & ~ended), (state, action, outcome, alive)

    xp = library_of(start_draws, step_draws)
    first = xp.searchsorted(limits.start, start_draws, side="right").astype(np.int32)
    alive = first >= 0
    _, steps = scanned(step, (first, alive), step_draws)
    return Walk(*(xp.moveaxis(field, 0, 1) for field in steps))


def _limits(probability: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
    """As `envs.tabular.thresholds`, in JAX: infinite from the last possible outcome onwards."""
    possible = probability > 0
    possible_later = jnp.sum(possible, axis=-1, keepdims=True) - jnp.cumsum(possible, axis=-1)
    return jnp.where(possible_later == 0, jnp.inf, jnp.cumsum(probability, axis=-1))


def _pick(limits: Float[Any, "E K"], draw: Float[Any, " E"]) -> Int[Any, " E"]:
    return (limits <= draw[:, None]).sum(axis=-1, dtype=np.int32)
