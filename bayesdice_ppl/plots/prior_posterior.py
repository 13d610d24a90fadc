"""The prior of the values beside their posterior."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from bayesdice_ppl.belief import read_values
from bayesdice_ppl.errors import BeliefError, SettingsError
from bayesdice_ppl.plots.forest import in_order
from bayesdice_ppl.plots.layout import as_written

if TYPE_CHECKING:
    import xarray as xr
    from arviz_plots import PlotCollection

_COLUMNS, _PANEL = 3, (3.2, 2.2)
"""Panels in a row, and inches of a panel."""
MOST = 12
"""Most policies; each has a panel."""


def prior_posterior(
    belief: "xr.DataTree", *, order: Sequence[str] | None = None, backend: Any = "matplotlib"
) -> "PlotCollection":
    """Draw the prior and the posterior of every value.

    Parameters
    ----------
    belief : xarray.DataTree
        With the group `prior`, from `bayesdice_ppl.add_prior`.
    order : sequence of str, optional
        At most twelve policies; the best twelve by posterior mean if left out.
    backend : str
        What ArviZ draws with: one of its backends that is installed.

    Returns
    -------
    arviz_plots.PlotCollection
        From `arviz.plot_prior_posterior`.

    Raises
    ------
    BeliefError
        If the belief has no prior.
    SettingsError
        If there are more than twelve policies, or `order` names one that is not there.
    """
    from arviz_base import from_dict
    from arviz_plots import plot_prior_posterior

    draws = read_values(belief)
    if "prior" not in belief.children:
        raise BeliefError(
            "belief: expected the group prior, found none. Add it by bayesdice_ppl.add_prior."
        )
    order = in_order(draws, order) if order is not None else in_order(draws, None)[:MOST]
    if len(order) > MOST:
        raise SettingsError(f"order: expected at most {MOST} policies, found {len(order)}.")
    columns = min(len(order), _COLUMNS)
    size = (_PANEL[0] * columns, _PANEL[1] * ceil(len(order) / columns) + 0.4)
    plain = backend == "matplotlib"
    kwargs = {"figsize": size, "figsize_units": "inches", "layout": "constrained"}
    shown = from_dict(
        {
            group: {"value": belief[group]["value"].sel(policy=order).to_numpy()}
            for group in ("prior", "posterior")
        },
        coords={"policy": as_written(order, backend)},
        dims={"value": ["policy"]},
    )
    return plot_prior_posterior(
        shown,
        var_names=["value"],
        backend=backend,
        col_wrap=columns,
        figure_kwargs=kwargs if plain else {},
    )
