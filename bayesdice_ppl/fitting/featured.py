"""Preparation with features other than one-hot, which extrapolate to unlogged pairs.

Vectors of the log go into the feature map as they are. Each candidate enters through the map's
expectation under its actions: a sum over labels, a mean over sampled vectors.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray, Shaped

from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.features import (
    FeatureMap,
    Points,
    Space,
    expect_over_labels,
    expect_over_samples,
    principal_map,
    ratio_basis,
    sample_actions,
)
from bayesdice_ppl.fitting.inputs import Inputs, Sampling
from bayesdice_ppl.fitting.settings import FitSettings
from bayesdice_ppl.logs import Logs, UsableRows
from bayesdice_ppl.moments import Candidates, LoggedPairs, count_cells, logged_pairs, pad_cells
from bayesdice_ppl.policies import (
    AlignedPolicies,
    ContinuousPolicy,
    Policy,
    align_continuous,
    align_policies,
    needed_states,
)

MOST_GIBIBYTES = 8.0
"""Most memory that the rows of all candidates' residuals may take."""


def featured_inputs(
    logs: Logs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    settings: FitSettings,
    rows: UsableRows,
    rng_key: PRNGKeyArray | None,
) -> Inputs:
    """Bring logs and candidates onto features other than one-hot.

    Parameters
    ----------
    logs, policies, settings
        The input and every choice.
    rows
        Which transitions are used.
    rng_key
        Key of random features and of sampled actions; not needed where there are none.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        The input cannot be used; the message says where.
    """
    gamma = settings.gamma
    if "action" not in settings.features.sees:
        raise SettingsError(
            f"features: {settings.features} does not look at the action, and all candidates would "
            "be alike. Join it by product(...) or concatenate(...) with features that do."
        )
    key_map = key_actions = None
    if rng_key is not None:
        key_map, key_actions = jax.random.split(jax.random.fold_in(rng_key, 1))
    aligned: AlignedPolicies | None = None
    action_labels: Shaped[np.ndarray, " A"] | None
    continuous: tuple[tuple[str, ContinuousPolicy], ...] = ()
    if logs.vector_actions:
        continuous = align_continuous(logs, policies)
        codes, action_labels = np.arange(len(logs.action_labels)), None
        names, source = tuple(name for name, _ in continuous), "vectors"
    else:
        aligned = align_policies(logs, policies, needs_successors=gamma > 0.0)
        codes, action_labels = aligned.codes(logs), aligned.actions
        names, source = aligned.names, aligned.source
    pairs = logged_pairs(logs, codes, rows.mask)
    cells, cell_of_row = count_cells(
        logs, pairs, rows.mask, gamma, by_episode=settings.form.by_episode
    )
    cells = pad_cells(cells)
    states = logs.state_labels if logs.vector_states else np.arange(len(logs.state_labels))
    by_code = logs.action_labels if action_labels is None else np.arange(len(action_labels))
    points = Points(states[pairs.state], by_code[pairs.action])
    space = Space(points, None if logs.vector_states else logs.state_labels, action_labels)
    feature_map = principal_map(settings.features.build(space, key_map), points)
    at_pair = feature_map(points)
    _check_actions(feature_map, points, at_pair, str(settings.features))
    _check_memory(len(names), len(cells.pair), at_pair.shape[1])
    basis = ratio_basis(at_pair)
    cells = cells._replace(pair_features=at_pair, basis=basis)
    used = np.zeros(len(states), dtype=bool)
    used[cells.initial_state] = True
    used[cells.successor[(cells.terminated == 0.0) & (gamma > 0.0)]] = True
    used &= needed_states(logs, needs_successors=gamma > 0.0)

    sampling = None
    dead = np.zeros((len(names), len(states)), dtype=bool)
    kept = np.ones((len(names), len(states)))
    if aligned is None:
        if key_actions is None:
            raise SettingsError(
                "rng_key: expected a key such as jax.random.key(0), found None. The candidates' "
                "actions are drawn at random."
            )
        observations = states if logs.vector_states else logs.state_labels
        width = logs.action_labels.shape[1]
        sampled = sample_actions(
            continuous, observations, used, settings.numerics.action_draws, width, key_actions
        )
        sampling = Sampling(feature_map, states, sampled)
        at_state = expect_over_samples(feature_map, states, sampled, at_pair.shape[1])
    else:
        probabilities, kept = _onto_logged_actions(aligned.probabilities, pairs)
        dead = (kept <= 0.0) & used
        if not logs.vector_states:
            kept = _kept_in_state(aligned.probabilities, pairs)
        at_state = expect_over_labels(feature_map, states, probabilities, used, at_pair.shape[1])
    if not logs.vector_states:
        # Features cannot say anything about a state without a logged action.
        acted = np.zeros(len(states), dtype=bool)
        acted[pairs.state] = True
        dead |= used & ~acted
    candidates = Candidates(None, np.ones((len(names), basis.shape[1])), kept, at_state)
    return Inputs(
        logs=logs,
        names=names,
        actions=action_labels,
        action_source=source,
        rows=rows,
        pairs=pairs,
        cells=cells,
        cell_of_row=cell_of_row,
        candidates=candidates,
        dead_state=dead,
        settings=settings,
        sampling=sampling,
    )


def _onto_logged_actions(
    probabilities: Float[np.ndarray, "N S A"], pairs: LoggedPairs
) -> tuple[Float[np.ndarray, "N S A"], Float[np.ndarray, "N S"]]:
    """Renormalize over the actions that were logged in any state; others have no seen feature."""
    logged = np.zeros(probabilities.shape[2])
    logged[pairs.action] = 1.0
    kept = probabilities @ logged
    share = np.where(kept > 0.0, kept, 1.0)[:, :, None]
    return probabilities * logged / share, kept


def _kept_in_state(
    probabilities: Float[np.ndarray, "N S A"], pairs: LoggedPairs
) -> Float[np.ndarray, "N S"]:
    """Probability on the actions logged in each state; 1 where no action was logged at all."""
    logged = np.zeros(probabilities.shape[1:])
    logged[pairs.state, pairs.action] = 1.0
    kept = np.sum(probabilities * logged, axis=2)
    return np.where(logged.any(axis=1), kept, 1.0)


def _check_actions(
    feature_map: FeatureMap, points: Points, at_pair: Float[np.ndarray, "P d"], name: str
) -> None:
    """Refuse features that do not change with the action."""
    action = points.action
    if len(np.unique(action, axis=0)) < 2:
        if action.ndim == 1:
            # With labels, the probability of other actions counts as moved mass.
            return
        raise LogsError(
            f"action: expected at least two different actions, found one action only in "
            f"{len(action):,} pairs. Features cannot tell anything about another."
        )
    other = feature_map(Points(points.state, np.roll(action, 1, axis=0)))
    if np.abs(other - at_pair).max() <= 1e-9 * np.abs(at_pair).max():
        raise SettingsError(
            f"features: {name} is the same whatever the action, and all candidates would be alike. "
            "Join it by product(...) or concatenate(...) with features that are not."
        )


def _check_memory(n_policies: int, n_cells: int, n_features: int) -> None:
    """Refuse what would not fit, before it is tried."""
    gibibytes = n_policies * n_cells * n_features * 8 / 2**30
    if gibibytes > MOST_GIBIBYTES:
        raise SettingsError(
            f"features: expected at most {MOST_GIBIBYTES:g} GiB of memory, found {gibibytes:.0f} "
            f"GiB for {n_features} features, {n_cells:,} transitions and {n_policies} candidates. "
            "Use fewer features, fewer candidates at a time, or a part of the log."
        )
