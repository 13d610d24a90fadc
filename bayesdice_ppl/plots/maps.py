"""Heat maps of numbers around zero, with names at both sides."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from bayesdice_ppl.plots.layout import BOTTOM, FONT, SMALL_FONT, lay_out_map, set_caption

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

_NUMBERED, _NAMED = 12, 40
"""Most rows and columns whose cells hold their number, and of which each is named."""
_CELL, _SMALL_CELL = (0.5, 0.3), (0.2, 0.2)
_UNDER = 0.3
"""Inches below the names under the map."""


def draw_map(
    numbers: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    label: str,
    caption: str = "",
    limit: float = 1.0,
) -> "PlotCollection":
    """Draw a heat map from -limit to limit; NaN is gray.

    Parameters
    ----------
    numbers : array
        Shape (rows, columns).
    rows, columns : sequence of str
        Their names.
    label : str
        What the numbers are.
    caption : str
        What stands above.
    limit : float
        The number at which color is fullest.
    """
    import xarray as xr
    from arviz_plots import PlotCollection

    collection = PlotCollection.grid(
        xr.Dataset({"map": (("row", "column"), numbers)}),
        backend="matplotlib",
        # A layout engine, which a style can turn on, would undo the positions set below.
        figure_kwargs={"layout": "none"},
    )
    figure, axes = collection.get_viz("figure"), collection.get_viz("plot")
    axes.set_facecolor("0.85")
    # Blue and orange differ to every eye.
    image = axes.imshow(
        numbers, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
    )
    axes.grid(False)
    small = max(numbers.shape) > _NUMBERED
    if not small:
        for (i, j), number in np.ndenumerate(numbers):
            if np.isfinite(number):
                color = "white" if abs(number) > 0.7 * limit else "0.1"
                text = f"{number:.2f}".replace("-0.00", "0.00")
                axes.text(j, i, text, ha="center", va="center", fontsize=SMALL_FONT, color=color)
    font = SMALL_FONT if small else FONT
    shown = range(0, len(rows), ceil(len(rows) / _NAMED))
    axes.set_yticks(list(shown), [rows[i] for i in shown], fontsize=font)
    shown = range(0, len(columns), ceil(len(columns) / _NAMED))
    axes.set_xticks(list(shown), [columns[i] for i in shown], fontsize=font, rotation=90)
    axes.tick_params(length=0)
    for text in axes.get_xticklabels():
        text.set_parse_math(False)
    bar = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    figure.colorbar(image, cax=bar, label=label)
    bar.tick_params(labelsize=SMALL_FONT)
    set_caption(axes, caption)
    figure.canvas.draw()
    under = max(t.get_window_extent().height for t in axes.get_xticklabels()) / figure.dpi
    lay_out_map(
        figure,
        axes,
        bar,
        numbers.shape,
        _SMALL_CELL if small else _CELL,
        titled=bool(caption),
        below=max(BOTTOM, under + _UNDER),
    )
    return collection
