"""The mean residual of a belief on each test function, in standard errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.groups.problem import behind
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.models import RatioModel
from bayesdice_ppl.moments import VALUE_ROW

if TYPE_CHECKING:
    from xarray import DataTree


class MeanResiduals(NamedTuple):
    """Residuals at the mean of a belief's draws.

    Attributes
    ----------
    labels
        Names of the R test functions.
    z
        Residuals over the standard errors that Sigma gives them, shape (N, R); NaN where a test
        function is no part of a candidate's constraint.
    """

    labels: list[str]
    z: Float[np.ndarray, "N R"]


def mean_residuals(
    belief: DataTree,
    logs: Logs,
    policies: Mapping[str, Any],
    *,
    features: FeatureChoice | None = None,
    model: RatioModel | None = None,
) -> MeanResiduals:
    """The mean residual of every candidate on each test function, over its standard error.

    Parameters
    ----------
    belief, logs, policies, features, model
        As for `bayesdice_ppl.groups.add_log_likelihood`.

    Raises
    ------
    BeliefError
        The belief cannot be followed back to these logs; the message says why.
    """
    found = behind(belief, logs, policies, features=features, model=model)
    inputs, problem = found.prepared.inputs, found.prepared.problem
    n = float(inputs.cells.n_transitions)
    rows = []
    with jax.enable_x64(True):
        for j in range(len(inputs.names)):
            residual = np.asarray(found.ratio_of(j).residual(found.latent[:, j])).mean(axis=0)
            residual[VALUE_ROW] -= found.value[:, j].mean()
            spread = np.sqrt(np.diagonal(np.asarray(problem.pilots.covariance)[j]) / n)
            live = spread > 1e-12
            rows.append(np.where(live, residual / np.where(live, spread, 1.0), np.nan))
    z = np.stack(rows)
    own = z.shape[1] - 1 - int(inputs.settings.form.moments.normalized)
    if inputs.settings.tabular and "pair" in found.belief["posterior"].coords:
        labels = [str(pair) for pair in found.belief["posterior"].coords["pair"].to_numpy()]
    else:
        labels = [f"feature {k}" for k in range(own)]
    labels = labels[:own] + ["normalization"] * (z.shape[1] - 1 - own) + ["value"]
    return MeanResiduals(labels, z)
