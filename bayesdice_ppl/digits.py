"""Numbers of one table, written alike: digits that tell something, in the width there is."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import NamedTuple, final

_WIDEST = 11
"""Characters of a number in a table; longer ones are written with five digits."""


ABSENT = "-"
"""What is written where there is no number."""


def exact(number: float) -> str:
    """A number with as few digits as say it to the last bit: 0.95, and 0.9999999."""
    short = f"{number:g}"
    return short if float(short) == number else repr(float(number))


def in_tenths(number: float) -> str:
    """A size with one decimal, and "less than 0.1" where that would say 0.0."""
    return f"{number:.1f}" if number >= 0.05 else "less than 0.1"


@final
class Numbers(NamedTuple):
    """How numbers of one kind are written: less a base, in a unit, with so many digits."""

    base: float
    unit: float
    form: str
    words: str

    def cell(self, value: float | None) -> str:
        """A value, less the base; `ABSENT` for None."""
        return ABSENT if value is None else self.width(value - self.base)

    def width(self, value: float | None) -> str:
        """A difference of values, such as an sd; `ABSENT` for None."""
        if value is None:
            return ABSENT
        written = f"{value / self.unit:{self.form}}"
        return written if len(written) <= _WIDEST else f"{value / self.unit:.5g}"


def written_alike(values: Sequence[float | None], sds: Sequence[float | None]) -> Numbers:
    """Write numbers so that two digits of the middle sd are seen, in `_WIDEST` characters.

    Numbers with more than six decimals, or with more than seven digits before them, are shown in
    units of a power of a thousand, so that the table has room for all its columns. Where they have
    many digits in common, these are left out, and the title has them. None stands for a number that
    there is not.
    """
    there = [value for value in values if value is not None]
    widths = [sd for sd in sds if sd is not None]
    low, high = min(there, default=0.0), max(there, default=0.0)
    largest, span = max(abs(low), abs(high)), max([high - low, *widths])
    unit, form, words = _form(largest, widths)
    if max(len(f"{value / unit:{form}}") for value in (low, high)) <= _WIDEST or not span:
        return Numbers(0.0, unit, form, words)
    if largest < 1e4 * span:
        return Numbers(0.0, unit, form, words)
    step = 10.0 ** ceil(log10(span))
    base = step * floor(low / step)
    unit, form, words = _form(high - base, widths)
    return Numbers(base, unit, form, f"{words} above {base:.15g}")


def _form(largest: float, sds: list[float]) -> tuple[float, str, str]:
    """The unit, the format and the words that show two digits of the middle sd."""
    spread = sorted(sd for sd in sds if sd > 0.0) or [1.0]
    last = floor(log10(spread[len(spread) // 2])) - 1
    if last >= -6 and largest < 1e7:
        # The z keeps a small negative number from being shown as minus zero.
        return 1.0, f"z.{max(-last, 0)}f", ""
    # Where nothing varies, the largest number sets the digits.
    first = floor(log10(largest)) if largest > 0.0 else last + 1
    power = 3 * (first // 3)
    return 10.0**power, f"z.{min(max(power - last, 0), 9)}f", f" in units of 1e{power}"
