"""Logs from a file, one row per step."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.files import read_table
from bayesdice_ppl.logs.logs import Logs
from bayesdice_ppl.progress import stage


def read_logs(
    path: str | os.PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    actions: Sequence[Any] | None = None,
    ignore: Sequence[str] = (),
) -> Logs:
    """Read and validate logged transitions from a file: CSV, JSON lines or Parquet.

    Parameters
    ----------
    path
        File with one row per step; see `Logs.from_dataframe` for the columns. It ends in ``.csv``,
        ``.tsv``, ``.jsonl`` or ``.ndjson``, each also with ``.gz``, in ``.parquet`` or ``.pq``. The
        separator of a CSV is found; where it is no comma, numbers may have decimal commas.
    columns
        Our name -> the file's name, e.g. ``{"action": "item_id", "reward": "click"}``.
    actions
        The action space; without it, it is the set of actions in the candidates' table.
    ignore
        Columns that are not what their names say, e.g. ``["done"]``; see `Logs.from_dataframe`.

    Raises
    ------
    LogsError
        The file cannot be read, or a row cannot be used: the message says which, and why.
    """
    with stage(f"reading {Path(path).name}"):
        frame = read_log_table(path, columns=columns)
        try:
            return Logs.from_dataframe(frame, columns=columns, actions=actions, ignore=ignore)
        except LogsError as error:
            raise LogsError(f"{path}: {error}") from error


def read_log_table(
    path: str | os.PathLike[str], *, columns: Mapping[str, str] | None = None
) -> pl.DataFrame:
    """Read the table of a log as it stands, before anything of it is checked.

    Parameters
    ----------
    path, columns
        As for `read_logs`.

    Raises
    ------
    LogsError
        The file cannot be read.
    """
    return read_table(path, LogsError, is_number=_numbers(columns))


def _numbers(columns: Mapping[str, str] | None) -> Callable[[str], bool]:
    """Whether a column must hold numbers: rewards, propensities, and the numbers of vectors."""
    mapping = columns if isinstance(columns, Mapping) else {}
    single = {str(mapping.get(key, key)) for key in ("reward", "propensity", "step")}
    vector = {str(mapping.get(key, key)) for key in ("obs", "next_obs", "action")}

    def is_number(name: str) -> bool:
        base, _, place = name.rpartition("_")
        return name in single or (base in vector and place.isdigit())

    return is_number
