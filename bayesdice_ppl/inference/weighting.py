"""Adaptively weighted doubly robust values of a bandit, from propensities that follow the past.

Where the logging policy followed its rewards, the probability of an action depends on the errors
before it, and the mean of an arm is biased. A row's doubly robust score is not: given the past its
mean is the value. Weights that make all rows vary alike, chosen from the past alone, make the sum
nearly normal (Hadad, Hirshberg, Zhan, Wager and Athey, 2021; Zhan et al., 2021).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

_FADES = 0.5
"""How fast a probability that was last seen long ago is trusted less, for each visit since."""
_AT_ONCE = 2_000_000
"""Numbers of a state's rows times its actions that are held at once."""


class WeightedValues(NamedTuple):
    """Values of N candidates, and how they vary over repeated logs.

    Attributes
    ----------
    value
        Shape (N,).
    covariance
        Shape (N, N), from the weighted squared differences of the scores from the value.
    effective
        Rows that would vary as much if all had equal shares of the variance, shape (N,).
    """

    value: Float[np.ndarray, " N"]
    covariance: Float[np.ndarray, "N N"]
    effective: Float[np.ndarray, " N"]


def weighted_values(
    pair: Int[np.ndarray, " n"],
    reward: Float[np.ndarray, " n"],
    propensity: Float[np.ndarray, " n"],
    state: Int[np.ndarray, " P"],
    target: Float[np.ndarray, "N P"],
    share: Float[np.ndarray, " P"],
) -> WeightedValues:
    """Adaptively weighted values, state by state.

    Parameters
    ----------
    pair, reward, propensity
        Of each row, in the order of the log.
    state
        The state of each pair.
    target
        Each candidate's probability of a pair's action in its state.
    share
        Share of the pair's state in the candidates' values.

    Notes
    -----
    Within a state, with A_t the action of its t-th row, e_t the logged probability of it and m_t(a)
    the mean of the action's earlier rewards (shrunk toward the state's as by one reward)::

        score_t = pi(A_t) (r_t - m_t(A_t)) / e_t + sum_a pi(a) m_t(a)
        h_t     = (sum_a pi(a)^2 / e~_t(a))^(-1/2)
        value_s = sum_t h_t score_t / sum_t h_t

    h_t is Zhan et al.'s StableVar. A log has the probability of the action that was taken, and
    weights may look at the past alone. So e~_t(a) is the probability when the action was last
    taken, which fades as the visits without it go on: 1 / (1 / e + visits / 2), over its sum.

    A row adds share_s h_t (score_t - value_s) / sum h to a value's error; the covariance is the sum
    of the rows' products.
    """
    n_policies, size = len(target), len(state)
    value = np.zeros(n_policies)
    covariance = np.zeros((n_policies, n_policies))
    squares, fourths = np.zeros(n_policies), np.zeros(n_policies)
    order = np.argsort(state[pair], kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(state[pair][order])) + 1):
        here = np.flatnonzero(state == state[pair[rows[0]]])
        place = np.zeros(size, dtype=np.int64)
        place[here] = np.arange(len(here))
        score, weight = adaptive_scores(
            place[pair[rows]], reward[rows], propensity[rows], target[:, here]
        )
        total = weight.sum(axis=1)
        moves = total > 0.0
        weight = weight / np.where(moves, total, 1.0)[:, None]
        found = (weight * score).sum(axis=1)
        error = share[here[0]] * weight * (score - found[:, None])
        value += share[here[0]] * found
        covariance += error @ error.T
        squares += (error**2).sum(axis=1)
        fourths += (error**4).sum(axis=1)
    effective = squares**2 / np.where(fourths > 0.0, fourths, 1.0)
    return WeightedValues(value, covariance, np.where(fourths > 0.0, effective, np.inf))


def adaptive_scores(
    action: Int[np.ndarray, " n"],
    reward: Float[np.ndarray, " n"],
    propensity: Float[np.ndarray, " n"],
    target: Float[np.ndarray, "N K"],
) -> tuple[Float[np.ndarray, "N n"], Float[np.ndarray, "N n"]]:
    """Scores and weights of the rows of one state, see `weighted_values`.

    Parameters
    ----------
    action
        The action of each row, 0 .. K-1.
    reward, propensity
        Of each row, in the order of the log.
    target
        Each candidate's probability of each action.

    Returns
    -------
    (array, array)
        Shape (N, n). Given the rows before it, a score has the value as its mean, and a weight is
        known. They are made in blocks of rows that carry on the past.
    """
    n, (n_policies, n_actions) = len(reward), target.shape
    score, weight = np.empty((n_policies, n)), np.empty((n_policies, n))
    count, paid = np.zeros(n_actions), np.zeros(n_actions)
    seen, seen_at = np.full(n_actions, 1.0 / n_actions), np.full(n_actions, -1)
    earlier = np.cumsum(reward) - reward
    step = max(_AT_ONCE // n_actions, 1)
    for start in range(0, n, step):
        t = np.arange(start, min(start + step, n))
        own, row = action[t], np.arange(len(t))
        done = np.zeros((len(t), n_actions))
        done[row, own] = 1.0
        rewards = done * reward[t, None]
        before = count + np.cumsum(done, axis=0) - done
        sums = paid + np.cumsum(rewards, axis=0) - rewards
        overall = earlier[t] / np.maximum(t, 1)
        model = (sums + overall[:, None]) / (before + 1.0)
        # The row at which each action was last taken, before this one.
        last = np.maximum.accumulate(np.where(done > 0.0, t[:, None], -1), axis=0)
        last = np.vstack([seen_at, np.maximum(last, seen_at)])
        known = np.where(last[:-1] >= start, propensity[np.maximum(last[:-1], 0)], seen)
        since = np.minimum(t[:, None] - last[:-1] - 1, t[:, None])
        guess = 1.0 / (1.0 / known + _FADES * since)
        guess /= guess.sum(axis=1, keepdims=True)
        off = (reward[t] - model[row, own]) / propensity[t]
        score[:, t] = target[:, own] * off + target @ model.T
        varies = target**2 @ (1.0 / guess).T
        # A candidate that takes no logged action in the state has no value there.
        weight[:, t] = np.where(varies > 0.0, 1.0 / np.sqrt(np.where(varies > 0.0, varies, 1.0)), 0)
        count, paid = count + done.sum(axis=0), paid + rewards.sum(axis=0)
        seen_at = last[-1]
        seen = np.where(seen_at >= start, propensity[np.maximum(seen_at, 0)], seen)
    return score, weight
