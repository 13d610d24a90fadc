"""Files of HDF5, with errors for people.

Nothing in them is code. Only plain arrays are read, and groups of them as dicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayesdice_ppl.errors import BayesDiceError, LogsError


@contextmanager
def open_hdf5(path: Path, layout: str) -> Iterator[Any]:
    """Open a file of HDF5 to read.

    Parameters
    ----------
    path
        The file.
    layout
        Whose layout is expected, for messages.

    Raises
    ------
    LogsError
        The package h5py is missing, or the file is missing or damaged.
    """
    try:
        import h5py
    except ImportError as cause:
        raise LogsError(
            f"{path}: HDF5 needs the package h5py. Install it: pip install 'bayesdice-ppl[hdf5]'."
        ) from cause
    if not path.is_file():
        raise LogsError(f"{path}: no such file. {layout} data in HDF5 has it: check the path.")
    try:
        file = h5py.File(path, "r")
    except (OSError, RuntimeError, ValueError) as cause:
        raise LogsError(f"{path}: cannot be read as HDF5: {_first_line(cause)}") from cause
    with file:
        try:
            yield file
        except BayesDiceError:
            raise
        except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError) as cause:
            raise LogsError(f"{path}: cannot be read as HDF5: {_first_line(cause)}") from cause


def read_array(item: Any, layout: str) -> Any:
    """An array of a file; a group as a dict of arrays.

    Raises
    ------
    LogsError
        It is neither.
    """
    if hasattr(item, "keys"):
        return {name: read_array(item[name], layout) for name in item}
    if not hasattr(item, "shape"):
        raise LogsError(f"{layout}: expected an array, found {type(item).__name__}.")
    return item[()]


def _first_line(cause: Exception) -> str:
    return (str(cause).strip() or type(cause).__name__).splitlines()[0]
