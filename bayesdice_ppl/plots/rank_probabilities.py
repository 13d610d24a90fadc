"""A heat map of how probable each place is for each policy."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from bayesdice_ppl.belief import BeliefView, Which, read_values
from bayesdice_ppl.plots.forest import in_order
from bayesdice_ppl.plots.layout import FONT, SMALL_FONT, lay_out_map, set_caption
from bayesdice_ppl.selection.ranks import rank_probabilities as probabilities_of

if TYPE_CHECKING:
    import xarray as xr
    from arviz_plots import PlotCollection
    from matplotlib.axes import Axes

X_LABEL = "true place (1 is best)"
COLOR_LABEL = "probability"
# The most policies whose cells hold their number, and the most of which each is named.
_NUMBERED, _NAMED = 12, 40
# Inches: a cell with a number, and one without.
_CELL, _SMALL_CELL = (0.5, 0.3), (0.2, 0.2)


def rank_probabilities(
    belief: "xr.DataTree", *, order: Sequence[str] | None = None, statistic: Which = "value"
) -> "PlotCollection":
    """Draw how probable it is that each policy truly has each place.

    Parameters
    ----------
    belief : xarray.DataTree
        With `posterior/value`, dims chain (may be left out), draw, policy. An attribute `method`,
        as the beliefs of other methods have, is named above.
    order : sequence of str, optional
        The policies to show, from the top down, such as `Selection.order`; all of them by
        posterior mean, then name, if left out. Places are those among all policies in any case.
    statistic : str
        Which variable of `posterior` the values are.

    Returns
    -------
    arviz_plots.PlotCollection
        With one plot: a row per policy and a column per place. Cells hold their probability up to
        12 policies; beyond 40 some of the names are left out.

    Raises
    ------
    BeliefError
        If the belief lacks draws or names.
    SettingsError
        If `order` names a policy that the belief does not have, names one twice, or is empty.
    """
    import xarray as xr
    from arviz_plots import PlotCollection

    order = in_order(read_values(belief, statistic), order)
    shares = probabilities_of(belief, statistic).sel(policy=order)
    collection = PlotCollection.grid(
        xr.Dataset({shares.name: shares}),
        backend="matplotlib",
        # A layout engine, which a style can turn on, would undo the positions set below.
        figure_kwargs={"layout": "none"},
    )
    _draw(collection, order, shares.values, BeliefView(belief).method)
    return collection


def _draw(collection: "PlotCollection", names: list[str], shares: np.ndarray, method: str) -> None:
    figure, axes = collection.get_viz("figure"), collection.get_viz("plot")
    n_rows, n_places = shares.shape
    image = axes.imshow(
        shares,
        cmap="Blues",
        vmin=0.0,
        vmax=shares.max(),
        aspect="auto",
        interpolation="nearest",
        extent=(0.5, n_places + 0.5, n_rows - 0.5, -0.5),
    )
    axes.grid(False)
    if n_places <= _NUMBERED:
        _write_numbers(axes, shares)
    shown = range(0, n_rows, ceil(n_rows / _NAMED))
    axes.set_yticks(list(shown), [names[row] for row in shown])
    if n_places <= _NAMED:
        axes.set_xticks(range(1, n_places + 1))
    else:
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))
    font = FONT if n_places <= _NUMBERED else SMALL_FONT
    axes.tick_params(labelsize=font, length=0)
    axes.set_xlabel(X_LABEL, fontsize=FONT)
    bar = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    figure.colorbar(image, cax=bar, label=COLOR_LABEL)
    bar.tick_params(labelsize=SMALL_FONT)
    set_caption(axes, method)
    cell = _CELL if n_places <= _NUMBERED else _SMALL_CELL
    lay_out_map(figure, axes, bar, shares.shape, cell, titled=bool(method))


def _write_numbers(axes: "Axes", shares: np.ndarray) -> None:
    """Write each probability in its cell, but for those that are 0."""
    for row, column in zip(*np.nonzero(shares > 1e-9), strict=True):
        share = shares[row, column]
        number = f"{share:.2f}" if share >= 0.005 else "<.01"
        dark = share > 0.6 * shares.max()
        axes.text(
            column + 1,
            row,
            number,
            ha="center",
            va="center",
            fontsize=SMALL_FONT,
            color="white" if dark else "0.2",
        )
