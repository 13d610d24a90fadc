"""A fault of a log: what is wrong, in which rows, and the Polars expression that mends it.

A mend is one or more steps on the user's table, called ``df``. Each is a method of it, as text that
can be pasted. Nothing here runs such text.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Int

ERROR, WARNING = "error", "warning"
SHOWN = 5
"""Rows that a sentence names before it counts the rest."""
KEPT = 100
"""Rows that are kept for `Fault.to_dict`."""
_CODE_WIDTH, _WORTH = 76, 24
"""Width of code, and of a call below which a break inside it is no help."""


@final
class Mend(NamedTuple):
    """How a fault is mended.

    Attributes
    ----------
    words
        What the mend does, and what it takes for granted, in a sentence.
    steps
        Methods of the table ``df``, one after the other: ``"filter(pl.col('x').is_not_null())"``.
    """

    words: str
    steps: tuple[str, ...]

    @property
    def code(self) -> str:
        """The mend as Python: statements that change ``df``."""
        return "\n".join(_statement(step) for step in self.steps)


@final
class Fault(NamedTuple):
    """One fault of a log.

    Attributes
    ----------
    kind
        Its name, such as ``"missing values"``.
    severity
        ``"error"``: the log is refused as it is. ``"warning"``: it is read, and may mislead.
    column
        The user's name of the column, or empty where it is no column's.
    sentence
        What is wrong, and what it does.
    rows
        The rows, counted from 1 in the order of the table, shape (k,); empty where the fault is of
        the whole log.
    mend
        How to mend it; None where no expression can.
    """

    kind: str
    severity: str
    column: str
    sentence: str
    rows: Int[np.ndarray, " k"] = np.zeros(0, dtype=np.int64)
    mend: Mend | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fault as plain numbers and text."""
        mend = None if self.mend is None else {"words": self.mend.words, "code": self.mend.code}
        return {
            "kind": self.kind,
            "severity": self.severity,
            "column": self.column or None,
            "sentence": self.sentence,
            "rows": [int(row) for row in self.rows[:KEPT]],
            "n_rows": len(self.rows),
            "mend": mend,
        }


def rows_where(mask: Any) -> Int[np.ndarray, " k"]:
    """Numbers, from 1, of the rows where a mask is true; null counts as false."""
    if hasattr(mask, "fill_null"):
        mask = mask.fill_null(False).to_numpy()
    return np.flatnonzero(np.asarray(mask)) + 1


def row_words(rows: Int[np.ndarray, " k"]) -> str:
    """Rows as words: ``row 3``, or ``rows 3, 5, 9, 12, 40 and 1,204 more``."""
    if not len(rows):
        return ""
    shown = ", ".join(str(int(row)) for row in rows[:SHOWN])
    rest = f" and {len(rows) - SHOWN:,} more" if len(rows) > SHOWN else ""
    return f"row{'s' * (len(rows) > 1)} {shown}{rest}"


def column_text(name: str) -> str:
    """A column in an expression: ``pl.col('reward')``."""
    return f"pl.col({name!r})"


def _statement(step: str) -> str:
    return "\n".join(_laid_out(f"df = df.{step}", ""))


def _laid_out(text: str, indent: str) -> list[str]:
    """Code over several lines where it is too long for one, broken at the arguments of a call."""
    if len(indent) + len(text) <= _CODE_WIDTH:
        return [indent + text]
    calls = [(start, end) for start, end in _calls(text) if end - start > _WORTH]
    if not calls:
        return [indent + text]
    start, end = max(calls, key=lambda call: call[1] - call[0])
    parts = _arguments(text[start + 1 : end])
    inner = [line for part in parts for line in _laid_out(f"{part},", f"{indent}    ")]
    return [f"{indent}{text[: start + 1]}", *inner, f"{indent}{text[end:]}"]


def _calls(text: str) -> list[tuple[int, int]]:
    """Where parentheses open and close that stand in no others."""
    found, depth, start, quote = [], 0, 0, ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and text[at - 1] != "\\" else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            start = at if depth == 0 else start
            depth += 1
        elif letter in ")]}":
            depth -= 1
            # Parentheses that only group take no comma inside.
            if depth == 0 and letter == ")" and text[:start][-1:].isidentifier():
                found.append((start, at))
    return found


def _arguments(text: str) -> list[str]:
    """Arguments of a call, split at the commas between them."""
    parts, depth, start, quote = [], 0, 0, ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and text[at - 1] != "\\" else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]
