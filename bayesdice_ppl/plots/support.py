"""What the log holds of every policy, and what it does not.

Effective rows, unlogged actions, states without any logged action, and the largest episode.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesdice_ppl.belief import BeliefView, read_values, read_warnings
from bayesdice_ppl.fitting.gauges import EFFECTIVE, EPISODE, LOST, PREDICTED, UNLOGGED, Gauge
from bayesdice_ppl.plots.forest import in_order
from bayesdice_ppl.plots.layout import BOTTOM, FONT, GAP, ROW, SIDE, SMALL_FONT, TOP, place, widest

if TYPE_CHECKING:
    import xarray as xr
    from arviz_plots import PlotCollection

_PANEL, _BETWEEN = 2.0, 0.35
"""Inches of a panel, and between two."""
_WIDE = 200
"""Largest number over the least from which a logarithmic axis has powers of ten alone, and from the
square of which not all of them."""
PANELS: tuple[tuple[str, str, Gauge, bool], ...] = (
    ("effective_sample_size", "effective transitions", EFFECTIVE, True),
    ("moved_mass", "share of steps with\nunlogged actions", UNLOGGED, False),
    ("lost_mass", "share of steps after a state\nwithout a logged action", PREDICTED, False),
    ("influential_episode_share", "largest episode's\nshare of the evidence", EPISODE, False),
)
"""Variable, what it is called, its gauge, and whether its axis is logarithmic."""


def support(belief: "xr.DataTree", *, order: Sequence[str] | None = None) -> "PlotCollection":
    """Draw how well the log covers every policy, and where warnings begin.

    Parameters
    ----------
    belief : xarray.DataTree
        From `bayesdice_ppl.fit`.
    order : sequence of str, optional
        The policies to show, from the top down; all of them by posterior mean if left out.

    Returns
    -------
    arviz_plots.PlotCollection
        Four plots with a row for each policy. What is past a gauge's first threshold, a dashed
        line, is a cross. So is every share after a state without a logged action, however small,
        that the belief warns of because nothing predicts what such a state is worth.

    Raises
    ------
    BeliefError
        If the belief lacks any of it.
    SettingsError
        If `order` is empty, or names a policy twice or one that the belief does not have.
    """
    import xarray as xr
    from arviz_plots import PlotCollection
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    view = BeliefView(belief)
    order = in_order(read_values(belief), order)
    place_of = [view.names.index(name) for name in order]
    entries = {name: getattr(view, name)[place_of] for name, *_ in PANELS}
    collection = PlotCollection.grid(
        xr.Dataset(
            {"support": (("measure", "policy"), np.stack(list(entries.values())))},
            {"measure": list(entries), "policy": order},
        ),
        cols=["measure"],
        backend="matplotlib",
        figure_kwargs={"layout": "none"},
    )
    # Its threshold depends on whether other states predict it, which the belief's warning knows.
    warned = read_warnings(belief, tuple(order)) or ()
    lost = [each.policy for each in warned if each.name == LOST.name]
    figure, n = collection.get_viz("figure"), len(order)
    rows = np.arange(n)[::-1]
    boxes, names = {}, None
    for column, (name, title, gauge, logarithmic) in enumerate(PANELS):
        axes = collection.get_target(None, {"measure": name})
        values = entries[name]
        past = np.array([bool(gauge.judge("", float(value), "")) for value in values])
        if name == "lost_mass":
            past |= np.isin(order, lost)
        for row in range(n - 2, -1, -2):
            axes.axhspan(row - 0.5, row + 0.5, color="0.95", linewidth=0, zorder=-2)
        axes.plot(values[~past], rows[~past], "o", color="C0", markeredgecolor="white")
        axes.plot(values[past], rows[past], "X", color="C1", markeredgecolor="white", markersize=8)
        axes.axvline(gauge.warns, color="0.5", linestyle="--", linewidth=1, zorder=-1)
        if logarithmic:
            axes.set_xscale("log")
            # Ticks between powers of ten only where there is room for their numbers.
            low, high = axes.get_xlim()
            subs = (1.0, 3.0) if high < _WIDE * low else (1.0,)
            axes.xaxis.set_major_locator(
                LogLocator(subs=subs, numticks=5 if high < _WIDE**2 * low else 4)
            )
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
            axes.xaxis.set_minor_locator(NullLocator())
        else:
            axes.set_xlim(-0.05 * max(gauge.warns, values.max()), None)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
        axes.set_ylim(-0.5, n - 0.5)
        axes.set_xlabel(title, fontsize=SMALL_FONT)
        axes.tick_params(axis="x", labelsize=SMALL_FONT)
        axes.set_yticks(rows, order if column == 0 else [], fontsize=FONT)
        axes.tick_params(axis="y", length=0, pad=72 * GAP)
        for side in ("left", "right", "top"):
            axes.spines[side].set_visible(False)
        names = axes if names is None else names
        boxes[axes] = column
    assert names is not None
    left, height = SIDE + widest(figure, names.get_yticklabels()) + GAP, n * ROW
    total = left + len(PANELS) * _PANEL + (len(PANELS) - 1) * _BETWEEN + SIDE
    place(
        figure,
        (total, BOTTOM + height + TOP),
        {a: (left + c * (_PANEL + _BETWEEN), BOTTOM, _PANEL, height) for a, c in boxes.items()},
    )
    return collection
