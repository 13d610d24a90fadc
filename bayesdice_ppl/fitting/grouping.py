"""How the rows of a log may be grouped: by the columns that were asked for, or by what it holds.

Unless the user names the unit of independence, the log is looked at: its episodes, columns whose
name says that rows belong together or that have many groups, and stretches of rows where there are
few episodes or none.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from jaxtyping import Int

from bayesdice_ppl.codes import combined, distinct
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.fitting.adaptive import follows_rewards
from bayesdice_ppl.fitting.settings import CLUSTERS, FitSettings
from bayesdice_ppl.inference import Dependence, Grouping
from bayesdice_ppl.logs import Logs, UsableRows

FEW_EPISODES = 20
"""With fewer episodes stretches of rows are looked at too: episodes cannot tell."""
FEWEST_STRETCHES, SHORTEST = 10, 8
"""Stretches of one length, and rows of the shortest."""
_LONGEST, _TURNS = 2_000, 2.5
"""Longest cycle that is looked for, and standard errors beyond what the largest of as many has by
chance."""


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
        ``cluster`` names a column that the log does not have, or that cannot group rows.
    """
    constraint = settings.constraint
    asked = settings.clusters
    for name in asked:
        check_named(name, logs.groups, "'transition', 'episode'")
        check_several(name, len(distinct(logs.group_codes(name))[0]))
    if not (constraint.penalty.calibrated and constraint.value_constraint):
        if asked:
            raise SettingsError(
                f"cluster={settings.cluster!r}: expected a penalty that is measured in Sigma and a "
                f"value constraint, found the penalty {constraint.penalty}. Leave cluster out."
            )
        return None
    chance = logs.propensity
    adaptive = not (logs.vector_states or logs.vector_actions) and follows_rewards(
        logs.state[rows.mask],
        logs.action[rows.mask],
        logs.reward[rows.mask],
        None if chance is None else chance[rows.mask],
    )
    looks = settings.cluster not in CLUSTERS
    if not (looks or adaptive):
        return None
    by_episode, looked_at = settings.by_episode, logs.looked_at
    groupings = [_by_column(logs, rows, name) for name in asked]
    if looks and not asked:
        groupings = [_by_column(logs, rows, name) for name in looked_at]
        if not by_episode:
            groupings += _by_episode(logs, rows)
            groupings += _in_turns(logs, rows)
        groupings = _distinct(groupings)
        if not by_episode:
            groupings += _by_time(logs, rows)
    apart = [] if not looks or asked else logs.of_few_groups
    return replace(
        rows_behind(logs, rows, cell, by_episode=by_episode),
        groupings=tuple(groupings),
        asked=bool(asked),
        adaptive=adaptive,
        ignored=tuple(name for name in logs.groups if name not in (*looked_at, *asked, *apart)),
        suspects=tuple(_by_column(logs, rows, name) for name in apart),
    )


def rows_behind(
    logs: Logs, rows: UsableRows, cell: Int[np.ndarray, " n"], *, by_episode: bool
) -> Dependence:
    """The rows behind the cells, with their episodes and without groupings.

    Parameters
    ----------
    logs, rows, cell
        As for `dependence_of`.
    by_episode
        Whether cells are kept apart by episode.
    """
    start = distinct(logs.initial_state)[1]
    return Dependence(
        cell=cell,
        reward=logs.reward[rows.mask],
        episode=logs.episode[rows.mask],
        start=np.arange(logs.n_episodes) if by_episode else start,
        groupings=(),
        by_episode=by_episode,
    )


def check_named(name: str, groups: Collection[str], units: str) -> None:
    """Refuse a cluster that is none of the columns that may group rows.

    Parameters
    ----------
    name
        What ``cluster`` names.
    groups
        The columns.
    units
        What else may be named, for the message.

    Raises
    ------
    SettingsError
        There is no such column.
    """
    if name not in groups:
        has = ", ".join(sorted(groups)) or "none"
        raise SettingsError(
            f"cluster: expected {units}, or a column of the log with integers, text or dates and "
            f"without another meaning, found {name!r}. There are: {has}."
        )


def check_several(name: str, n_groups: int) -> None:
    """Refuse a column of one group.

    Raises
    ------
    SettingsError
        There is one.
    """
    if n_groups < 2:
        raise SettingsError(
            f"cluster={name!r}: expected a column with two values or more, found one. A single "
            "group does not tell how groups differ."
        )


