"""Logs like a log by the bootstrap: its own episodes, drawn with replacement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Int

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs import Logs


def units_to_draw(logs: Logs, cluster: str | tuple[str, ...] | None) -> Int[np.ndarray, " m"]:
    """The unit of each episode that is drawn as a whole: the episode, or a group of episodes.

    Parameters
    ----------
    logs
        The log.
    cluster
        The fit's unit of independence: a column of the log, or a word, or None.

    Raises
    ------
    LogsError
        An episode has rows of several groups.
    """
    column = cluster if isinstance(cluster, str) else None
    if column is None or column not in logs.groups:
        return np.arange(logs.n_episodes)
    code = logs.group_codes(column)
    first = np.r_[True, logs.episode[1:] != logs.episode[:-1]]
    of_episode = code[first]
    if np.any(of_episode[logs.episode] != code):
        raise LogsError(
            f"cluster={column!r}: expected one group in each episode to draw groups as a whole, "
            "found several. Leave cluster out, and episodes are drawn."
        )
    return np.unique(of_episode, return_inverse=True)[1]


def resampled(logs: Logs, unit: Int[np.ndarray, " m"], rng: np.random.Generator) -> Logs:
    """A log of as many units, drawn with replacement; each copy is a unit of its own.

    Parameters
    ----------
    logs
        The log.
    unit
        The unit of each episode, from `units_to_draw`.
    rng
        Draws.
    """
    import polars as pl

    number = int(unit.max()) + 1
    taken = rng.integers(number, size=number)
    episodes_of = [np.flatnonzero(unit == u) for u in range(number)]
    episodes = np.concatenate([episodes_of[u] for u in taken])
    copy = np.repeat(np.arange(number), [len(episodes_of[u]) for u in taken])
    length = np.bincount(logs.episode, minlength=logs.n_episodes)
    first = np.cumsum(length) - length
    size = length[episodes]
    rows = np.repeat(first[episodes] - np.r_[0, np.cumsum(size)[:-1]], size) + np.arange(size.sum())
    of_row = np.repeat(copy, size)
    groups = {}
    for name, series in logs.groups.items():
        held = series.gather(rows).to_list()
        labels = [f"{each}, copy {number}" for each, number in zip(held, of_row, strict=True)]
        groups[name] = pl.Series(name, labels)
    return replace(
        logs,
        episode=np.repeat(np.arange(len(episodes)), size),
        step=logs.step[rows],
        state=logs.state[rows],
        action=logs.action[rows],
        reward=logs.reward[rows],
        next_state=logs.next_state[rows],
        terminated=logs.terminated[rows],
        truncated=logs.truncated[rows],
        propensity=None if logs.propensity is None else logs.propensity[rows],
        episode_labels=np.arange(len(episodes)),
        row=np.arange(1, len(rows) + 1),
        groups=groups,
        lookalikes={},
    )
