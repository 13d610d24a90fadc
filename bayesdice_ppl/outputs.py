"""Write results to disk: all of them or none.

Files are written to a temporary place and moved to their target when the last one is complete, so
that an error or an interruption leaves nothing behind. What a killed process left behind is removed
by the next one that writes to the same place.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bayesdice_ppl.errors import OutputError

_HERE = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]
"""Mark of this machine in the names of scratch files."""


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that is not empty, before any work is done.

    Raises
    ------
    OutputError
        The folder is a file, or is not empty and ``overwrite`` is False.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: expected a folder to write to, found a file.")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise OutputError(
            f"{folder}: the folder is not empty. Name another with -o, or add --overwrite."
        )


def check_file(path: Path, *, overwrite: bool, inputs: Sequence[Path] = ()) -> None:
    """Refuse a file that exists, or that is an input, before any work is done.

    Raises
    ------
    OutputError
        The file exists and ``overwrite`` is False, or its folder does not exist.
    """
    if path.is_dir():
        raise OutputError(f"{path}: expected a file to write to, found a folder.")
    if path.resolve() in {source.resolve() for source in inputs}:
        raise OutputError(f"{path}: this is an input. Name another file with -o.")
    if path.exists() and not overwrite:
        raise OutputError(f"{path}: the file exists. Name another with -o, or add --overwrite.")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: there is no folder {path.parent}. Make it first.")


@contextmanager
def staged_folder(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a scratch folder whose files move to ``folder`` when the block ends well.

    Raises
    ------
    OutputError
        The folder cannot be made or written to, or is not empty and ``overwrite`` is False.
    """
    check_folder(folder, overwrite=overwrite)
    # In the deepest folder that exists, on the same file system, so that a move is one step.
    home = next(parent for parent in folder.absolute().parents if parent.exists())
    _sweep(home, f".{folder.name}-{_HERE}-", "-*")
    try:
        prefix = f".{folder.name}-{_HERE}-{os.getpid()}-"
        scratch = Path(tempfile.mkdtemp(prefix=prefix, dir=home))
    except OSError as cause:
        raise OutputError(f"{folder}: cannot be written: {cause.strerror}.") from cause
    try:
        yield scratch
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(scratch.iterdir()):
                os.replace(path, folder / path.name)
        except OSError as cause:
            raise OutputError(f"{folder}: cannot be written: {cause.strerror or cause}.") from cause
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def staged_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a scratch name beside ``path``, renamed to it when the block ends well.

    Raises
    ------
    OutputError
        The file cannot be written.
    """
    target = Path(path)
    _sweep(target.parent, f".{_HERE}-", f"-{target.name}")
    # The ending stays, since writers choose the format by it.
    scratch = target.with_name(f".{_HERE}-{os.getpid()}-{target.name}")
    try:
        yield scratch
        os.replace(scratch, target)
    except OSError as cause:
        raise OutputError(f"{target}: cannot be written: {cause.strerror or cause}.") from cause
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


def _sweep(folder: Path, before: str, after: str) -> None:
    """Remove what processes that are gone left in a folder.

    Parameters
    ----------
    folder
        Where to look.
    before, after
        What stands before and after the number of the process in a name; the latter may end with a
        star. Names start with a mark of the machine, as a folder may be shared by several.
    """
    rest = re.escape(after.removesuffix("*")) + (".*" if after.endswith("*") else "")
    pattern = re.compile(f"{re.escape(before)}([0-9]+){rest}")
    with suppress(OSError):
        for path in folder.iterdir():
            found = pattern.fullmatch(path.name)
            if found is None or _is_running(int(found[1])):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    path.unlink()


def _is_running(process: int) -> bool:
    """Whether a process of this number runs; where nobody can tell, it does."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def write_json(content: Any, path: Path) -> None:
    """Write JSON under a temporary name that is then renamed.

    Raises
    ------
    OutputError
        The file cannot be written.
    """
    with staged_file(path) as scratch:
        scratch.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
