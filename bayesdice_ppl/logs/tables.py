"""Any table in, one polars frame out, with the user's column names mapped to ours.

Narwhals takes dataframes of any library. What can go wrong there becomes a message for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import narwhals as nw
import polars as pl

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import BayesDiceError
from bayesdice_ppl.logs.labels import plain_label
from bayesdice_ppl.plain import listed_word, shell_word


def to_polars(frame: Any, error: type[BayesDiceError]) -> pl.DataFrame:
    """Turn any dataframe that narwhals knows into a polars frame, column by column.

    Raises
    ------
    BayesDiceError
        Not a dataframe, or a column mixes types (the column and a row of each type are named).
    """
    if isinstance(frame, pl.DataFrame):
        objects = [series for series in frame.get_columns() if series.dtype == pl.Object]
        texts = [(series.name, _as_texts(series.to_list())) for series in objects]
        return frame.with_columns(pl.Series(name, own) for name, own in texts if own is not None)
    frame = _with_index(frame, error)
    try:
        native = nw.from_native(frame)
    except nw.exceptions.DuplicateError as cause:
        repeated = sorted(
            {str(name) for name in frame.columns if list(frame.columns).count(name) > 1}
        )
        raise error(f"column {repeated[0]!r} appears more than once. Keep one.") from cause
    except TypeError as cause:
        raise error(
            f"expected a dataframe (polars, pandas, pyarrow, ...), found {type(frame).__name__}."
        ) from cause
    eager = native.collect() if isinstance(native, nw.LazyFrame) else native
    names = list(eager.columns)
    unnamed = [name for name in names if not isinstance(name, str)]
    if unnamed:
        raise error(f"expected column names that are strings, found {unnamed[0]!r}. Rename it.")
    columns: dict[str, pl.Series] = {}
    for name in names:
        series = eager[name]
        failure: Exception | None = None
        try:
            columns[name] = series.to_polars()
        except Exception as failed:
            # Each backend raises a class of its own, all for one reason: an object column whose
            # values are not of one type, or of one that it does not know.
            failure = failed
        if name in columns and _is_plain(columns[name].dtype):
            continue
        values = series.to_list()
        labels = _as_texts(values)
        if labels is not None:
            columns[name] = pl.Series(name, labels)
        elif failure is not None:
            raise error(_mixed_types(name, values)) from failure
    return pl.DataFrame(columns)


def _is_plain(dtype: pl.DataType) -> bool:
    """Whether polars itself knows what a column holds, and not only the library that it is from."""
    foreign = isinstance(dtype, pl.Object | pl.Binary | pl.Struct)
    return not foreign and not str(dtype).startswith("Extension")


def _as_texts(values: list[Any]) -> list[Any] | None:
    """Objects as labels, where each has one text; None where one of them has none."""
    labels = [None if _is_missing(value) else plain_label(value) for value in values]
    kinds = {type(label) for label in labels if label is not None}
    same = kinds <= {int} or kinds <= {str}
    if kinds == {int, str} and all(isinstance(v, Decimal) for v in values if not _is_missing(v)):
        return [None if label is None else str(label) for label in labels]
    return labels if same else None


def _is_missing(value: Any) -> bool:
    """None, NaN, and what pandas has for missing values."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _with_index(frame: Any, error: type[BayesDiceError]) -> Any:
    """Turn the named levels of an index, as pandas has them, into columns.

    Raises
    ------
    BayesDiceError
        A level differs from the column of its name, or no level of several has a name.
    """
    index = getattr(frame, "index", None)
    if index is None or not hasattr(index, "names") or not hasattr(frame, "reset_index"):
        return frame
    levels = list(enumerate(index.names))
    named = [level for level, name in levels if name is not None]
    if len(levels) > 1 and not named:
        raise error(
            f"expected names for the {len(levels)} levels of the table's index, found none. Name "
            "them (frame.index.names = ['episode_id', 'step']) to have them read as columns, or "
            "drop them (frame.reset_index(drop=True))."
        )
    known = list(frame.columns)
    for level in [level for level in named if index.names[level] in known]:
        name = index.names[level]
        if known.count(name) == 1 and list(index.get_level_values(level)) != list(frame[name]):
            raise error(
                f"expected one meaning of {name!r}, found a column and a level of the index that "
                "differ. Rename one of them."
            )
        named.remove(level)
    # Levels without a name number the rows.
    drop = [level for level, _ in levels if level not in named]
    if len(drop) == len(levels):
        return frame
    return (frame.reset_index(level=drop, drop=True) if drop else frame).reset_index()


