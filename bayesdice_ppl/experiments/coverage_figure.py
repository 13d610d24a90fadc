"""Curves of coverage and width against the nominal level, one line a method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bayesdice_ppl.experiments.methods import BAYESDICE

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_PANEL = (2.3, 1.9)
"""Width and height of a panel, in inches."""


def draw_curves(summary: pl.DataFrame, levels: Sequence[float]) -> Figure:
    """Draw coverage above width for each world, with a column for each size of log.

    Parameters
    ----------
    summary
        Columns world, episodes, steps, method, ``cov_50`` and ``width_50`` and so on.
    levels
        The nominal levels of these columns.

    Returns
    -------
    matplotlib.figure.Figure
        A dashed line marks coverage that is nominal; widths are logarithms to the base 10.
    """
    from matplotlib.figure import Figure

    worlds = summary["world"].unique(maintain_order=True).to_list()
    sizes = {
        world: summary.filter(pl.col("world") == world)
        .select("episodes", "steps")
        .unique(maintain_order=True)
        .rows()
        for world in worlds
    }
    n_columns = max(map(len, sizes.values()))
    methods = summary["method"].unique(maintain_order=True).to_list()
    styles = {name: _style(name, at) for at, name in enumerate(methods)}
    height = _PANEL[1] * 2 * len(worlds) + 0.6
    figure = Figure(figsize=(_PANEL[0] * n_columns + 2.4, height), layout="constrained")
    axes = figure.subplots(2 * len(worlds), n_columns, squeeze=False)
    for row, world in enumerate(worlds):
        for column in range(n_columns):
            top, bottom = axes[2 * row, column], axes[2 * row + 1, column]
            if column >= len(sizes[world]):
                top.set_axis_off()
                bottom.set_axis_off()
                continue
            episodes, steps = sizes[world][column]
            here = summary.filter(
                (pl.col("world") == world)
                & (pl.col("episodes") == episodes)
                & (pl.col("steps") == steps)
            )
            for line in here.iter_rows(named=True):
                at = [f"{100 * level:.0f}" for level in levels]
                top.plot(levels, [line[f"cov_{one}"] for one in at], **styles[line["method"]])
                widths = np.array([line[f"width_{one}"] for one in at], dtype=np.float64)
                # A width of 0 has no logarithm, and no point.
                shown = np.log10(np.where(widths > 0.0, widths, np.nan))
                bottom.plot(levels, shown, **styles[line["method"]])
            top.plot(levels, levels, color="black", linestyle="--", linewidth=0.8)
            top.set_ylim(-0.03, 1.03)
            top.set_title(f"{world}, {episodes} x {steps}", fontsize=8)
            for panel in (top, bottom):
                panel.tick_params(labelsize=7)
        axes[2 * row, 0].set_ylabel("coverage", fontsize=8)
        axes[2 * row + 1, 0].set_ylabel("log10 width", fontsize=8)
    for column in range(n_columns):
        axes[-1, column].set_xlabel("nominal level", fontsize=8)
    handles = [_handle(name, styles[name]) for name in methods]
    figure.legend(handles=handles, loc="outside right upper", fontsize=7, frameon=False)
    return figure


def _style(name: str, at: int) -> dict[str, Any]:
    own = name == BAYESDICE
    return {
        "color": "black" if own else f"C{(at - 1) % 10}",
        "linewidth": 2.2 if own else 1.1,
        "marker": "o" if own else (".", "x", "+")[at // 10 % 3],
        "markersize": 3.5,
        "zorder": 3 if own else 2,
    }


def _handle(name: str, style: dict[str, Any]) -> Line2D:
    from matplotlib.lines import Line2D

    return Line2D([], [], label=name, **style)
