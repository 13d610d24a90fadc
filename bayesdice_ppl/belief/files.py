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
_MOST_GROUPS: Final = 100


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


def _refuse_loops(source: Path) -> None:
    """Refuse a file in which a group leads back to itself: xarray would follow it for ever.

    Raises
    ------
    ValueError
        A group is met twice, or there are more than a belief can have.
    """
    import h5py

    with h5py.File(source) as file:
        met: set[int] = set()
        left = [file["/"]]
        while left:
            group = left.pop()
            place = h5py.h5o.get_info(group.id).addr
            if place in met or len(met) > _MOST_GROUPS:
                raise ValueError(f"the group {group.name} leads back to itself, or is one too many")
            met.add(place)
            inside = [name for name in group if group.get(name, getclass=True) is h5py.Group]
            left += [group[name] for name in inside]


def _first_line(cause: Exception) -> str:
    return (str(cause).strip() or type(cause).__name__).splitlines()[0][:200]


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
        _refuse_loops(source)
        # Dims without names are none of a belief's; the setting only keeps a warning away.
        with xr.open_datatree(source, engine=ENGINE, phony_dims="access") as tree:
            belief = tree.load()
        for group in belief.subtree:
            group.to_dataset()
    except Exception as cause:
        # A damaged file makes its readers fail in any way, from a link that leads to itself to a
        # scale that is text.
        raise BeliefError(
            f"{source}: expected a belief in netCDF, found another file, or a damaged one "
            f"({_first_line(cause)})."
        ) from cause
    if not BeliefView(belief).has(BeliefView.value):
        raise BeliefError(f"{source}: expected a belief with posterior/value, found none.")
    return belief
