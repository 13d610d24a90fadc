"""The columns of a log: which of them a table holds, under which names, and which are vectors.

A vector comes as one list column (``obs``) or as a column for each of its numbers (``obs_0``,
``obs_1``, ...). Where two columns could give the same thing, the table is refused, unless the
user's mapping chooses one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.familiar import guess
from bayesdice_ppl.logs.tables import map_columns

COLUMNS = (
    "episode_id",
    "step",
    "state",
    "obs",
    "action",
    "reward",
    "next_state",
    "next_obs",
    "terminated",
    "truncated",
    "propensity",
    "allowed_actions",
)
"""Every column that has a meaning in a log."""

_LABELS = ("state", "next_state")
_VECTORS = ("obs", "next_obs")
_MEANING = {"obs": "observation", "next_obs": "next observation", "action": "action"}
_INSTEAD = {
    "state": " (or, for vectors, a list column 'obs' or columns obs_0, obs_1, ...)",
    "action": " (or, for vectors, columns action_0, action_1, ...)",
}


class LogTable(NamedTuple):
    """A table with the columns of a log.

    Attributes
    ----------
    frame
        The table under our names. Each vector is one column; one that came as a column for each
        number is a struct of these.
    vectors
        Which of ``obs``, ``next_obs`` and ``action`` are vectors.
    unused
        Columns of the user's table that have no meaning in a log.
    """

    frame: pl.DataFrame
    vectors: frozenset[str]
    unused: tuple[str, ...]


def find_columns(
    frame: pl.DataFrame, columns: Mapping[str, str] | None, ignore: Sequence[str] = ()
) -> LogTable:
    """Find the columns of a log in a table.

    Parameters
    ----------
    frame
        The table as the user gave it.
    columns
        Our name -> the table's name. For a vector this is a list column or, where there is no
        column of that name, what stands before the numbers: ``{"obs": "x"}`` for x_0, x_1, ...
    ignore
        Columns of the table that are not what their names say.

    Raises
    ------
    LogsError
        A column is missing, two have one meaning, numbers are skipped, or a column of vectors holds
        no lists.
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise LogsError(
            "columns: expected a dict of our name -> the table's name, found "
            f"{type(columns).__name__}."
        )
    mapping = dict(columns or {})
    for key, name in mapping.items():
        if not isinstance(name, str):
            raise LogsError(f"columns: expected the name of a column for {key!r}, found {name!r}.")
    _check_ignored(frame, mapping, ignore)
    all_columns = frame.columns
    frame = frame.drop(list(ignore))
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
            raise _twice(_MEANING[key], where.shown, repr(where.numbered[0]), key, where.source)
        _check_numbering(where)
        names = [f"{where.source}_{k}" for k in range(len(where.numbered))]
        # Named by its range, which is how messages that list the table's columns show it.
        mapping[key] = names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]}"
        packed[mapping[key]] = names
        vectors.add(key)
    structs = [frame.select(names).to_struct(name) for name, names in packed.items()]
    rest = frame.drop([name for names in packed.values() for name in names])
    required = ("obs" if "obs" in vectors else "state", "action", "reward")
    table, unused = map_columns(
        rest.with_columns(structs),
        mapping,
        [key for key in COLUMNS if key not in ignored],
        required,
        LogsError,
        instead=_INSTEAD,
        guessed=_guess_missing(frame, [key for key in required if key not in mapping]),
        option="--columns",
    )
    kept = {*unused, *ignore}
    return LogTable(table, frozenset(vectors), tuple(c for c in all_columns if c in kept))


def _check_ignored(
    frame: pl.DataFrame, mapping: Mapping[str, str], ignore: Collection[str]
) -> None:
    if isinstance(ignore, str) or not all(isinstance(name, str) for name in ignore):
        raise LogsError(f"ignore: expected a list of names of columns, found {ignore!r}.")
    for name in ignore:
        if name not in frame.columns:
            raise LogsError(
                f"ignore: expected a column of the table (--ignore), found {name!r}. It has "
                f"{listed(frame.columns, 99)}."
            )
        if name in mapping.values():
            raise LogsError(
                f"ignore: {name!r} is mapped by columns= (--columns) too. Do one of them."
            )


def _guess_missing(frame: pl.DataFrame, required: Sequence[str]) -> dict[str, str]:
    """What may be meant where a required column is missing: vectors are observations."""
    missing = [key for key in required if not _find(key, frame, {})]
    found = guess(frame.columns, missing)
    where = found.get("state")
    if where is None and "state" in missing:
        return found | guess(frame.columns, ["obs"])
    if where is not None and isinstance(frame[where].dtype, pl.List | pl.Array):
        return {"obs" if key == "state" else key: name for key, name in found.items()}
    return found


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
        return repr(self.numbered[0] if self.numbered and not self.whole else self.source)


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
        raise _twice("state", state.shown, obs.shown, "state", state.source)
    if not (state or obs):
        return frozenset()
    vector = bool(obs) and (obs.mapped or not state)
    chosen, others = (obs, _LABELS) if vector else (state, _VECTORS)
    follower = found[others[1]]
    if follower.mapped or (follower and not chosen.mapped):
        kind, instead = ("vectors", "next_obs") if vector else ("labels", "next_state")
        raise LogsError(
            f"column {follower.shown}: expected next states that are {kind}, as the states are "
            f"(column {chosen.shown}). Give {instead} instead, or neither: the next row of the "
            "episode then gives the next state."
        )
    return frozenset(key for key in others if found[key] and not found[key].mapped)


def _twice(what: str, one: str, other: str, key: str, name: str) -> LogsError:
    return LogsError(
        f"columns {one} and {other} both give the {what}. Keep one, or map one of them to choose "
        f"it, e.g. columns={{{key!r}: {name!r}}} (--columns {key}={name})."
    )


def _is_vector(key: str, dtype: pl.DataType) -> bool:
    """Whether a column holds vectors; actions may be labels instead, observations may not."""
    if isinstance(dtype, pl.List | pl.Array) or (key == "next_obs" and dtype == pl.Null):
        return True
    if key == "action":
        return False
    raise LogsError(
        f"column {key!r}: expected lists of numbers, found {dtype}. Give a vector as a list column "
        f"or, as a CSV must, as columns {key}_0, {key}_1, .... Labels (integers or strings) belong "
        f"in a column {_LABELS[_VECTORS.index(key)]!r}."
    )


def _check_numbering(where: _Found) -> None:
    expected = [f"{where.source}_{k}" for k in range(len(where.numbered))]
    missing = [name for name in expected if name not in where.numbered]
    if missing:
        raise LogsError(
            f"missing column {missing[0]!r}: the table has {', '.join(where.numbered)}. Number "
            f"the columns of a vector {where.source}_0, {where.source}_1, ... without a gap."
        )
