"""How much a file may become in memory: what is refused before it is read.

A small file can claim, or unpack to, more than any memory holds. A file is read if it becomes at
most a gibibyte, or at most a hundred times its own size. The environment variable in `VARIABLE`
allows more.
"""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from bayesdice_ppl.errors import BayesDiceError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

VARIABLE = "BAYESDICE_MAX_BYTES"
ALWAYS, TIMES = 2**30, 100
"""Bytes that are always allowed, and how many times its own size a file may become."""
DEEPEST = 64
"""Levels of lists and objects in a line of JSON."""
_CHUNK = 1 << 20
_NUMBER = 8
"""Bytes of a number."""
_STRINGS = re.compile(rb'"(?:[^"\\\\]|\\\\.)*"')


def allowed(path: Path, error: type[BayesDiceError]) -> int:
    """Bytes that a file may become.

    Raises
    ------
    BayesDiceError
        The environment variable is no whole number.
    """
    asked = os.environ.get(VARIABLE)
    if asked is None:
        return max(ALWAYS, TIMES * path.stat().st_size)
    if not (asked.isascii() and asked.isdigit()):
        raise error(f"{VARIABLE}: expected a whole number of bytes, found {asked!r}.")
    return int(asked)


def unzip(path: Path, error: type[BayesDiceError]) -> bytes:
    """Unzip a file, up to the bytes that are allowed.

    Raises
    ------
    BayesDiceError
        It becomes more.
    """
    limit, parts, size = allowed(path, error), [], 0
    with gzip.open(path) as file:
        while part := file.read(_CHUNK):
            size += len(part)
            if size > limit:
                raise _too_large(path, f"unpacks to more than {limit:,} bytes", error)
            parts.append(part)
    return b"".join(parts)


def check_parquet(path: Path, file: pq.ParquetFile, error: type[BayesDiceError]) -> None:
    """Refuse Parquet whose metadata claims more than is allowed.

    Raises
    ------
    BayesDiceError
        It claims more rows, or more bytes.
    """
    limit, metadata = allowed(path, error), file.metadata
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    # Equal values are stored once, however many rows there are.
    rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    claimed = max(
        sum(group.total_byte_size for group in groups), rows * metadata.num_columns * _NUMBER
    )
    if claimed > limit:
        words = f"claims {rows:,} rows of {metadata.num_columns:,} columns, {claimed:,} bytes"
        raise _too_large(path, words, error)


def check_depth(path: Path, content: bytes | None, error: type[BayesDiceError]) -> None:
    """Refuse JSON lines of which one is nested too deep: a reader would run out of stack.

    Parameters
    ----------
    path
        The file.
    content
        What it holds, or None to read it.
    error
        The exception class to raise.

    Raises
    ------
    BayesDiceError
        With the line.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file if content is None else content.splitlines(), start=1):
            # A line of few openings cannot be deep.
            if line.count(b"[") + line.count(b"{") > DEEPEST and _depth(line) > DEEPEST:
                raise error(
                    f"{path}, line {number}: expected at most {DEEPEST} levels of lists and "
                    "objects, found more. Flatten the line: one row, with one value or one list "
                    "of numbers for each column."
                )


def _depth(line: bytes) -> int:
    depth = deepest = 0
    for letter in _STRINGS.sub(b"", line):
        if letter in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in b"]}":
            depth -= 1
    return deepest


def _too_large(path: Path, what: str, error: type[BayesDiceError]) -> BayesDiceError:
    return error(
        f"{path}: {what}, from a file of {path.stat().st_size:,} bytes. If that is right, allow it "
        f"by the environment variable {VARIABLE}, in bytes: {VARIABLE}=20000000000."
    )
