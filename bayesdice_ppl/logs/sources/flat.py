"""Flat arrays of many episodes, one after the other, as D4RL and d3rlpy hold them.

Nothing names the episodes: one ends where a row is terminal or timed out. What stands after the
last end is an episode that was cut, and is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import first_row
from bayesdice_ppl.logs.sources.arrays import (
    PointArray,
    check_length,
    read_flags,
    read_points,
    rows_of,
)
from bayesdice_ppl.logs.sources.episodes import EpisodeArrays, episode_table
from bayesdice_ppl.logs.sources.source import SourceTable, counted

_REQUIRED = ("observations", "actions", "rewards", "terminals")
_OTHERS = ("timeouts", "next_observations", "episode_terminals")


def read_flat(arrays: Any, *, layout: str = "D4RL") -> SourceTable:
    """Read flat arrays.

    Parameters
    ----------
    arrays
        ``observations``, ``actions``, ``rewards`` and ``terminals``, and perhaps ``timeouts`` and
        ``next_observations``; one row a step.
    layout
        Whose they are, for messages.

    Raises
    ------
    LogsError
        An array is missing or of another length, no episode ends, or rows do not follow each other.
    """
    if not isinstance(arrays, Mapping) and not hasattr(arrays, "keys"):
        raise LogsError(
            f"{layout}: expected a dict of arrays ({', '.join(_REQUIRED)}, timeouts), found "
            f"{type(arrays).__name__}."
        )
    names = [str(name) for name in arrays.keys()]  # noqa: SIM118 - a file of HDF5 or .npz too
    for name in _REQUIRED:
        if name not in names:
            raise LogsError(
                f"{layout}: expected the arrays {', '.join(_REQUIRED)}, found no {name!r}. There "
                f"is {listed(names) or 'nothing'}."
            )
    held = {name: arrays[name] for name in (*_REQUIRED, *_OTHERS) if name in names}
    held = {name: rows_of(values, layout, name) for name, values in held.items()}
    n = len(held["rewards"])
    for name, values in held.items():
        check_length(len(values), n, layout, name)
    if n == 0:
        raise LogsError(f"{layout}: expected rows, found empty arrays.")
    terminal = read_flags(held["terminals"], n, layout, "terminals")
    cut, cuts = np.zeros(n, dtype=bool), ""
    if "timeouts" in held:
        cut, cuts = read_flags(held["timeouts"], n, layout, "timeouts"), "timeouts"
    elif "episode_terminals" in held:
        ends = read_flags(held["episode_terminals"], n, layout, "episode_terminals")
        cut, cuts = ends & ~terminal, "episode_terminals without terminals"
    if not (terminal | cut).any():
        raise LogsError(
            f"{layout}: expected rows at which an episode ends (terminals or timeouts), found none "
            f"in {n:,} rows. Give timeouts that are true where an episode was cut."
        )
    seen = read_points(held["observations"], layout, "observations")
    following = None
    if "next_observations" in held:
        following = read_points(held["next_observations"], layout, "next_observations")
        _check_followed(seen, following, terminal | cut, layout)
    ends = np.flatnonzero(terminal | cut) + 1
    edges = np.unique(np.r_[0, ends, n])
    notes = []
    if edges[-2] not in (0, n) and not (terminal | cut)[-1]:
        notes.append(
            f"The last {counted(int(n - edges[-2]), 'row')} have no end: taken as an episode that "
            "was cut."
        )
    left = [name for name in names if name not in held]
    if left:
        notes.append(f"Not used: {', '.join(left)}.")
    both = int((terminal & cut).sum())
    if both:
        notes.append(f"{counted(both, 'row')} both terminal and timed out: taken as terminated.")
    unknown = int((cut[:-1]).sum()) + int(not terminal[-1])
    if following is None and unknown:
        notes.append(
            f"Nothing says where {counted(unknown, 'episode')} that were cut led: "
            "next_observations would."
        )

    def cut_up() -> Iterator[EpisodeArrays]:
        for k, (start, end) in enumerate(pairwise(edges)):
            part = slice(int(start), int(end))
            yield EpisodeArrays(
                where=f"episode {k} (rows {start + 1:,} to {end:,})",
                label=k,
                observations=seen.values[part],
                actions=held["actions"][part],
                rewards=held["rewards"][part],
                terminated=terminal[part],
                truncated=cut[part] if cuts else None,
                following=None if following is None else following.values[part],
            )

    taken = {
        "observations": "observations",
        "actions": "actions",
        "rewards": "rewards",
        "terminated": "terminals",
        "truncated": cuts,
        "following": "next_observations",
    }
    return episode_table(cut_up(), layout, taken, notes=notes, whole_actions=True)


def _check_followed(seen: PointArray, following: PointArray, ends: np.ndarray, layout: str) -> None:
    """Refuse rows that lead elsewhere than to the next row of their episode."""
    if seen.values.shape != following.values.shape:
        raise LogsError(
            f"{layout}: expected next_observations that are {seen.words}, as observations are, "
            f"found {following.words}."
        )
    one, other = following.values[:-1], seen.values[1:]
    same = one == other
    if one.dtype.kind == "f":
        same = np.isclose(one, other, rtol=1e-4, atol=1e-6)
    broken = ~ends[:-1] & ~(same.all(axis=1) if same.ndim == 2 else same)
    if not broken.any():
        return
    at = first_row(broken)
    raise LogsError(
        f"{layout}, row {at + 1:,}: expected a next observation that is the observation of row "
        f"{at + 2:,}, since no flag ends the episode between them, found another one (so in "
        f"{int(broken.sum()):,} of {len(broken):,} rows). Episodes were cut there without a flag, "
        "or rows were shuffled. If they were cut, set timeouts to true where "
        "next_observations[:-1] differs from observations[1:]."
    )
