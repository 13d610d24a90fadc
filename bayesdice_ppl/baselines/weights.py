"""Importance weights of every step, and the same normalized step by step.

Products of many ratios are kept as logarithms: over a hundred steps they may lie anywhere between
what overflows and what vanishes, and only their sizes relative to each other matter in the end.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs import Logs

LARGEST_LOG_WEIGHT = 300.0
"""Weights past exp(300) cannot be squared and summed in double precision."""


class EpisodeRows(NamedTuple):
    """Transitions as importance sampling sees them, n of them in m episodes.

    Attributes
    ----------
    episode, step
        Of each transition, shape (n,): grouped by episode, steps 0, 1, ... without a gap.
    reward, terminated
        Of each transition, shape (n,).
    n_episodes
        m; an episode may have no rows.
    """

    episode: Int[np.ndarray, " n"]
    step: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    terminated: Bool[np.ndarray, " n"]
    n_episodes: int

    @property
    def horizon(self) -> int:
        """Steps of the longest episode."""
        return int(self.step.max()) + 1

    def by_episode(self, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
        """Sum of the values of each episode's rows, shape (m,)."""
        return np.bincount(self.episode, values, minlength=self.n_episodes)

    def by_step(self, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " T"]:
        """Sum of the values of each step's rows, shape (T,)."""
        return np.bincount(self.step, values, minlength=self.horizon)

    def discount(self, gamma: float) -> Float[np.ndarray, " n"]:
        """What a reward in each row weighs, (1 - gamma) gamma^t; one at gamma = 1; shape (n,)."""
        return step_discount(self.horizon, gamma)[self.step]


def step_discount(horizon: int, gamma: float) -> Float[np.ndarray, " T"]:
    """Weight of each step, (1 - gamma) gamma^t, or one at gamma = 1; shape (T,)."""
    if gamma == 1.0:
        return np.ones(horizon)
    return (1.0 - gamma) * gamma ** np.arange(horizon, dtype=np.float64)


def all_rows(logs: Logs, gamma: float) -> EpisodeRows:
    """Every transition of a log; at gamma = 0 each one an episode of its own."""
    if gamma == 0.0:
        return lone_rows(logs.reward)
    return EpisodeRows(logs.episode, logs.step, logs.reward, logs.terminated, logs.n_episodes)


def lone_rows(reward: Float[np.ndarray, " n"]) -> EpisodeRows:
    """Rows that stand alone, as in a bandit, where nothing follows and so nothing ends."""
    n = len(reward)
    return EpisodeRows(
        np.arange(n), np.zeros(n, dtype=np.int64), reward, np.zeros(n, dtype=bool), n
    )


