"""Logs from a file, one row per step."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import polars as pl

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.files import read_file
from bayesdice_ppl.logs.lazy.urls import is_url, open_url
from bayesdice_ppl.logs.logs import Logs
from bayesdice_ppl.logs.sources.layouts import (
    TABLE,
    check_layout,
    layout_of,
    read_known_table,
    read_layout,
)
from bayesdice_ppl.logs.sources.open_bandit import read_open_bandit
from bayesdice_ppl.logs.sources.paths import NUMBER, files_of, keys_of
from bayesdice_ppl.logs.sources.source import Source, SourceTable
from bayesdice_ppl.progress import stage


def read_logs(
    path: str | os.PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    actions: Sequence[Any] | None = None,
    ignore: Sequence[str] = (),
    reward: str | Sequence[str] | None = None,
    layout: str | None = None,
) -> Logs:
    """Read and validate logged transitions from a file, a pattern of files or a folder.

    The address of a database, such as ``duckdb:///logs.duckdb?table=steps``, is read by
    `Logs.from_lazy`: the log is counted where it lies, and what is returned is a `CountedLogs`.

    Parameters
    ----------
    path
        File with one row per step; see `Logs.from_dataframe` for the columns. It ends in ``.csv``,
        ``.tsv``, ``.json`` (a line an object), ``.jsonl`` or ``.ndjson``, each also with ``.gz``,
        in ``.parquet`` or ``.pq``. The separator of a CSV is found; where it is no comma, numbers
        may have decimal commas. Or a pattern such as ``logs/*.parquet``, or a folder of such files,
        whose own folders may be named ``key=value``. Or a log as another tool wrote it, as
        docs/sources.md tells: dsjson of Vowpal Wabbit, batches of RLlib in JSON, a saved dataset of
        Minari, HDF5 of D4RL or d3rlpy, ``.npz`` with the arrays of D4RL, OBP or SCOPE-RL, a CSV of
        the Open Bandit Dataset.
    columns
        Our name -> the file's name, e.g. ``{"action": "item_id", "reward": "click"}``.
    actions
        The action space; without it, it is the set of actions in the candidates' table.
    ignore
        Columns that are not what their names say, e.g. ``["done"]``; see `Logs.from_dataframe`.
    reward
        The column of rewards, or several: ``["quality", "cost"]``; see `Logs.from_dataframe`.
    layout
        Whose layout it is, where that is not found or is found wrongly: ``table``, ``vw``,
        ``rllib``, ``minari``, ``d4rl``, ``d3rlpy``, ``obp``, ``open_bandit`` or ``scope_rl``.
        ``Logs.source`` says what was taken as what.

    Raises
    ------
    LogsError
        The file cannot be read, or a row cannot be used: the message says which, and why.
    """
    options: dict[str, Any] = {"columns": columns, "actions": actions, "ignore": ignore}
    options["reward"] = reward
    if is_url(path):
        address = str(path)
        if layout not in (None, TABLE):
            check_layout(layout)
            raise LogsError(
                f"{address}: layout: expected none, or {TABLE!r}, beside an address, whose table "
                f"has a row for each step, found {layout!r}. Leave it out (--layout); or give the "
                "path of the file, which is then read into memory."
            )
        counted = _validated(path, lambda: Logs.from_lazy(open_url(address), **options))
        # A path says by its text alone which of the two it gives, and types cannot see it.
        return cast("Logs", counted)
    with stage(f"reading {Path(path).name}"):
        table = read_log_table(path, columns=columns, reward=reward, layout=layout)
        if isinstance(table, SourceTable):
            return _validated(path, lambda: Logs.from_source(table, **options))
        return _validated(path, lambda: Logs.from_dataframe(table, **options))


def read_table(
    path: str | os.PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    reward: str | Sequence[str] | None = None,
    layout: str | None = None,
) -> pl.DataFrame:
    """Read the table of a log as it stands: what `read_logs` checks, with all its faults.

    For whoever mends a log: change the table, then give it to `bayesdice_ppl.check` and to
    `Logs.from_dataframe`.

    Parameters
    ----------
    path, columns, reward, layout
        As for `read_logs`.

    Returns
    -------
    polars.DataFrame
        One row per step. Another tool's log has our names where their meaning is known.

    Raises
    ------
    LogsError
        The file cannot be read.
    """
    table = read_log_table(path, columns=columns, reward=reward, layout=layout)
    return table.chosen(columns) if isinstance(table, SourceTable) else table


def read_log_table(
    path: str | os.PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    reward: str | Sequence[str] | None = None,
    layout: str | None = None,
) -> pl.DataFrame | SourceTable:
    """Read the table of a log as it stands, before anything of it is checked.

    Parameters
    ----------
    path, columns, reward, layout
        As for `read_logs`.

    Returns
    -------
    polars.DataFrame or SourceTable
        The table; of a tool's layout, or of several files, with where it came from.

    Raises
    ------
    LogsError
        The file cannot be read.
    """
    check_layout(layout)
    files = files_of(path)
    name = layout or _validated(path, lambda: layout_of(path, files))
    if name not in (TABLE, "open_bandit"):
        return _validated(path, lambda: read_layout(name, path, files))
    frame, note = _read_tables(path, files, _numbers(columns, reward))
    known: SourceTable | None = None
    if name == "open_bandit":
        known = _validated(path, lambda: read_open_bandit(frame))
    elif layout is None:
        known = _validated(path, lambda: read_known_table(frame, columns))
    if known is None:
        return (
            SourceTable(frame, Source("a table of several files", {}, (note,))) if note else frame
        )
    return known.with_note(note) if note else known


def _validated[T](path: str | os.PathLike[str], made: Callable[[], T]) -> T:
    """What is made, or an error with the path before it."""
    try:
        return made()
    except LogsError as error:
        if str(error).startswith(str(path)):
            raise
        raise LogsError(f"{path}: {error}") from error


def _read_tables(
    path: str | os.PathLike[str], files: list[Path], is_number: Callable[[str], bool]
) -> tuple[pl.DataFrame, str]:
    """One table of all files, and what to say of there being several."""
    root = Path(path).expanduser()
    if not files and root.is_dir():
        raise LogsError(
            f"{path}: expected a log, found a folder without one. It may hold files of Parquet, "
            "CSV or JSON lines, or a saved dataset of Minari."
        )
    if not files and not root.exists():
        raise LogsError(f"{path}: no such file. Check the path.")
    if len(files) < 2 and not root.is_dir():
        return read_file(files[0] if files else path, LogsError, is_number=is_number), ""
    frames: list[pl.DataFrame] = []
    for file in files:
        frame = read_file(file, LogsError, is_number=is_number)
        keys = keys_of(file, root if root.is_dir() else Path(file.anchor))
        for key, value in keys.items():
            if key in frame.columns:
                raise LogsError(
                    f"{file}: expected one meaning of {key!r}, found a column and a folder of that "
                    "name. Rename one of them."
                )
            frame = frame.with_columns(pl.lit(value).alias(key))
        _check_same(frame, file, frames, files)
        frames.append(frame)
    whole = pl.concat([frame.select(frames[0].columns) for frame in frames], how="vertical_relaxed")
    added = sorted({key for file in files for key in keys_of(file, root)}) if root.is_dir() else []
    return _with_whole_numbers(whole, added), (
        f"{len(files):,} files, in the order of their names, from {_within(files[0], root)} to "
        f"{_within(files[-1], root)}."
    )


def _within(file: Path, root: Path) -> str:
    """A file's name, with the folders that it is in below the one that was given."""
    return str(file.relative_to(root)) if root.is_dir() else file.name


def _check_same(
    frame: pl.DataFrame, file: Path, before: list[pl.DataFrame], files: list[Path]
) -> None:
    """Refuse a file whose columns are others, or of another kind, than those before."""
    if not before:
        return
    first = before[0]
    if set(frame.columns) != set(first.columns):
        odd = sorted(set(frame.columns) ^ set(first.columns))
        raise LogsError(
            f"{file}: expected the columns of {files[0]}, found others: {listed(odd)} are in "
            "one of them only."
        )
    for name, dtype in first.schema.items():
        other = frame.schema[name]
        if dtype != other and not (
            (dtype.is_numeric() and other.is_numeric()) or pl.Null in (dtype, other)
        ):
            raise LogsError(
                f"{file}, column {name!r}: expected {dtype}, as in {files[0]}, found {other}. "
                "Convert one of them."
            )


def _with_whole_numbers(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Read the values in the names of folders as whole numbers, where all of a key are."""
    whole = [name for name in names if frame[name].str.contains(f"^({NUMBER.pattern})$").all()]
    return frame.with_columns(pl.col(name).cast(pl.Int64) for name in whole)


def _numbers(
    columns: Mapping[str, str] | None, reward: str | Sequence[str] | None
) -> Callable[[str], bool]:
    """Whether a column must hold numbers: rewards, propensities, and the numbers of vectors."""
    mapping = columns if isinstance(columns, Mapping) else {}
    single = {str(mapping.get(key, key)) for key in ("reward", "propensity", "step")}
    single |= {reward} if isinstance(reward, str) else set(reward or ())
    vector = {str(mapping.get(key, key)) for key in ("obs", "next_obs", "action")}

    def is_number(name: str) -> bool:
        base, _, place = name.rpartition("_")
        return name in single or (base in vector and place.isdigit())

    return is_number
