"""Observations and actions that are vectors: which columns hold them, and their numbers.

A vector comes as one list column (``obs``) or as a column for each of its numbers (``obs_0``,
``obs_1``, ...), and is a float64 matrix afterwards. What could be meant in two ways is refused,
unless the user's mapping chooses; no number may be missing or infinite.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import first_row, read_numbers

_LABELS = ("state", "next_state")
_VECTORS = ("obs", "next_obs")
_MEANING = {"obs": "observation", "next_obs": "next observation", "action": "action"}


class Arranged(NamedTuple):
    """A table in which each vector is one column.

    Attributes
    ----------
    frame
        The table; vectors that came as a column for each number are structs of these columns.
    columns
        Our name -> the table's name, as the user gave it and for those structs.
    ignored
        Our names that nothing is read for: the mapping chose another column of that meaning.
    vectors
        Which of ``obs``, ``next_obs`` and ``action`` are vectors.
    """

    frame: pl.DataFrame
    columns: dict[str, str]
    ignored: frozenset[str]
    vectors: frozenset[str]


class _Found(NamedTuple):
    """Where a table holds one of our columns: under its name, numbered (obs_0, ...), or both."""

    source: str
    whole: bool
    numbered: list[str]
    mapped: bool

    def __bool__(self) -> bool:
        return self.whole or bool(self.numbered)

    @property
    def shown(self) -> str:
        return repr(self.source if self.whole else self.numbered[0])


def arrange_vectors(frame: pl.DataFrame, columns: Mapping[str, str] | None) -> Arranged:
    """Find the vectors in a table.

    Parameters
    ----------
    frame
        The table as the user gave it.
    columns
        Our name -> the table's name. For a vector this is a list column or, where there is no
        column of that name, what stands before the numbers: ``{"obs": "x"}`` for x_0, x_1, ...

    Raises
    ------
    LogsError
        Two columns of one meaning, a gap in the numbers, or a column that is no list.
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise LogsError(
            f"columns: expected a dict of our name -> the table's name, found "
            f"{type(columns).__name__}."
        )
    mapping = dict(columns or {})
    for key, name in mapping.items():
        if not isinstance(name, str):
            raise LogsError(f"columns: expected the name of a column for {key!r}, found {name!r}.")
    found = {key: _find(key, frame, mapping) for key in (*_LABELS, *_VECTORS, "action")}
    ignored = _choose(found)
    vectors: set[str] = set()
    packed: dict[str, list[str]] = {}
    for key in (*_VECTORS, "action"):
        where = found[key]
        if key in ignored or not where:
            continue
        if where.whole and (where.mapped or not where.numbered):
            if _is_vector(key, frame[where.source].dtype):
                vectors.add(key)
            continue
        if where.whole:
            choice = f"{{{key!r}: {where.source!r}}}"
            raise _twice(_MEANING[key], where.shown, repr(where.numbered[0]), choice)
        _check_numbering(where)
        names = [f"{where.source}_{k}" for k in range(len(where.numbered))]
        # Named by its range, which is how messages that list the table's columns show it.
        mapping[key] = names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]}"
        packed[mapping[key]] = names
        vectors.add(key)
    structs = [frame.select(names).to_struct(name) for name, names in packed.items()]
    rest = frame.drop([name for names in packed.values() for name in names])
    return Arranged(rest.with_columns(structs), mapping, ignored, frozenset(vectors))


def read_vectors(
    series: pl.Series, column: str, *, size: int | None = None, nulls: bool = False
) -> Float[np.ndarray, "n p"]:
    """Read the numbers of a column of vectors.

    Parameters
    ----------
    series
        A struct of numbers, or lists of them.
    column
        Our name of it, for messages.
    size
        How many numbers each vector must have; without it, as many as the first.
    nulls
        Whether rows may hold no vector at all; they are NaN.

    Raises
    ------
    LogsError
        Vectors of different lengths, or a number that is missing, infinite or none.
    """
    if isinstance(series.dtype, pl.Struct):
        return _read_structs(series, size, nulls)
    return _read_lists(series, column, size, nulls)


def _find(key: str, frame: pl.DataFrame, mapping: dict[str, str]) -> _Found:
    source = mapping.get(key, key)
    # A column given away to another name no longer stands for its own.
    taken = {name for other, name in mapping.items() if other != key}
    pattern = re.compile(re.escape(source) + "_[0-9]+")
    numbered = [name for name in frame.columns if pattern.fullmatch(name) and name not in taken]
    whole = source in frame.columns and (key in mapping or source not in taken)
    return _Found(source, whole, [] if key in _LABELS else numbered, key in mapping)


