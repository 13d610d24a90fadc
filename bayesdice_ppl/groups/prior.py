"""The prior of a belief: draws of it, and its density at the belief's own draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from bayesdice_ppl import checks
from bayesdice_ppl.belief import BeliefView, with_groups
from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.groups.problem import MOST_DRAWS, behind
from bayesdice_ppl.keys import check_key
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.models import RatioModel

if TYPE_CHECKING:
    from xarray import DataTree


def add_prior(
    belief: DataTree,
    logs: Logs,
    policies: Mapping[str, Any],
    *,
    rng_key: PRNGKeyArray,
    draws: int = MOST_DRAWS,
    features: FeatureChoice | None = None,
    model: RatioModel | None = None,
) -> DataTree:
    """Add the groups ``prior`` and ``log_prior``.

    They are what `arviz.plot_prior_posterior` and `arviz.psense_summary` need.

    Parameters
    ----------
    belief
        From `bayesdice_ppl.fit`; it stays as it is.
    logs, policies
        Those that it was fitted on.
    rng_key
        A key of `jax.random`.
    draws
        Number of draws of the prior, at most 1,000.
    features, model
        Those that the belief was fitted with, where they are not the defaults.

    Returns
    -------
    xarray.DataTree
        The belief with at most 1,000 of its draws. ``prior`` has `value`, in reward per step, and
        the parameters of the ratio, and ``log_prior`` their log densities at the belief's draws,
        in nats, summed over the parameters of a candidate.

    Raises
    ------
    BeliefError
        The belief cannot be followed back to these logs; the message says why.
    SettingsError
        There are more draws than 1,000, or fewer than 2.

    Notes
    -----
    The prior of a value is wide on purpose: by default 10 sds of the logged reward around its mean,
    whatever rewards can be. So before any data a value may be one that no policy can have.
    """
    check_key(rng_key)
    checks.whole("draws", draws, 2)
    checks.between("draws", draws, 1, MOST_DRAWS + 1)
    found = behind(belief, logs, policies, features=features, model=model)
    view = BeliefView(found.belief)
    name, dim = found.settings.model.record(tabular=found.settings.tabular)
    value = found.belief["posterior"]["value"].to_numpy()
    value_score = -0.5 * ((value - view.prior_mean) / view.prior_sd) ** 2
    value_score -= np.log(view.prior_sd * np.sqrt(2.0 * np.pi))
    drawn, scores = [], []
    with jax.enable_x64(True):
        for j in range(len(view.names)):
            ratio = found.ratio_of(j)
            prior = ratio.latent_prior()
            own = prior.sample(jax.random.fold_in(rng_key, j), (draws,))
            drawn.append(np.asarray(ratio.recorded(np.asarray(own))))
            scores.append(np.asarray(prior.log_prob(found.latent[:, j])))
        normal = np.asarray(
            jax.random.normal(jax.random.fold_in(rng_key, len(view.names)), (draws, len(drawn)))
        )
    score = np.stack(scores, axis=1).reshape(*found.shape, -1)
    parameters = np.stack(drawn, axis=1)[None]
    coords: dict[str, Any] = {"policy": view.names}
    if dim in found.belief["posterior"].coords:
        coords[dim] = found.belief["posterior"].coords[dim].to_numpy()
    one = np.float32
    return with_groups(
        found.belief,
        {
            "prior": {
                "value": ((view.prior_mean + view.prior_sd * normal)[None], ("policy",)),
                name: (parameters.astype(one), ("policy", dim)),
            },
            "log_prior": {
                "value": (value_score.astype(one), ("policy",)),
                name: (score.astype(one), ("policy",)),
            },
        },
        coords,
    )
