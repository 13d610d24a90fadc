"""Files behind a path: one file, a pattern such as ``logs/*.parquet``, or a folder.

A folder holds files of one kind, perhaps in folders named ``key=value`` (Hive's way), whose keys
become columns. Files are read in the order of their names, numbers counted as numbers.
"""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

from bayesdice_ppl.errors import LogsError

_READ = (".parquet", ".pq", ".csv", ".tsv", ".jsonl", ".ndjson", ".dsjson", ".json")
"""Endings of files that a folder is searched for, the likeliest first."""
NUMBER = re.compile(r"0|[1-9]\d{0,17}")
"""Values in the names of folders that are read as whole numbers, where all of a key are."""


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """Find the files that a path stands for; none where it does not exist.

    Raises
    ------
    LogsError
        A folder holds files of several kinds, or a pattern fits nothing.
    """
    place = Path(path).expanduser()
    if place.is_file():
        return [place]
    if place.is_dir():
        return _files_in(place)
    if any(mark in str(path) for mark in "*?["):
        found = [Path(name) for name in glob.glob(str(place), recursive=True)]
        files = sorted((one for one in found if one.is_file()), key=natural)
        if not files:
            raise LogsError(
                f"{path}: no such file, and none that would fit the pattern. Check the path."
            )
        return files
    return []


def _files_in(folder: Path) -> list[Path]:
    inside = [
        one
        for one in folder.rglob("*")
        if one.is_file()
        and not any(part.startswith((".", "_")) for part in one.relative_to(folder).parts)
    ]
    by_ending: dict[str, list[Path]] = {}
    for one in inside:
        ending = (one.with_suffix("") if one.suffix == ".gz" else one).suffix.lower()
        if ending in _READ:
            by_ending.setdefault(ending, []).append(one)
    if len(by_ending) > 1 and not (folder / "metadata.json").exists():
        kinds = ", ".join(f"{len(files):,} {ending}" for ending, files in by_ending.items())
        raise LogsError(
            f"{folder}: expected files of one kind, found {kinds}. Give a pattern, such as "
            f"'{folder}/**/*{next(iter(by_ending))}'."
        )
    return sorted(next(iter(by_ending.values()), []), key=natural)


def natural(path: Path) -> list[tuple[int, str]]:
    """Sorts part-2 before part-10."""
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def keys_of(path: Path, root: Path) -> dict[str, str]:
    """Keys and values in the names of the folders above a file: ``day=1`` is ``{"day": "1"}``."""
    above = path.relative_to(root).parts[:-1] if path.is_relative_to(root) else path.parts[:-1]
    pairs = (part.split("=", 1) for part in above if "=" in part)
    return {key: value for key, value in pairs if key}
