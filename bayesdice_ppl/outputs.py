"""Write results to disk: all of them or none.

Files are written to a temporary place and moved to their target when the last one is complete, so
that an error or an interruption leaves nothing behind. What a killed process left behind is removed
by the next one that starts to write there. Two runs that write to one folder at a time are refused.
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
_SCRATCH = re.compile(rf"\.(?:(?P<folder>.+)-)?{_HERE}-(?P<process>[0-9]+)(?:-.*)?")
_UNFINISHED = ".unfinished"
"""In a folder while its files are replaced one by one."""


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
        if (folder / _UNFINISHED).exists():
            raise OutputError(
                f"{folder}: a run was killed while it replaced the files in here, so that they may "
                "be of two runs. Add --overwrite to replace them all, or name another with -o."
            )
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
    sweep(path.parent)


@contextmanager
def staged_folder(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a scratch folder whose files move to ``folder`` when the block ends well.

    Raises
    ------
    OutputError
        The folder cannot be made or written to, another run writes to it, or it is not empty and
        ``overwrite`` is False.
    """
    check_folder(folder, overwrite=overwrite)
    # In the deepest folder that exists, on the same file system, so that a move is one step.
    home = next(parent for parent in folder.absolute().parents if parent.exists())
    sweep(home)
    try:
        prefix = f".{folder.name}-{_HERE}-{os.getpid()}-"
        scratch = Path(tempfile.mkdtemp(prefix=prefix, dir=home))
    except OSError as cause:
        raise OutputError(f"{folder}: cannot be written: {cause.strerror}.") from cause
    try:
        _refuse_company(folder, home, folder.name)
        yield scratch
        try:
            _move(scratch, folder)
        except OSError as cause:
            raise OutputError(f"{folder}: cannot be written: {cause.strerror or cause}.") from cause
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _move(scratch: Path, folder: Path) -> None:
    """Move a folder's files to their place: in one step, or marked while they are replaced."""
    for path in scratch.iterdir():
        _sync(path)
    if not folder.exists() and not folder.is_symlink():
        folder.parent.mkdir(parents=True, exist_ok=True)
        mask = os.umask(0)
        os.umask(mask)
        scratch.chmod(0o777 & ~mask)
        scratch.rename(folder)
        return
    mark = folder / _UNFINISHED
    mark.write_text("Files in here may be of two runs: one was killed while it replaced them.\n")
    for path in sorted(scratch.iterdir()):
        os.replace(path, folder / path.name)
    mark.unlink()


@contextmanager
def staged_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a scratch name beside ``path``, renamed to it when the block ends well.

    Raises
    ------
    OutputError
        The file cannot be written.
    """
    target = Path(path)
    sweep(target.parent)
    # The ending stays, since writers choose the format by it.
    scratch = target.with_name(f".{_HERE}-{os.getpid()}-{target.name}")
    try:
        yield scratch
        _sync(scratch)
        os.replace(scratch, target)
    except OSError as cause:
        raise OutputError(f"{target}: cannot be written: {cause.strerror or cause}.") from cause
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


@contextmanager
def claimed_folder(folder: Path) -> Iterator[None]:
    """Keep a folder to one run: a second one that would write to it is refused.

    Raises
    ------
    OutputError
        Another run writes to it, or it cannot be written to.
    """
    sweep(folder)
    mark = folder / f".run-{_HERE}-{os.getpid()}"
    try:
        mark.touch()
    except OSError as cause:
        raise OutputError(f"{folder}: cannot be written: {cause.strerror}.") from cause
    try:
        _refuse_company(folder, folder, "run")
        yield
    finally:
        with suppress(OSError):
            mark.unlink(missing_ok=True)


def _refuse_company(folder: Path, home: Path, name: str) -> None:
    """Refuse a folder that another process of this machine writes to.

    Raises
    ------
    OutputError
        With the process, and what to do.
    """
    for path in home.iterdir():
        found = _SCRATCH.fullmatch(path.name)
        if found is None or found["folder"] != name:
            continue
        process = int(found["process"])
        if process != os.getpid() and _is_running(process):
            raise OutputError(
                f"{folder}: another run writes to this folder (process {process}). Wait for it, or "
                f"name another folder with -o. If there is no such run, remove {path}."
            )


def _sync(path: Path) -> None:
    """Bring a file to the disk before it is renamed, so that a power cut leaves no empty file."""
    with suppress(OSError), path.open("rb") as file:
        os.fsync(file.fileno())


def sweep(folder: Path) -> None:
    """Remove what processes of this machine that are gone left in a folder.

    Names start with a mark of the machine, as a folder may be shared by several.
    """
    with suppress(OSError):
        for path in folder.iterdir():
            found = _SCRATCH.fullmatch(path.name)
            if found is None or _is_running(int(found["process"])):
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
