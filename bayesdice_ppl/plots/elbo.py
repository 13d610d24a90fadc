"""The course of SVI: the ELBO at each step, less its last mean."""

from typing import TYPE_CHECKING

import numpy as np

from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.errors import BeliefError
from bayesdice_ppl.plots.layout import FONT, SMALL_FONT, set_caption

if TYPE_CHECKING:
    import xarray as xr
    from arviz_plots import PlotCollection

_SIZE = (6.0, 3.6)
_LEGEND = 12
_LAST = 40
"""The last one in so many steps is what the ELBO is measured from."""


def elbo(belief: "xr.DataTree") -> "PlotCollection":
    """Draw how far the ELBO of every policy was below where it ended.

    Parameters
    ----------
    belief : xarray.DataTree
        Fitted by SVI, so that it has `fit_data/elbo`.

    Returns
    -------
    arviz_plots.PlotCollection
        With one plot: a line for each policy, smoothed over a hundredth of the steps. Its axis is
        linear within one nat, and logarithmic beyond.

    Raises
    ------
    BeliefError
        If the belief was not fitted by SVI.
    """
    import xarray as xr
    from arviz_plots import PlotCollection

    view = BeliefView(belief)
    if not view.has(BeliefView.elbo):
        raise BeliefError(
            "belief: expected fit_data/elbo, found none: it was not fitted by SVI. Fit it with "
            "inference='svi'."
        )
    trace = view.elbo
    window = max(trace.shape[1] // 100, 1)
    kernel = np.full(window, 1.0 / window)
    smooth = np.stack([np.convolve(row, kernel, mode="valid") for row in trace])
    last = trace[:, -max(trace.shape[1] // _LAST, 1) :].mean(axis=1)
    gap = smooth - last[:, None]
    steps = np.arange(smooth.shape[1]) + window
    collection = PlotCollection.grid(
        xr.Dataset({"elbo": (("policy", "step"), gap)}, {"policy": view.names, "step": steps}),
        backend="matplotlib",
        figure_kwargs={"layout": "constrained", "figsize": _SIZE},
    )
    axes = collection.get_viz("plot")
    named = len(view.names) <= _LEGEND
    for j, (name, row) in enumerate(zip(view.names, gap, strict=True)):
        label = name.replace("$", r"\$") if named else None
        axes.plot(steps, row, linewidth=1, color=f"C{j % 10}", label=label)
    axes.axhline(0.0, color="0.5", linewidth=0.8)
    axes.set_yscale("symlog", linthresh=1.0)
    axes.set_xlabel("step", fontsize=FONT)
    axes.set_ylabel("ELBO less its last mean (nats)", fontsize=FONT)
    if named:
        axes.legend(fontsize=SMALL_FONT, frameon=False, loc="lower right", ncols=2)
    set_caption(axes, view.engine.split(" (")[0])
    return collection
