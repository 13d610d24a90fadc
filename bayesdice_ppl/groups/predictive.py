"""Rewards that a candidate would earn in steps like those that were logged.

The ratio says how often a candidate is where the log was, so that it weighs the logged rewards.
That is the law of the reward of one step. It says nothing of the spread of returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.belief import BeliefView, annotate, with_groups
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.groups.problem import Behind, behind
from bayesdice_ppl.keys import check_key, seed_sequence
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.models import RatioModel

if TYPE_CHECKING:
    from xarray import DataTree

MOST_NUMBERS = 20_000_000
"""Most rewards that are drawn; past them, fewer draws of the belief are taken."""
MOST_NEGATIVE = 0.05
"""Most mean share of negative mass in the draws of a ratio that rewards are drawn by."""


def add_posterior_predictive(
    belief: DataTree,
    logs: Logs,
    policies: Mapping[str, Any],
    *,
    rng_key: PRNGKeyArray,
    policy: str | None = None,
    features: FeatureChoice | None = None,
    model: RatioModel | None = None,
) -> DataTree:
    """Add the group ``posterior_predictive``, as `arviz.plot_ppc_dist` needs it.

    Parameters
    ----------
    belief
        From `bayesdice_ppl.fit`; it stays as it is.
    logs, policies
        Those that it was fitted on.
    rng_key
        A key of `jax.random`.
    policy
        Whose rewards: by default the logging policy's, which a belief has that was fitted with
        ``include_logged=True``. Its rewards are a check of the belief: they should look like those
        of the log. Those of a candidate show how it would earn otherwise.
    features, model
        Those that the belief was fitted with, where they are not the defaults.

    Returns
    -------
    xarray.DataTree
        The belief with at most 1,000 of its draws, and ``posterior_predictive/reward`` (chain,
        draw, transition): for each draw as many rewards as ``observed_data/reward`` has, drawn
        from the logged rewards by their ratio, single precision.

    Raises
    ------
    BeliefError
        The belief cannot be followed back to these logs; the message says why.
    SettingsError
        There is no such policy, or its ratios are negative at 5 % of their mass and more.

    Notes
    -----
    A draw of a linear ratio may be negative at some rows. No reward can be drawn there, and the
    mean of those that are is off by the share of negative mass, which the belief's notes tell.
    """
    check_key(rng_key)
    view = BeliefView(belief)
    name = policy if policy is not None else view.logged_policy
    if name not in view.names:
        known = ", ".join(view.names)
        raise SettingsError(
            f"policy: expected one of {known}, found {policy!r}."
            if policy is not None
            else "policy: expected a name, as the belief does not have the logging policy. Give one"
            f" of {known}, or fit with include_logged=True."
        )
    found = behind(belief, logs, policies, features=features, model=model)
    reward, negative = _rewards(found, found.prepared.inputs.names.index(name), rng_key)
    if negative > MOST_NEGATIVE:
        raise SettingsError(
            f"add_posterior_predictive: expected ratios of {name} that are positive, found "
            f"{negative:.0%} of their mass negative. Rewards cannot be drawn by them."
        )
    # Units and back would cost a reward its last digit.
    rows = np.asarray(found.prepared.inputs.rows.mask)
    logged = np.append(logs.reward[rows], 0.0)
    array = logged[reward].astype(np.float32).reshape(*found.shape, -1)
    whole = with_groups(
        found.belief,
        {"posterior_predictive": {"reward": (array, ("transition",))}},
        {"transition": range(array.shape[-1])},
    )
    told = f"posterior_predictive has rewards of {name}; {negative:.2%} of the mass of its ratios "
    annotate(whole, notes=[*BeliefView(whole).notes, told + "is negative, and drew none"])
    return whole


def _rewards(
    found: Behind, j: int, rng_key: PRNGKeyArray
) -> tuple[Float[np.ndarray, "S n"], float]:
    """Which row each reward is that of, n for an absorbed step; and the share of negative mass."""
    inputs = found.prepared.inputs
    n = len(inputs.reward)
    rng = np.random.default_rng(seed_sequence(rng_key))
    with jax.enable_x64(True):
        ratios = found.ratios(j)
    absorbs = not found.settings.form.moments.restart
    rows = np.empty((len(ratios), n), dtype=np.int64)
    negative = 0.0
    pair = inputs.cells.pair[inputs.cell_of_row]
    if len(ratios) * n > MOST_NUMBERS:
        raise SettingsError(
            f"add_posterior_predictive: expected at most {MOST_NUMBERS:,} rewards, found "
            f"{len(ratios):,} draws of {n:,} rows. Fit with fewer draws."
        )
    for s, ratio in enumerate(ratios):
        weight = ratio[pair]
        negative += float(-np.minimum(weight, 0.0).sum() / np.abs(weight).sum()) / len(ratios)
        weight = np.maximum(weight, 0.0)
        lost = max(n - float(weight.sum()), 0.0) if absorbs else 0.0
        cumulative = np.cumsum(np.append(weight, lost))
        points = rng.random(n) * cumulative[-1]
        rows[s] = np.searchsorted(cumulative, points, side="right")
    return rows, negative
