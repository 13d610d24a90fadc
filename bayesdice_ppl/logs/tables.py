"""Any table in, one polars frame out, with the user's column names mapped to ours.

Files are read by polars and dataframes come through narwhals, so that no format is favored;
this module only turns what can go wrong there into messages for people.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl

from bayesdice_ppl.errors import BayesDiceError, LogsError

_READERS = {".csv": "CSV", ".parquet": "Parquet", ".pq": "Parquet"}


def read_table(path: str | os.PathLike[str], error: type[BayesDiceError]) -> pl.DataFrame:
    """Read a CSV or Parquet file.

    Parameters
    ----------
    path
        File ending in ``.csv``, ``.parquet`` or ``.pq``.
    error
        The exception class to raise, which says whose table it is.

    Returns
    -------
    polars.DataFrame
        The table as it stands, types inferred from all rows.

    Raises
    ------
    BayesDiceError
        The file is missing, empty, of another kind, or cannot be parsed.
    """
    path = Path(path)
    kind = _READERS.get(path.suffix.lower())
    if kind is None:
        raise error(
            f"{path}: expected a file ending in .csv, .parquet or .pq, found "
            f"{path.suffix or 'no ending'!r}; convert it, or build the object from a dataframe."
        )
    if not path.exists():
        raise error(f"{path}: no such file.")
    if not path.is_file():
        raise error(f"{path}: expected a file, found a folder.")
    if path.stat().st_size == 0:
        raise error(f"{path}: the file is empty; expected a header and rows.")
    try:
        if kind == "Parquet":
            return pl.read_parquet(path)
        # Types from the whole file: a column that turns to text at row 5,000 must not surprise.
        frame = pl.read_csv(path, infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as cause:
        first_line = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        raise error(f"{path}: cannot be read as {kind}: {first_line}") from cause
    for name in frame.columns:
        # So polars calls the second column of a name.
        original, mark, _ = name.rpartition("_duplicated_")
        if mark and original in frame.columns:
            raise error(f"{path}: column {original!r} appears more than once; keep one.")
    return frame


def to_polars(frame: Any, error: type[BayesDiceError]) -> pl.DataFrame:
    """Turn any dataframe that narwhals knows into a polars frame, column by column.

    Raises
    ------
    BayesDiceError
        Not a dataframe, or a column mixes types (the column and a row of each type are named).
    """
    if isinstance(frame, pl.DataFrame):
        return frame
    try:
        native = nw.from_native(frame)
    except nw.exceptions.DuplicateError as cause:
        repeated = sorted(
            {str(name) for name in frame.columns if list(frame.columns).count(name) > 1}
        )
        raise error(f"column {repeated[0]!r} appears more than once; keep one.") from cause
    except TypeError as cause:
        raise error(
            f"expected a dataframe (polars, pandas, pyarrow, ...), found {type(frame).__name__}."
        ) from cause
    eager = native.collect() if isinstance(native, nw.LazyFrame) else native
    names = list(eager.columns)
    unnamed = [name for name in names if not isinstance(name, str)]
    if unnamed:
        raise error(f"expected names of columns that are strings, found {unnamed[0]!r}.")
    columns: dict[str, pl.Series] = {}
    for name in names:
        series = eager[name]
        try:
            columns[name] = series.to_polars()
        except Exception as cause:
            # Backends raise their own classes here (pyarrow's among them), all for one reason:
            # an object column whose values are not of one type.
            raise error(mixed_types_message(name, series.to_list())) from cause
    return pl.DataFrame(columns)


def mixed_types_message(name: str, values: Iterable[Any]) -> str:
    """Name the first row of each type in a column that mixes types (rows count from 1)."""
    seen: dict[str, int] = {}
    for row, value in enumerate(values, start=1):
        if value is not None:
            seen.setdefault(type(value).__name__, row)
    found = ", ".join(f"{kind} at row {row}" for kind, row in seen.items())
    return f"column {name!r} mixes types ({found}); expected one type in the whole column."


def map_columns(
    frame: pl.DataFrame,
    columns: Mapping[str, str] | None,
    known: Iterable[str],
    required: Iterable[str],
    error: type[BayesDiceError],
    *,
    instead: Mapping[str, str] | None = None,
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
            raise error(f"columns: {key!r} is not a known column; known are {', '.join(known)}.")
        if source not in frame.columns:
            raise error(
                f"columns: {key}={source}, but the table has no column {source!r}; "
                f"it has {_listed(frame.columns)}."
            )
    sources = list(mapping.values())
    for source in sources:
        if sources.count(source) > 1:
            keys = " and ".join(key for key, value in mapping.items() if value == source)
            raise error(f"columns: {keys} are both mapped to {source!r}; map one of them.")
    chosen = {key: mapping.get(key, key) for key in known}
    taken = set(sources)
    present = {
        key: source
        for key, source in chosen.items()
        # A column given away to another name no longer stands for its own.
        if source in frame.columns and (key in mapping or source not in taken)
    }
    # On the command line only the log's columns can be mapped.
    for key in required:
        flag = f" (--columns {key}=...)" if issubclass(error, LogsError) else ""
        if key not in present:
            raise error(
                f"missing column {key!r}{(instead or {}).get(key, '')}; the table has "
                f"{_listed(frame.columns)}. Rename it, or "
                f"say which column it is: columns={{'{key}': ...}}{flag}."
            )
    unused = tuple(name for name in frame.columns if name not in present.values())
    return frame.select(pl.col(source).alias(key) for key, source in present.items()), unused


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "no columns"
