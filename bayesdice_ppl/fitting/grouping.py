"""How the rows of a log may be grouped: by the columns that were asked for, or by what it holds.

Unless the user names the unit of independence, the log is looked at: its episodes, every column
whose name says that rows belong together, and stretches of rows where there are few episodes.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.fitting.adaptive import follow
from bayesdice_ppl.fitting.settings import CLUSTERS, FitSettings
from bayesdice_ppl.inference import Dependence, Grouping
from bayesdice_ppl.logs import Logs, UsableRows, named_as_group
from bayesdice_ppl.logs.labels import MISSING

FEW_EPISODES = 20
"""With fewer episodes stretches of rows are looked at too: episodes cannot tell."""
FEWEST_STRETCHES, SHORTEST = 20, 8
"""Stretches of one length, and rows of the shortest."""


def dependence_of(
    logs: Logs, rows: UsableRows, cell: Int[np.ndarray, " n"], settings: FitSettings
) -> Dependence | None:
    """How the used rows of a log may be grouped; None where the belief takes no unit.

    Parameters
    ----------
    logs, rows
        The log, and which transitions are used.
    cell
        The cell of each row that is used, shape (n,).
    settings
        The fit's settings.

    Raises
    ------
    SettingsError
        ``cluster`` names a column that the log does not have, or that has gaps.
    """
    constraint = settings.constraint
    asked = settings.clusters
    for name in asked:
        _check(logs, name)
    if not (constraint.penalty.calibrated and constraint.value_constraint):
        if asked:
            raise SettingsError(
                f"cluster={settings.cluster!r}: expected a penalty that is measured in Sigma and a "
                f"value constraint, found the penalty {constraint.penalty}. Leave cluster out."
            )
        return None
    adaptive = (
        not (logs.vector_states or logs.vector_actions)
        and follow(logs.state[rows.mask], logs.action[rows.mask], logs.reward[rows.mask]).adaptive
    )
    looks = settings.cluster not in CLUSTERS
    if not (looks or adaptive):
        return None
    by_episode = settings.by_episode
    groupings = [_by_column(logs, rows, name) for name in asked]
    if looks and not asked:
        groupings = [*_by_columns(logs, rows)]
        if not by_episode:
            groupings += _by_time(logs, rows)
        groupings = _distinct(groupings)
    start = np.unique(logs.initial_state, return_inverse=True)[1]
    return Dependence(
        cell=cell,
        reward=logs.reward[rows.mask],
        episode=logs.episode[rows.mask],
        start=np.arange(logs.n_episodes) if by_episode else start,
        groupings=tuple(groupings),
        asked=bool(asked),
        by_episode=by_episode,
        adaptive=adaptive,
    )


def _check(logs: Logs, name: str) -> None:
    if name not in logs.groups:
        has = ", ".join(sorted(logs.groups)) or "none"
        raise SettingsError(
            "cluster: expected 'transition', 'episode', or a column of integers, text or dates in "
            f"the log, found {name!r}. Columns of the log that could be one: {has}."
        )
    if np.any(logs.groups[name] == MISSING):
        row = int(logs.row[np.argmax(logs.groups[name] == MISSING)])
        raise SettingsError(
            f"cluster={name!r}: expected a value in every row, found none in row {row}. Fill it in."
        )


def _by_column(logs: Logs, rows: UsableRows, name: str) -> Grouping:
    code = logs.groups[name]
    starts = np.flatnonzero(np.r_[True, logs.episode[1:] != logs.episode[:-1]])
    return Grouping(name, code[rows.mask], code[starts])


def _by_columns(logs: Logs, rows: UsableRows) -> list[Grouping]:
    """Groupings by the log's own columns."""
    found = []
    named = (name for name in logs.groups if named_as_group(name))
    for name in named:
        code = logs.groups[name]
        if np.any(code == MISSING) or len(np.unique(code)) == len(code):
            continue
        found.append(_by_column(logs, rows, name))
    return found


def _distinct(groupings: list[Grouping]) -> list[Grouping]:
    """Each way to group once, the first by name."""
    found: list[Grouping] = []
    for grouping in groupings:
        if not any(grouping.within(other) and other.within(grouping) for other in found):
            found.append(grouping)
    return found


def _by_time(logs: Logs, rows: UsableRows) -> list[Grouping]:
    """Episodes, if there are enough rows in them; stretches of rows, if there are few episodes."""
    n, m = int(rows.mask.sum()), logs.n_episodes
    episode = logs.episode[rows.mask]
    found = [Grouping("episode", episode, np.arange(m))] if 1 < m < n else []
    if m >= FEW_EPISODES:
        return found
    starts = np.searchsorted(episode, np.arange(m))
    length = SHORTEST
    while n // length >= FEWEST_STRETCHES:
        stretch = (np.arange(n) - starts[episode]) // length
        code = np.unique(episode * (n + 1) + stretch, return_inverse=True)[1]
        first = code[np.minimum(starts, n - 1)]
        found.append(Grouping(f"stretch of {length} rows", code, first))
        length *= 2
    return found
