"""How probable each place is for each candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayesdice_ppl.belief import Which
from bayesdice_ppl.reporting.maps import MapCell, MapFigure, numbered
from bayesdice_ppl.reporting.names import MOST_CELLS, how_many
from bayesdice_ppl.selection import Selection, rank_probabilities

if TYPE_CHECKING:
    from xarray import DataTree


def draw_places(selection: Selection, belief: DataTree, statistic: Which) -> MapFigure:
    """Lay the probabilities of all places out; past twenty, late places are put together.

    Parameters
    ----------
    selection
        The ranking.
    belief
        The belief.
    statistic
        Which values are ranked.
    """
    n = len(selection.order)
    names = selection.order[:MOST_CELLS]
    shares = rank_probabilities(belief, statistic).sel(policy=names).to_numpy()
    starts = _starts(n)
    columns = [_column(start + 1, end) for start, end in zip(starts, [*starts[1:], n], strict=True)]
    sums = np.add.reduceat(shares, starts, axis=1)
    highest = float(sums.max())
    cells = tuple(
        tuple(
            MapCell(
                color=round(100.0 * share / highest),
                negative=False,
                text=_percent(share) if numbered(len(columns)) else "",
                words=f"place {column}: {100.0 * share:.1f} %",
            )
            for column, share in zip(columns, row, strict=True)
        )
        for row in sums
    )
    caption = "Columns: true places, 1 is the best. "
    caption += "Numbers: percent. " if numbered(len(columns)) else "Darker: more probable. "
    return MapFigure(
        tuple(names), tuple(columns), cells, f"{caption}{how_many(len(names), n)}".strip()
    )


def _starts(n: int) -> list[int]:
    """Where columns begin: at each place, or past twenty at 1 to 5, 6, 11, 21, 51, 101, ..."""
    if n <= MOST_CELLS:
        return list(range(n))
    ends, size = [5], 10
    while ends[-1] < n:
        ends += [size, 2 * size, 5 * size]
        size *= 10
    return [*range(5), *(end for end in ends if end < n)]


def _column(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}–{last}"  # noqa: RUF001  a range


def _percent(share: float) -> str:
    """Whole percents; what is less than a half is left empty, but for what is there."""
    if share <= 1e-9:
        return ""
    return f"{100.0 * share:.0f}" if share >= 0.005 else "<1"
