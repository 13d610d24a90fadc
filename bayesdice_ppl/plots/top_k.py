"""How probable it is that each policy is the best, and that it is among the best k."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesdice_ppl import checks
from bayesdice_ppl.belief import BeliefView, read_values
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.plots.forest import in_order
from bayesdice_ppl.plots.layout import FONT, GAP, SMALL_FONT, lay_out_rows, set_caption
from bayesdice_ppl.selection.ranks import rank_probabilities

if TYPE_CHECKING:
    import xarray as xr
    from arviz_plots import PlotCollection


def top_k(
    belief: "xr.DataTree", k: int = 2, *, order: Sequence[str] | None = None
) -> "PlotCollection":
    """Draw P(best) and P(among the best k) of every policy, one below the other.

    Parameters
    ----------
    belief : xarray.DataTree
        With `posterior/value`, as for `forest`.
    k : int
        How many are the best; at least 2 and less than the number of policies.
    order : sequence of str, optional
        The policies to show, from the top down; all of them by posterior mean if left out. Places
        are those among all policies in any case.

    Returns
    -------
    arviz_plots.PlotCollection
        With one plot: a row for each policy.

    Raises
    ------
    BeliefError
        If the belief lacks draws or names.
    SettingsError
        If k is out of its range, or `order` is.
    """
    import xarray as xr
    from arviz_plots import PlotCollection

    draws = read_values(belief)
    order = in_order(draws, order)
    checks.whole("k", k, 2)
    if k >= len(draws.names):
        raise SettingsError(
            f"k: expected less than the number of policies, {len(draws.names)}, found {k}."
        )
    shares = rank_probabilities(belief).sel(policy=order)
    best, top = shares.values[:, 0], shares.values[:, :k].sum(axis=1)
    collection = PlotCollection.grid(
        xr.Dataset({"best": ("policy", best), "top": ("policy", top)}, {"policy": order}),
        backend="matplotlib",
        # A layout engine, which a style can turn on, would undo the positions set below.
        figure_kwargs={"layout": "none"},
    )
    figure, axes = collection.get_viz("figure"), collection.get_viz("plot")
    rows = np.arange(len(order))[::-1]
    axes.hlines(rows, best, top, color="C0", linewidth=2, zorder=1)
    axes.plot(top, rows, "o", color="C0", markeredgecolor="white", label=f"among the best {k}")
    # Not by color alone: the best is a square.
    axes.plot(best, rows, "s", color="C1", markeredgecolor="white", label="the best")
    axes.set_yticks(rows, order, fontsize=FONT)
    axes.tick_params(axis="y", length=0, pad=72 * GAP)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    set_caption(axes, BeliefView(belief).method)
    lay_out_rows(figure, axes.get_yticklabels(), axes, len(order))
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel("probability", fontsize=FONT)
    axes.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, fontsize=SMALL_FONT, frameon=False
    )
    return collection
