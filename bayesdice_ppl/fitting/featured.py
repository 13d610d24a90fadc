"""Preparation with features other than one-hot, which extrapolate to unlogged pairs.

Vectors of the log go into the feature map as they are. Each candidate enters through the map's
expectation under its actions: a sum over labels; over vectors exact where it is known, else a mean
over sampled ones.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray, Shaped

from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.features import (
    FeatureChoice,
    FeatureMap,
    Points,
    PriorFeatures,
    RotatedMap,
    SampledActions,
    Space,
    expect,
    expect_over_labels,
    principal_map,
    ratio_basis,
    standard_numbers,
    whitened_map,
)
from bayesdice_ppl.fitting.action_ratio import ActionRatios, action_ratios
from bayesdice_ppl.fitting.inputs import Inputs, OtherTests, Sampling
from bayesdice_ppl.fitting.other_functions import other_functions
from bayesdice_ppl.fitting.settings import FitSettings
from bayesdice_ppl.logs import Logs, UsableRows
from bayesdice_ppl.moments import (
    Candidates,
    Cells,
    LoggedPairs,
    count_cells,
    logged_pairs,
    pad_cells,
    round_size,
)
from bayesdice_ppl.policies import (
    AlignedPolicies,
    ContinuousPolicy,
    Policy,
    align_continuous,
    align_policies,
    needed_states,
)

MOST_GIBIBYTES = 16.0
"""Most memory that a fit may take."""
COPIES = 12
"""Tables of all candidates' residuals, a row each transition, that a fit holds at a time: 10 on a
Pendulum of 16,000 rows, 12 on a bandit of 100,000."""


def featured_inputs(
    logs: Logs,
    policies: Mapping[str, Policy | ContinuousPolicy],
    settings: FitSettings,
    rows: UsableRows,
    rng_key: PRNGKeyArray | None,
    *,
    whiten: bool = True,
    judged: bool = False,
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
    whiten
        False: the test features keep their size and their constant, in principal directions.
    judged
        Whether the fit is judged by functions that it is not fitted to.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        The input cannot be used; the message says where.
    """
    gamma = settings.gamma
    sees_action = "action" in settings.features.sees
    if not sees_action and not settings.behavior_known:
        raise SettingsError(
            f"features: {settings.features} does not look at the action, and all candidates would "
            "be alike. Join it by product(...) or concatenate(...) with features that do, or give "
            "behavior='logged' or 'cloned'."
        )
    key_map = key_actions = key_clone = key_other = None
    if rng_key is not None:
        key_map, key_actions = jax.random.split(jax.random.fold_in(rng_key, 1))
        key_clone = jax.random.fold_in(rng_key, 4)
        key_other = jax.random.fold_in(rng_key, 7)
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
    cells = pad_cells(cells, by_episode=settings.form.by_episode)
    states = logs.state_labels if logs.vector_states else np.arange(len(logs.state_labels))
    by_code = logs.action_labels if action_labels is None else np.arange(len(action_labels))
    points = Points(states[pairs.state], by_code[pairs.action])
    space = Space(points, None if logs.vector_states else logs.state_labels, action_labels)
    visits = np.bincount(pairs.of_row, minlength=len(pairs.state))
    feature_map = _rotated(settings.features, space, visits, key_map, whiten)
    at_pair = feature_map(points)
    if not settings.behavior_known:
        _check_actions(feature_map, points, at_pair, str(settings.features))
    _check_memory(len(names), len(cells.pair), at_pair.shape[1])
    basis = ratio_basis(at_pair)
    cells = cells._replace(
        pair_features=at_pair,
        basis=basis,
        coordinates=standard_numbers(points, visits, settings.features.sees)
        if settings.sees_points
        else None,
    )
    used = np.zeros(len(states), dtype=bool)
    used[cells.initial_state] = True
    used[cells.successor[(cells.terminated == 0.0) & (gamma > 0.0)]] = True
    used &= needed_states(logs, needs_successors=gamma > 0.0)

    dead = np.zeros((len(names), len(states)), dtype=bool)
    kept = np.ones((len(names), len(states)))
    probabilities = None
    if aligned is not None:
        probabilities, kept = _onto_logged_actions(aligned.probabilities, pairs)
        if sees_action:
            dead = (kept <= 0.0) & used
        if not logs.vector_states:
            kept = _kept_in_state(aligned.probabilities, pairs)

    def at_states(
        feature_map: RotatedMap, width: int
    ) -> tuple[Float[np.ndarray, "N S d"], SampledActions | None]:
        """Features of each state under each candidate, and the actions that were drawn for it."""
        if not sees_action:
            same = feature_map(Points(states, by_code[np.zeros(len(states), dtype=np.int64)]))
            return np.broadcast_to(same, (len(names), *same.shape)), None
        if probabilities is not None:
            return expect_over_labels(feature_map, states, probabilities, used, width), None
        return expect(
            feature_map,
            states,
            continuous,
            states if logs.vector_states else logs.state_labels,
            used,
            width,
            n_numbers=logs.action_labels.shape[1],
            n_draws=settings.numerics.action_draws,
            rng_key=key_actions,
        )

    at_state, sampled = at_states(feature_map, at_pair.shape[1])
    sampling = None if sampled is None else Sampling(feature_map, states, sampled)
    tests = None
    chosen = other_functions(logs, len(names), sees_action=sees_action) if judged else None
    if chosen is not None and key_other is not None:
        # In principal directions of their own size: the smoothest first.
        other_map = _rotated(chosen, space, visits, key_other, whiten=False)
        other_at_pair = other_map(points)
        under = at_states(other_map, other_at_pair.shape[1])[0]
        tests = OtherTests(
            _padded(other_at_pair, 0), _padded(under if sees_action else under[:1], 1)
        )
    if not logs.vector_states:
        # Features cannot say anything about a state without a logged action.
        acted = np.zeros(len(states), dtype=bool)
        acted[pairs.state] = True
        dead |= used & ~acted
    known: ActionRatios | None = None
    if settings.behavior_known:
        known = action_ratios(logs, policies, names, pairs, rows, settings.behavior, key_clone)
    weights = np.tile(np.any(basis != 0.0, axis=0).astype(np.float64), (len(names), 1))
    ratio = None if known is None else known.by_pair
    cells, candidates = _pad(cells, Candidates(None, weights, kept, at_state, None, ratio))
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
        action_ratios=known,
        other=tests,
    )


