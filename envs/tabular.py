"""A tabular world is a table of outcomes: what can follow each state and action, how probably.

Everything exact (transition matrices, mean rewards, true values, fast sampling) derives from that
one table, so that a world and its true values always agree. The table holds outcomes and not mean
rewards, because rewards may be random and may depend on the next state.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, TimeLimit
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.errors import EnvironmentSpecError

# Wrappers that leave the Markov decision process as it is, so that its table may be read through
# them. Any other (a reward transform, say) would make the table describe another world.
TRANSPARENT_WRAPPERS = (OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, TimeLimit)


class Outcomes(NamedTuple):
    """The model as a table: up to K outcomes of each of S states and A actions.

    Unused columns have probability 0 and may say anything valid. A pytree, so it passes through
    JAX transformations as it is.

    Parameters
    ----------
    probability
        (S, A, K): probability of each outcome; sums to 1 over the last axis.
    next_state
        (S, A, K): the state it leads to.
    reward
        (S, A, K): the reward it pays.
    terminated
        (S, A, K): whether the episode ends with it.
    """

    probability: Float[np.ndarray, "S A K"]
    next_state: Int[np.ndarray, "S A K"]
    reward: Float[np.ndarray, "S A K"]
    terminated: Bool[np.ndarray, "S A K"]


@runtime_checkable
class TabularEnv(Protocol):
    """What a world must offer for its truth to be computed exactly.

    States and actions are the integers 0..S-1 and 0..A-1.
    """

    @property
    def outcomes(self) -> Outcomes:
        """The outcomes of every state and action, each field (S, A, K)."""
        ...

    @property
    def initial_distribution(self) -> Float[np.ndarray, " S"]:
        """Distribution of the first state of an episode, (S,)."""
        ...

    @property
    def transition_matrix(self) -> Float[np.ndarray, "S A S"]:
        """Probability of going on to each state, (S, A, S)."""
        ...

    @property
    def reward_matrix(self) -> Float[np.ndarray, "S A"]:
        """Mean reward of each state and action, (S, A)."""
        ...


def transition_matrix(outcomes: Outcomes) -> Float[np.ndarray, "S A S"]:
    """Probability of going on to each next state.

    Parameters
    ----------
    outcomes
        The table, fields (S, A, K).

    Returns
    -------
    numpy.ndarray
        (S, A, S). Outcomes that terminate go nowhere: a row sums to 1 minus the probability of
        termination, so to 1 everywhere in a world that never ends.
    """
    n_states, n_actions, n_outcomes = outcomes.probability.shape
    going_on = np.where(outcomes.terminated, 0.0, outcomes.probability)
    pair = np.repeat(np.arange(n_states * n_actions), n_outcomes)
    flat = np.bincount(
        pair * n_states + outcomes.next_state.ravel(),
        weights=going_on.ravel(),
        minlength=n_states * n_actions * n_states,
    )
    return flat.reshape(n_states, n_actions, n_states)


def reward_matrix(outcomes: Outcomes) -> Float[np.ndarray, "S A"]:
    """Mean reward of each state and action, (S, A), from the table with fields (S, A, K)."""
    return np.sum(outcomes.probability * outcomes.reward, axis=-1)


def thresholds(probability: Float[np.ndarray, "*batch K"]) -> Float[np.ndarray, "*batch K"]:
    """Cumulative probabilities that a uniform draw is compared with to pick an outcome.

    The pick is the number of thresholds that are <= the draw. From the last outcome that can
    happen onwards they are infinite, so that rounding never picks an impossible one.

    Parameters
    ----------
    probability
        (..., K), nonnegative, summing to 1 over the last axis.

    Returns
    -------
    numpy.ndarray
        (..., K), nondecreasing.
    """
    # Counted from flags and not from sums of floats, which are 1 only up to rounding.
    possible = probability > 0
    possible_later = np.sum(possible, axis=-1, keepdims=True) - np.cumsum(possible, axis=-1)
    return np.where(possible_later == 0, np.inf, np.cumsum(probability, axis=-1))


def compact(outcomes: Outcomes) -> Outcomes:
    """Write the same model with as few columns as possible.

    Equal outcomes of a pair are merged and impossible ones dropped, since each column costs time
    in every simulated step.

    Parameters
    ----------
    outcomes
        Fields (S, A, K).

    Returns
    -------
    Outcomes
        Fields (S, A, K') with K' <= K, sorted by next state, then reward, then termination.
    """
    n_states, n_actions, n_outcomes = outcomes.probability.shape
    pair = np.repeat(np.arange(n_states * n_actions), n_outcomes)
    probability, next_state, reward, terminated = (np.asarray(field).ravel() for field in outcomes)
    return outcomes_of_rows(
        pair, probability, next_state, reward, terminated, (n_states, n_actions)
    )


def outcomes_of_rows(
    pair: Int[np.ndarray, " n"],
    probability: Float[np.ndarray, " n"],
    next_state: Int[np.ndarray, " n"],
    reward: Float[np.ndarray, " n"],
    terminated: Bool[np.ndarray, " n"],
    shape: tuple[int, int],
) -> Outcomes:
    """Make the most compact table from one row an outcome, in any order.

    Parameters
    ----------
    pair
        State times the number of actions plus action, (n,).
    probability, next_state, reward, terminated
        What can follow, (n,). The probabilities of equal rows are added up, and those of each
        pair must sum to 1.
    shape
        Numbers of states and of actions.

    Returns
    -------
    Outcomes
        Fields (S, A, K), K the most outcomes of any pair, sorted by next state, then reward, then
        termination.
    """
    possible = np.flatnonzero(probability > 0)
    fields = [field[possible] for field in (pair, next_state, reward, terminated)]
    order = np.lexsort(fields[::-1])
    fields = [field[order] for field in fields]
    changed = np.any([field[1:] != field[:-1] for field in fields], axis=0)
    group = np.concatenate([[0], np.cumsum(changed)])
    first = np.concatenate([[0], np.flatnonzero(changed) + 1])
    of_pair = fields[0][first]
    column = np.arange(first.size) - np.searchsorted(of_pair, of_pair)
    table = (shape[0] * shape[1], int(column.max()) + 1)
    filled = np.zeros(table)
    filled[of_pair, column] = np.bincount(group, probability[possible][order])
    merged = [np.zeros(table, dtype=field.dtype) for field in fields[1:]]
    for target, field in zip(merged, fields[1:], strict=True):
        target[of_pair, column] = field[first]
    return Outcomes(*(field.reshape(*shape, -1) for field in (filled, *merged)))


def check_table(outcomes: Outcomes, initial_distribution: Float[np.ndarray, " S"]) -> None:
    """Refuse a table that is not a model.

    Parameters
    ----------
    outcomes
        The table, fields (S, A, K).
    initial_distribution
        (S,).

    Raises
    ------
    EnvironmentSpecError
        If shapes disagree, if probabilities are negative or do not sum to 1 within 1e-9, if a
        reward is not finite, or if a next state is not one of the S states.
    """
    shape = outcomes.probability.shape
    if len(shape) != 3 or any(field.shape != shape for field in outcomes):
        shapes = {name: field.shape for name, field in outcomes._asdict().items()}
        raise EnvironmentSpecError(
            f"outcomes: expected one shape (states, actions, outcomes) in all, found {shapes}."
        )
    n_states = shape[0]
    if initial_distribution.shape != (n_states,):
        raise EnvironmentSpecError(
            f"initial_distribution: expected shape ({n_states},), one entry a state, "
            f"found {initial_distribution.shape}."
        )
    for name, rows in (
        ("outcomes.probability", outcomes.probability),
        ("initial_distribution", initial_distribution),
    ):
        if not np.all(rows >= 0) or not np.allclose(rows.sum(axis=-1), 1.0, rtol=0, atol=1e-9):
            raise EnvironmentSpecError(
                f"{name}: expected nonnegative numbers that sum to 1 over the last axis."
            )
    if not np.all(np.isfinite(outcomes.reward)):
        raise EnvironmentSpecError("outcomes.reward: expected finite numbers.")
    if np.any((outcomes.next_state < 0) | (outcomes.next_state >= n_states)):
        raise EnvironmentSpecError(f"outcomes.next_state: expected states 0 to {n_states - 1}.")


def outcomes_of_toy_text(
    table: Mapping[int, Mapping[int, Sequence[tuple[float, int, float, bool]]]],
) -> Outcomes:
    """Read the table `P` that Gymnasium's own toy games carry.

    Parameters
    ----------
    table
        `table[state][action]` lists tuples (probability, next state, reward, terminated).

    Returns
    -------
    Outcomes
        Fields (S, A, K), K the longest list.
    """
    n_states, n_actions = len(table), len(table[0])
    width = max(len(rows) for actions in table.values() for rows in actions.values())
    shape = (n_states, n_actions, width)
    probability, reward = np.zeros(shape), np.zeros(shape)
    next_state, terminated = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=bool)
    for state, actions in table.items():
        for action, rows in actions.items():
            for k, row in enumerate(rows):
                at = (state, action, k)
                probability[at], next_state[at], reward[at], terminated[at] = row
    return Outcomes(probability, next_state, reward, terminated)


def through_transparent(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return the first layer of `env` that changes the Markov decision process, or its core."""
    layer = env
    while isinstance(layer, TRANSPARENT_WRAPPERS):
        layer = layer.env
    return layer


def as_tabular(env: object) -> TabularEnv:
    """Find the tabular world inside an environment, as `gymnasium.make` returns it or bare.

    Parameters
    ----------
    env
        A tabular world, or a Gymnasium environment around one.

    Returns
    -------
    TabularEnv
        The world itself.

    Raises
    ------
    EnvironmentSpecError
        If `env` has no table of outcomes, or a wrapper around it may change the world.
    """
    layer = through_transparent(env) if isinstance(env, gymnasium.Env) else env
    if isinstance(layer, TabularEnv):
        return layer
    raise EnvironmentSpecError(
        f"{env}: not a tabular world. Expected one with `outcomes` and `initial_distribution` "
        f"(such as those of bayesdice_ppl.envs); {type(layer).__name__} has none. Gymnasium's "
        "toy-text games become one when wrapped in bayesdice_ppl.envs.Restart."
    )


def find_tabular(env: object) -> TabularEnv | None:
    """Return the tabular world inside an environment, or None if there is none to be read."""
    try:
        world = as_tabular(env)
        # A wrapper may offer a table that it turns out not to have.
        _ = world.outcomes
    except EnvironmentSpecError:
        return None
    return world