def _by_column(logs: Logs, rows: UsableRows, name: str) -> Grouping:
    code = logs.group_codes(name)
    starts = logs.first_rows
    return Grouping(name, code[rows.mask], code[starts])


def _distinct(groupings: list[Grouping]) -> list[Grouping]:
    """Each way to group once, the first by name."""
    found: dict[bytes, Grouping] = {}
    for grouping in groupings:
        # Codes in the order of appearance are the same for the same groups.
        code = distinct(grouping.of_row)[1]
        first = np.empty(code.max() + 1, dtype=np.int64)
        # The last one that is written stays, and the first row of a group is written last.
        first[code[::-1]] = np.arange(len(code))[::-1]
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        found.setdefault(rank[code].tobytes(), grouping)
    return list(found.values())


def _by_episode(logs: Logs, rows: UsableRows) -> list[Grouping]:
    """Episodes, if there are several, and several rows in them."""
    n, m = int(rows.mask.sum()), logs.n_episodes
    return [Grouping("episode", logs.episode[rows.mask], np.arange(m))] if 1 < m < n else []


def _in_turns(logs: Logs, rows: UsableRows) -> list[Grouping]:
    """Every L-th row, if rewards that are L rows apart are alike: users may take turns.

    Rewards are measured from the mean of their state and action. Their autocorrelation at all lags
    comes from one Fourier transform; by chance each is normal with variance 1 / n.
    """
    n, m = int(rows.mask.sum()), logs.n_episodes
    if n < FEWEST_STRETCHES * SHORTEST or m not in (1, n) or logs.vector_states:
        return []
    reward = logs.reward[rows.mask]
    pair = logs.state[rows.mask]
    if not logs.vector_actions:
        pair = combined(pair, logs.action[rows.mask])[1]
    off = reward - (np.bincount(pair, reward) / np.maximum(np.bincount(pair), 1))[pair]
    total = np.fft.irfft(np.abs(np.fft.rfft(off, 2 * n)) ** 2)[: n // 2]
    if not total[0] > 0.0:
        return []
    score = total / total[0] * np.sqrt(n)
    # Rows that follow each other are alike at short lags first, which stretches are for.
    score[1:] -= np.maximum(score[:-1], 0.0)
    lags = np.arange(2, min(n // FEWEST_STRETCHES, _LONGEST) + 1)
    # Multiples of a lag are as much alike as the lag itself.
    together = [score[lag::lag].sum() / np.sqrt(len(score[lag::lag])) for lag in lags]
    best = int(np.argmax(together))
    if together[best] < np.sqrt(2.0 * np.log(len(lags))) + _TURNS:
        return []
    apart = int(lags[best])
    code = np.arange(n) % apart
    starts = code if m == n else np.zeros(1, dtype=np.int64)
    return [Grouping(f"place in a cycle of {apart} rows", code, starts)]


def _by_time(logs: Logs, rows: UsableRows) -> list[Grouping]:
    """Stretches of rows that follow each other, if there are few episodes or none.

    In a log of single rows first states may stick in time as well; where each state has its rows
    in one place, the log was sorted by state, and they are left alone.
    """
    n, m = int(rows.mask.sum()), logs.n_episodes
    alone = m == logs.n_transitions
    if m >= FEW_EPISODES and not alone:
        return []
    episode = np.zeros(n, dtype=np.int64) if alone else logs.episode[rows.mask]
    starts = np.searchsorted(episode, np.arange(1 if alone else m))
    state = logs.initial_state
    by_state = int(np.count_nonzero(np.diff(state))) + 1 == len(distinct(state)[0])
    length = SHORTEST
    found: list[Grouping] = []
    while n // length >= FEWEST_STRETCHES:
        stretch = (np.arange(n) - starts[episode]) // length
        # Rows are in the order of episodes: a new group where either changes.
        changes = (np.diff(stretch) != 0) | (np.diff(episode) != 0)
        code = np.r_[0, np.cumsum(changes)]
        first = code[np.minimum(starts, n - 1)]
        if alone:
            apart = by_state or n != m
            first = code.max() + 1 + np.arange(m) if apart else code
        found.append(Grouping(f"stretch of {length} rows", code, first, by_order=True))
        length *= 2
    return found
