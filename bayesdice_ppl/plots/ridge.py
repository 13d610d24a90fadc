"""The density of every policy's value, one behind the other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import BeliefView, make_belief, read_values
from bayesdice_ppl.plots.forest import in_order
from bayesdice_ppl.plots.layout import (
    BOTTOM,
    FONT,
    GAP,
    INTERVALS,
    ROW,
    SIDE,
    TOP,
    X_LABEL,
    logged_caption,
    place,
    set_caption,
    widest,
)

TAIL, HEAVY = 0.05, 10.0
"""Share of draws to each side that a view may leave out, and how many times as wide all draws must
be for that: those of a normal are twice as wide."""

if TYPE_CHECKING:
    import xarray as xr
    from arviz_plots import PlotCollection


def ridge(
    belief: "xr.DataTree", *, order: Sequence[str] | None = None, backend: str = "matplotlib"
) -> "PlotCollection":
    """Draw the density of every policy's value, best on top.

    Where all draws are more than ten times as wide as their central 90 %, as with one or two
    degrees of freedom, the figure shows these, and its axis says so. Other backends show all draws.

    Parameters
    ----------
    belief : xarray.DataTree
        With `posterior/value`, as for `forest`.
    order : sequence of str, optional
        The policies to show, best first; all of them by posterior mean, then name, if left out.
    backend : str
        What ArviZ draws with: one of its backends that is installed.

    Returns
    -------
    arviz_plots.PlotCollection
        ArviZ's figure.

    Raises
    ------
    BeliefError
        If the belief lacks draws or names.
    SettingsError
        If `order` is empty, or names a policy twice or one that the belief does not have.
    """
    from arviz_plots import plot_ridge

    draws = read_values(belief)
    order = in_order(draws, order)
    values = draws.values[..., [draws.names.index(name) for name in order]]
    ends = _ends(values.reshape(-1, len(order)))
    shown = make_belief(values, order)
    plain = backend == "matplotlib"
    collection = plot_ridge(
        shown,
        var_names=["value"],
        sample_dims=["chain", "draw"],
        combined=True,
        labels=["policy"],
        backend=backend,
        # A layout engine, which a style can turn on, would undo the positions set below.
        figure_kwargs={"layout": "none"} if plain else {},
        visuals={"ticklabels": False, "labels": {"horizontal_align": "right"}},
    )
    if plain:
        _finish(collection, len(order), BeliefView(belief), ends)
    return collection


def _ends(values: "Float[np.ndarray, 'M N']") -> tuple[float, float] | None:
    """Ends of the axis, where tails are so heavy that all draws would leave nothing to see."""
    edges = np.quantile(values, [TAIL, 1.0 - TAIL], axis=0)
    low, high = float(edges.min()), float(edges.max())
    whole = float(values.max() - values.min())
    return (low, high) if whole > HEAVY * (high - low) else None


def _finish(
    collection: "PlotCollection",
    n_rows: int,
    view: BeliefView,
    ends: tuple[float, float] | None,
) -> None:
    """Label the axis, and lay names and densities out by their measured sizes."""
    figure = collection.get_viz("figure")
    names = collection.get_target(None, {"column": "labels"})
    axes = collection.get_target(None, {"column": "ridge"})
    logged = view.logged_value
    if logged is not None:
        axes.axvline(logged, color="0.5", linestyle="--", linewidth=1, zorder=-1)
    names.set_axis_off()
    for text in names.texts:
        text.set_fontsize(FONT)
    label = X_LABEL
    if ends is not None:
        room = 0.05 * (ends[1] - ends[0])
        axes.set_xlim(ends[0] - room, ends[1] + room)
        label = f"{X_LABEL}, the central {100 - 200 * TAIL:.0f} % of draws"
    axes.set_xlabel(label, fontsize=FONT)
    axes.tick_params(axis="x", labelsize=FONT - 1)
    set_caption(axes, view.method, logged_caption(logged))
    low, high = -0.3, n_rows + 0.2  # the density of the row on top is nearly a row high
    for each in (axes, names):
        each.set_ylim(low, high)
    width, height = widest(figure, names.texts), (high - low) * ROW
    left = SIDE + width + GAP
    place(
        figure,
        (left + INTERVALS + SIDE, BOTTOM + height + TOP),
        {
            names: (SIDE, BOTTOM, width + GAP, height),
            axes: (left, BOTTOM, INTERVALS, height),
        },
    )
    names.set_xlim(-width, GAP)  # in inches: the names end at 0
    for text in names.texts:
        text.set_x(0.0)
