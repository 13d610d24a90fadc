"""Sampling of tabular worlds in JAX: whole logs in one compiled call.

A step is two table look-ups, one for the action and one for its outcome, so an episode is a scan
over uniform draws made beforehand and a log is that scan vmapped over episodes. The function is
pure: calibration runs vmap it once more, over keys, to get a thousand logs at once.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

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
    start_limits = _limits(jnp.asarray(initial_distribution))
    action_limits = _limits(jnp.asarray(policy_probabilities))
    outcome_limits = _limits(jnp.asarray(outcomes.probability))
    table = jax.tree.map(jnp.asarray, outcomes)

    def step(
        carry: tuple[Int[Array, ""], Bool[Array, ""]], draws: Float[Array, " 2"]
    ) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
        state, alive = carry
        action = _pick(action_limits[state], draws[0])
        outcome = _pick(outcome_limits[state, action], draws[1])
        next_state = table.next_state[state, action, outcome].astype(state.dtype)
        ended = table.terminated[state, action, outcome]
        return (next_state, alive & ~ended), (state, action, outcome, alive)

    def episode(start_draw: Float[Array, ""], step_draws: Float[Array, "T 2"]) -> tuple[Array, ...]:
        first = _pick(start_limits, start_draw)
        _, steps = jax.lax.scan(step, (first, jnp.asarray(True)), step_draws)
        return steps

    # All draws at once, so that the scan only looks up. Episodes come last: each
    # step of the scan, batched over them, then reads contiguous memory.
    start_key, step_key = jax.random.split(rng_key)
    start_draws = jax.random.uniform(start_key, (n_episodes,))
    step_draws = jax.random.uniform(step_key, (max_steps, 2, n_episodes))
    state, action, outcome, logged = jax.vmap(episode, in_axes=(0, 2))(start_draws, step_draws)
    at = (state, action, outcome)
    return Transitions(
        state=state,
        action=action,
        outcome=outcome,
        reward=table.reward[at],
        next_state=table.next_state[at],
        terminated=table.terminated[at],
        propensity=jnp.asarray(policy_probabilities)[state, action],
        logged=logged,
    )


def _limits(probability: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
    """As `envs.tabular.thresholds`, in JAX: infinite from the last possible outcome onwards."""
    possible = probability > 0
    possible_later = jnp.sum(possible, axis=-1, keepdims=True) - jnp.cumsum(possible, axis=-1)
    return jnp.where(possible_later == 0, jnp.inf, jnp.cumsum(probability, axis=-1))


def _pick(limits: Float[Array, " K"], draw: Float[Array, ""]) -> Int[Array, ""]:
    return jnp.sum(limits <= draw, dtype=jnp.int32)
