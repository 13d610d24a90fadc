"""Logs like a log by the bootstrap: its own episodes, drawn with replacement."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from bayesdice_ppl.calibration.shared import CLEAR, EPISODE, groupings_of, shares_of
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs import Logs


class Drawn(NamedTuple):
    """What is drawn as a whole.

    Attributes
    ----------
    name
        A column, or ``episode``.
    unit
        The unit of each episode, shape (m,).
    """

    name: str
    unit: Int[np.ndarray, " m"]


def units_to_draw(logs: Logs, asked: tuple[str, ...] = ()) -> Drawn:
    """The unit of each episode that is drawn as a whole: the episode, or a group of episodes.

    Parameters
    ----------
    logs
        The log.
    asked
        Columns that a fit is asked to take for groups.

    Returns
    -------
    Drawn
        The first column that is asked for, if it groups episodes. Else the one whose rewards move
        together most clearly, of those that a fit looks at; else episodes.

    Raises
    ------
    LogsError
        An episode has rows of several groups of the column that is asked for.
    """
    first = logs.first_rows
    clearest = Drawn(EPISODE, np.arange(logs.n_episodes))
    most = CLEAR
    off = logs.reward - logs.reward.mean()
    for name, code in groupings_of(logs, asked).items():
        whole = bool(np.all(code[first][logs.episode] == code))
        if name in asked and not whole:
            raise LogsError(
                f"cluster={name!r}: expected one group in each episode to draw groups as a whole, "
                "found several. Leave cluster out, and episodes are drawn."
            )
        if name == EPISODE or not whole:
            continue
        found = Drawn(name, np.unique(code[first], return_inverse=True)[1])
        if name in asked:
            return found
        score = shares_of(off, code).score
        if score > most:
            clearest, most = found, score
    return clearest


def resampled(logs: Logs, unit: Int[np.ndarray, " m"], rng: np.random.Generator) -> Logs:
    """A log of as many units, drawn with replacement; each copy is a unit of its own.

    Parameters
    ----------
    logs
        The log.
    unit
        The unit of each episode, from `units_to_draw`, shape (m,).
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
