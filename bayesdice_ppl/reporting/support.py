"""What the log holds of each candidate, and where warnings begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.fitting.gauges import EFFECTIVE, EPISODE, UNLOGGED, UNSEEN, Gauge
from bayesdice_ppl.reporting.names import MOST_ROWS, how_many
from bayesdice_ppl.selection import Selection

if TYPE_CHECKING:
    from xarray import DataTree

_EFFECTIVE = ("effective_sample_size", "effective transitions", EFFECTIVE)
_UNLOGGED = ("moved_mass", "steps with unlogged actions", UNLOGGED)
_UNSEEN = ("unseen_share", "variance from pairs never logged", UNSEEN)
_EPISODE = ("influential_episode_share", "largest episode's share", EPISODE)
"""Variable of a belief, what it is called, and its gauge."""


@final
class SupportBar(NamedTuple):
    """One number of one candidate.

    Attributes
    ----------
    text
        The number as it is written.
    length
        Of its bar, percent.
    past
        Whether it is past the threshold at which a belief warns.
    """

    text: str
    length: float
    past: bool


@final
class SupportFigure(NamedTuple):
    """Numbers of the first candidates.

    Attributes
    ----------
    headings
        What the numbers are.
    thresholds
        Where warnings begin, in words.
    marks
        The same places on the bars, percent; None beyond their end.
    names
        In the order of the ranking.
    rows
        For each name a bar for each heading.
    caption
        What is drawn.
    """

    headings: tuple[str, ...]
    thresholds: tuple[str, ...]
    marks: tuple[float | None, ...]
    names: tuple[str, ...]
    rows: tuple[tuple[SupportBar, ...], ...]
    caption: str


def draw_support(selection: Selection, belief: DataTree) -> SupportFigure | None:
    """Lay out what the log holds of each candidate.

    Parameters
    ----------
    selection
        The ranking.
    belief
        The belief.

    Returns
    -------
    SupportFigure or None
        None where the belief has none of it.
    """
    view, names = BeliefView(belief), selection.order[:MOST_ROWS]
    # Where pairs that were never logged are part of the belief, their weight in it is judged.
    unlogged = _UNSEEN if view.has(BeliefView.unseen_share) else _UNLOGGED
    panels = (_EFFECTIVE, unlogged, _EPISODE)
    known = [panel for panel in panels if view.has(getattr(BeliefView, panel[0]))]
    if not known:
        return None
    places = [view.names.index(name) for name in names]
    columns, marks = [], []
    for variable, _, gauge in known:
        numbers = getattr(view, variable)[places]
        finite = numbers[np.isfinite(numbers)]
        # Shares have a whole; what has none is compared with the largest, or with the threshold.
        end = max(float(finite.max(initial=0.0)), 1.25 * gauge.warns) if gauge.falls else 1.0
        marks.append(100.0 * gauge.warns / end)
        columns.append([_bar(float(number), end, gauge) for number in numbers])
    thresholds = tuple(
        f"{'at most' if gauge.falls else 'above'} {_number(gauge.warns, gauge)}"
        for *_, gauge in known
    )
    caption = "Upright line: where warnings begin. ✕: past it."
    told = how_many(len(names), len(selection.order))
    return SupportFigure(
        headings=tuple(title for _, title, _ in known),
        thresholds=thresholds,
        marks=tuple(round(mark, 2) for mark in marks),
        names=tuple(names),
        rows=tuple(zip(*columns, strict=True)),
        caption=f"{caption} {told}".strip(),
    )


def _bar(number: float, end: float, gauge: Gauge) -> SupportBar:
    length = round(100.0 * min(max(number / end, 0.0), 1.0), 2) if np.isfinite(number) else 0.0
    return SupportBar(_number(number, gauge), length, bool(gauge.judge("", number, "")))


def _number(number: float, gauge: Gauge) -> str:
    if not np.isfinite(number):
        return "unknown"
    if gauge.falls:
        return f"{number:,.0f}"
    percent = 100.0 * number
    return "< 0.01 %" if 1e-9 < percent < 0.01 else f"{round(percent, 2):.3g} %"