def _pad(cells: Cells, candidates: Candidates) -> tuple[Cells, Candidates]:
    """Add pairs and states that no transition has, so that logs of one world have few shapes."""
    n_pairs, n_states = len(cells.pair_state), candidates.kept.shape[1]
    pairs, states = round_size(n_pairs) - n_pairs, round_size(n_states) - n_states
    known = candidates.action_ratio
    at_state, at_pair, basis = candidates.at_state, cells.pair_features, cells.basis
    seen = cells.coordinates
    assert at_state is not None
    assert at_pair is not None
    assert basis is not None
    return cells._replace(
        pair_state=np.pad(cells.pair_state, (0, pairs)),
        pair_action=np.pad(cells.pair_action, (0, pairs)),
        pair_features=np.pad(at_pair, ((0, pairs), (0, 0))),
        basis=np.pad(basis, ((0, pairs), (0, 0))),
        coordinates=None if seen is None else np.pad(seen, ((0, pairs), (0, 0))),
    ), candidates._replace(
        kept=np.pad(candidates.kept, ((0, 0), (0, states)), constant_values=1.0),
        at_state=np.pad(at_state, ((0, 0), (0, states), (0, 0))),
        action_ratio=None if known is None else np.pad(known, ((0, 0), (0, pairs))),
    )


def _padded(array: Float[np.ndarray, "..."], axis: int) -> Float[np.ndarray, "..."]:
    """Zeros for the pairs, or states, that `_pad` adds."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, round_size(array.shape[axis]) - array.shape[axis])
    return np.pad(array, widths)


def _rotated(
    choice: FeatureChoice,
    space: Space,
    visits: Int[np.ndarray, " P"],
    rng_key: PRNGKeyArray | None,
    whiten: bool,
) -> RotatedMap:
    """Build the features and whiten them, unless their size is a prior."""
    built = choice.build(space, rng_key)
    if not whiten:
        return principal_map(built, space.points)
    if isinstance(choice, PriorFeatures) and choice.is_prior:
        return principal_map(built, space.points).padded()
    return whitened_map(built, space.points, visits).padded()


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
    if at_pair.shape[1] == 0:
        raise SettingsError(
            f"features: expected features that vary over the log, found none in {name}. Choose "
            "other features."
        )
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
    gibibytes = COPIES * n_policies * n_cells * n_features * 8 / 2**30
    if gibibytes > MOST_GIBIBYTES:
        raise SettingsError(
            f"features: expected at most {MOST_GIBIBYTES:g} GiB of memory, found about "
            f"{gibibytes:.0f} GiB for {n_features} features, {n_cells:,} transitions and "
            f"{n_policies} candidates. Use fewer features, fewer candidates at a time, or a part "
            "of the log."
        )
