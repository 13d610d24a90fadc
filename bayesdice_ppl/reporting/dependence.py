"""How the values of the candidates move together."""

from __future__ import annotations

import numpy as np

from bayesdice_ppl.belief import ValueDraws
from bayesdice_ppl.reporting.maps import MapCell, MapFigure, numbered
from bayesdice_ppl.reporting.names import MOST_CELLS, how_many
from bayesdice_ppl.selection import Selection


def draw_dependence(selection: Selection, draws: ValueDraws) -> MapFigure | None:
    """Lay the correlations of the values out, as the draws have them.

    Parameters
    ----------
    selection
        The ranking.
    draws
        The values that it ranks.

    Returns
    -------
    MapFigure or None
        None for a single candidate.
    """
    names = selection.order[:MOST_CELLS]
    if len(names) < 2:
        return None
    columns = [draws.names.index(name) for name in names]
    values = draws.values[..., columns].reshape(-1, len(names))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.corrcoef(values.T)
    written = numbered(len(names))
    cells = tuple(
        tuple(
            _cell(float(number), f"with {i + 1}", written=written) for i, number in enumerate(row)
        )
        for row in correlation
    )
    numbers = tuple(str(place + 1) for place in range(len(names)))
    caption = (
        "Correlation of the values: blue together, orange against each other. Two candidates that "
        "move together are no insurance for each other."
    )
    told = how_many(len(names), len(selection.order))
    return MapFigure(tuple(names), numbers, cells, f"{caption} {told}".strip())


def _cell(number: float, whose: str, *, written: bool) -> MapCell:
    if not np.isfinite(number):
        return MapCell(
            0, False, "?" if written else "", f"{whose}: unknown, as a value does not vary"
        )
    number = max(min(number, 1.0), -1.0)
    text = f"{number:.2f}".replace("-0.00", "0.00")
    short = text.replace("0.", ".") if abs(number) < 0.995 else text[:-3]
    return MapCell(
        round(100.0 * abs(number)), number < 0.0, short if written else "", f"{whose}: {text}"
    )