def _mixed_types(name: str, values: Iterable[Any]) -> str:
    """Name the first row of each type in a column that mixes types (rows count from 1)."""
    seen: dict[str, int] = {}
    for row, value in enumerate(values, start=1):
        if value is not None:
            seen.setdefault(type(value).__name__, row)
    found = ", ".join(f"{kind} at row {row}" for kind, row in seen.items())
    return (
        f"column {name!r}: expected one type in the whole column, found {found}. Convert all of "
        "it to one type."
    )


def map_columns(
    frame: pl.DataFrame,
    columns: Mapping[str, str] | None,
    known: Iterable[str],
    required: Iterable[str],
    error: type[BayesDiceError],
    *,
    instead: Mapping[str, str] | None = None,
    guessed: Mapping[str, str] | None = None,
    option: str = "",
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Rename the user's columns to the known ones and keep those.

    Parameters
    ----------
    frame
        The table.
    columns
        Known name -> name in the table, e.g. ``{"action": "item_id"}``.
    known, required
        All names that have a meaning, and those that must be there.
    error
        The exception class to raise.
    instead
        Required name -> what to add to the message where it is missing.
    guessed
        Known name -> a column that looks like it, to propose where a required one is missing.
    option
        The option of the command line that maps columns; empty where there is none.

    Returns
    -------
    (polars.DataFrame, tuple of str)
        The frame with known columns only, and the names of the columns that have no meaning here.

    Raises
    ------
    BayesDiceError
        An unknown key, a named column that is not there, or a required column missing.
    """
    known = list(known)
    mapping = dict(columns or {})
    for key, source in mapping.items():
        if key not in known:
            raise error(f"columns: expected one of {', '.join(known)}, found {key!r}.")
        if source not in frame.columns:
            raise error(
                f"columns: {key!r} is mapped to {source!r}, which the table does not have. It has "
                f"{_names(frame)}."
            )
    sources = list(mapping.values())
    for source in sources:
        if sources.count(source) > 1:
            keys = " and ".join(repr(key) for key, value in mapping.items() if value == source)
            raise error(f"columns: {keys} are both mapped to {source!r}. Map only one of them.")
    chosen = {key: mapping.get(key, key) for key in known}
    taken = set(sources)
    present = {
        key: source
        for key, source in chosen.items()
        # A column given away to another name no longer stands for its own.
        if source in frame.columns and (key in mapping or source not in taken)
    }
    for key in required:
        if key not in present:
            raise error(
                f"missing column {key!r}{(instead or {}).get(key, '')}. The table has "
                f"{_names(frame)}. {_how_to_map(key, mapping, guessed or {}, option)}"
            )
    unused = tuple(name for name in frame.columns if name not in present.values())
    return frame.select(pl.col(source).alias(key) for key, source in present.items()), unused


def mapping_text(columns: Mapping[str, str], option: str = "--columns") -> str:
    """How a mapping of columns is written, in Python and on the command line."""
    pairs = ", ".join(f"{key!r}: {name!r}" for key, name in columns.items())
    words = ",".join(f"{key}={listed_word(name)}" for key, name in columns.items())
    return f"columns={{{pairs}}}" + (f" ({option} {shell_word(words)})" if option else "")


def _how_to_map(
    key: str, mapping: Mapping[str, str], guessed: Mapping[str, str], option: str
) -> str:
    if not guessed:
        by_option = f" ({option} {key}=...)" if option else ""
        return f"Rename a column, or map it with columns={{{key!r}: ...}}{by_option}."
    alike = ", ".join(f"{name!r} looks like {key!r}" for key, name in guessed.items())
    return f"{alike}: if it is, pass {mapping_text({**mapping, **guessed}, option)}."


def _names(frame: pl.DataFrame) -> str:
    return listed(frame.columns, 99) or "no columns"
