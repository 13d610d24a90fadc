"""From a world to a thousand beliefs: logs simulated, counted and believed in one compiled call.

A log of a tabular world is a vector of counts over the transitions that are possible in it, which
gives every trial the same shape. From the counts on, a trial goes through the very functions that
`bayesdice_ppl.fit` is made of.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bayesdice_ppl import penalties
from bayesdice_ppl.envs import Outcomes
from bayesdice_ppl.features import renormalize
from bayesdice_ppl.inference import FitSettings, exact_posterior, make_settings, run_pilot
from bayesdice_ppl.moments import Cells, build_moments, one_hot_features
from bayesdice_ppl.policies import TabularPolicy
from bayesdice_ppl.simulation import Transitions, sample_transitions

# Trials that are held in memory at once.
_BATCH = 50


class Setting(NamedTuple):
    """One cell of the table.

    Attributes
    ----------
    name
        Name of the cell.
    env
        A tabular world that never terminates.
    behavior, target
        The policy that writes the logs, and the one that is judged.
    n_episodes, max_steps
        Size of a log.
    gamma
        Discount.
    """

    name: str
    env: Any
    behavior: TabularPolicy
    target: TabularPolicy
    n_episodes: int
    max_steps: int
    gamma: float


class Layout(NamedTuple):
    """Every cell that a log of a world can hold, so that all trials have one shape.

    Attributes
    ----------
    pair, successor
        Of each cell, shape (C,).
    pair_state, pair_action
        Of each pair, shape (P,).
    of_outcome
        The cell of each entry of the world's table, shape (S, A, K).
    initial_state
        Possible first states, shape (E,).
    """

    pair: Int[np.ndarray, " C"]
    successor: Int[np.ndarray, " C"]
    pair_state: Int[np.ndarray, " P"]
    pair_action: Int[np.ndarray, " P"]
    of_outcome: Int[np.ndarray, "S A K"]
    initial_state: Int[np.ndarray, " E"]


class Believed(NamedTuple):
    """What one belief says of the value, every field with a leading axis over trials.

    Attributes
    ----------
    mean, sd, df
        Location, scale and degrees of freedom of the value's Student t.
    moved
        Share of the target's steps whose action was not logged.
    degenerate
        Whether all logged rewards are equal.
    """

    mean: Float[Array, "*t"]
    sd: Float[Array, "*t"]
    df: Float[Array, "*t"]
    moved: Float[Array, "*t"]
    degenerate: Bool[Array, "*t"]


def lay_out(setting: Setting) -> Layout:
    """Find every cell that the behavior policy can log, at any discount.

    Raises
    ------
    ValueError
        The world terminates, which these cells have no room for.
    """
    outcomes: Outcomes = setting.env.outcomes
    possible = (outcomes.probability > 0) & (setting.behavior.probabilities > 0)[:, :, None]
    if np.any(outcomes.terminated & possible):
        raise ValueError("calibration: expected a world that never terminates")
    state, action, _ = np.nonzero(possible)
    keys, cell = np.unique(
        np.stack([state, action, outcomes.next_state[possible]], axis=1),
        axis=0,
        return_inverse=True,
    )
    pairs, pair = np.unique(keys[:, :2], axis=0, return_inverse=True)
    of_outcome = np.zeros(possible.shape, dtype=np.int64)
    of_outcome[possible] = cell.ravel()
    starts = np.flatnonzero(setting.env.initial_distribution > 0)
    return Layout(pair.ravel(), keys[:, 2], pairs[:, 0], pairs[:, 1], of_outcome, starts)


def count(layout: Layout, played: Transitions) -> Cells:
    """Count one log into the cells of its world, unseen ones with a count of 0."""
    cell = jnp.asarray(layout.of_outcome)[played.state, played.action, played.outcome].ravel()
    reward = played.reward.ravel()
    n_episodes, max_steps = played.state.shape

    def by_cell(x: Float[Array, " n"]) -> Float[Array, " C"]:
        return jax.ops.segment_sum(x, cell, num_segments=len(layout.pair))

    initial = jnp.mean(played.state[:, :1] == layout.initial_state, axis=0, dtype=reward.dtype)
    nothing = jnp.zeros(len(layout.pair), dtype=reward.dtype)
    return Cells(
        pair=jnp.asarray(layout.pair),
        successor=jnp.asarray(layout.successor),
        terminated=nothing,
        count=by_cell(jnp.ones_like(reward)),
        reward_sum=by_cell(reward),
        reward_square_sum=by_cell(reward**2),
        episode=jnp.zeros(len(layout.pair), dtype=int),
        pair_state=jnp.asarray(layout.pair_state),
        pair_action=jnp.asarray(layout.pair_action),
        initial_state=jnp.asarray(layout.initial_state),
        initial_weight=initial,
        n_transitions=jnp.asarray(float(n_episodes * max_steps)),
        n_episodes=jnp.asarray(float(n_episodes)),
        absorbed_reward=jnp.asarray(0.0),
    )


def believe(
    cells: Cells,
    probabilities: Float[Array, "S A"],
    settings: FitSettings,
    *,
    multiple: float = 1.0,
) -> Believed:
    """Closed-form belief about one policy from one log, lambda / epsilon a multiple of n.

    Notes
    -----
    `fit` also leaves out pairs that the target cannot get to from the first states. Here every
    logged pair was got to from there, by steps that the target takes with positive probability.
    """
    visits = jax.ops.segment_sum(cells.count, cells.pair, num_segments=len(cells.pair_state))
    logged = (visits > 0.0).astype(visits.dtype)
    target, kept = renormalize(probabilities, cells.pair_state, cells.pair_action, logged)
    active = logged * (target > 0.0)
    features = one_hot_features(cells, target, active, kept.shape[0])
    moments = build_moments(cells, features, settings.moments)
    pilot = run_pilot(cells, moments, settings.moments, small_sample=settings.small_sample)
    squared = settings.penalty == penalties.squared()
    metric = jnp.eye(len(moments.offset)) if squared else pilot.covariance
    posterior = exact_posterior(
        moments,
        metric,
        multiple * cells.n_transitions,
        value_constraint=settings.value_constraint,
    )
    share = pilot.ratio * cells.count / cells.n_transitions
    moved = jnp.sum(share * (1.0 - kept[cells.pair_state[cells.pair]]))
    total, square = jnp.sum(cells.reward_sum), jnp.sum(cells.reward_square_sum)
    equal = square * cells.n_transitions - total**2 <= 1e-9 * square * cells.n_transitions
    return Believed(posterior.mean[-1], posterior.sd[-1], pilot.degrees_of_freedom, moved, equal)


def run_trials(
    setting: Setting,
    rng_key: PRNGKeyArray,
    n_trials: int,
    forms: Mapping[str, Mapping[str, Any]],
) -> dict[str, Believed]:
    """Simulate logs and make a belief of each form from each of them, in one compiled call.

    Parameters
    ----------
    setting
        World, policies and size of the logs.
    rng_key
        Split into one key a trial.
    n_trials
        Number of logs.
    forms
        Name -> choices of `make_settings`, and ``multiple``, lambda / epsilon in units of n (1);
        every form sees the same logs.

    Returns
    -------
    dict
        Name of the form -> its beliefs, float64, one entry a trial.
    """
    multiples = {name: choices.get("multiple", 1.0) for name, choices in forms.items()}
    fits = {
        name: make_settings(
            gamma=setting.gamma,
            inference="exact",
            **{key: choice for key, choice in choices.items() if key != "multiple"},
        )
        for name, choices in forms.items()
    }
    layout = lay_out(setting)
    behavior, target = setting.behavior.probabilities, setting.target.probabilities
    play: Callable[[PRNGKeyArray], Transitions] = partial(
        sample_transitions,
        setting.env.outcomes,
        setting.env.initial_distribution,
        behavior,
        setting.n_episodes,
        setting.max_steps,
    )

    @jax.jit
    def trials(keys: PRNGKeyArray) -> dict[str, Believed]:
        def trial(key: PRNGKeyArray) -> dict[str, Believed]:
            cells = count(layout, play(key))
            policy = jnp.asarray(target)
            return {
                name: believe(cells, policy, fits[name], multiple=multiples[name]) for name in fits
            }

        return jax.lax.map(trial, keys, batch_size=min(_BATCH, n_trials))

    with jax.enable_x64(True):
        found = trials(jax.random.split(rng_key, n_trials))
        return jax.tree.map(np.asarray, found)
