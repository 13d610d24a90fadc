"""Logs from a file: CSV or Parquet, one row per step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.logs import Logs
from bayesdice_ppl.logs.tables import read_table


def read_logs(
    path: str | os.PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    actions: Sequence[Any] | None = None,
    ignore: Sequence[str] = (),
) -> Logs:
    """Read and validate logged transitions from a CSV or Parquet file.

    Parameters
    ----------
    path
        File with one row per step; see `Logs.from_dataframe` for the columns.
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
    frame = read_table(path, LogsError)
    try:
        return Logs.from_dataframe(frame, columns=columns, actions=actions, ignore=ignore)
    except LogsError as error:
        raise LogsError(f"{path}: {error}") from error
