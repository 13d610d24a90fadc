"""Lines of JSON, one object each, with errors that name the line."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bayesdice_ppl.errors import LogsError


def read_objects(source: Any, layout: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read objects, each with where it stands.

    Parameters
    ----------
    source
        A path of a file, plain or ``.gz``; several paths; lines of text; or dicts.
    layout
        Whose layout it is, for messages.

    Raises
    ------
    LogsError
        A file is missing or damaged, or a line is no object of JSON.
    """
    if isinstance(source, str | os.PathLike):
        yield from _file_objects(Path(source), layout)
        return
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise LogsError(
            f"{layout}: expected a path, lines of JSON or dicts, found {type(source).__name__}."
        )
    for number, one in enumerate(source, start=1):
        if isinstance(one, Mapping):
            yield f"line {number:,}", dict(one)
        elif isinstance(one, os.PathLike):
            for where, made in _file_objects(Path(one), layout):
                yield f"{Path(one).name}, {where}", made
        elif isinstance(one, str | bytes):
            if (parsed := _parsed(one, f"{layout}, line {number:,}")) is not None:
                yield f"line {number:,}", parsed
        else:
            raise LogsError(
                f"{layout}, line {number:,}: expected a line of JSON or a dict, found "
                f"{type(one).__name__}."
            )


def first_object(path: Path, *, strict: bool = False) -> dict[str, Any] | None:
    """The first object of a file, to tell whose it is; None where there is none.

    Parameters
    ----------
    path
        The file.
    strict
        Whether to raise what is wrong with it, where no other reader would take the file.

    Raises
    ------
    LogsError
        It cannot be read, if that is asked for.
    """
    try:
        return next((one for _, one in _file_objects(path, "JSON lines")), None)
    except LogsError:
        if strict:
            raise
        return None


def _file_objects(path: Path, layout: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if not path.exists():
        raise LogsError(f"{path}: no such file. Check the path.")
    if not path.is_file():
        raise LogsError(f"{path}: expected a file, found a folder. Give the path of a file.")
    number = 0
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if zipped else path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                made = _parsed(line, f"{path}, line {number:,}")
                if made is not None:
                    yield f"line {number:,}", made
    except (OSError, EOFError, zlib.error) as cause:
        raise LogsError(
            f"{path}, after line {number:,}: cannot be read as {layout}: "
            f"{(str(cause).strip() or type(cause).__name__).splitlines()[0]}"
        ) from cause


def _parsed(line: str | bytes, where: str) -> dict[str, Any] | None:
    """The object of a line; None for an empty one."""
    try:
        text = line.decode("utf-8-sig") if isinstance(line, bytes) else line
        if not text.strip():
            return None
        made = json.loads(text)
    except (ValueError, RecursionError) as cause:
        reason = "it is nested too deep" if isinstance(cause, RecursionError) else str(cause)
        raise LogsError(
            f"{where}: expected an object of JSON, cannot be read: {reason}. The file may be cut "
            "off there."
        ) from cause
    if not isinstance(made, dict):
        raise LogsError(
            f"{where}: expected an object of JSON, found {type(made).__name__}. Write one object a "
            "line (JSON lines)."
        )
    return made
