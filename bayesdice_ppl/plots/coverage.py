"""What simulated logs say of intervals: coverage against level, and ranks of the truth."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from bayesdice_ppl.calibration import Calibration
from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.plots.layout import FONT, GRAY, SMALL_FONT, as_written, set_caption

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

_SIDE, _LEGEND = 4.6, 12
"""Inches of the figure, and the most candidates that have a line of their own in the legend."""
_LINES = ("-", "--", "-.", ":")


def coverage(calibration: Calibration) -> "PlotCollection":
    """Draw the share of intervals that hold the truth against their level.

    Parameters
    ----------
    calibration : bayesdice_ppl.calibration.Calibration
        From `bayesdice_ppl.calibrate`.

    Returns
    -------
    arviz_plots.PlotCollection
        With one plot: a line for each policy, and the band in which 95 % of such lines are, level
        by level, if intervals hold the truth as often as they should. Past twelve policies only
        those that miss are named.
    """
    import xarray as xr
    from arviz_plots import PlotCollection
    from scipy.stats import binom

    levels = np.linspace(0.02, 0.98, 49)
    shares = np.stack([calibration.coverage(level) for level in levels])
    names = list(calibration.names)
    collection = PlotCollection.grid(
        xr.Dataset({"coverage": (("level", "policy"), shares)}, {"level": levels, "policy": names}),
        backend="matplotlib",
        figure_kwargs={"layout": "constrained", "figsize": (_SIDE, _SIDE)},
    )
    axes = collection.get_viz("plot")
    trials = calibration.trials
    low, high = (binom.ppf(q, trials, levels) / trials for q in (0.025, 0.975))
    axes.fill_between(levels, low, high, color="0.88", linewidth=0, label="if right: 95 %")
    axes.plot([0, 1], [0, 1], color=GRAY, linewidth=1)
    missed, many = set(calibration.missed), len(names) > _LEGEND
    for j, (name, column) in enumerate(zip(names, shares.T, strict=True)):
        told = not many or name in missed
        axes.plot(
            levels,
            column,
            color=f"C{j % 10}" if told else "0.6",
            linestyle=_LINES[(j // 10) % len(_LINES)],
            linewidth=1.8 if told else 0.7,
            label=name.replace("$", r"\$") if told else None,
            zorder=3 if told else 2,
        )
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("level of the interval", fontsize=FONT)
    axes.set_ylabel("share that holds the truth", fontsize=FONT)
    axes.legend(fontsize=SMALL_FONT, loc="upper left", frameon=False)
    set_caption(axes, f"{calibration.trials:,} simulated logs ({calibration.kind})")
    return collection


def ranks_of_truth(
    calibration: Calibration,
    *,
    order: Sequence[str] | None = None,
    backend: str = "matplotlib",
) -> "PlotCollection":
    """Draw ArviZ's difference between the ranks of the truth and uniform ones, by policy.

    Parameters
    ----------
    calibration : bayesdice_ppl.calibration.Calibration
        From `bayesdice_ppl.calibrate`.
    order : sequence of str, optional
        At most twelve policies; the twelve that were covered least often if left out.
    backend : str
        What ArviZ draws with: one of its backends that is installed.

    Returns
    -------
    arviz_plots.PlotCollection
        A panel for each policy, from `arviz.plot_ecdf_pit`.

    Raises
    ------
    SettingsError
        If `order` is empty, too long, or names a policy that is not there.
    """
    from arviz_plots import plot_ecdf_pit

    names = list(calibration.names)
    if order is None:
        worst = np.argsort(calibration.coverage(0.9), kind="stable")[:_LEGEND]
        order = [names[j] for j in sorted(worst)]
    if not 1 <= len(order) <= _LEGEND or not set(order) <= set(names):
        raise SettingsError(
            f"order: expected from one to {_LEGEND} of {listed(names)}, found {list(order)}."
        )
    columns = min(len(order), 3)
    plain = backend == "matplotlib"
    size = (3.4 * columns, 2.6 * ceil(len(order) / columns))
    kwargs = {"figsize": size, "figsize_units": "inches", "layout": "constrained"}
    shown = calibration.tree
    group = shown["prior_sbc"].to_dataset().sel(policy=list(order))
    shown["prior_sbc"] = type(shown)(group.assign_coords(policy=as_written(order, backend)))
    return plot_ecdf_pit(
        shown,
        backend=backend,
        col_wrap=columns,
        figure_kwargs=kwargs if plain else {},
    )
