"""A heat map of how the values of the policies move together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bayesdice_ppl.belief import BeliefView, read_values
from bayesdice_ppl.plots.forest import in_order
from bayesdice_ppl.plots.maps import draw_map

if TYPE_CHECKING:
    import xarray as xr
    from arviz_plots import PlotCollection


def dependence(belief: "xr.DataTree", *, order: Sequence[str] | None = None) -> "PlotCollection":
    """Draw the correlation of each two policies' values, as draws of the belief have it.

    Parameters
    ----------
    belief : xarray.DataTree
        With `posterior/value`, as for `forest`.
    order : sequence of str, optional
        The policies to show; all of them by posterior mean, then name, if left out.

    Returns
    -------
    arviz_plots.PlotCollection
        With one plot. Cells hold their number up to 12 policies; beyond 40 some of the names are
        left out.

    Raises
    ------
    BeliefError
        If the belief lacks draws or names.
    SettingsError
        If `order` is empty, or names a policy twice or one that the belief does not have.
    """
    import numpy as np

    draws = read_values(belief)
    order = in_order(draws, order)
    columns = [draws.names.index(name) for name in order]
    flat = draws.values[..., columns].reshape(-1, len(order))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.atleast_2d(np.corrcoef(flat.T))
    method = BeliefView(belief).method
    return draw_map(correlation, order, order, label="correlation of values", caption=method)
