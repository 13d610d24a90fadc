"""Names from elsewhere, harmless on a page, and how many of them a figure shows."""

from __future__ import annotations

import re

from bayesdice_ppl.plain import plain_text

MOST_ROWS, MOST_CELLS = 25, 20
"""Candidates that a figure with a row, or a map with a row and a column, of each shows."""
_JOINERS = re.compile("([\u200c\u200d])")
"""They join letters, and pictures to one picture; they steer nothing."""


def shown(text: object) -> str:
    """Text in which what would steer a page, such as marks of direction, is written out."""
    parts = _JOINERS.split(str(text))
    return "".join(part if _JOINERS.match(part) else plain_text(part) for part in parts)


def how_many(rows: int, n_policies: int) -> str:
    """Say that a figure shows the first of the ranking, where it does not show all."""
    if rows >= n_policies:
        return ""
    return f"The first {rows} of {n_policies:,} candidates, in the order of the ranking."
