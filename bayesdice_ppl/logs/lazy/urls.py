"""Addresses of logs that are counted where they lie: ``duckdb:///logs.duckdb?table=steps``.

Files of Parquet are read as they stream: ``parquet:///logs/*.parquet``.
"""

from __future__ import annotations

import glob
import os
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import polars as pl

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError

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
    parts = urlsplit(address)
    asked = dict(parse_qsl(parts.query, keep_blank_values=True))
    path = unquote(parts.path)[1:]
    if parts.scheme == "parquet" and not parts.netloc and not parts.query and path:
        return _scan(address, path)
    if parts.scheme != "duckdb" or parts.netloc or set(asked) != {"table"} or not asked["table"]:
        raise LogsError(
            f"{address}: expected an address such as {_EXAMPLES}. Of other engines give the table "
            "itself in Python: bd.Logs.from_lazy(table)."
        )
    name = asked["table"]
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
    # By name, whatever schema it is in; a view counts as a table.
    found = database.execute("select table_name from information_schema.tables").fetchall()
    names = sorted(str(row[0]) for row in found)
    last = name.rsplit(".", 1)[-1]
    if last not in names:
        raise LogsError(
            f"{address}: expected a table of the database, found {name!r}. It has "
            f"{listed(names, 99) or 'none'}."
        )
    return database.table(name)


def _scan(address: str, path: str) -> pl.LazyFrame:
    """Files of Parquet, which polars reads as they stream."""
    if not (os.path.exists(path) or glob.glob(path, recursive=True)):
        raise LogsError(f"{address}: no such file: {path}. Check the path.")
    return pl.scan_parquet(path, missing_columns="raise")
