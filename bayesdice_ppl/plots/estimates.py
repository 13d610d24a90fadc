"""Points with intervals, one policy below the other: what methods without a belief have to show."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.plots.forest import X_LABEL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Inches: a row, the margins above and below the rows and at the sides, the intervals, the gap
# between names and intervals. Points: names, and the caption above.
_ROW, _TOP, _BOTTOM, _SIDE, _INTERVALS, _GAP = 0.28, 0.35, 0.6, 0.2, 5.0, 0.15
_FONT, _CAPTION_FONT = 10, 8


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
        Value of the policy that logged, where a dashed line is drawn.

    Returns
    -------
    matplotlib.figure.Figure
        `save` writes it to a file.

    Raises
    ------
    SettingsError
        If there are no names, or names, values and intervals are not as many.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    n = len(names)
    if not n or n != len(values) or (intervals is not None and n != len(intervals)):
        raise SettingsError(
            f"estimates: expected a value, and an interval or none at all, for each of {n} names"
        )
    # Not one of pyplot's: nothing has to be closed. A layout engine would undo the positions.
    figure = Figure()
    figure.set_layout_engine("none")
    axes = figure.add_subplot()
    rows = np.arange(n)[::-1]
    for row in range(n - 2, -1, -2):
        axes.axhspan(row - 0.5, row + 0.5, color="0.95", linewidth=0, zorder=-2)
    if intervals is not None:
        lower, upper = np.asarray(intervals, dtype=np.float64).T
        axes.hlines(rows, lower, upper, color="C0", linewidth=2)
    axes.plot(values, rows, "o", color="C0", markeredgecolor="white")
    if logged is not None:
        axes.axvline(logged, color="0.5", linestyle="--", linewidth=1, zorder=-1)
        caption += f"{'; ' if caption else ''}dashed: logged value, {logged:.4g}"
    axes.set_ylim(-0.5, n - 0.5)
    axes.set_yticks(rows, names, fontsize=_FONT)
    axes.tick_params(axis="y", length=0, pad=72 * _GAP)
    axes.tick_params(axis="x", labelsize=_FONT - 1)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.set_xlabel(X_LABEL, fontsize=_FONT)
    axes.set_title(caption, loc="left", fontsize=_CAPTION_FONT, color="0.35", parse_math=False)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)  # a name may hold a dollar sign
    width = max(label.get_window_extent().width for label in axes.get_yticklabels()) / figure.dpi
    total_width = _SIDE + width + _GAP + _INTERVALS + _SIDE
    total_height = _BOTTOM + n * _ROW + _TOP
    figure.set_size_inches(total_width, total_height)
    left = (_SIDE + width + _GAP) / total_width
    bottom, height = _BOTTOM / total_height, n * _ROW / total_height
    axes.set_position((left, bottom, _INTERVALS / total_width, height))
    return figure
