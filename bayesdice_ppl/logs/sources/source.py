"""What a reader of another tool's log hands on: a table under our names, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import numpy as np
import polars as pl
from jaxtyping import Float


@final
class LoggingProbabilities(NamedTuple):
    """What the logging policy's probabilities of all actions were, as the tool wrote them.

    Attributes
    ----------
    table
        In each row of the reader's table, shape (n, A); 0 where an action was not offered.
    actions
        Labels of its columns.
    """

    table: Float[np.ndarray, "n A"]
    actions: Sequence[Any]

    @classmethod
    def of_rows(
        cls, chances: Sequence[Mapping[Any, float]], actions: Sequence[Any]
    ) -> LoggingProbabilities:
        """From each row's label -> probability. They are divided by their sum, as tools round."""
        place = {label: j for j, label in enumerate(actions)}
        table = np.zeros((len(chances), len(actions)))
        for row, each in enumerate(chances):
            for label, chance in each.items():
                table[row, place[label]] = chance
        return cls(table / table.sum(axis=1, keepdims=True), actions)


@final
@dataclass(frozen=True, slots=True)
class Source:
    """Where a log came from, and what was taken as what.

    Attributes
    ----------
    layout
        Whose layout it has, in words: ``Minari``, ``Vowpal Wabbit dsjson``.
    taken
        Our name -> what stands for it there, in words: ``reward`` -> ``-_label_cost``.
    notes
        What was left out or decided, a sentence each.
    probabilities
        Probabilities of all actions, where the tool wrote them; see
        `bayesdice_ppl.RowPolicy.of_logging`.
    """

    layout: str
    taken: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    probabilities: LoggingProbabilities | None = field(default=None, compare=False, repr=False)

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it as sentences, for people."""
        pairs = "; ".join(f"{key} = {what}" for key, what in self.taken.items())
        return (f"Read as {self.layout}{': ' * bool(pairs)}{pairs}.", *self.notes)

    def with_columns(self, columns: Mapping[str, str] | None) -> Source:
        """The same, where the user's mapping chose some of the columns."""
        if not columns:
            return self
        left = _instead(columns)
        kept = {key: what for key, what in self.taken.items() if key not in left}
        taken = {**kept, **{key: f"{name} (as mapped)" for key, name in columns.items()}}
        # They are of the actions that the reader chose.
        known = None if "action" in columns else self.probabilities
        return replace(self, taken=taken, probabilities=known)


class SourceTable(NamedTuple):
    """A log of another tool as a table.

    Attributes
    ----------
    frame
        One row per step, under our names where we know the meaning, under theirs elsewhere.
    source
        What was taken as what.
    actions
        The action space, where the tool knows it.
    choices
        Columns that are there to be mapped, and say nothing that the others do not: left out where
        they are not.
    places
        Where each row stands, such as ``line 3``, where rows are not told by episode and step.
    """

    frame: pl.DataFrame
    source: Source
    actions: Sequence[Any] | None = None
    choices: tuple[str, ...] = ()
    places: Sequence[str] = ()

    def place_of(self, row: int) -> str:
        """Where a row of the frame, counted from 1, stands with the tool; empty if that is it."""
        if not 1 <= row <= self.frame.height:
            return ""
        if len(self.places) == self.frame.height:
            return f"Row {row} is {self.places[row - 1]}."
        if {"episode_id", "step"} <= set(self.frame.columns):
            episode, step = self.frame["episode_id"][row - 1], self.frame["step"][row - 1]
            return f"Row {row} is step {step} (from 0) of episode {episode!r}."
        return ""

    def chosen(self, columns: Mapping[str, str] | None) -> pl.DataFrame:
        """The frame for a mapping, without what it leaves out; whole where it is wrong."""
        if not isinstance(columns, Mapping) or not columns:
            return self.frame.drop(self.choices)
        mapped = set(columns.values())
        if not mapped <= set(self.frame.columns):
            return self.frame
        # What the reader chose gives way to what the user chose.
        given_way = {*columns, *_instead(columns)} & set(self.frame.columns)
        return self.frame.drop([n for n in (*self.choices, *given_way) if n not in mapped])

    def with_note(self, *notes: str) -> SourceTable:
        """The same, with more to say."""
        return self._replace(source=replace(self.source, notes=(*self.source.notes, *notes)))


def _instead(columns: Mapping[str, str]) -> set[str]:
    """Our names that a mapping leaves without a meaning: labels or vectors; sets of other names."""
    others = {
        "state": ("obs", "next_obs"),
        "obs": ("state", "next_state"),
        "action": ("allowed_actions",),
    }
    return {name for key in columns for name in others.get(key, ())} - set(columns)


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 row, 2,000 rows."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
