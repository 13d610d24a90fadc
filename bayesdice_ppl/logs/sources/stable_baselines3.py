"""Replay buffers of Stable-Baselines3, by what they look like.

A buffer that is full has overwritten its oldest rows, so its first episode has no known start: that
one is left out. The buffers of on-policy algorithms are refused, since their rewards were changed
where an episode was cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.sources.arrays import (
    PointArray,
    as_labels_if_whole,
    read_count,
    read_points,
    rows_of,
    to_array,
)
from bayesdice_ppl.logs.sources.episodes import EpisodeArrays, episode_table
from bayesdice_ppl.logs.sources.source import SourceTable, counted

LAYOUT = "Stable-Baselines3"
_ARRAYS = ("observations", "actions", "rewards", "dones")


def read_sb3(buffer: Any) -> SourceTable:
    """Read a replay buffer.

    Parameters
    ----------
    buffer
        A ``ReplayBuffer``, such as ``model.replay_buffer``.

    Raises
    ------
    LogsError
        Another kind of buffer, an empty one, or observations that no column can hold.
    """
    if hasattr(buffer, "episode_starts"):
        raise LogsError(
            f"{LAYOUT}: expected a replay buffer, found {type(buffer).__name__}. The rewards of "
            "on-policy algorithms have an estimated value added where an episode was cut. Collect "
            "episodes with the policy instead, and use from_episodes."
        )
    missing = [name for name in (*_ARRAYS, "pos", "full") if not hasattr(buffer, name)]
    if missing:
        raise LogsError(
            f"{LAYOUT}: expected a replay buffer with {', '.join(_ARRAYS)}, found "
            f"{type(buffer).__name__} without {listed(missing)}."
        )
    held = {name: rows_of(getattr(buffer, name), LAYOUT, name) for name in _ARRAYS}
    size, full = len(held["rewards"]), _flag(buffer, "full", False)
    end = read_count(buffer.pos, LAYOUT, "pos")
    order = (np.arange(size) + end) % size if full else np.arange(min(end, size))
    if not len(order):
        raise LogsError(f"{LAYOUT}: expected a buffer with rows, found an empty one.")
    told = hasattr(buffer, "timeouts")
    apart = told and _flag(buffer, "handle_timeout_termination", True)
    if hasattr(buffer, "next_observations"):
        held["next_observations"] = rows_of(buffer.next_observations, LAYOUT, "next_observations")
    if apart:
        held["timeouts"] = rows_of(buffer.timeouts, LAYOUT, "timeouts")
    shape = held["rewards"].shape
    short = [name for name, array in held.items() if array.ndim < 2 or array.shape[:2] != shape]
    if short:
        raise LogsError(
            f"{LAYOUT}: expected arrays of {size:,} rows, one column an environment, found "
            f"{short[0]} of shape {held[short[0]].shape}."
        )
    held = {name: array[order] for name, array in held.items()}
    notes = _notes(buffer, held, full, apart)
    taken = {
        "observations": "observations",
        "actions": "actions",
        "rewards": "rewards",
        "terminated": "dones without timeouts",
        "truncated": "timeouts",
        "following": "next_observations",
    }
    episodes = _episodes(buffer, held, full=full, apart=apart)
    return episode_table(episodes, LAYOUT, taken, notes=notes, actions=_space(buffer))


def _notes(buffer: Any, held: dict[str, np.ndarray], full: bool, apart: bool) -> list[str]:
    notes = ["A buffer that was filled in training holds actions of a policy that changed."]
    if full:
        ended = held["dones"].astype(bool)
        lost = int(np.where(ended.any(axis=0), ended.argmax(axis=0) + 1, len(ended)).sum())
        notes.append(
            f"The buffer is full: {counted(lost, 'row')} left out, the rest of episodes whose "
            "start was overwritten."
        )
    if "next_observations" not in held:
        notes.append("Nothing says where an episode led: optimize_memory_usage overwrites it.")
    if not _discrete(buffer, "action_space"):
        notes.append("Actions are as the buffer holds them: SAC, TD3 and DDPG scale to -1 .. 1.")
    if not apart:
        notes.append("The buffer does not tell terminations from cuts (dones).")
    return notes


def _flag(buffer: Any, name: str, default: bool) -> bool:
    value = to_array(getattr(buffer, name, default), LAYOUT, name)
    if value.shape != () or value.dtype.kind not in "biu":
        raise LogsError(f"{LAYOUT}: expected {name} as true or false, found {value.dtype}.")
    return bool(value)


def _discrete(buffer: Any, space: str) -> bool:
    return isinstance(getattr(getattr(buffer, space, None), "n", None), int | np.integer)


def _space(buffer: Any) -> list[int] | None:
    space = getattr(buffer, "action_space", None)
    if not _discrete(buffer, "action_space"):
        return None
    start = getattr(space, "start", 0)
    start = int(start) if isinstance(start, int | np.integer) else 0
    return list(range(start, start + int(space.n)))  # type: ignore[union-attr]


def _episodes(
    buffer: Any, held: dict[str, np.ndarray], *, full: bool, apart: bool
) -> Iterator[EpisodeArrays]:
    count = 0
    for i in range(held["rewards"].shape[1]):
        done = held["dones"][:, i].astype(bool)
        edges = np.unique(np.r_[0, np.flatnonzero(done) + 1, len(done)])
        for k, (start, stop) in enumerate(pairwise(edges)):
            if full and k == 0:
                continue
            part = slice(int(start), int(stop))
            where = f"environment {i}, rows {start + 1:,} to {stop:,}"
            cut = held["timeouts"][part, i].astype(bool) if apart else None
            following = held.get("next_observations")
            yield EpisodeArrays(
                where=where,
                label=count,
                observations=_points(buffer, "observation_space", held["observations"][part, i]),
                actions=_points(buffer, "action_space", held["actions"][part, i]),
                rewards=held["rewards"][part, i],
                terminated=None if cut is None else done[part] & ~cut,
                truncated=cut,
                following=None
                if following is None
                else _points(buffer, "observation_space", following[part, i]),
                extras={} if apart else {"dones": done[part]},
            )
            count += 1


def _points(buffer: Any, space: str, values: np.ndarray) -> np.ndarray:
    """Rows of a discrete space, which have the shape (1,), as labels."""
    points: PointArray = read_points(values, LAYOUT, space.removesuffix("_space") + "s")
    return (as_labels_if_whole(points) if _discrete(buffer, space) else points).values
