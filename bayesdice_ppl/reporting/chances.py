"""How probable it is that each candidate is the best, and among the best k."""

from __future__ import annotations

from typing import NamedTuple, final

from bayesdice_ppl.reporting.names import MOST_ROWS, how_many
from bayesdice_ppl.selection import Selection


@final
class ChancesRow(NamedTuple):
    """A candidate's probabilities, in percent.

    Attributes
    ----------
    name, launched
        The candidate, and whether it goes live.
    best, top
        Of being the best, and among the best k.
    words
        The same numbers, for those who do not see the figure.
    """

    name: str
    launched: bool
    best: float
    top: float
    words: str


@final
class ChancesFigure(NamedTuple):
    """The probabilities of the first candidates.

    Attributes
    ----------
    k
        How many are the best; with 1 there is one probability.
    rows
        In the order of the ranking.
    caption
        What is drawn.
    """

    k: int
    rows: tuple[ChancesRow, ...]
    caption: str


def draw_chances(selection: Selection) -> ChancesFigure:
    """Lay the probabilities of the table out.

    Parameters
    ----------
    selection
        The ranking.
    """
    k, n = selection.k, len(selection.order)
    several = 1 < k < n
    rows = []
    for row in selection.table.head(MOST_ROWS).iter_rows(named=True):
        best, top = 100.0 * row["p_best"], 100.0 * row["p_top_k"]
        words = f"best {best:.1f} %" + (f", among the best {k} {top:.1f} %" if several else "")
        rows.append(
            ChancesRow(row["policy"], row["launched"], round(best, 2), round(top, 2), words)
        )
    caption = "Square: the best of all."
    if several:
        caption += f" Dot: among the best {k}."
    told = how_many(len(rows), n)
    return ChancesFigure(k if several else 1, tuple(rows), f"{caption} {told}".strip())