def cumulative_log_weight(
    log_ratio: Float[np.ndarray, " n"], step: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Log of the product of ratios from an episode's first step to each row, shape (n,).

    Parameters
    ----------
    log_ratio
        Log of pi(a|s) / b(a|s), shape (n,), rows grouped by episode.
    step
        Step of each row, without gaps, shape (n,).
    """
    total = log_ratio.copy()
    order = np.argsort(step, kind="stable")
    bounds = np.r_[0, np.cumsum(np.bincount(step))]
    # Not one cumulative sum with each episode's start subtracted: minus infinity has no difference.
    for begin, end in pairwise(bounds[1:]):
        rows = order[begin:end]
        total[rows] += total[rows - 1]
    return total


def final_log_weight(
    log_weight: Float[np.ndarray, " n"], rows: EpisodeRows
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Log weight of each whole episode and its number of steps; zeros where it has no rows."""
    final, length = np.zeros(rows.n_episodes), np.zeros(rows.n_episodes)
    # Later rows of an episode overwrite earlier ones.
    final[rows.episode] = log_weight
    length[rows.episode] = rows.step + 1.0
    return final, length


class StepWeights(NamedTuple):
    """Importance weights that sum to one over the episodes at every step.

    Attributes
    ----------
    weight
        Of each transition, shape (n,): its share of the weight at its step. At each step they sum
        to `survival`, what is missing being the share of the episodes that terminated before.
    survival
        Estimated probability that the candidate's episode still goes on at each step, shape (T,);
        one everywhere if nothing terminates. T is the number of steps at which any episode has
        weight left: past it the log says nothing of the candidate.
    outlasts
        The same after the last of these steps.
    """

    weight: Float[np.ndarray, " n"]
    survival: Float[np.ndarray, " T"]
    outlasts: float


def normalize_steps(log_weight: Float[np.ndarray, " n"], rows: EpisodeRows) -> StepWeights:
    """Normalize importance weights over the episodes, step by step.

    Parameters
    ----------
    log_weight
        Log of the product of ratios up to each row, shape (n,).
    rows
        The transitions.

    Notes
    -----
    w_t^e = rho_t^e / sum_e' rho_t^e', the consistent weighted per-decision estimator of Thomas
    (2015) and of Thomas and Brunskill (2016). An episode that
    terminated keeps its last weight in the later sums, where it stands for the share of the
    candidate's episodes that have ended; one that was cut, which says nothing of the steps after,
    is left out of them. Where episodes are cut at different lengths, those that terminated count
    as if they had been cut as often as the others.
    """
    ended = rows.terminated
    alive, total = log_totals(log_weight, rows)
    known = np.isfinite(total)
    steps = rows.horizon if known.all() else int(np.argmin(known))
    within = rows.step < steps
    weight = np.zeros(len(log_weight))
    weight[within] = np.exp(log_weight[within] - total[rows.step[within]])
    survival = np.exp(alive[:steps] - total[:steps])
    last = weight[(rows.step == steps - 1) & ~ended]
    return StepWeights(weight, survival, float(last.sum()))


def log_totals(
    log_weight: Float[np.ndarray, " n"], rows: EpisodeRows, *, power: int = 1
) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"]]:
    """Sum the weights of the episodes to some power, step by step.

    Parameters
    ----------
    log_weight
        Log of the product of ratios up to each row, shape (n,).
    rows
        The transitions.
    power
        1 for what `normalize_steps` divides by, 2 for the sum of its squares.

    Returns
    -------
    (array, array)
        Logs of the sums over the episodes that go on at each step, and over these and those that
        terminated before, shapes (T,).
    """
    horizon = rows.horizon
    ended = rows.terminated
    count = rows.by_step(np.ones(len(ended)))
    onward = count - rows.by_step(ended.astype(np.float64))
    with np.errstate(divide="ignore"):
        # Share of the episodes not cut before each step, among those that did not terminate.
        uncut = power * np.log(np.cumprod(np.r_[1.0, count[1:] / np.maximum(onward[:-1], 1.0)]))
    alive = log_sum(power * log_weight, rows.step, horizon)
    entering = log_sum(power * log_weight[ended], rows.step[ended] + 1, horizon + 1)[:horizon]
    before = np.r_[0.0, uncut[:-1]]
    done = uncut + np.logaddexp.accumulate(entering - before)
    return alive, np.logaddexp(alive, done)


def log_sum(
    values: Float[np.ndarray, " k"], group: Int[np.ndarray, " k"], n_groups: int
) -> Float[np.ndarray, " G"]:
    """Log of the sum of exponentials in each group, minus infinity where there is none."""
    largest = np.full(n_groups, -np.inf)
    np.maximum.at(largest, group, values)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    total = np.bincount(group, np.exp(values - shift[group]), minlength=n_groups)
    with np.errstate(divide="ignore"):
        return np.log(total) + shift


def no_weight(name: str) -> LogsError:
    """The error of a log in which no episode could have been the candidate's."""
    return LogsError(
        f"{name}: in every logged episode the candidate would never have taken one of the actions, "
        "so that no importance weight is left to average with. Use a method that does not need "
        "whole episodes of the candidate, or longer logs."
    )


def plain_weights(
    log_weight: Float[np.ndarray, " n"], rows: EpisodeRows, name: str
) -> Float[np.ndarray, " n"]:
    """Importance weights as they are, shape (n,).

    Raises
    ------
    LogsError
        One is so large that its square is no number.
    """
    if log_weight.max() > LARGEST_LOG_WEIGHT:
        raise LogsError(
            f"{name}: the product of ratios over an episode of up to {rows.horizon:,} steps is too "
            "large for a number. Use normalized weights, or marginalized importance sampling."
        )
    return np.exp(log_weight)
