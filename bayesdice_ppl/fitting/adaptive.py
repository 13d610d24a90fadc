"""Whether the policy that wrote a log followed its own rewards, as a bandit algorithm does.

An arm that disappoints early is tried less, and its mean stays where it disappointed. So the means
of arms from adaptive logs are biased downwards (Nie et al., 2018). A log shows it: actions whose
earlier rewards were better are taken more often, and propensities rise after good rewards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.codes import combined, distinct

_BLOCKS, _FIRST = 25, 4
"""Stretches of the log over which evidence is averaged, and visits of a state before any counts."""
_FEWEST = 100
"""Rows below which nothing can be seen."""
_CLEAR, _LIKELY, _CHANGED = 2.0, 1.5, 1e-4
"""Standard errors that show it alone, and beside shares of actions that change along the log with
this probability at most."""
_ALONE, _BESIDE = 2.2, 1.6
"""Standard errors by which propensities must follow rewards: alone, and where actions do too."""
_EQUAL, _WRONG = 1e-6, 5.0
"""Relative difference of propensities that is rounding, and standard errors from their logged
frequencies past which they are not probabilities of the logged actions."""
_ROUNDING = 1e-9
"""Advantages of actions that are rounding, relative to the largest reward of the state."""
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


class Chances(NamedTuple):
    """What logged propensities say of the policy.

    Attributes
    ----------
    sound
        Whether actions were taken about as often as their propensities say.
    fixed
        Whether every action of a state has one propensity throughout, and these are sound.
    score
        Standard errors by which propensities rose after rewards that were better than before.
    fewest
        Visits of each pair that the least of its state's propensities promises, shape (P,).
    """

    sound: bool
    fixed: bool
    score: float
    fewest: Float[np.ndarray, " P"]


def follows_rewards(
    state: Int[np.ndarray, " n"],
    action: Int[np.ndarray, " n"],
    reward: Float[np.ndarray, " n"],
    propensity: Float[np.ndarray, " n"] | None = None,
) -> bool:
    """Whether the log is taken for an adaptive policy's, by its propensities where it has them.

    Parameters
    ----------
    state, action
        Codes, in the order of the log, shape (n,).
    reward
        Shape (n,).
    propensity
        Probability of each action that was taken, shape (n,), or None.
    """
    if propensity is not None:
        chances = follow_chances(state, action, reward, propensity)
        if chances.fixed or (chances.sound and chances.score <= _BESIDE):
            return False
        if chances.sound and chances.score > _ALONE:
            return True
    return follow(state, action, reward).adaptive


def follow_chances(
    state: Int[np.ndarray, " n"],
    action: Int[np.ndarray, " n"],
    reward: Float[np.ndarray, " n"],
    propensity: Float[np.ndarray, " n"],
) -> Chances:
    """Compare how propensities changed with the rewards before each change.

    Parameters
    ----------
    state, action
        Codes, in the order of the log, shape (n,).
    reward, propensity
        Shape (n,).

    Notes
    -----
    The visits of a pair fall into stretches of one propensity. Over a stretch the pair's mean moves
    by some amount; its product with the change of the log propensity after the stretch has mean
    zero unless that change followed the rewards, whatever else moves the policy: a schedule, or
    what a state leaves out. Both are taken from their means in the pair, so that rewards that
    drift beside a schedule do not deceive it. The same is done with their signs, since a few large
    early changes may hide the others; the score is the larger.
    """
    pair = combined(state, action)[1]
    n_pairs = int(pair.max()) + 1
    order = np.argsort(pair, kind="stable")
    code, paid, chance = pair[order], reward[order], propensity[order]
    first = np.r_[True, np.diff(code) != 0]
    start = np.flatnonzero(first)
    visit = np.arange(len(code)) - start[code]
    total = np.cumsum(paid)
    before = total - paid - (total - paid)[start][code]
    # How far each reward moves the mean of its pair.
    moved = np.where(visit > 0, paid - before / np.maximum(visit, 1), 0.0) / (visit + 1.0)

    # Whether each action was taken as often as its propensities say, over its state's rows.
    of_row = distinct(state)[1]
    in_state, of_pair = np.bincount(of_row), of_row[order][start]
    rows = in_state[of_pair].astype(np.float64)
    promised = np.bincount(code, 1.0 / chance, n_pairs)
    least = np.minimum.reduceat(chance, start)
    most = np.maximum.reduceat(chance, start)
    lowest = np.full(len(in_state), np.inf)
    np.minimum.at(lowest, of_pair, least)
    # No row adds more variance than one of the state's least propensity.
    error = np.sqrt(rows * (1.0 / lowest[of_pair] - 1.0))
    sound = bool(np.all(np.abs(promised - rows) <= _WRONG * error + _EQUAL * rows))
    fixed = sound and bool(np.all(most <= least * (1.0 + _EQUAL)))
    fewest = rows * lowest[of_pair]

    log_chance = np.log(chance)
    opens = first | (np.abs(np.diff(log_chance, prepend=log_chance[0])) > _EQUAL)
    at = np.flatnonzero(opens)
    within, sums = code[at], np.add.reduceat(moved, at)
    change = np.diff(log_chance[at], append=0.0)
    change[np.diff(within, append=-1) != 0] = np.nan
    known = np.isfinite(change)
    within, sums, change = within[known], sums[known], change[known]
    signs = _together(np.sign(change), np.sign(sums), within, n_pairs)
    score = max(_together(change, sums, within, n_pairs), signs)
    return Chances(sound, fixed, score, fewest)


def _together(
    change: Float[np.ndarray, " c"],
    moved: Float[np.ndarray, " c"],
    pair: Int[np.ndarray, " c"],
    n_pairs: int,
) -> float:
    """Standard errors by which two numbers go together within pairs."""
    count = np.maximum(np.bincount(pair, minlength=n_pairs), 1)
    change = change - (np.bincount(pair, change, n_pairs) / count)[pair]
    product = change * (moved - (np.bincount(pair, moved, n_pairs) / count)[pair])
    spread = float(np.sqrt((product**2).sum()))
    return float(product.sum()) / spread if spread > 0.0 else 0.0


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
        variance = off**2 @ share
        # Where all rewards of a state are one number, only rounding tells actions apart.
        told = variance > (_ROUNDING * np.abs(reward[rows]).max()) ** 2
        off, variance = off * told[:, None], variance * told
        score[rows] = off[t, code]
        if size > 2 * _FIRST:
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
