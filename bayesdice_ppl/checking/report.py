"""The report of a check: its faults and figures, as text, as HTML and as a dict."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, final

import numpy as np

from bayesdice_ppl.checking.fault import ERROR, WARNING, Fault
from bayesdice_ppl.checking.section import Section, counted
from bayesdice_ppl.plain import plain_text, shortened

SCHEMA = 1
"""Version of `LogReport.to_dict`. It rises when a key goes or changes its meaning."""
FINE, WARNED, BAD, THIN = 0, 1, 2, 3
WIDTH = 80
_HOW = (
    "Mends change df, the table of the log, one after the other. Read what each takes for granted."
)
_THEN = (
    "Then check again: bd.check(df, ...). For the command, save it first: "
    "df.write_parquet('mended.parquet')."
)


@final
class LogReport(NamedTuple):
    """What `bayesdice_ppl.check` found.

    Attributes
    ----------
    source
        What was checked: the name of a file, or empty.
    gamma
        Discount.
    columns
        What was taken as what: our name -> the user's columns.
    unused
        Columns without a meaning here, each with what it may be, or nothing.
    faults
        Every fault, in the order in which they are mended.
    sections
        The figures, part by part.
    whole
        Whether the figures are of the whole log. Else they are of the episodes without a fault.
    thin
        Whether the log says too little about a candidate for a recommendation.
    candidates
        Number of candidates, or None where none were given.
    read_as
        What another tool's log was read as, a sentence each.
    table_code
        Python that reads the table which the mends change; empty where the caller has it.
    """

    source: str
    gamma: float
    columns: dict[str, list[str]]
    unused: dict[str, str]
    faults: tuple[Fault, ...]
    sections: tuple[Section, ...]
    whole: bool
    thin: bool = False
    candidates: int | None = None
    read_as: tuple[str, ...] = ()
    table_code: str = ""

    @property
    def errors(self) -> tuple[Fault, ...]:
        """Faults with which the log is refused."""
        return tuple(fault for fault in self.faults if fault.severity == ERROR)

    @property
    def warnings(self) -> tuple[Fault, ...]:
        """Faults with which it is read, and may mislead."""
        return tuple(fault for fault in self.faults if fault.severity == WARNING)

    @property
    def usable(self) -> bool:
        """Whether the log, and the candidates, can be used as they are."""
        return not self.errors

    def exit_code(self, *, strict: bool = False) -> int:
        """How `bayesdice check` ends.

        Parameters
        ----------
        strict
            Whether warnings count as failure.

        Returns
        -------
        int
            2 with an error; else 3 if the log says too little about a candidate; else 1 with a
            warning if strict; else 0.
        """
        if self.errors:
            return BAD
        if self.thin:
            return THIN
        return WARNED if strict and self.warnings else FINE

    def to_dict(self) -> dict[str, Any]:
        """The report as plain numbers, text, lists and dicts, as ``--json`` writes it."""
        return {
            "schema": SCHEMA,
            "source": self.source,
            "read_as": list(self.read_as),
            "table_code": self.table_code or None,
            "gamma": self.gamma,
            "usable": self.usable,
            "enough_for_candidates": not self.thin,
            "columns": self.columns,
            "unused_columns": self.unused,
            "faults": [fault.to_dict() for fault in self.faults],
            "figures_of_whole_log": self.whole,
            "figures": {section.name: _plain(section.facts) for section in self.sections},
        }

    def __str__(self) -> str:
        return "\n".join(self._lines(WIDTH))

    def __repr__(self) -> str:
        return str(self)

    @property
    def verdict(self) -> str:
        """Whether the log can be used, in a sentence."""
        warned = f", with {counted(len(self.warnings), 'warning')}" if self.warnings else ""
        what = "log" if self.candidates is None else "log and the candidates"
        if self.errors:
            return f"The {what} cannot be used yet: {counted(len(self.errors), 'error')}{warned}."
        if self.thin:
            return f"The log says too little about a candidate for a recommendation{warned}."
        return f"The {what} can be used{warned}."

    @property
    def _opening(self) -> str:
        return f"import bayesdice_ppl as bd\nimport polars as pl\n{self.table_code}"

    def _lines(self, width: int) -> Iterator[str]:
        def wrapped(text: str, indent: str = "", then: str = "") -> list[str]:
            return textwrap.wrap(
                shortened(plain_text(text)),
                width,
                initial_indent=indent,
                subsequent_indent=indent + then,
                break_long_words=False,
                break_on_hyphens=False,
            )

        yield from wrapped(f"{self.source + ': ' if self.source else ''}{self.verdict}")
        for sentence in self.read_as:
            yield from wrapped(sentence)
        for place, fault in enumerate(self.faults, start=1):
            yield ""
            yield from wrapped(
                f"{place}. {fault.severity.capitalize()}: {fault.sentence}", then="   "
            )
            if fault.mend is not None:
                yield from wrapped(fault.mend.words, "   ")
                yield from (f"     {line}" for line in plain_text(fault.mend.code).splitlines())
        if any(fault.mend is not None for fault in self.faults):
            yield ""
            yield from wrapped(_HOW)
            if self.table_code:
                yield from (f"     {line}" for line in plain_text(self._opening).splitlines())
            yield from wrapped(_THEN)
        taken = [
            f"{key} = {' .. '.join([names[0], names[-1]] if len(names) > 1 else names)}"
            for key, names in self.columns.items()
            if names != [key]
        ]
        if taken:
            yield ""
            yield from wrapped(f"Columns: {', '.join(taken)}.")
        if self.unused:
            words = (f"{name} ({note})" if note else name for name, note in self.unused.items())
            yield from wrapped(f"Columns without a meaning: {', '.join(words)}.")
        if self.errors and self.sections and not self.whole:
            yield ""
            yield from wrapped("What follows is of the episodes without an error.")
        for section in self.sections:
            yield ""
            yield section.title.upper()
            for line in section.lines:
                yield from wrapped(line, "  ")
            yield from _table(section, width)

    def _repr_html_(self) -> str:
        parts = [f"<p><b>{_escaped(self.source)}</b> {_escaped(self.verdict)}</p>"]
        parts += [f"<p>{_escaped(sentence)}</p>" for sentence in self.read_as]
        if self.faults:
            parts.append("<ol>")
            for fault in self.faults:
                parts.append(
                    f"<li><b>{fault.severity.capitalize()}:</b> {_escaped(fault.sentence)}"
                )
                if fault.mend is not None:
                    code = f"<pre>{_escaped(fault.mend.code)}</pre>"
                    parts.append(f"<br>{_escaped(fault.mend.words)}{code}")
                parts.append("</li>")
            parts.append("</ol>")
        if any(fault.mend is not None for fault in self.faults):
            code = f"<pre>{_escaped(self._opening)}</pre>" if self.table_code else ""
            parts.append(f"<p>{_escaped(_HOW)}</p>{code}<p>{_escaped(_THEN)}</p>")
        if self.errors and self.sections and not self.whole:
            parts.append("<p>What follows is of the episodes without an error.</p>")
        for section in self.sections:
            parts.append(f"<h4>{_escaped(section.title)}</h4>")
            parts += [f"<p>{_escaped(line)}</p>" for line in section.lines]
            if section.rows:
                head = "".join(f"<th>{_escaped(each)}</th>" for each in section.headings)
                body = "".join(
                    "<tr>" + "".join(f"<td>{_escaped(cell)}</td>" for cell in row) + "</tr>"
                    for row in section.rows
                )
                parts.append(f"<table><tr>{head}</tr>{body}</table>")
        return "\n".join(parts)


def _plain(content: Any) -> Any:
    """Plain Python all the way down, with None for numbers that are not finite, as in JSON."""
    if isinstance(content, Mapping):
        return {str(key): _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if isinstance(content, np.generic):
        content = content.item()
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _escaped(text: Any) -> str:
    return html.escape(plain_text(text))


def _table(section: Section, width: int) -> Iterator[str]:
    """Cells under their headings, names to the left; names too long for the line are cut."""
    if not section.rows:
        return
    rows = [section.headings, *(tuple(map(plain_text, row)) for row in section.rows)]
    rows = [tuple(cell.replace("\n", "\\n") for cell in row) for row in rows]
    widths = [max(len(row[k]) for row in rows) for k in range(len(section.headings))]
    room = width - 2 - sum(2 + each for each in widths[1:])
    widths[0] = min(widths[0], max(room, 8))
    for place, row in enumerate(rows):
        name = row[0] if len(row[0]) <= widths[0] else row[0][: widths[0] - 3] + "..."
        cells = [cell.rjust(size) for cell, size in zip(row[1:], widths[1:], strict=True)]
        yield "  " + "  ".join([name.ljust(widths[0]), *cells]).rstrip()
        if place == 0:
            yield "  " + "-" * (sum(widths) + 2 * (len(widths) - 1))
