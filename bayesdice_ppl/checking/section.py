"""A part of the report: its numbers, how they are said, and what they warn of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import numpy as np

from bayesdice_ppl.checking.fault import WARNING, Fault


@final
class Section(NamedTuple):
    """A part of the report.

    Attributes
    ----------
    name
        Its key in `LogReport.to_dict`.
    title
        What it is called.
    facts
        Its numbers, as plain Python.
    lines
        Sentences.
    headings, rows
        A table under them, of text; empty where there is none.
    faults
        What its numbers warn of.
    """

    name: str
    title: str
    facts: Mapping[str, Any]
    lines: tuple[str, ...] = ()
    headings: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    faults: tuple[Fault, ...] = ()


def warning(kind: str, sentence: str, column: str = "") -> Fault:
    """A fault of the whole log that does not keep it from being read."""
    return Fault(kind, WARNING, column, sentence)


def number(value: float) -> float | None:
    """A number as JSON has it: None where it is not finite."""
    return float(value) if np.isfinite(value) else None


def counted(count: int, what: str, several: str = "") -> str:
    """A count with its noun: 1 row, 2,000 rows."""
    return f"{count:,} {what if count == 1 else several or f'{what}s'}"
