"""The log likelihood of a belief: each episode's share of the factor that the data enter by.

A chance constraint is one factor, -price f(g), of the mean residual g. At the best multipliers
beta, f(g) is beta'g - f*(beta), which is a sum over the data. Each episode's share of it is its log
likelihood. The shares sum to the factor, and to first order the posterior without an episode is the
posterior less its share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.belief import BeliefView, with_groups
from bayesdice_ppl.constraint import ChanceConstraint, Penalty, surrogates
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.fitting.prepare import MIN_EPISODES
from bayesdice_ppl.groups.problem import Behind, behind
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.models import RatioModel, TangentRatio
from bayesdice_ppl.moments import VALUE_ROW, build_moments, state_features

if TYPE_CHECKING:
    from xarray import DataTree

SITE = "chance_constraint"
"""The variable, by the name of the factor in the NumPyro program."""
EXACT = 1e-3
"""Share of the variance of its own rows below which a direction of the residual does not vary."""
UNITS = ("episode", "transition")


def add_log_likelihood(
    belief: DataTree,
    logs: Logs,
    policies: Mapping[str, Any],
    *,
    by: str | None = None,
    features: FeatureChoice | None = None,
    model: RatioModel | None = None,
) -> DataTree:
    """Add the group ``log_likelihood``, as `arviz.loo` and `arviz.psense_summary` need it.

    Parameters
    ----------
    belief
        From `bayesdice_ppl.fit`; it stays as it is.
    logs, policies
        Those that it was fitted on.
    by
        What is left out at a time: ``"episode"``, or ``"transition"``, the default where there are
        fewer than ten episodes.
    features, model
        Those that it was fitted with, where they are not the defaults.

    Returns
    -------
    xarray.DataTree
        The belief with at most 1,000 of its draws, and with ``log_likelihood/chance_constraint``
        (chain, draw, policy, episode or transition), in nats, single precision. Transitions are
        the rows that were used.

    Raises
    ------
    BeliefError
        The belief cannot be followed back to these logs; the message says why.
    SettingsError
        Its surrogate is not Markov's, so that no factor of the draw is a sum over data.

    Notes
    -----
    For residual g with multipliers beta = f'(g) and price lambda / epsilon, unit e of n_e of the n
    rows has -price (beta'g_e - (n_e / n) f*(beta)); the g_e sum to g, and the shares to -price
    f(g), which is -lambda / epsilon times ``sample_stats/loss``. A score of models it is not: it
    prefers ratios of low variance. `bayesdice_ppl.compare` has one that does not.

    Directions in which no rows vary are identities of the log, which any part of it has too: what
    they add to the factor is shared evenly.

    The factors of several candidates say the same data several times. Functions that sum over all
    of a group, as `arviz.psense_summary`, are asked about one candidate at a time: with
    ``coords``, ``prior_coords`` and ``likelihood_coords`` all ``{"policy": name}``.
    """
    if by is not None and by not in UNITS:
        raise SettingsError(f"by: expected one of {', '.join(UNITS)}, found {by!r}.")
    found = behind(belief, logs, policies, features=features, model=model)
    if found.settings.constraint.surrogate != surrogates.markov():
        raise SettingsError(
            "add_log_likelihood: expected Markov's surrogate, under which the factor is a sum over "
            f"the data, found {found.settings.constraint.surrogate}."
        )
    if by is None:
        by = "episode" if logs.n_episodes >= MIN_EPISODES else "transition"
    inputs = found.prepared.inputs
    used = np.asarray(inputs.rows.mask)
    unit_of_row = logs.episode[used] if by == "episode" else np.arange(int(used.sum()))
    n_units = logs.n_episodes if by == "episode" else int(used.sum())
    # The start of an episode without rows that are used has no row to go with.
    start_unit = np.arange(logs.n_episodes)
    if by == "transition":
        start_unit = np.minimum(
            np.searchsorted(logs.episode[used], np.arange(logs.n_episodes)), n_units - 1
        )
    shares = np.stack(
        [
            _shares(found, j, logs.initial_state, start_unit, unit_of_row, n_units)
            for j in range(len(inputs.names))
        ],
        axis=1,
    )
    array = shares.astype(np.float32).reshape(*found.shape, *shares.shape[1:])
    labels = logs.episode_labels.tolist() if by == "episode" else np.flatnonzero(used).tolist()
    return with_groups(
        found.belief,
        {"log_likelihood": {SITE: (array, ("policy", by))}},
        {"policy": inputs.names, by: labels},
    )


def _shares(
    found: Behind,
    j: int,
    first_state: Int[np.ndarray, " m"],
    start_unit: Int[np.ndarray, " m"],
    unit_of_row: Int[np.ndarray, " n"],
    n_units: int,
) -> Float[np.ndarray, "S U"]:
    """Each unit's share of candidate j's factor in each draw."""
    inputs, cells = found.prepared.inputs, found.prepared.inputs.cells
    settings = found.settings.form.moments
    ratio = found.ratio_of(j)
    inner = ratio.inner if isinstance(ratio, TangentRatio) else ratio
    candidate = jax.tree.map(lambda x: np.asarray(x)[j], inputs.candidates)
    # Of a policy that is estimated from the log the rows themselves, without the estimate's noise.
    features = state_features(cells, candidate)._replace(estimated=None)
    moments = build_moments(cells, features, settings)
    design, offset = np.asarray(moments.design), np.asarray(inner.moments.offset)
    zeta = found.ratios(j)[:, cells.pair[inputs.cell_of_row]]
    reward = inputs.reward
    n, m = len(reward), len(first_state)
    starts = np.asarray(features.at_state)[first_state]
    starts = starts - starts.mean(axis=0)
    rows = design[inputs.cell_of_row]
    ended = np.asarray(cells.terminated)[inputs.cell_of_row]
    flow = (zeta * ended).mean(axis=1) if settings.restart else 0.0
    entering = (1.0 - settings.gamma) + settings.gamma * flow
    constant = np.broadcast_to(offset, (len(zeta), len(offset))).copy()
    constant[:, VALUE_ROW] -= found.value[:, j]
    residual = zeta @ rows / n + constant
    residual[:, VALUE_ROW] += zeta @ reward / n
    constraint: ChanceConstraint = jax.tree.map(
        lambda x: np.asarray(x)[j], found.prepared.problem.constraint
    )
    if BeliefView(found.belief).has(BeliefView.unseen_mass):
        off = _to_recorded(constraint, residual, found.loss[:, j])
        constant[:, VALUE_ROW] += off
        residual[:, VALUE_ROW] += off
    members = np.bincount(unit_of_row, minlength=n_units) / n
    total = np.zeros((len(zeta), n_units))
    terms: list[tuple[Any, Any]] = [(constraint.penalty, constraint.price)]
    if constraint.auxiliary is not None:
        terms.append((constraint.auxiliary.penalty, constraint.auxiliary.price))
    for penalty, price in terms:
        beta, conjugate, even = _multipliers(penalty, residual)
        by_row = zeta * (beta @ rows.T + beta[:, VALUE_ROW, None] * reward) / n
        share = np.stack([np.bincount(unit_of_row, row, minlength=n_units) for row in by_row])
        share += np.sum(beta * constant, axis=1)[:, None] * members
        of_start = (np.atleast_1d(entering)[:, None] / m) * (beta[:, : starts.shape[1]] @ starts.T)
        np.add.at(share.T, start_unit, of_start.T)
        total -= float(price) * (share + (even - conjugate)[:, None] * members)
    return total


def _multipliers(
    penalty: Penalty, residual: Float[np.ndarray, "S R"]
) -> tuple[Float[np.ndarray, "S R"], Float[np.ndarray, " S"], Float[np.ndarray, " S"]]:
    """Best multipliers, f* at them, and the part of f that no episode has more of than another."""
    whitening = penalty.whitening()
    if whitening is None:
        beta = np.asarray(penalty.maximizer(residual))
        return beta, np.asarray(penalty.conjugate(beta)), np.zeros(len(residual))
    root = np.asarray(whitening)
    live = np.any(root != 0.0, axis=0)
    # A root of the covariance, whose singular values cannot be negative.
    factor = np.linalg.inv(root[np.ix_(live, live)])
    scale = np.sqrt(np.sum(factor**2, axis=1))
    vectors, values, _ = np.linalg.svd(factor / scale[:, None])
    # What does not vary from row to row is an identity of the log, and holds without any episode.
    vary = values**2 > EXACT
    coordinates = (residual[:, live] / scale) @ vectors / values
    kept = np.where(vary, coordinates, 0.0)
    beta = np.zeros_like(residual)
    beta[:, live] = ((kept / values) @ vectors.T) / scale
    whole = 0.5 * np.sum(coordinates**2, axis=1)
    conjugate = 0.5 * np.sum(kept**2, axis=1)
    return beta, conjugate, whole - conjugate


def _to_recorded(
    constraint: ChanceConstraint, residual: Float[np.ndarray, "S R"], loss: Float[np.ndarray, " S"]
) -> Float[np.ndarray, " S"]:
    """What to add to the value's row so that each draw has the loss that was recorded.

    Where pairs that were never logged are a part of a value, what is left of it without them is
    known from its mean and its share of the variance, and not to the last tail. A quadratic loss
    has two such values; the nearer one is taken, and the least loss where there is none.
    """
    whitening = constraint.penalty.whitening()
    if whitening is None:
        return np.zeros(len(loss))
    whole = residual @ np.asarray(whitening).T
    along = np.asarray(whitening)[:, VALUE_ROW]
    square = 0.5 * float(along @ along)
    slope = whole @ along
    excess = 0.5 * np.sum(whole**2, axis=1) - loss
    root = np.sqrt(np.maximum(slope**2 - 4.0 * square * excess, 0.0))
    return (np.where(slope >= 0.0, root, -root) - slope) / (2.0 * square)
