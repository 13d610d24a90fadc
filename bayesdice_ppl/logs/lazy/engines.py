"""What differs between engines: how a table is asked, and how a small table gets beside it.

Narwhals writes one query for all of them. What it leaves open is here: results come back as polars
frames of plain integers and floats, and a small table of ours is put where the engine can join it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import narwhals as nw
import polars as pl

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError

ENGINES = ("polars", "duckdb", "ibis", "pyspark")
"""Engines that a log may lie in, by the names that narwhals has for them."""
_WITH_ARROW = 4
"""Version of Spark from which it takes tables of Arrow."""
_EAGER = "Logs.from_dataframe takes tables in memory"


def as_lazy(table: Any) -> nw.LazyFrame[Any]:
    """A table of any engine, to be asked; nothing is read.

    Raises
    ------
    LogsError
        It is no lazy table, or one of an engine that is not known here.
    """
    if isinstance(table, pl.DataFrame):
        table = table.lazy()
    try:
        frame = nw.from_native(table)
    except TypeError as cause:
        raise LogsError(
            "expected a lazy table (a polars LazyFrame, a DuckDB relation, a table of Ibis, a "
            f"DataFrame of PySpark), found {type(table).__name__}."
        ) from cause
    if not isinstance(frame, nw.LazyFrame):
        raise LogsError(
            "expected a lazy table (a polars LazyFrame, a DuckDB relation, a table of Ibis, a "
            f"DataFrame of PySpark), found {type(table).__name__}, which is in memory. "
            f"{_EAGER}."
        )
    if engine_of(frame) not in ENGINES:
        raise LogsError(
            f"expected a table of one of {listed(ENGINES)}, found one of {engine_of(frame)}. Write "
            "it to Parquet, and give polars.scan_parquet(...)."
        )
    return frame


def engine_of(frame: nw.LazyFrame[Any]) -> str:
    """The engine's name: polars, duckdb, ibis, pyspark."""
    return str(frame.implementation.value)


@contextmanager
def told_by_engines() -> Iterator[None]:
    """Turn what engines say of a query that they do not take into an error about the log."""
    try:
        yield
    except Exception as cause:
        source = type(cause).__module__.split(".")[0].lstrip("_")
        if source not in (*ENGINES, "narwhals"):
            raise
        raise _not_read(cause, source) from cause


def _not_read(cause: BaseException, source: str) -> LogsError:
    words = str(cause).strip().splitlines() or [type(cause).__name__]
    return LogsError(
        f"{source} could not read the log: {words[0]} (Look at the names and the types of its "
        "columns.)"
    )


def collect(frame: nw.LazyFrame[Any], *, as_given: bool = False) -> pl.DataFrame:
    """The answer to a query. Decimals, which some engines make of sums, become integers or floats.

    Parameters
    ----------
    frame
        The query.
    as_given
        Whether it is of the user's own columns, which keep their types.

    Raises
    ------
    LogsError
        The engine cannot answer, with what it says.
    """
    options: dict[str, Any] = {"engine": "streaming"} if engine_of(frame) == "polars" else {}
    try:
        found = frame.collect("polars", **options).to_native()
    except BaseException as cause:
        # Each engine raises classes of its own, for a file that is gone as for a query. What polars
        # cannot convert is no Exception.
        if not isinstance(cause, Exception) and type(cause).__name__ != "PanicException":
            raise
        raise _not_read(cause, engine_of(frame)) from cause
    found = found if isinstance(found, pl.DataFrame) else pl.DataFrame(found)
    if as_given:
        return found
    return found.with_columns(
        pl.col(name).cast(pl.Int64 if kind.scale == 0 else pl.Float64)
        for name, kind in found.schema.items()
        if isinstance(kind, pl.Decimal) and not name.startswith(RAW)
    )


RAW = "raw_"
"""What stands before columns that keep their type: labels as the table has them."""


def beside(frame: nw.LazyFrame[Any], small: pl.DataFrame) -> nw.LazyFrame[Any]:
    """A small table where the engine of a log can join it.

    Parameters
    ----------
    frame
        The log.
    small
        The table; it is held in memory as long as the result is.
    """
    native = frame.to_native()
    engine = engine_of(frame)
    if engine == "polars":
        return nw.from_native(small.lazy())
    if engine == "duckdb":
        # The relation knows its connection, and SQL knows the table by the name that it has here.
        # A table of the database with that name would come first.
        bayesdice_numbers_beside_the_log = small.to_arrow()
        found = native.query("the_log", "select * from bayesdice_numbers_beside_the_log")
        del bayesdice_numbers_beside_the_log
        return nw.from_native(found)
    if engine == "ibis":
        import ibis

        return nw.from_native(ibis.memtable(small.to_arrow()))
    session = native.sparkSession
    if int(session.version.split(".")[0]) < _WITH_ARROW:
        return nw.from_native(session.createDataFrame(small.rows(), small.columns))
    return nw.from_native(session.createDataFrame(small.to_arrow()))
