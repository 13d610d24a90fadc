"""Which tool wrote a file or a folder, and its reader.

A layout is recognized by what only it has: a key, a file, a set of columns. Nothing is guessed from
values. What is recognized is said, and ``layout=`` decides where it is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.familiar import guess
from bayesdice_ppl.logs.sources.bandit_feedback import read_bandit_feedback
from bayesdice_ppl.logs.sources.d3rlpy import read_d3rlpy_file
from bayesdice_ppl.logs.sources.flat import read_flat
from bayesdice_ppl.logs.sources.hdf5 import open_hdf5
from bayesdice_ppl.logs.sources.hugging_face import has_episode_rows, read_episode_rows
from bayesdice_ppl.logs.sources.json_lines import first_object
from bayesdice_ppl.logs.sources.minari import find_saved, read_saved
from bayesdice_ppl.logs.sources.open_bandit import is_open_bandit, read_open_bandit
from bayesdice_ppl.logs.sources.rllib import (
    check_no_episodes,
    is_rllib_table,
    is_sample_batch,
    read_rllib,
    read_rllib_table,
)
from bayesdice_ppl.logs.sources.scope_rl import read_scope_rl
from bayesdice_ppl.logs.sources.source import SourceTable
from bayesdice_ppl.logs.sources.vowpal_wabbit import is_dsjson, read_vw

TABLE = "table"
LAYOUTS = (TABLE, "minari", "d3rlpy", "d4rl", "obp", "open_bandit", "scope_rl", "vw", "rllib")
"""Every layout of a file or a folder, by name."""
_JSON = (".json", ".jsonl", ".ndjson", ".dsjson")
_HDF5 = (".h5", ".hdf5", ".hdf")
_MOST = 2**32
_DENSEST = 100
"""Bytes, and times its size, to which an archive unpacks beyond which it is refused."""


def layout_of(path: str | os.PathLike[str], files: list[Path]) -> str:
    """Find whose layout a file, a folder or a pattern has; ``table`` if nobody's.

    Parameters
    ----------
    path
        As the user gave it.
    files
        The files that it stands for.
    """
    place = Path(path)
    if place.is_dir():
        if any((folder / "metadata.json").is_file() for folder in (place, place / "data")):
            return "minari"
        if not files or files[0].suffix.lower() not in _JSON:
            return TABLE
    if not files:
        return TABLE
    ending = _ending(files[0])
    if ending in _JSON:
        one = first_object(files[0], strict=ending in (".json", ".dsjson"))
        if one is not None and is_sample_batch(one):
            return "rllib"
        dsjson = ending == ".dsjson" or (one is not None and is_dsjson(one))
        return "vw" if dsjson else TABLE
    if ending in _HDF5:
        with open_hdf5(files[0], "a log") as file:
            names = set(file)
        if "num_episodes" in names:
            return "d3rlpy"
        return "minari" if "episode_0" in names else "d4rl"
    if ending == ".npz":
        with open_npz(files[0]) as arrays:
            names = set(arrays)
        if {"state", "done", "terminal"} <= names:
            return "scope_rl"
        return "d4rl" if "observations" in names else "obp"
    return TABLE


def read_layout(name: str, path: str | os.PathLike[str], files: list[Path]) -> SourceTable:
    """Read a log in the layout of a tool.

    Parameters
    ----------
    name
        One of `LAYOUTS`, but ``table`` and ``open_bandit``, which are read as tables.
    path, files
        As for `layout_of`.

    Raises
    ------
    LogsError
        It cannot be read so.
    """
    if name == "minari":
        place = Path(path)
        inside = place.is_file() and (place.parent / "metadata.json").is_file()
        return read_saved(place.parent if inside else find_saved(path))
    if name in ("vw", "rllib"):
        if not files:
            raise LogsError(f"{path}: no such file. Check the path.")
        reader: Callable[[Any], SourceTable] = read_vw if name == "vw" else read_rllib
        return reader(files[0] if len(files) == 1 else files)
    if len(files) != 1:
        raise LogsError(f"{path}: expected one file, found {len(files):,}. Give the path of one.")
    file = files[0]
    if name == "d3rlpy" and _ending(file) in _HDF5:
        return read_d3rlpy_file(file)
    readers: dict[str, Callable[[Any], SourceTable]] = {
        "d3rlpy": read_flat,
        "d4rl": read_flat,
        "obp": read_bandit_feedback,
        "scope_rl": read_scope_rl,
    }
    if _ending(file) in _HDF5:
        # Whatever is not used stays in the file.
        with open_hdf5(file, name) as opened:
            return readers[name](opened)
    if _ending(file) != ".npz":
        raise LogsError(
            f"{file}: expected a file ending in .npz, .h5 or .hdf5 for the layout {name}, found "
            f"{file.suffix or 'no ending'!r}."
        )
    with open_npz(file) as arrays:
        held, pickled = _whole(arrays, file)
    table = readers[name](held)
    if not pickled:
        return table
    return table.with_note(f"Not read, since they are pickles: {', '.join(pickled)}.")


def read_known_table(frame: pl.DataFrame, columns: Mapping[str, str] | None) -> SourceTable | None:
    """Read a table whose columns are those of a tool; None where they are not, or are mapped.

    Parameters
    ----------
    frame
        The table as it stands.
    columns
        The user's mapping. One that says what the states, the actions or the rewards are decides.

    Raises
    ------
    LogsError
        It is a tool's table, and cannot be read.
    """
    mapped = set(columns) if isinstance(columns, Mapping) else set()
    if mapped & {"state", "obs", "action", "reward"}:
        return None
    check_no_episodes(frame)
    if {"action", "reward"} <= set(frame.columns):
        return None
    if is_open_bandit(frame.columns):
        return read_open_bandit(frame)
    if is_rllib_table(frame.columns):
        return read_rllib_table(frame)
    if has_episode_rows(frame) and guess(frame.columns, ["action"]):
        return read_episode_rows(frame)
    return None


@contextmanager
def open_npz(path: Path) -> Iterator[Any]:
    """Open a file of NumPy's arrays; pickles in it are refused.

    Raises
    ------
    LogsError
        It is missing, damaged, or holds far more than its size tells.
    """
    with path.open("rb") as file:
        try:
            arrays = np.load(file, allow_pickle=False)
        except Exception as cause:
            # Damaged archives raise what zipfile, zlib, struct and ast have.
            raise LogsError(
                f"{path}: cannot be read as a .npz file: {_first_line(cause)}"
            ) from cause
        if not hasattr(arrays, "zip"):
            raise LogsError(f"{path}: expected several arrays (numpy.savez), found one.")
        size = sum(member.file_size for member in arrays.zip.infolist())
        if size > _MOST and size > _DENSEST * path.stat().st_size:
            raise LogsError(
                f"{path}: expected an archive of a log, found one that unpacks to {size:,} bytes, "
                f"{size / path.stat().st_size:,.0f} times its size. Save it without compression if "
                "that is right."
            )
        with arrays:
            yield arrays


def _first_line(cause: Exception) -> str:
    """What went wrong, without what a damaged file holds: that may be anything."""
    line = (str(cause).strip() or type(cause).__name__).splitlines()[0]
    return "".join(letter if letter.isprintable() else "?" for letter in line)[:200]


def _whole(arrays: Any, path: Path) -> tuple[dict[str, Any], list[str]]:
    """All arrays, and the names of those that are pickles, as dicts and None are."""
    held, left = {}, []
    for name in arrays:
        try:
            array = arrays[name]
        except Exception as cause:
            # Damaged archives raise what zipfile and zlib have; pickles raise ValueError.
            if "allow_pickle" in str(cause):
                left.append(name)
                continue
            raise LogsError(
                f"{path}: the array {name!r} cannot be read: {_first_line(cause)}"
            ) from cause
        held[name] = array.item() if array.ndim == 0 else array
    if not held:
        raise LogsError(f"{path}: expected arrays, found none that are no pickles.")
    return held, left


def check_layout(layout: str | None) -> None:
    """Refuse a layout that there is not.

    Raises
    ------
    LogsError
        There is none of that name.
    """
    if layout is not None and layout not in LAYOUTS:
        raise LogsError(
            f"layout: expected one of {listed(LAYOUTS, 99)} (--layout), found {layout!r}."
        )


def _ending(path: Path) -> str:
    name = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return name.suffix.lower()
