"""Beliefs in netCDF files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bayesdice_ppl.belief.schema import BeliefView
from bayesdice_ppl.errors import BeliefError
from bayesdice_ppl.outputs import staged_file

if TYPE_CHECKING:
    from xarray import DataTree

ENGINE: Final = "h5netcdf"


def save_belief(belief: DataTree, path: str | os.PathLike[str]) -> Path:
    """Write a belief as netCDF, under a temporary name that is then renamed.

    Parameters
    ----------
    belief
        From `bayesdice_ppl.fit`.
    path
        The file, usually ending in ``.nc``.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    OutputError
        The file cannot be written.
    """
    with staged_file(path) as scratch:
        belief.to_netcdf(scratch, engine=ENGINE)
    return Path(path)


def load_belief(path: str | os.PathLike[str]) -> DataTree:
    """Read a belief into memory.

    Parameters
    ----------
    path
        A netCDF file that `save_belief` wrote (any DataTree with ``posterior/value`` will do).

    Returns
    -------
    xarray.DataTree
        The belief.

    Raises
    ------
    BeliefError
        There is no such file, or it holds no belief.
    """
    import xarray as xr

    source = Path(path)
    if not source.is_file():
        raise BeliefError(
            f"{source}: expected a belief in netCDF, found no file. Write one with bayesdice fit."
        )
    try:
        with xr.open_datatree(source, engine=ENGINE) as tree:
            belief = tree.load()
    except (OSError, ValueError, KeyError) as cause:
        raise BeliefError(
            f"{source}: expected a belief in netCDF, found another file "
            f"({str(cause).splitlines()[0]})."
        ) from cause
    if not BeliefView(belief).has(BeliefView.value):
        raise BeliefError(f"{source}: expected a belief with posterior/value, found none.")
    return belief
