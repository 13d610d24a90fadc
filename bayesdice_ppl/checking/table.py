"""The user's table with the columns that would be taken, before anything of it is refused.

Reading stops at the first fault. To list all of them, each column is looked at as it stands, under
the user's own name, which is what a mend has to use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import polars as pl
from jaxtyping import Bool, Int

from bayesdice_ppl.checking.fault import column_text
from bayesdice_ppl.checking.flag_columns import meant_flags
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.labels import as_labels, label_codes
from bayesdice_ppl.logs.schema import COLUMNS
from bayesdice_ppl.logs.steps import read_times

_VECTORS = ("obs", "next_obs", "action")


@final
@dataclass(frozen=True, eq=False)
class TakenTable:
    """A table, and what would be taken as what.

    Attributes
    ----------
    frame
        The user's table.
    names
        Our name -> the user's, of single columns.
    vectors
        Our name -> the user's columns, of vectors: one of lists, or one for each number.
    ignored
        Columns that are not what their names say.
    """

    frame: pl.DataFrame
    names: Mapping[str, str]
    vectors: Mapping[str, tuple[str, ...]]
    ignored: tuple[str, ...] = ()

    def series(self, key: str) -> pl.Series | None:
        """A single column by our name; None where the table has none."""
        name = self.names.get(key)
        return None if name is None else self.frame[name]

    def expression(self, key: str) -> str:
        """A single column in a mend."""
        return column_text(self.names[key])

    @cached_property
    def episodes(self) -> Int[np.ndarray, " n"]:
        """Code of each row's episode, shape (n,); a row without one is an episode of its own."""
        n = self.frame.height
        codes = self.codes("episode_id")
        if codes is None:
            return np.arange(n)
        return np.where(codes < 0, n + np.arange(n), codes)

    def codes(self, key: str) -> Int[np.ndarray, " n"] | None:
        """Codes of a column of labels, -1 where one is missing; None if it holds no labels."""
        series = self.series(key)
        if series is None:
            return None
        try:
            return label_codes(as_labels(series, key, LogsError))[0]
        except LogsError:
            return None

    def flags(self, key: str) -> Bool[np.ndarray, " n"] | None:
        """A column of flags, false where one is missing; None if it holds none.

        Flags in other words, such as yes, count as they will once they are mended.
        """
        series = self.series(key)
        flags = None if series is None else meant_flags(series)
        return None if flags is None else flags.fill_null(False).to_numpy().astype(bool)

    @cached_property
    def ends(self) -> Bool[np.ndarray, " n"]:
        """Rows after which an episode is over, as the flags say, shape (n,)."""
        found = np.zeros(self.frame.height, dtype=bool)
        for key in ("terminated", "truncated"):
            flags = self.flags(key)
            if flags is not None:
                found |= flags
        return found

    @cached_property
    def steps(self) -> Int[np.ndarray, " n"] | None:
        """Numbers of steps, shape (n,); None where there are none, or times, or one is missing."""
        series = self.series("step")
        if series is None or self.times is not None or series.null_count():
            return None
        try:
            labels = as_labels(series, "step", LogsError)
        except LogsError:
            return None
        return labels.to_numpy() if labels.dtype.is_integer() else None

    @cached_property
    def times(self) -> np.ndarray | None:
        """Times that order rows, shape (n,); None where there are none, or one cannot be read."""
        series = self.series("step")
        if series is None:
            return None
        try:
            return read_times(pl.DataFrame({"step": series}))
        except LogsError:
            return None

    @cached_property
    def order(self) -> Int[np.ndarray, " n"]:
        """Rows grouped by episode, in the order of time within each, shape (n,)."""
        when = self.times if self.times is not None else self.steps
        episodes = self.episodes
        if when is None:
            return np.argsort(episodes, kind="stable")
        return np.lexsort((when, episodes))

    @property
    def sorting(self) -> tuple[str, ...]:
        """The step of a mend that sorts the table by time; none where it is sorted."""
        if np.array_equal(self.order, np.argsort(self.episodes, kind="stable")):
            return ()
        by = [self.names[key] for key in ("episode_id", "step") if key in self.names]
        return (f"sort({by!r}, maintain_order=True)",)

    def in_episode(self, condition: str) -> str:
        """A step that keeps the episodes of which every row fulfills a condition, a chain."""
        if "episode_id" not in self.names:
            return f"filter({condition})"
        return f"filter({condition}.all().over({self.names['episode_id']!r}))"

    @property
    def dropped(self) -> str:
        """What such a step leaves out, in words."""
        return "episodes" if "episode_id" in self.names else "rows"


def take_table(
    frame: pl.DataFrame, columns: Mapping[str, str] | None, ignore: Sequence[str] = ()
) -> TakenTable:
    """Find what would be taken as what, without refusing anything.

    Parameters
    ----------
    frame, columns, ignore
        As for `Logs.from_dataframe`.
    """
    mapping = dict(columns or {})
    held = [name for name in frame.columns if name not in ignore]
    given_away = set(mapping.values())
    names: dict[str, str] = {}
    vectors: dict[str, tuple[str, ...]] = {}
    for key in COLUMNS:
        source = mapping.get(key, key)
        own = key in mapping or source not in given_away
        numbered = [name for name in held if re.fullmatch(re.escape(source) + "_[0-9]+", name)]
        if source in held and own:
            if key in _VECTORS and isinstance(frame[source].dtype, pl.List | pl.Array):
                vectors[key] = (source,)
            else:
                names[key] = source
        elif key in _VECTORS and numbered:
            vectors[key] = tuple(sorted(numbered, key=lambda name: int(name.rpartition("_")[2])))
    return TakenTable(frame, names, vectors, tuple(ignore))
