"""Addresses of logs in databases: ``duckdb:///logs.duckdb?table=steps``."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError

_EXAMPLE = "duckdb:///logs.duckdb?table=steps"


def is_url(path: str | os.PathLike[str]) -> bool:
    """Whether a path is the address of a database."""
    return isinstance(path, str) and "://" in path


def open_url(address: str) -> Any:
    """The lazy table at an address.

    Parameters
    ----------
    address
        ``duckdb:///`` and the path of a database, with ``?table=`` and the name of a table or a
        view. Three slashes stand before a relative path, four before an absolute one. The database
        is opened to be read.

    Raises
    ------
    LogsError
        Another kind of address, or no such database or table; or DuckDB is not installed.
    """
    parts = urlsplit(address)
    asked = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme != "duckdb" or parts.netloc or set(asked) != {"table"} or not asked["table"]:
        raise LogsError(
            f"{address}: expected the address of a table in a database, such as {_EXAMPLE}. Of "
            "other engines give the table itself in Python: bd.Logs.from_lazy(table)."
        )
    path, name = unquote(parts.path)[1:], asked["table"]
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
