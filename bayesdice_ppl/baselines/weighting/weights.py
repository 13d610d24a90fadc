"""Importance weights of every step, and the same normalized step by step.

Products of many ratios are kept as logarithms, as over a hundred steps they may overflow or vanish.
In the end only their sizes relative to each other matter.
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
    """Log of the product of ratios from an episode's first step to each row, shape (n,)."""
    total = log_ratio.copy()
    order = np.argsort(step, kind="stable")
    bounds = np.r_[0, np.cumsum(np.bincount(step))]
    # Step by step, as one cumulative sum would have to subtract minus infinity.
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
    """Normalize importance weights, the exponentials of ``log_weight``, over episodes at each step.

    Notes
    -----
    w_t^e = rho_t^e / sum_e' rho_t^e', the consistent weighted per-decision estimator of Thomas
    (2015) and of Thomas and Brunskill (2016). An episode that terminated keeps its last weight in
    the later sums, where it stands for the share of the candidate's episodes that have ended. One
    that was cut says nothing of the steps after, and is left out of them. Where episodes are cut at
    different lengths, those that terminated count as if they had been cut as often as the others.
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
    """Log of the sum of the weights, to some power, of the episodes at each step, shapes (T,).

    The first sum is over the episodes that go on; the second also over those that terminated
    before. With power 1 the second is what `normalize_steps` divides by.
    """
    horizon, ended = rows.horizon, rows.terminated
    count = rows.by_step(np.ones(len(ended)))
    onward = count - rows.by_step(ended.astype(np.float64))
    with np.errstate(divide="ignore"):
        # Share of the episodes not cut before each step, among those that did not terminate.
        uncut = power * np.log(np.cumprod(np.r_[1.0, count[1:] / np.maximum(onward[:-1], 1.0)]))
    alive = _log_sum(power * log_weight, rows.step, horizon)
    entering = _log_sum(power * log_weight[ended], rows.step[ended] + 1, horizon + 1)[:horizon]
    before = np.r_[0.0, uncut[:-1]]
    done = uncut + np.logaddexp.accumulate(entering - before)
    return alive, np.logaddexp(alive, done)


def _log_sum(
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
        f"{name}: every logged episode has an action that the candidate never takes, so no "
        "importance weight is left. Use a method that does not weight whole episodes, or a longer "
        "log."
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
            f"{name}: the product of ratios over an episode of up to {rows.horizon:,} steps "
            "overflows. Use normalized weights, or marginalized importance sampling."
        )
    return np.exp(log_weight)


def effective_episodes(
    log_weight: Float[np.ndarray, " n"], rows: EpisodeRows, gamma: float
) -> float:
    """How many episodes an importance-weighted estimate rests on: from 1 to m; 0 without weight.

    Notes
    -----
    The effective sample size of weighted numbers, (sum w)^2 / sum w^2 (Kish, "Survey sampling",
    1965), over the episodes, which are independent. Weights may change from step to step, and so
    does this number n_t. An episode that terminated keeps its last weight, times the share of the
    others that were not cut, as in `normalize_steps`. The result is the harmonic mean over steps::

        1 / n = sum_t p_t / n_t,      p_t = c_t survival_t / sum_u c_u survival_u

    with c_t = (1 - gamma) gamma^t, 1 at gamma = 1, and the share of the weight that has not
    terminated: the variance of step t goes as 1 / n_t, and p_t is the step's share in the estimate.
    Where whole episodes are weighted, and have one length or terminate, all n_t are equal to the
    usual number of these weights.

    Neither the last n_t nor the least would do: in nearly every long log a single episode has all
    the weight at the end, where gamma^t is next to nothing. Over 200 logs of FrozenLake (50
    episodes of 100 steps, gamma = 0.95, the candidate farthest from the log) weighted per-step
    estimates had the variance of 9.9 episodes of the candidate itself; this mean was 10.1, the
    least n_t 1.3.
    """
    steps = normalize_steps(log_weight, rows)
    known = len(steps.survival)
    counts = step_discount(known, gamma) * steps.survival
    if not counts.any():
        return 0.0
    (_, total), (_, squared) = (log_totals(log_weight, rows, power=power) for power in (1, 2))
    inverse = np.exp(squared[:known] - 2.0 * total[:known])
    return float(counts.sum() / (counts @ inverse))
