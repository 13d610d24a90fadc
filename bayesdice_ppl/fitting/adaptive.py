"""Whether the policy that wrote a log followed its own rewards, as a bandit algorithm does.

An arm that disappoints early is tried less, and its mean stays where it disappointed. So the means
of arms from adaptive logs are biased downwards (Nie et al., 2018). A log shows it: actions whose
earlier rewards were better are taken more often.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

_BLOCKS, _FIRST = 25, 4
"""Stretches of the log over which evidence is averaged, and visits of a state before any counts."""
_FEWEST = 100
"""Rows below which nothing can be seen."""
_CLEAR, _LIKELY, _CHANGED = 2.0, 1.5, 1e-4
"""Standard errors that show it alone, and beside shares of actions that change along the log with
this probability at most."""
_MOST_ROWS, _MOST_NUMBERS = 200_000, 10_000_000
"""Rows that are looked at, the first of the log; numbers that one state's rows may take, of which
the first are looked at. A policy follows its rewards most while it knows little."""


class Following(NamedTuple):
    """How actions went with earlier rewards.

    Attributes
    ----------
    score
        Standard errors by which better actions were taken more often, along the log or along the
        visits of each state, whichever is larger.
    changed
        Probability of shares of actions that change along the log as much, under a fixed policy.
    """

    score: float
    changed: float

    @property
    def adaptive(self) -> bool:
        """Whether the log is taken for an adaptive policy's."""
        return self.score > _CLEAR or (self.score > _LIKELY and self.changed < _CHANGED)


def follow(
    state: Int[np.ndarray, " n"], action: Int[np.ndarray, " n"], reward: Float[np.ndarray, " n"]
) -> Following:
    """Compare what was done with what had paid before, state by state.

    Parameters
    ----------
    state, action
        Codes, in the order of the log, shape (n,).
    reward
        Shape (n,).

    Notes
    -----
    At each visit of a state the advantage of an action is its mean reward there so far less that of
    all actions, shrunk as by one more reward. The score of a row is the advantage of what was done
    less the average over the shares of actions in the state. It has mean zero under any policy that
    does not see rewards. Sums over stretches of the log are compared with their own spread, so that
    rows that move together do not deceive it.
    """
    from scipy.special import chdtrc

    state, action, reward = (each[:_MOST_ROWS] for each in (state, action, reward))
    n = len(state)
    score = np.zeros(n)
    along, scaled = [np.zeros(0)], [np.zeros(0)]
    statistic, freedom = 0.0, 0
    order = np.argsort(state, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(state[order])) + 1):
        actions, code = np.unique(action[rows], return_inverse=True)
        if len(actions) < 2:
            continue
        size = min(len(rows), _MOST_NUMBERS // len(actions))
        rows, code, t = rows[:size], code[:size], np.arange(size)
        done = np.zeros((size, len(actions)))
        done[t, code] = 1.0
        paid = done * reward[rows, None]
        before, sums = np.cumsum(done, axis=0) - done, np.cumsum(paid, axis=0) - paid
        mean = (np.cumsum(reward[rows]) - reward[rows]) / np.maximum(t, 1)
        advantage = (sums - before * mean[:, None]) / (before + 1.0)
        share = done.mean(axis=0)
        off = advantage - (advantage @ share)[:, None]
        score[rows] = off[t, code]
        if size > 2 * _FIRST:
            variance = off**2 @ share
            sd = np.sqrt(np.where(variance > 0.0, variance, 1.0))
            scaled.append((score[rows] / sd)[_FIRST:])
            along.append(np.log(t[_FIRST:] / _FIRST) / np.log(size / _FIRST))
        # Mean times of each action's visits, if all orders were alike.
        count = np.maximum(np.bincount(code, minlength=len(actions)), 1)
        middle = np.bincount(code, t - (size - 1) / 2.0, len(actions)) / count
        statistic += float(count @ middle**2) * 12.0 / (size * (size + 1.0))
        freedom += len(actions) - 1
    equal = _t_statistic(score, np.arange(n) * _BLOCKS // n)
    place = np.minimum((np.concatenate(along) * _BLOCKS).astype(np.int64), _BLOCKS - 1)
    early = _t_statistic(np.concatenate(scaled), place)
    changed = float(chdtrc(freedom, statistic)) if freedom else 1.0
    return Following(max(equal, early), changed)


def _t_statistic(score: Float[np.ndarray, " n"], block: Int[np.ndarray, " n"]) -> float:
    """Mean of the blocks' sums, each over the root of its size, over its standard error."""
    if len(score) < _FEWEST:
        return 0.0
    count = np.bincount(block)
    sums = np.bincount(block, score)[count > 0] / np.sqrt(count[count > 0])
    spread = sums.std(ddof=1) if len(sums) > 2 else 0.0
    return float(sums.mean() / spread * np.sqrt(len(sums))) if spread > 0.0 else 0.0
