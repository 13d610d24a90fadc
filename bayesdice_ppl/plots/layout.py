"""What all figures share: fonts, captions, names as they are, and places measured in inches."""

from collections.abc import Iterable, Mapping
from textwrap import fill
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

X_LABEL = "value (reward per step)"
"""Label of the axis of values."""
FONT, SMALL_FONT = 10, 8
GRAY = "0.35"

# Inches of a figure with a row for each policy: a row, the margins above and below the rows and at
# the sides, the intervals, and the gap between names and intervals.
ROW, TOP, BOTTOM, SIDE, INTERVALS, GAP = 0.28, 0.35, 0.6, 0.2, 5.0, 0.15

_LETTERS = 20
"""Letters of a line of a name."""

# Inches of a map of cells: the upper margin without and with a title; the color bar, its numbers;
# the least and the most width of the map.
MAP_TOP, MAP_TITLED = 0.15, 0.35
BAR, BAR_NUMBERS = 0.15, 0.75
LEAST_MAP, MOST_MAP = 1.7, 8.0


def set_caption(axes: "Axes", *parts: str) -> None:
    """Write the parts that are not empty above the axes, with semicolons between."""
    text = "; ".join(filter(None, parts))
    axes.set_title(text, loc="left", fontsize=SMALL_FONT, color=GRAY, parse_math=False)


def as_written(names: Iterable[str], backend: str) -> list[str]:
    """Names for ArviZ to write: long ones in lines, and no formula begun by a dollar sign."""
    if backend != "matplotlib":
        return list(names)
    return [fill(name, _LETTERS).replace("$", r"\$") for name in names]


def widest(figure: "Figure", texts: Iterable["Text"]) -> float:
    """The width of the widest text in inches. A dollar sign in a text does not begin a formula."""
    texts = list(texts)
    for text in texts:
        text.set_parse_math(False)
    return max(text.get_window_extent().width for text in texts) / figure.dpi


def place(
    figure: "Figure",
    size: tuple[float, float],
    boxes: Mapping["Axes", tuple[float, float, float, float]],
) -> None:
    """Set the size of a figure, and the left, bottom, width and height of its axes, in inches."""
    figure.set_size_inches(*size)
    for axes, (left, bottom, width, height) in boxes.items():
        axes.set_position((left / size[0], bottom / size[1], width / size[0], height / size[1]))


def lay_out_rows(
    figure: "Figure", names: Iterable["Text"], intervals: "Axes", n_rows: int, *others: "Axes"
) -> float:
    """Place rows of intervals beside their names, and give the width of the names in inches.

    The rows are at 0 to n - 1. Other axes, which hold the names, stand to the left.
    """
    from matplotlib.ticker import MaxNLocator

    for axes in (intervals, *others):
        for row in range(n_rows - 2, -1, -2):
            axes.axhspan(row - 0.5, row + 0.5, color="0.95", linewidth=0, zorder=-2)
        axes.set_ylim(-0.5, n_rows - 0.5)
    intervals.xaxis.set_major_locator(MaxNLocator(nbins=6))
    intervals.set_xlabel(X_LABEL, fontsize=FONT)
    intervals.tick_params(axis="x", labelsize=FONT - 1)
    width, height = widest(figure, names), n_rows * ROW
    left = SIDE + width + GAP
    boxes = dict.fromkeys(others, (SIDE, BOTTOM, width + GAP, height))
    boxes[intervals] = (left, BOTTOM, INTERVALS, height)
    place(figure, (left + INTERVALS + SIDE, BOTTOM + height + TOP), boxes)
    return width


def logged_caption(logged: float | None) -> str:
    """What the dashed line is."""
    return "" if logged is None else f"dashed: logged value, {logged:.4g}"


def lay_out_map(
    figure: "Figure",
    axes: "Axes",
    bar: "Axes",
    shape: tuple[int, ...],
    cell: tuple[float, float],
    *,
    titled: bool = False,
    below: float = BOTTOM,
) -> None:
    """Size a map so that cells are legible, and the names, as measured, fit beside them.

    Parameters
    ----------
    figure, axes, bar
        The figure, its map, and its color bar.
    shape
        Rows and columns.
    cell
        Width and height of a cell, inches.
    titled
        Whether there is a caption above.
    below
        Inches below the map.
    """
    n_rows, n_columns = shape
    width = min(max(n_columns * cell[0], LEAST_MAP), MOST_MAP)
    height = min(max(n_rows * cell[1], LEAST_MAP), MOST_MAP)
    left = SIDE + widest(figure, axes.get_yticklabels()) + GAP
    start = left + width + GAP
    top = MAP_TITLED if titled else MAP_TOP
    place(
        figure,
        (start + BAR + BAR_NUMBERS, below + height + top),
        {axes: (left, below, width, height), bar: (start, below, BAR, height)},
    )
