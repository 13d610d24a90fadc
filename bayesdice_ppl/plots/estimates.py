"""Estimates with their intervals, one policy below the other: for methods without a belief."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.plots.layout import FONT, GAP, lay_out_rows, logged_caption, set_caption

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def estimates(
    names: Sequence[str],
    values: Sequence[float],
    intervals: Sequence[tuple[float, float]] | None = None,
    *,
    caption: str = "",
    logged: float | None = None,
) -> "Figure":
    """Draw every policy's estimate, and its interval where there is one, the first on top.

    Parameters
    ----------
    names : sequence of str
        The policies, best first.
    values : sequence of float
        Their estimates, in reward per step.
    intervals : sequence of (float, float), optional
        Lower and upper end of each; the estimate need not lie between them.
    caption : str
        What is shown, such as the method and the level.
    logged : float, optional
        Value of the logging policy, where a dashed line is drawn.

    Returns
    -------
    matplotlib.figure.Figure
        `save` writes it to a file.

    Raises
    ------
    SettingsError
        If there are no names, or their number is not that of the values or intervals.
    """
    from matplotlib.figure import Figure

    n = len(names)
    if not n or n != len(values) or (intervals is not None and n != len(intervals)):
        raise SettingsError(
            f"estimates: expected a value for each of {n} names, and an interval for each or for "
            "none."
        )
    # Made without pyplot, which would keep it open. A layout engine would undo the positions.
    figure = Figure()
    figure.set_layout_engine("none")
    axes = figure.add_subplot()
    rows = np.arange(n)[::-1]
    if intervals is not None:
        lower, upper = np.asarray(intervals, dtype=np.float64).T
        axes.hlines(rows, lower, upper, color="C0", linewidth=2)
    axes.plot(values, rows, "o", color="C0", markeredgecolor="white")
    if logged is not None:
        axes.axvline(logged, color="0.5", linestyle="--", linewidth=1, zorder=-1)
    set_caption(axes, caption, logged_caption(logged))
    axes.set_yticks(rows, names, fontsize=FONT)
    axes.tick_params(axis="y", length=0, pad=72 * GAP)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    lay_out_rows(figure, axes.get_yticklabels(), axes, n)
    return figure
