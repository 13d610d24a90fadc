"""Worlds in one shape: every cell that a log can hold, and logs counted into them.

A log of a tabular world is a vector of counts over the transitions that are possible in it, which
gives every trial the same shape; padded, logs of different worlds have one shape too.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesdice_ppl.envs import Outcomes
from bayesdice_ppl.moments import Cells
from bayesdice_ppl.policies import TabularPolicy
from bayesdice_ppl.simulation import Transitions


class Setting(NamedTuple):
    """One cell of the table.

    Attributes
    ----------
    name
        Name of the cell.
    env
        A tabular world.
    behavior, target
        The policy that writes the logs, and the one that is judged.
    n_episodes, max_steps
        Size of a log.
    gamma
        Discount.
    on_termination
        How a termination is read, ``"restart"`` or ``"absorb"``.
    """

    name: str
    env: Any
    behavior: TabularPolicy
    target: TabularPolicy
    n_episodes: int
    max_steps: int
    gamma: float
    on_termination: str = "restart"


class Layout(NamedTuple):
    """Every cell that a log of a world can hold, so that all trials have one shape.

    Attributes
    ----------
    pair, successor, terminated
        Of each cell, shape (C,); the successor is 0 where the cell's transitions end an episode.
    pair_state, pair_action
        Of each pair, shape (P,).
    of_outcome
        The cell of each entry of the world's table, shape (S, A, K).
    initial_state
        Possible first states, shape (E,).
    """

    pair: Int[Any, " C"]
    successor: Int[Any, " C"]
    terminated: Float[Any, " C"]
    pair_state: Int[Any, " P"]
    pair_action: Int[Any, " P"]
    of_outcome: Int[Any, "S A K"]
    initial_state: Int[Any, " E"]


class World(NamedTuple):
    """A setting's numbers, which differ from world to world.

    Attributes
    ----------
    outcomes, initial_distribution
        The world's table, fields (S, A, K), and where episodes start, shape (S,).
    behavior, target
        The policies, shape (S, A).
    layout
        The cells of its logs.
    """

    outcomes: Outcomes
    initial_distribution: Float[Any, " S"]
    behavior: Float[Any, "S A"]
    target: Float[Any, "S A"]
    layout: Layout


def lay_out(setting: Setting) -> Layout:
    """Find every cell that the behavior policy can log.

    Transitions that end an episode are apart from those that do not, and their successor is not
    read, as in `bayesdice_ppl.moments.count_cells`; at gamma = 0 none of them counts as ending.
    """
    outcomes: Outcomes = setting.env.outcomes
    possible = (outcomes.probability > 0) & (setting.behavior.probabilities > 0)[:, :, None]
    state, action, _ = np.nonzero(possible)
    ended = outcomes.terminated[possible] & (setting.gamma > 0.0)
    successor = np.where(ended, 0, outcomes.next_state[possible])
    keys, cell = np.unique(
        np.stack([state, action, successor, ended], axis=1), axis=0, return_inverse=True
    )
    pairs, pair = np.unique(keys[:, :2], axis=0, return_inverse=True)
    of_outcome = np.zeros(possible.shape, dtype=np.int64)
    of_outcome[possible] = cell.ravel()
    starts = np.flatnonzero(setting.env.initial_distribution > 0)
    return Layout(
        pair=pair.ravel(),
        successor=keys[:, 2],
        terminated=keys[:, 3].astype(np.float64),
        pair_state=pairs[:, 0],
        pair_action=pairs[:, 1],
        of_outcome=of_outcome,
        initial_state=starts,
    )


def numbers_of(setting: Setting) -> World:
    """Collect what a trial needs of a setting."""
    return World(
        setting.env.outcomes,
        setting.env.initial_distribution,
        setting.behavior.probabilities,
        setting.target.probabilities,
        lay_out(setting),
    )


def stack_worlds(worlds: Sequence[World]) -> World:
    """Stack worlds, with cells that are never logged and outcomes that never happen as padding.

    Raises
    ------
    ValueError
        They differ in states, actions, possible pairs or possible first states.
    """
    n_cells = max(len(world.layout.pair) for world in worlds)
    n_outcomes = max(world.outcomes.probability.shape[2] for world in worlds)

    def pad(array: np.ndarray, size: int) -> np.ndarray:
        lacking = [(0, 0)] * (array.ndim - 1) + [(0, size - array.shape[-1])]
        return np.pad(array, lacking)

    def padded(world: World) -> World:
        layout = world.layout
        return world._replace(
            outcomes=Outcomes(*(pad(field, n_outcomes) for field in world.outcomes)),
            layout=layout._replace(
                pair=pad(layout.pair, n_cells),
                successor=pad(layout.successor, n_cells),
                terminated=pad(layout.terminated, n_cells),
                of_outcome=pad(layout.of_outcome, n_outcomes),
            ),
        )

    return jax.tree.map(lambda *fields: np.stack(fields), *map(padded, worlds))


def count(layout: Layout, played: Transitions) -> Cells:
    """Count one log into the cells of its world, unseen ones with a count of 0."""
    cell = jnp.asarray(layout.of_outcome)[played.state, played.action, played.outcome].ravel()
    reward = played.reward.ravel()
    logged = played.logged.ravel().astype(reward.dtype)
    n_cells = layout.pair.shape[0]

    def by_cell(x: Float[Array, " n"]) -> Float[Array, " C"]:
        return jax.ops.segment_sum(x * logged, cell, num_segments=n_cells)

    initial = jnp.mean(played.state[:, :1] == layout.initial_state, axis=0, dtype=reward.dtype)
    return Cells(
        pair=jnp.asarray(layout.pair),
        successor=jnp.asarray(layout.successor),
        terminated=jnp.asarray(layout.terminated),
        count=by_cell(jnp.ones_like(reward)),
        reward_sum=by_cell(reward),
        reward_square_sum=by_cell(reward**2),
        episode=jnp.zeros(n_cells, dtype=int),
        pair_state=jnp.asarray(layout.pair_state),
        pair_action=jnp.asarray(layout.pair_action),
        initial_state=jnp.asarray(layout.initial_state),
        initial_weight=initial,
        n_transitions=jnp.sum(logged),
        n_episodes=jnp.asarray(float(played.state.shape[0])),
        absorbed_reward=jnp.asarray(0.0),
    )
