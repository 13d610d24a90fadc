"""Addresses of logs that are counted where they lie: ``duckdb:///logs.duckdb?table=steps``.

Files of Parquet are read as they stream: ``parquet:///logs/*.parquet``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import polars as pl

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.sources.paths import NUMBER, files_of, keys_of

_PARQUET = (".parquet", ".pq")
_EXAMPLES = "duckdb:///logs.duckdb?table=steps or parquet:///logs/*.parquet"


def is_url(path: str | os.PathLike[str]) -> bool:
    """Whether a path is such an address."""
    return isinstance(path, str) and "://" in path


def open_url(address: str) -> Any:
    """The lazy table at an address.

    Parameters
    ----------
    address
        ``duckdb:///`` and the path of a database, with ``?table=`` and the name of a table or a
        view; or ``parquet:///`` and the path of a file, a pattern of files or a folder. Three
        slashes stand before a relative path, four before an absolute one. What is there is opened
        to be read.

    Raises
    ------
    LogsError
        Another kind of address, or no such database or table; or DuckDB is not installed.
    """
    scheme, _, rest = address.partition("://")
    if scheme == "parquet":
        # A path may hold what has a meaning in addresses: #, ?, %.
        path = rest.removeprefix("/")
        if rest.startswith("/") and path:
            return _scan(address, path)
    parts = urlsplit(address)
    asked = dict(parse_qsl(parts.query, keep_blank_values=True))
    path = unquote(parts.path)[1:]
    if scheme != "duckdb" or parts.netloc or set(asked) != {"table"} or not asked["table"]:
        raise LogsError(
            f"{address}: expected an address such as {_EXAMPLES}. Of other engines give the table "
            "itself in Python: bd.Logs.from_lazy(table)."
        )
    if not os.path.exists(path):
        raise LogsError(f"{address}: no such file: {path}. Check the path.")
    try:
        import duckdb
    except ImportError as cause:
        raise LogsError(
            f"{address}: DuckDB is not installed. Install it: pip install bayesdice-ppl[lazy]."
        ) from cause
    try:
        database = duckdb.connect(path, read_only=True)
    except duckdb.Error as cause:
        words = str(cause).splitlines()[0]
        raise LogsError(f"{address}: DuckDB cannot open {path}: {words}") from cause
    return _table(database, address, asked["table"])


def _table(database: Any, address: str, name: str) -> Any:
    """A table or a view by its name, whatever schema it is in, or by ``schema.name``."""
    found = database.execute(
        "select table_schema, table_name from information_schema.tables "
        "where table_catalog = current_database() order by all"
    ).fetchall()
    fits = [(schema, table) for schema, table in found if name in (table, f"{schema}.{table}")]
    if not fits:
        names = sorted({str(table) for _, table in found})
        raise LogsError(
            f"{address}: expected a table of the database, found {name!r}. It has "
            f"{listed(names, 99) or 'none'}."
        )
    if len(fits) > 1:
        several = [f"{schema}.{table}" for schema, table in fits]
        raise LogsError(
            f"{address}: expected the name of one table, found {name!r}, which may be "
            f"{listed(several, 99)}. Write its schema before it."
        )
    schema, table = (part.replace('"', '""') for part in fits[0])
    return database.sql(f'select * from "{schema}"."{table}"')


def _scan(address: str, path: str) -> pl.LazyFrame:
    """Files of Parquet, which polars reads as they stream, in the order of their names.

    Keys in the names of folders, such as ``day=1``, are columns, as `read_logs` makes them.
    """
    root = Path(path).expanduser()
    files = files_of(path)
    if not files:
        what = "no file of Parquet in this folder" if root.is_dir() else "no such file"
        raise LogsError(f"{address}: {what}: {path}. Check the path.")
    odd = [file for file in files if root.is_dir() and file.suffix.lower() not in _PARQUET]
    if odd:
        raise LogsError(
            f"{address}: expected files of Parquet, found {odd[0].name}. Give its path without "
            "parquet:/// to read it into memory."
        )
    keys = [
        {} if len(files) < 2 and not root.is_dir() else keys_of(file, _base(file, root))
        for file in files
    ]
    if not any(keys):
        return _read(files)
    return _with_keys(address, files, keys, whole=root.is_dir())


def _base(file: Path, root: Path) -> Path:
    return root if root.is_dir() else Path(file.anchor)


def _read(files: list[Path]) -> pl.LazyFrame:
    return pl.scan_parquet(files, missing_columns="raise", hive_partitioning=False, glob=False)


def _with_keys(
    address: str, files: list[Path], keys: list[dict[str, str]], *, whole: bool
) -> pl.LazyFrame:
    """Files beside the keys of the folders that they are in; whole numbers are read as such."""
    names = list(keys[0])
    for file, own in zip(files, keys, strict=True):
        if set(own) != set(names):
            raise LogsError(
                f"{address}: expected folders with the keys {listed(names) or 'none'} above each "
                f"file, as above {files[0]}, found {listed(list(own)) or 'none'} above {file}."
            )
    held = _read(files[:1]).collect_schema().names()
    if twice := [name for name in names if name in held]:
        raise LogsError(
            f"{address}: expected one meaning of {twice[0]!r}, found a column and a folder of that "
            "name. Rename one of them."
        )
    # Files that follow each other and share their keys are one scan.
    runs: list[tuple[dict[str, str], list[Path]]] = []
    for file, own in zip(files, keys, strict=True):
        if not runs or runs[-1][0] != own:
            runs.append((own, []))
        runs[-1][1].append(file)
    numbers = [
        name for name in names if whole and all(NUMBER.fullmatch(own[name]) for own, _ in runs)
    ]
    parts = [
        _read(several).with_columns(
            pl.lit(int(value), pl.Int64).alias(name)
            if name in numbers
            else pl.lit(value, pl.String).alias(name)
            for name, value in sorted(own.items())
        )
        for own, several in runs
    ]
    return pl.concat(parts)
