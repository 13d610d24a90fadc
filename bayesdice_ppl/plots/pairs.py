"""How the values of the policies move together, two by two."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bayesdice_ppl.belief import make_belief, read_values
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.plots.forest import in_order
from bayesdice_ppl.plots.layout import as_written

if TYPE_CHECKING:
    import xarray as xr
    from arviz_plots import PlotCollection

_PANEL = 2.3
"""Inches of a panel."""
MOST = 6
"""Most policies; the figure has a panel for each two."""


def pairs(
    belief: "xr.DataTree", *, order: Sequence[str] | None = None, backend: str = "matplotlib"
) -> "PlotCollection":
    """Draw the joint draws of each two policies' values.

    Parameters
    ----------
    belief : xarray.DataTree
        With `posterior/value`, as for `forest`.
    order : sequence of str, optional
        From two to six policies; the best six by posterior mean if left out.
    backend : str
        What ArviZ draws with: one of its backends that is installed.

    Returns
    -------
    arviz_plots.PlotMatrix
        ArviZ's figure.

    Raises
    ------
    BeliefError
        If the belief lacks draws or names.
    SettingsError
        If there are fewer than two policies or more than six, or `order` names one that is not
        there.
    """
    from arviz_plots import plot_pair

    draws = read_values(belief)
    order = in_order(draws, order) if order is not None else in_order(draws, None)[:MOST]
    if not 2 <= len(order) <= MOST:
        raise SettingsError(
            f"order: expected from two to {MOST} policies, found {len(order)}. Name those that "
            "matter."
        )
    columns = [draws.names.index(name) for name in order]
    labels = as_written(order, backend)
    shown = make_belief(draws.values[..., columns], labels)
    figure_kwargs = {}
    if backend == "matplotlib":
        size = (_PANEL * len(order), _PANEL * len(order))
        figure_kwargs = {"figsize": size, "figsize_units": "inches", "layout": "constrained"}
    return plot_pair(
        shown,
        var_names=["value"],
        sample_dims=["chain", "draw"],
        backend=backend,
        figure_kwargs=figure_kwargs,
        visuals={"scatter": {"alpha": 0.2}},
    )