def _choose(found: Mapping[str, _Found]) -> frozenset[str]:
    """Decide between labels and vectors as states, and say which columns that leaves out."""
    state, obs = found["state"], found["obs"]
    if state and obs and state.mapped == obs.mapped:
        raise _twice("state", state.shown, obs.shown, "{'state': 'state'}")
    if not (state or obs):
        return frozenset()
    vector = bool(obs) and (obs.mapped or not state)
    chosen, others = (obs, _LABELS) if vector else (state, _VECTORS)
    follower = found[others[1]]
    if follower.mapped or (follower and not chosen.mapped):
        what, instead = ("vectors", "next_obs") if vector else ("labels", "next_state")
        raise LogsError(
            f"column {follower.shown if follower else repr(follower.source)}: the states are "
            f"{what} (column {chosen.shown}), and so must be their successors; give {instead} in "
            "its place, or neither if the next row of the episode gives the successor."
        )
    return frozenset(key for key in others if found[key] and not found[key].mapped)


def _twice(what: str, one: str, other: str, choice: str) -> LogsError:
    return LogsError(
        f"columns {one} and {other} both give the {what}; keep one, or map one of them alone to "
        f"choose it, e.g. columns={choice} (--columns)."
    )


def _is_vector(key: str, dtype: pl.DataType) -> bool:
    """Whether a column holds vectors; one of actions may hold labels, one of observations not."""
    if isinstance(dtype, pl.List | pl.Array) or (key == "next_obs" and dtype == pl.Null):
        return True
    if key == "action":
        return False
    raise LogsError(
        f"column {key!r}: expected lists of numbers, found {dtype}. A vector is a list column or "
        f"(the only way in a CSV) columns {key}_0, {key}_1, ...; integers and strings are labels, "
        f"whose column is {_LABELS[_VECTORS.index(key)]!r}."
    )


def _check_numbering(where: _Found) -> None:
    expected = [f"{where.source}_{k}" for k in range(len(where.numbered))]
    missing = [name for name in expected if name not in where.numbered]
    if missing:
        raise LogsError(
            f"missing column {missing[0]!r}: the table has {', '.join(where.numbered)}; number "
            f"the columns of a vector {where.source}_0, {where.source}_1, ... without a gap."
        )


def _read_structs(series: pl.Series, size: int | None, nulls: bool) -> np.ndarray:
    names = series.struct.fields
    if size is not None and len(names) != size:
        which = f"columns {names[0]} .. {names[-1]}" if len(names) > 1 else f"column {names[0]}"
        raise LogsError(
            f"{which}: expected {_numbers(size)}, as many as an observation has, found "
            f"{len(names)}."
        )
    fields = [series.struct.field(name) for name in names]
    absent = None
    if nulls:
        missing = np.column_stack([field.is_null().to_numpy() for field in fields])
        absent = missing.all(axis=1)
        partly = missing.any(axis=1) & ~absent
        if partly.any():
            row = first_row(partly)
            raise _incomplete(row, repr(names[first_row(missing[row])]))
    return np.column_stack(
        [read_numbers(field, name, absent) for field, name in zip(fields, names, strict=True)]
    )


def _read_lists(series: pl.Series, column: str, size: int | None, nulls: bool) -> np.ndarray:
    if nulls and series.dtype == pl.Null:
        return np.full((series.len(), size or 0), np.nan)
    inner = series.dtype.inner  # type: ignore[attr-defined]
    if not (inner.is_numeric() or inner in (pl.Boolean, pl.Null)):
        raise LogsError(f"column {column!r}: expected lists of numbers, found {series.dtype}.")
    lists = series.cast(pl.List(inner))
    lengths = lists.list.len()
    if not nulls and lists.null_count():
        row = first_row(lists.is_null())
        raise LogsError(f"row {row + 1}, column {column!r}: the value is missing.")
    as_many = "as many as an observation has" if size is not None else "as in row 1"
    size = int(lengths[0]) if size is None else size
    if size == 0:
        raise LogsError(f"row 1, column {column!r}: expected at least one number, found none.")
    broken = (lengths != size).fill_null(False)
    if broken.any():
        row = first_row(broken)
        raise LogsError(
            f"row {row + 1}, column {column!r}: expected {_numbers(size)}, {as_many}, found "
            f"{lengths[row]}."
        )
    held = lists.is_not_null()
    if nulls:
        # A list of nothing but nulls is no vector either.
        held &= (lists.list.drop_nulls().list.len() > 0).fill_null(False)
    rows = np.flatnonzero(held.to_numpy())
    numbers = lists.filter(held).explode().cast(pl.Float64)
    broken = numbers.is_null() | ~numbers.is_finite().fill_null(False)
    if broken.any():
        at = first_row(broken)
        row, entry = int(rows[at // size]), f"{column!r}, entry {at % size} (from 0)"
        if nulls and numbers[at] is None:
            raise _incomplete(row, entry)
        found = "nothing" if numbers[at] is None else numbers[at]
        raise LogsError(f"row {row + 1}, column {entry}: expected a finite number, found {found}.")
    matrix = np.full((series.len(), size), np.nan)
    matrix[rows] = numbers.to_numpy().reshape(-1, size)
    return matrix


def _numbers(size: int) -> str:
    return "1 number" if size == 1 else f"{size} numbers"


def _incomplete(row: int, where: str) -> LogsError:
    return LogsError(
        f"row {row + 1}, column {where}: expected a finite number, found nothing; leave all of "
        "a next observation empty where the log does not hold it, or nothing of it."
    )
