"""A map of a report: numbers in rows and columns, each a color, and written where there is room."""

from __future__ import annotations

from typing import NamedTuple, final

_NUMBERED = 12
"""Most columns of which cells hold their number."""


@final
class MapCell(NamedTuple):
    """A number of a map.

    Attributes
    ----------
    color
        From 0, none, to 100, full.
    negative
        Whether it is below 0, and has the other color.
    text
        The number as it is written in the cell; empty where there are many.
    words
        What it is, for those who point at it.
    """

    color: int
    negative: bool
    text: str
    words: str


@final
class MapFigure(NamedTuple):
    """Numbers in rows and columns.

    Attributes
    ----------
    names
        Of the rows, in the order of the ranking.
    columns
        What stands above the columns.
    cells
        Row by row.
    caption
        What is drawn.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[MapCell, ...], ...]
    caption: str


def numbered(columns: int) -> bool:
    """Whether cells of so many columns hold their number."""
    return columns <= _NUMBERED
