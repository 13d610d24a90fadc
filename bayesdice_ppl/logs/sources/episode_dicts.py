"""Episodes that are dicts of arrays, under names in any usual spelling.

``done`` is no usual spelling: it says that an episode ended, and not whether it was only cut. It is
kept as a column, and the user says which of the two it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.familiar import spellings
from bayesdice_ppl.logs.sources.arrays import rows_of, to_array
from bayesdice_ppl.logs.sources.episodes import EpisodeArrays, episode_table
from bayesdice_ppl.logs.sources.source import SourceTable

_NAMES = {
    "observations": ("obs", "state"),
    "actions": ("action",),
    "rewards": ("reward",),
    "terminated": ("terminated",),
    "truncated": ("truncated",),
    "propensity": ("propensity",),
    "following": ("next_obs", "next_state"),
}
"""Fields of an episode -> our columns whose spellings are theirs too."""
_OURS = ("episode_id", "step", "state", "obs", "action", "reward", "next_state", "next_obs")
"""Columns that are made here, whatever else has their name."""
_ENDS_EITHER_WAY = ("done", "dones", "is_done")
"""Flags that say that an episode ended, and not whether it was only cut."""


def read_episodes(episodes: Any) -> SourceTable:
    """Read a list of episodes, each a dict of arrays.

    Parameters
    ----------
    episodes
        A list of dicts, or a dict of label -> dict. Each has ``observations``, ``actions`` and
        ``rewards`` in any usual spelling, and may have ``terminated``, ``truncated``,
        ``next_observations`` and ``propensity``. Other arrays with an entry a step are kept as
        columns.

    Raises
    ------
    LogsError
        Not of that form: which episode, and what is wrong with it.
    """
    layout = "episode dicts"
    if (
        isinstance(episodes, Mapping)
        and episodes
        and all(isinstance(one, Mapping) for one in episodes.values())
    ):
        pairs = list(episodes.items())
    elif isinstance(episodes, Mapping):
        raise LogsError(
            f"{layout}: expected a list of episodes, found one dict of {listed(episodes)}. Put one "
            "episode into a list; flat arrays of many episodes belong in from_d4rl."
        )
    else:
        try:
            pairs = list(enumerate(episodes))
        except TypeError as cause:
            raise LogsError(
                f"{layout}: expected a list of dicts of arrays, found {type(episodes).__name__}."
            ) from cause
    if not pairs:
        raise LogsError(f"{layout}: expected episodes with a step or more, found none.")
    whole = all(isinstance(label, int | np.integer) for label, _ in pairs)
    pairs = [(int(label) if whole else str(label), one) for label, one in pairs]
    made, names = [], dict[str, str]()
    left: dict[str, None] = {}
    for label, one in pairs:
        episode, found, odd = _from_dict(label, one, layout)
        names = {**found, **names}
        made.append(episode)
        left.update(dict.fromkeys(odd))
    notes = [f"Not used: {', '.join(left)}."] if left else []
    return episode_table(made, layout, names, notes=notes)


def _from_dict(
    label: Any, one: Any, layout: str
) -> tuple[EpisodeArrays, dict[str, str], list[str]]:
    where = f"episode {label!r}"
    if not isinstance(one, Mapping):
        raise LogsError(
            f"{layout}, {where}: expected a dict of arrays, found {type(one).__name__}."
        )
    names = {field: found for field in _NAMES if (found := _find(field, one, layout, where))}
    missing = [field for field in ("observations", "actions", "rewards") if field not in names]
    if missing:
        raise LogsError(
            f"{layout}, {where}: expected {missing[0]}, found only {listed(one) or 'nothing'}. "
            f"Name the array {missing[0]!r}."
        )
    given = {field: one[name] for field, name in names.items()}
    n = len(rows_of(given["rewards"], f"{layout}, {where}", names["rewards"]))
    others = [str(name) for name in one if name not in names.values()]
    kept = [name for name in others if name not in _OURS and _has_one_a_step(one[name], n)]
    extras = {name: one[name] for name in kept}
    episode = EpisodeArrays(where, label, extras=extras, **given)
    return episode, names, [name for name in others if name not in extras]


def _find(field: str, one: Mapping[str, Any], layout: str, where: str) -> str | None:
    """The name of a field in a dict, in any usual spelling."""
    known = [
        str(name)
        for name in one
        if any(spellings(key, str(name)) for key in _NAMES[field])
        and str(name).casefold() not in _ENDS_EITHER_WAY
    ]
    if len(known) > 1:
        raise LogsError(
            f"{layout}, {where}: expected one array of {field}, found {listed(known)}. Keep one."
        )
    return known[0] if known else None


def _has_one_a_step(values: Any, n: int) -> bool:
    try:
        array = to_array(values, "", "")
    except LogsError:
        return False
    return array.ndim == 1 and len(array) == n and array.dtype.kind in "iufbU"
