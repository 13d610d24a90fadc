"""Datasets of d3rlpy: replay buffers and lists of episodes, by what they look like.

An episode of d3rlpy has as many observations as actions, so nothing says where one led that was
only cut. Its discrete actions have the shape (T, 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.sources.arrays import read_count, to_array
from bayesdice_ppl.logs.sources.episodes import EpisodeArrays, episode_table
from bayesdice_ppl.logs.sources.flat import read_flat
from bayesdice_ppl.logs.sources.hdf5 import open_hdf5
from bayesdice_ppl.logs.sources.source import SourceTable

LAYOUT = "d3rlpy"
_FIELDS = ("observations", "actions", "rewards")


def read_d3rlpy(dataset: Any) -> SourceTable:
    """Read a dataset of d3rlpy.

    Parameters
    ----------
    dataset
        A ``ReplayBuffer`` or ``MDPDataset`` (anything with ``episodes``), a list of episodes with
        ``observations``, ``actions``, ``rewards`` and ``terminated``, or a dict of the flat arrays
        that an ``MDPDataset`` is made of.

    Raises
    ------
    LogsError
        Nothing of that kind, or an episode cannot be read.
    """
    if isinstance(dataset, Mapping):
        return read_flat(dataset, layout=LAYOUT)
    episodes = getattr(dataset, "episodes", dataset)
    if isinstance(episodes, str | bytes) or not isinstance(episodes, Iterable):
        raise LogsError(
            f"{LAYOUT}: expected a replay buffer, a list of its episodes or a dict of flat arrays, "
            f"found {type(dataset).__name__}."
        )
    space = getattr(getattr(dataset, "dataset_info", None), "action_space", None)
    discrete = "DISCRETE" in str(getattr(space, "name", "DISCRETE"))
    size = getattr(getattr(dataset, "dataset_info", None), "action_size", None)
    taken = {
        "observations": "observations",
        "actions": "actions",
        "rewards": "rewards",
        "terminated": "terminated",
    }
    note = "Nothing says where an episode led that was cut: d3rlpy does not keep it."
    table = episode_table(
        _made(episodes), LAYOUT, taken, whole_actions=discrete, actions=_space(space, size)
    )
    ended = table.frame.filter(table.frame["terminated"]).height
    return table if ended == table.frame["episode_id"].n_unique() else table.with_note(note)


def _space(space: Any, size: Any) -> list[int] | None:
    """All actions, if the dataset knows that they are discrete."""
    known = "DISCRETE" in str(getattr(space, "name", "")) and isinstance(size, int)
    return list(range(size)) if known else None


def _made(episodes: Iterable[Any]) -> Iterator[EpisodeArrays]:
    for k, one in enumerate(episodes):
        where = f"episode {k}"
        missing = [name for name in _FIELDS if not hasattr(one, name)]
        if missing:
            raise LogsError(
                f"{LAYOUT}, {where}: expected an episode with {', '.join(_FIELDS)}, found "
                f"{type(one).__name__} without {listed(missing)}."
            )
        if not hasattr(one, "terminated") and not hasattr(one, "terminal"):
            raise LogsError(
                f"{LAYOUT}, {where}: expected terminated, whether the episode truly ended, found "
                f"{type(one).__name__} without it."
            )
        yield EpisodeArrays(
            where=where,
            label=k,
            observations=one.observations,
            actions=one.actions,
            rewards=one.rewards,
            terminated=_ended(one, f"{LAYOUT}, {where}"),
        )


def _ended(one: Any, where: str) -> np.ndarray:
    """Whether an episode truly ended: one flag, also as an array of shape (1,)."""
    value = one.terminated if hasattr(one, "terminated") else one.terminal
    flag = to_array(value, where, "terminated")
    if flag.size != 1:
        raise LogsError(
            f"{where}: expected terminated as one flag for the whole episode, found {flag.size}."
        )
    return flag.reshape(())


def read_d3rlpy_file(path: Path) -> SourceTable:
    """Read the HDF5 file of a replay buffer, as ``ReplayBuffer.dump`` writes it.

    Raises
    ------
    LogsError
        It is damaged, or lacks an episode.
    """
    with open_hdf5(path, LAYOUT) as file:
        if "num_episodes" not in file:
            return read_flat(file, layout=LAYOUT)
        count = read_count(file["num_episodes"][()], str(path), "num_episodes")
        episodes = []
        for k in range(count):
            missing = [name for name in (*_FIELDS, "terminated") if f"{name}_{k}" not in file]
            if missing == ["observations"] and f"observations_{k}_0" in file:
                raise LogsError(
                    f"{path}, episode {k}: expected one array of observations, found a tuple of "
                    "arrays. Join them into vectors."
                )
            if missing:
                raise LogsError(
                    f"{path}: expected {count:,} episodes, found no {listed(missing)} of episode "
                    f"{k}. The file may be cut off."
                )
            held = {name: file[f"{name}_{k}"][()] for name in (*_FIELDS, "terminated")}
            episodes.append(SimpleNamespace(**held))
    return read_d3rlpy(episodes)
