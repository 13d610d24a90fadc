"""The values of a report's candidates: density, 50 % and 90 % intervals and mean of each."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import ValueDraws
from bayesdice_ppl.digits import Numbers
from bayesdice_ppl.reporting.axis import Axis, axis_of
from bayesdice_ppl.reporting.names import MOST_ROWS, how_many
from bayesdice_ppl.reporting.ranking import value_label, value_numbers
from bayesdice_ppl.selection import Selection

_POINTS = 60
"""Points of a density."""


@final
class ForestRow(NamedTuple):
    """A candidate's value, in percent of the axis.

    Attributes
    ----------
    name, launched
        The candidate, and whether it goes live.
    outer, inner
        Ends of the 90 % and of the 50 % interval.
    mean
        The mean.
    density
        An outline for a box of 100 by 100, as an SVG path; empty where all draws are equal.
    words
        The same numbers, for those who do not see the figure.
    """

    name: str
    launched: bool
    outer: tuple[float, float]
    inner: tuple[float, float]
    mean: float
    density: str
    words: str


@final
class ForestFigure(NamedTuple):
    """The values of the first candidates.

    Attributes
    ----------
    rows
        Best first.
    axis
        Their axis.
    logged
        Place of the logging policy's value; None where it is not known.
    caption
        What is drawn.
    """

    rows: tuple[ForestRow, ...]
    axis: Axis
    logged: float | None
    caption: str


def draw_forest(selection: Selection, draws: ValueDraws, logged: float | None) -> ForestFigure:
    """Lay the values of the first candidates out.

    Parameters
    ----------
    selection
        The ranking.
    draws
        The values that it ranks.
    logged
        The value of the logging policy, where the same statistic of it is known.
    """
    from arviz_stats.base import array_stats

    order = selection.order[:MOST_ROWS]
    columns = [draws.names.index(name) for name in order]
    values = draws.values[..., columns].reshape(-1, len(order))
    table, numbers = selection.table, value_numbers(selection)
    lows, highs = np.quantile(values, [0.01, 0.99], axis=0)
    ends = [*lows, *highs, *table["hdi90_lower"][: len(order)], *table["hdi90_upper"][: len(order)]]
    if logged is not None:
        ends.append(logged)
    axis = axis_of(min(ends), max(ends), value_label(selection), numbers)
    rows = []
    for row, own in zip(table.iter_rows(named=True), values.T, strict=False):
        low, high = (float(end) for end in array_stats.hdi(own, prob=0.5))
        outer = row["hdi90_lower"], row["hdi90_upper"]
        rows.append(
            ForestRow(
                name=row["policy"],
                launched=row["launched"],
                outer=(axis.at(outer[0]), axis.at(outer[1])),
                inner=(axis.at(low), axis.at(high)),
                mean=axis.at(row["median"] if row["mean"] is None else row["mean"]),
                density=_outline(own, axis),
                words=_words(row, outer, (low, high), numbers),
            )
        )
    none = table["mean"][: len(order)].null_count()
    dot = "Dot: mean, or the median of a value that has none" if none else "Dot: mean"
    caption = f"{dot}. Thick line: 50 % interval. Thin line: 90 % interval. Shape: density."
    if logged is not None:
        caption += f" Dashed: value of the logging policy, {numbers.cell(logged)}."
    told = how_many(len(order), len(selection.order))
    return ForestFigure(
        tuple(rows),
        axis,
        None if logged is None else axis.at(logged),
        f"{caption} {told}".strip(),
    )


def _words(
    row: dict[str, Any], outer: tuple[float, float], inner: tuple[float, float], numbers: Numbers
) -> str:
    """The numbers of a row."""
    name = "median" if row["mean"] is None else "mean"
    wide, narrow = (f"{numbers.cell(low)} to {numbers.cell(high)}" for low, high in (outer, inner))
    return f"{name} {numbers.cell(row[name])}, 90 % interval {wide}, 50 % interval {narrow}"


def _outline(values: Float[np.ndarray, " M"], axis: Axis) -> str:
    """The density of draws as a closed SVG path in a box of 100 by 100."""
    from arviz_stats.base import array_stats

    if not values.std() > 1e-12 * np.abs(values).max():
        return ""
    grid, density, _ = array_stats.kde(values)
    chosen = np.linspace(0, len(grid) - 1, _POINTS).astype(int)
    chosen = chosen[(grid[chosen] >= axis.low) & (grid[chosen] <= axis.high)]
    if len(chosen) < 2:
        return ""
    places = [axis.at(float(x)) for x in grid[chosen]]
    heights = 100.0 - 100.0 * density[chosen] / density.max()
    points = " ".join(f"{x:g},{y:.0f}" for x, y in zip(places, heights, strict=True))
    return f"M{places[0]:g},100 L{points} L{places[-1]:g},100 Z"
