"""What the logs themselves earned: a value that every belief can be compared with.

The logging policy's own value needs no ratio, only returns. It is *not* the mean logged reward,
which is another quantity: it weights late steps like early ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.logs import Logs


class LoggedValue(NamedTuple):
    """The logging policy's value from its own returns.

    Attributes
    ----------
    value, standard_error
        In reward per step.
    tail
        Discounted weight beyond the end of truncated episodes, relative to the weight that was
        logged: the value could move by about this share of the reward's range.
    """

    value: float
    standard_error: float
    tail: float


class ValueParts(NamedTuple):
    """What each row adds to the logging policy's value, a ratio of two sums.

    Attributes
    ----------
    paid, counted
        Discounted reward of each row, and the discounted weight that it stands for, shape (n,).
    tail
        As in `LoggedValue`.
    """

    paid: Float[np.ndarray, " n"]
    counted: Float[np.ndarray, " n"]
    tail: float


def value_parts(logs: Logs, gamma: float, *, restart: bool = True) -> ValueParts:
    """What each row adds to the logging policy's value.

    Parameters
    ----------
    logs, gamma, restart
        As for `logged_value`.
    """
    m = logs.n_episodes
    weight = gamma ** logs.step.astype(np.float64)
    if gamma == 1.0:
        return ValueParts(logs.reward, np.ones(logs.n_transitions), 0.0)
    length = np.bincount(logs.episode, minlength=m).astype(np.float64)
    ended = np.bincount(logs.episode, logs.terminated, minlength=m) > 0
    paid, counted = (1.0 - gamma) * weight * logs.reward, (1.0 - gamma) * weight
    if not restart:
        # What was absorbed counts from then on, at a reward of 0.
        counted = counted + gamma * weight * logs.terminated
    unseen = float(np.mean(gamma**length * ~ended))
    return ValueParts(paid, counted, unseen / (float(counted.sum()) / m))


def logged_value(
    logs: Logs,
    gamma: float,
    *,
    restart: bool = True,
    groups: Sequence[Int[np.ndarray, " n"]] = (),
) -> LoggedValue:
    """Estimate the logging policy's normalized value, (1 - gamma) E[sum gamma^t r_t].

    Parameters
    ----------
    logs
        The logged transitions.
    gamma
        Discount in [0, 1]; at 1 the average reward per step.
    restart
        Whether a termination is followed by a fresh start, or by reward 0 for ever.
    groups
        Ways to group the rows, each with the group of every row, if these move together.

    Returns
    -------
    LoggedValue
        With its standard error and tail.

    Notes
    -----
    A ratio of means over episodes: discounted return over the discounted weight that it stands
    for, 1 - gamma^T for an episode of T steps that goes on (after a restart, or unseen after a
    truncation) and 1 for one that was absorbed. The standard error is the delta method's; with
    `groups` it is the largest of those by episode and by group.
    """
    paid, counted, tail = value_parts(logs, gamma, restart=restart)
    value = float(paid.sum() / counted.sum())
    error = (paid - value * counted) / counted.sum()
    variance = max([_variance(error, group) for group in (logs.episode, *groups)])
    return LoggedValue(value, float(np.sqrt(variance)), tail)


def _variance(parts: Float[np.ndarray, " n"], group: Int[np.ndarray, " n"]) -> float:
    """Variance of a sum whose parts are independent between groups; NaN for one group."""
    sums = np.bincount(np.unique(group, return_inverse=True)[1], parts)
    size = len(sums)
    return float(sums @ sums * size / (size - 1)) if size > 1 else float("nan")
