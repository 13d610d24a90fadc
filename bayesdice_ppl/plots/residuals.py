"""How well the ratio of every policy meets each test function, in standard errors."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.groups.residuals import mean_residuals
from bayesdice_ppl.plots.maps import draw_map

if TYPE_CHECKING:
    import xarray as xr
    from arviz_plots import PlotCollection

    from bayesdice_ppl.logs import Logs

LIMIT = 3.0
"""Standard errors at which color is fullest."""


def residuals(
    belief: "xr.DataTree", logs: "Logs", policies: Mapping[str, Any], **fitted_with: Any
) -> "PlotCollection":
    """Draw the mean residual of every policy on each test function, in its standard errors.

    Parameters
    ----------
    belief : xarray.DataTree
        From `bayesdice_ppl.fit`.
    logs : Logs
        Those that it was fitted on.
    policies : mapping
        The candidates.
    **fitted_with
        ``features`` and ``model``, where they are not the defaults.

    Returns
    -------
    arviz_plots.PlotCollection
        With one plot: a row for each policy, a column for each pair or feature, and the rows of the
        normalization and of the value last. Gray: no part of the policy's constraint.

    Raises
    ------
    BeliefError
        The belief cannot be followed back to these logs; the message says why.
    """
    found = mean_residuals(belief, logs, policies, **fitted_with)
    z = np.clip(found.z, -LIMIT, LIMIT)
    return draw_map(
        z,
        BeliefView(belief).names,
        found.labels,
        label="residual (standard errors)",
        limit=LIMIT,
    )
