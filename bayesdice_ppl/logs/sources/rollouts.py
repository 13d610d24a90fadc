"""What was collected from a vector of environments of Gymnasium, step by step.

Such a vector resets an environment that ended by itself. By default it does so in the next step:
that step takes no action, and its row is no transition, so it is left out. In the mode
``same_step`` what comes with an end is already the first observation of the next episode, and the
last one of the old stands in ``infos["final_obs"]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.sources.arrays import rows_of
from bayesdice_ppl.logs.sources.episodes import EpisodeArrays, episode_table
from bayesdice_ppl.logs.sources.source import SourceTable, counted

LAYOUT = "Gymnasium rollout"
MODES = ("next_step", "same_step")


def read_rollout(
    observations: Any,
    actions: Any,
    rewards: Any,
    terminations: Any,
    truncations: Any,
    *,
    autoreset: str = "next_step",
    final_observations: Any = None,
    propensities: Any = None,
) -> SourceTable:
    """Read T steps of N environments at once.

    Parameters
    ----------
    observations
        What ``reset`` and then each ``step`` returned, shape (T + 1, N, ...).
    actions, rewards, terminations, truncations
        What each step took and returned, shape (T, N), actions with more axes where they are
        vectors.
    autoreset
        The mode of the vector: ``next_step`` or ``same_step``.
    final_observations
        For ``same_step``: the last observations of episodes, shape (T, N, ...), used where one was
        cut.
    propensities
        Probabilities or densities of the actions, shape (T, N), or None.

    Raises
    ------
    LogsError
        Another mode, or arrays of other shapes.
    """
    if autoreset not in MODES:
        raise LogsError(f"autoreset: expected one of {', '.join(MODES)}, found {autoreset!r}.")
    reward = _array(rewards, "rewards")
    if reward.ndim != 2 or not reward.size:
        raise LogsError(
            f"{LAYOUT}: expected rewards of shape (steps, environments), found {reward.shape}. For "
            "a single environment use from_episodes."
        )
    seen = _array(observations, "observations")
    t, n = reward.shape
    if seen.shape[:2] != (t + 1, n):
        raise LogsError(
            f"{LAYOUT}: expected observations of shape ({t + 1}, {n}, ...), what reset and then "
            f"each of the {t} steps returned, found {seen.shape}."
        )
    held = {
        "actions": actions,
        "terminations": terminations,
        "truncations": truncations,
        "final_observations": final_observations,
        "propensities": propensities,
    }
    arrays = {key: _array(value, key) for key, value in held.items() if value is not None}
    for key, array in arrays.items():
        if array.shape[:2] != (t, n):
            raise LogsError(
                f"{LAYOUT}: expected {key} of shape ({t}, {n}, ...), as the rewards have, found "
                f"{array.shape}."
            )
    cut, ended = arrays["truncations"].astype(bool), arrays["terminations"].astype(bool)
    resets = np.zeros((t, n), dtype=bool)
    if autoreset == "next_step":
        # A step that only resets ends nothing, so flags never stand in two rows that follow.
        resets[1:] = (cut | ended)[:-1]
    notes = []
    if resets.any():
        notes.append(
            f"{counted(int(resets.sum()), 'row')} left out that only reset an environment."
        )
    lost = autoreset == "same_step" and "final_observations" not in arrays
    unknown = int((cut & ~ended).sum())
    if lost and unknown:
        notes.append(
            f"Nothing says where {counted(unknown, 'episode')} that were cut led: pass "
            "final_observations."
        )
    taken = {
        "observations": "observations",
        "actions": "actions",
        "rewards": "rewards",
        "terminated": "terminations",
        "truncated": "truncations",
        "propensity": "propensities",
        "following": "the next of observations",
    }
    made = _episodes(seen, reward, arrays, cut, ended, resets, autoreset)
    return episode_table(made, LAYOUT, taken, notes=notes)


def _episodes(
    seen: np.ndarray,
    reward: np.ndarray,
    arrays: dict[str, np.ndarray],
    cut: np.ndarray,
    ended: np.ndarray,
    resets: np.ndarray,
    autoreset: str,
) -> Iterator[EpisodeArrays]:
    t, n = reward.shape
    count = 0
    for i in range(n):
        stops = np.flatnonzero((cut | ended)[:, i]) + 1
        edges = np.unique(np.r_[0, stops, t])
        for start, stop in pairwise(edges):
            first = int(start) + int(resets[start, i])
            stop = int(stop)
            if first == stop:
                continue
            part = slice(first, stop)
            over = bool((cut | ended)[stop - 1, i])
            observations = seen[first : stop + 1, i]
            if autoreset == "same_step" and over:
                # The one after an end is the next episode's.
                observations = observations[:-1]
                if "final_observations" in arrays and not ended[stop - 1, i]:
                    last = arrays["final_observations"][stop - 1 : stop, i]
                    observations = np.concatenate([observations, last])
            yield EpisodeArrays(
                where=f"environment {i}, steps {first + 1:,} to {stop:,}",
                label=count,
                observations=observations,
                actions=arrays["actions"][part, i],
                rewards=reward[part, i],
                terminated=ended[part, i],
                truncated=cut[part, i],
                propensity=arrays["propensities"][part, i] if "propensities" in arrays else None,
            )
            count += 1


def _array(values: Any, name: str) -> np.ndarray:
    array = rows_of(values, LAYOUT, name)
    if array.dtype.kind not in "iufbUS":
        raise LogsError(f"{LAYOUT}: expected {name} as numbers, found {array.dtype}.")
    return array
