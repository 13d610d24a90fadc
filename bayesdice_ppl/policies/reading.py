"""Candidates from files: tables, networks, a folder of them, or an object that the user names."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.logs.files import is_table, read_file
from bayesdice_ppl.policies.interface import ContinuousPolicy, Policy
from bayesdice_ppl.policies.networks import read_network
from bayesdice_ppl.policies.onnx_models import read_onnx
from bayesdice_ppl.policies.policies import Policies

if TYPE_CHECKING:
    from collections.abc import Iterator

READERS: dict[str, Callable[[Path], Policy | ContinuousPolicy]] = {
    ".npz": read_network,
    ".onnx": read_onnx,
}
"""Files that are one candidate each, by their endings."""


def read_policies(
    path: str | os.PathLike[str], *, columns: Mapping[str, str] | None = None
) -> Policies:
    """Read candidates from files.

    Parameters
    ----------
    path
        One of these:

        * A table, of any kind that `read_logs` takes, with the columns ``policy, state, action,
          prob``. A pair of state and action that a policy's rows leave out has probability 0. A
          state that they leave out is refused when the log visits it. With a column ``row`` in the
          place of ``state`` it is by row of the log, counted from 1.
        * A network in ``.npz`` (see `bayesdice_ppl.policies.read_network`) or ``.onnx`` (see
          `bayesdice_ppl.policies.read_onnx`): one candidate, named as the file.
        * A folder of these: all of their candidates, in the order of the files' names.
        * ``"package.module:name"``: an object in Python, a policy or a dict of them. The module is
          imported, which runs it.
    columns
        Our name -> the file's name, e.g. ``{"prob": "probability"}``, for tables.

    Raises
    ------
    PoliciesError
        The file cannot be read; a probability is outside [0, 1]; those of a state do not sum to 1,
        but for rounding (see `TabularPolicy`); a (policy, state, action) appears twice. The message
        says where.
    """
    named = Path(path)
    if not named.exists() and _is_import(os.fspath(path)):
        return _imported(os.fspath(path))
    if named.is_dir():
        return _folder(named, columns)
    return Policies(_read(named, columns))


def _read(path: Path, columns: Mapping[str, str] | None) -> Mapping[str, Any]:
    """The candidates of one file."""
    reader = READERS.get(path.suffix.lower())
    if reader is not None:
        return {path.stem: reader(path)}
    prob = (columns or {}).get("prob", "prob")
    frame = read_file(path, PoliciesError, is_number=lambda name: name == prob)
    try:
        return Policies.from_dataframe(frame, columns=columns)
    except PoliciesError as error:
        raise PoliciesError(f"{path}: {error}") from error


def _folder(folder: Path, columns: Mapping[str, str] | None) -> Policies:
    files = sorted(each for each in folder.iterdir() if not each.name.startswith("."))
    odd = [each for each in files if not (is_table(each) or each.suffix.lower() in READERS)]
    if odd or not files:
        found = odd[0].name if odd else "no files"
        raise PoliciesError(
            f"{folder}: expected a folder of candidates, tables or files ending in "
            f"{', '.join(READERS)}, found {found}. Take it out, or give the files one by one."
        )
    policies: dict[str, Any] = {}
    for each in files:
        for name, policy in _read(each, columns).items():
            if name in policies:
                raise PoliciesError(f"{each}: there is another candidate {name!r}. Rename one.")
            policies[name] = policy
    return Policies(policies)


def _is_import(text: str) -> bool:
    module, colon, name = text.partition(":")
    parts = [*module.split("."), name]
    return bool(colon) and all(part.isidentifier() for part in parts)


def _imported(text: str) -> Policies:
    """The object that a user names as ``package.module:name``."""
    module, _, name = text.partition(":")
    try:
        with _working_folder():
            found = getattr(importlib.import_module(module), name)
    except Exception as cause:
        # The module is the user's, and may fail in any way.
        raise PoliciesError(
            f"{text}: expected an object that can be imported, found {type(cause).__name__}: "
            f"{cause}. Give it as package.module:name, with the module in this folder or installed."
        ) from cause
    try:
        return Policies(found if isinstance(found, Mapping) else {name: found})
    except PoliciesError as error:
        raise PoliciesError(f"{text}: {error}") from error


@contextmanager
def _working_folder() -> Iterator[None]:
    """Look for modules in the working folder too, as `python -m` does."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
