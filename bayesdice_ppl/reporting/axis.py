"""An axis of a figure: from values to places in percent of its width, and its round numbers.

Figures of a report are drawn in percent, so that they fit a phone as they fit a desk.
"""

from __future__ import annotations

from math import floor, log10
from typing import NamedTuple, final

import numpy as np

from bayesdice_ppl.digits import Numbers

_MOST_TICKS = 5
"""Intervals between round numbers, at most: their labels have to fit a phone."""


@final
class Tick(NamedTuple):
    """A round number on an axis.

    Attributes
    ----------
    at
        Its place, percent.
    text
        As it is written.
    """

    at: float
    text: str


@final
class Axis(NamedTuple):
    """Where values stand.

    Attributes
    ----------
    low, high
        Values at 0 and at 100 percent.
    ticks
        Round numbers between them.
    label
        What the values are, with the unit.
    """

    low: float
    high: float
    ticks: tuple[Tick, ...]
    label: str

    def at(self, value: float) -> float:
        """The place of a value, percent; what is beyond an end is at that end."""
        share = (value - self.low) / (self.high - self.low)
        return round(100.0 * min(max(share, 0.0), 1.0), 2)


def axis_of(low: float, high: float, label: str, numbers: Numbers, *, room: float = 0.04) -> Axis:
    """Make an axis that holds two values, with some room beside them.

    Parameters
    ----------
    low, high
        The values; equal ones get an axis around them.
    label
        What the values are.
    numbers
        How they are written: less a base, in a unit.
    room
        Room beside the values, as a share of their distance.
    """
    from matplotlib.ticker import MaxNLocator

    width = high - low
    if not width > 0.0:
        width = abs(high) or 1.0
        room = 0.5
    low, high = low - room * width, high + room * width
    # In the unit in which they are written, so that they are round there.
    start, end = ((each - numbers.base) / numbers.unit for each in (low, high))
    found = np.asarray(MaxNLocator(_MOST_TICKS, steps=[1, 2, 2.5, 5, 10]).tick_values(start, end))
    inside = found[(found >= start - 1e-12) & (found <= end + 1e-12)]
    form = _digits(float(found[1] - found[0])) if len(found) > 1 else "g"
    axis = Axis(low, high, (), label + numbers.words)
    ticks = [
        Tick(axis.at(float(each) * numbers.unit + numbers.base), f"{each:{form}}")
        for each in inside
    ]
    return axis._replace(ticks=tuple(ticks))


def _digits(step: float) -> str:
    """The format that tells one round number from the next."""
    decimals = max(-floor(log10(step) + 1e-9), 0)
    if round(step * 10.0**decimals, 6) % 1.0:
        decimals += 1  # such as 0.25
    return f"z.{decimals}f"
