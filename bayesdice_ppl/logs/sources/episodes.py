"""Episodes, each as arrays, as one table: the form in which most tools hold what agents did.

Observations of T steps have T rows, or T + 1 where the one after the last action is kept. That last
one says where the episode led, which matters where it was only cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.sources.arrays import (
    PointArray,
    as_labels_if_whole,
    check_length,
    read_flags,
    read_numbers,
    read_points,
    rows_of,
)
from bayesdice_ppl.logs.sources.source import Source, SourceTable, counted


class EpisodeArrays(NamedTuple):
    """One episode of T steps.

    Attributes
    ----------
    where
        Its name, for messages: ``episode 3``.
    label
        Its label.
    observations
        T or T + 1 rows: labels, shape (T,), or vectors, shape (T, p).
    actions, rewards
        T of each.
    terminated, truncated
        Flags, T of each, or one for its end; None where the tool does not tell.
    propensity
        Probabilities or densities of the actions, T of them, or None.
    following
        What was seen after each action, T rows, or None.
    extras
        Other columns, T entries each.
    """

    where: str
    label: int | str
    observations: Any
    actions: Any
    rewards: Any
    terminated: Any = None
    truncated: Any = None
    propensity: Any = None
    following: Any = None
    extras: Mapping[str, Any] = {}


def episode_table(
    episodes: Iterable[EpisodeArrays],
    layout: str,
    taken: Mapping[str, str],
    *,
    notes: Sequence[str] = (),
    actions: Sequence[Any] | None = None,
    whole_actions: bool = False,
    advice: str = "",
) -> SourceTable:
    """Make one table of episodes.

    Parameters
    ----------
    episodes
        The episodes.
    layout
        Whose layout it is.
    taken
        Field of an episode -> its name there.
    notes
        What to say beside.
    actions
        The action space, if the tool knows it.
    whole_actions
        Whether an action of shape (1,) that is a whole number is a label.
    advice
        What the reader offers for observations that no column can hold.

    Raises
    ------
    LogsError
        No step at all, arrays of different lengths, or episodes of different kinds.
    """
    read: list[dict[str, Any]] = []
    empty = 0
    for episode in episodes:
        if len(rows_of(episode.rewards, f"{layout}, {episode.where}", taken["rewards"])) == 0:
            empty += 1
            continue
        read.append(_read(episode, f"{layout}, {episode.where}", taken, whole_actions, advice))
    if not read:
        raise LogsError(f"{layout}: expected episodes with a step or more, found none.")
    _check_alike(read, layout)
    lengths = np.array([len(one["reward"]) for one in read])
    columns: dict[str, pl.Series] = {
        "episode_id": pl.Series([one["label"] for one in read]).gather(
            np.repeat(np.arange(len(read)), lengths)
        ),
        "step": pl.Series(np.concatenate([np.arange(length) for length in lengths])),
    }
    state = PointArray(np.concatenate([one["state"].values for one in read]))
    action = PointArray(np.concatenate([one["action"].values for one in read]))
    before, after = ("obs", "next_obs") if state.vectors else ("state", "next_state")
    columns[before], columns["action"] = state.series(), action.series()
    columns["reward"] = pl.Series(np.concatenate([one["reward"] for one in read]))
    known = np.concatenate([one["known"] for one in read])
    if known.any():
        following = PointArray(np.concatenate([one["following"].values for one in read]))
        columns[after] = following.series(known)
    for key in ("terminated", "truncated", "propensity"):
        if read[0][key] is not None:
            columns[key] = pl.Series(np.concatenate([one[key] for one in read]))
    for key in read[0]["extras"]:
        columns[key] = pl.Series(np.concatenate([one["extras"][key] for one in read]))
    words = {
        before: f"{taken['observations']} ({state.words})",
        "action": f"{taken['actions']} ({action.words})",
        "reward": taken["rewards"],
    }
    if known.any():
        words[after] = str(taken.get("following", f"the next of {taken['observations']}"))
    words.update(
        {key: taken[key] for key in ("terminated", "truncated", "propensity") if key in columns}
    )
    said = list(notes)
    if empty:
        said.append(f"{counted(empty, 'episode')} without a step left out.")
    return SourceTable(
        pl.DataFrame(columns),
        Source(layout, words, tuple(said)),
        None if action.vectors else actions,
    )


def _read(
    episode: EpisodeArrays, where: str, taken: Mapping[str, str], whole_actions: bool, advice: str
) -> dict[str, Any]:
    """The arrays of an episode, of one length."""
    n = len(rows_of(episode.rewards, where, taken["rewards"]))
    seen = read_points(episode.observations, where, taken["observations"], advice=advice)
    action = read_points(episode.actions, where, taken["actions"])
    if whole_actions:
        action = as_labels_if_whole(action)
    check_length(len(action.values), n, where, taken["actions"])
    rows = len(seen.values)
    if rows not in (n, n + 1):
        raise LogsError(
            f"{where}: expected {n:,} {taken['observations']}, one before each action, or "
            f"{n + 1:,} with the one after the last, found {rows:,}. The arrays may be cut off, or "
            "of different episodes."
        )
    state, known = PointArray(seen.values[:n]), np.zeros(n, dtype=bool)
    following = state
    if episode.following is not None:
        following = read_points(episode.following, where, taken["following"], advice=advice)
        check_length(len(following.values), n, where, taken["following"])
        if following.values.shape[1:] != state.values.shape[1:]:
            raise LogsError(
                f"{where}: expected {taken['following']} that are {state.words}, as "
                f"{taken['observations']} are, found {following.words}."
            )
        known[:] = True
    elif rows == n + 1:
        # Only the last is held here: the next row of the episode says the others.
        following, known[-1] = PointArray(seen.values[1:]), True
    flags = {
        key: None if value is None else read_flags(value, n, where, taken[key])
        for key, value in (("terminated", episode.terminated), ("truncated", episode.truncated))
    }
    propensity = episode.propensity
    if propensity is not None:
        propensity = read_numbers(propensity, n, where, taken["propensity"])
    extras = {}
    for key, value in episode.extras.items():
        extras[key] = rows_of(value, where, key)
        check_length(len(extras[key]), n, where, key)
    return {
        "where": episode.where,
        "label": episode.label,
        "state": state,
        "action": action,
        "reward": read_numbers(episode.rewards, n, where, taken["rewards"]),
        "following": following,
        "known": known,
        "propensity": propensity,
        "extras": extras,
        **flags,
    }


def _check_alike(read: Sequence[Mapping[str, Any]], layout: str) -> None:
    """Refuse episodes of which one has vectors where another has labels, or other columns."""
    first = read[0]
    for one in read[1:]:
        for key in ("state", "action"):
            mine, other = first[key].values, one[key].values
            if mine.shape[1:] != other.shape[1:] or (mine.dtype.kind == "U") != (
                other.dtype.kind == "U"
            ):
                raise LogsError(
                    f"{layout}, {one['where']}: expected {key}s that are {first[key].words}, as in "
                    f"{first['where']}, found {one[key].words} ({other.dtype})."
                )
        for key in ("terminated", "truncated", "propensity"):
            if (one[key] is None) != (first[key] is None):
                has, lacks = (first, one) if one[key] is None else (one, first)
                raise LogsError(
                    f"{layout}, {lacks['where']}: expected {key}, as {has['where']} has it, found "
                    "nothing. Give it in all episodes, or in none."
                )
        if set(one["extras"]) != set(first["extras"]):
            raise LogsError(
                f"{layout}, {one['where']}: expected the columns of {first['where']}, "
                f"{listed(first['extras']) or 'none'}, found {listed(one['extras']) or 'none'}."
            )
