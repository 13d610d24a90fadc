"""Doubly robust estimates: a model's value, corrected by the importance-weighted errors it makes.

The model is the value of the candidate in the log's own Markov chain, solved on one half of the
episodes and held against the other. Where the model is right the correction vanishes, noise and
all; where it is wrong the weights correct it.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.baselines.interface import Estimate, Needs, Query
from bayesdice_ppl.baselines.rows import Rows
from bayesdice_ppl.baselines.settings import only_with
from bayesdice_ppl.baselines.value.bellman import evaluate
from bayesdice_ppl.baselines.weighting.behavior import check_every_step
from bayesdice_ppl.baselines.weighting.intervals import RESAMPLES, PerTrajectory
from bayesdice_ppl.baselines.weighting.weights import (
    EpisodeRows,
    all_rows,
    cumulative_log_weight,
    effective_episodes,
    lone_rows,
    normalize_steps,
    plain_weights,
    step_discount,
)
from bayesdice_ppl.checks import nonnegative
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs import Logs, RewardUnits, usable_rows
from bayesdice_ppl.policies import log_ratio


@final
@dataclass(frozen=True)
class DoublyRobust(PerTrajectory):
    """Doubly robust off-policy evaluation, with an interval from per-trajectory estimates.

    Of each episode V(s_0) + sum_t gamma^t rho_t (r_t + gamma V(s_{t+1}) - Q(s_t, a_t)), rho_t the
    product of pi(a|s) / b(a|s) up to step t and Q a fit on other episodes.

    Parameters
    ----------
    weighted
        True: weights normalized over the episodes at each step, as for weighted per-step
        importance sampling. False: as they are, for which the estimate is unbiased whatever Q is.
    interval
        None, or from the per-trajectory estimates ``"student"``, ``"bernstein"``, ``"hoeffding"``
        or ``"bca"``. Hoeffding and Bernstein use the observed range of these estimates, as none is
        known beforehand for a fitted Q; their guarantee is then not strict.
    cross_fit
        True: episodes with even numbers are corrected by the model of those with odd numbers, and
        the other way round; their order in the log decides which these are, and nothing else.
        False: one model of all, which has seen the errors it is corrected by.
    ridge
        Of the model, as for `lstdq`.
    behavior
        ``"logged"``: the log's propensities. ``"fitted"``: the share of each action in each state.
    resamples
        Of the bootstrap.

    Notes
    -----
    It needs labels, and propensities or ``behavior="fitted"``; at gamma > 0 every step of every
    episode and the successor of all but the last.

    *Model.* The value of the candidate in the log's own chain, by counting; a pair that the log
    does not have is given the value of the mean reward. V is the expectation of Q under the
    candidate, whatever Q is, and V(s_{t+1}) is 0 after an absorbing termination and the mean V of
    the initial states after one with a restart.

    *Tail.* What follows a cut is the model's V(s_T), so the estimate is of the whole discounted
    value, and not of its first steps. Where episodes terminate and start anew, the correction is
    divided by the discounted weight of an episode, since every later episode makes the same
    errors; that weight is estimated from the normalized weights. At gamma = 1 the estimate is the
    model's average reward plus the weighted errors per step.

    *When it fails.* Like importance sampling on long episodes, though less soon; where no weight is
    left only the model counts. `Estimate.effective_episodes` says how many episodes the correction
    rests on: where they are few it adds their noise and no longer corrects the model. Few episodes
    also make two poor models.

    References
    ----------
    Jiang, Li, "Doubly robust off-policy value evaluation for reinforcement learning" (2016);
    Thomas, Brunskill, "Data-efficient off-policy policy evaluation for reinforcement learning"
    (2016), for the weighted one.
    """

    _: KW_ONLY
    weighted: bool = True
    interval: str | None = None
    cross_fit: bool = True
    ridge: float = 1e-6
    behavior: str = "logged"
    resamples: int = only_with(RESAMPLES, interval=("bca",))

    def __post_init__(self) -> None:
        nonnegative("ridge", self.ridge)
        self.check_choices()

    @property
    def name(self) -> str:
        """Name in tables, such as "weighted DR + bca"."""
        return self.name_with("weighted DR" if self.weighted else "DR")

    @property
    def short(self) -> str:
        """Name for `make`, such as "wdr:bca"."""
        return self.short_with("wdr" if self.weighted else "dr")

    @property
    def needs(self) -> Needs:
        """Labels, propensities unless the behavior is fitted, and a key for the bootstrap."""
        return Needs(propensities=not self.fitted, labels=True, rng_key=self.draws)

    def answer(self, query: Query, level: float) -> Estimate:
        """Estimate from episodes of corrected errors."""
        logs, gamma = query.logs, query.gamma
        rows, used, starts = bellman_episodes(logs, gamma)
        # A constant is known without weights; where zero means something there is no such origin.
        units = RewardUnits(query.units.origin)
        rows = rows._replace(reward=units.into(rows.reward))
        ratio = log_ratio(logs, query.policy, self.behavior)
        log_weight = cumulative_log_weight(ratio, all_rows(logs, gamma).step)[used]
        fitted = fit_errors(query.rows(), rows, starts, self.ridge, cross_fit=self.cross_fit)
        estimates = corrected(
            fitted,
            log_weight,
            rows,
            gamma,
            restart=query.restart,
            weighted=self.weighted,
            name=self.name,
        )
        return self.conclude(
            query,
            level,
            estimates,
            width=lambda: float(np.ptp(estimates)),
            effective_episodes=effective_episodes(log_weight, rows, gamma),
        ).back(units)


class FittedErrors(NamedTuple):
    """What a model, fitted on other episodes, says of each episode and where it errs.

    Attributes
    ----------
    base
        Average reward per step by the model, without what `start` adds, shape (m,): what rewards
        are counted from, and at gamma = 1 the whole average.
    start
        V of each episode's initial state, shape (m,); at gamma = 1 not used.
    error
        r + gamma V(s') - Q(s, a) of each transition, rewards counted from `base`, shape (n,).
    """

    base: Float[np.ndarray, " m"]
    start: Float[np.ndarray, " m"]
    error: Float[np.ndarray, " n"]


def corrected(
    fitted: FittedErrors,
    log_weight: Float[np.ndarray, " n"],
    rows: EpisodeRows,
    gamma: float,
    *,
    restart: bool,
    weighted: bool,
    name: str,
) -> Float[np.ndarray, " m"]:
    """Per-trajectory doubly robust estimates, in reward per step.

    ``log_weight`` is the log of the product of ratios up to each row, ``name`` the method's.

    Raises
    ------
    LogsError
        Weights overflow.
    """
    steps = normalize_steps(log_weight, rows)
    weight = rows.n_episodes * steps.weight if weighted else plain_weights(log_weight, rows, name)
    correction = rows.by_episode(rows.discount(gamma) * weight * fitted.error)
    discount = step_discount(len(steps.survival), gamma)
    if gamma == 1.0:
        length = float(discount @ steps.survival)
        return fitted.base + correction / (length if length > 0.0 else 1.0)
    scale = 1.0
    if restart and rows.terminated.any() and len(discount) > 0:
        # What is left after the episode's own discounted weight and its unseen tail returns.
        scale = float(discount @ steps.survival) + gamma ** len(discount) * steps.outlasts
    return fitted.base + (1.0 - gamma) * fitted.start + correction / scale


def fit_errors(
    bellman: Rows,
    rows: EpisodeRows,
    starts: Int[np.ndarray, " m"],
    ridge: float,
    *,
    cross_fit: bool,
) -> FittedErrors:
    """Fit the model on each half of the episodes, and hold it against the other half.

    ``bellman`` and ``rows`` hold the same transitions, and each episode begins in its one of
    ``starts``. Without ``cross_fit`` there is one model of all episodes, for all.

    Raises
    ------
    LogsError
        A half has no transitions.
    """
    m = rows.n_episodes
    half = np.arange(m) % 2 if cross_fit else np.zeros(m, dtype=np.int64)
    codes, place, count = np.unique(starts, return_inverse=True, return_counts=True)
    step = bellman.step._replace(start=codes, start_count=count.astype(np.float64))
    base, start, error = np.zeros(m), np.zeros(m), np.zeros(len(rows.reward))
    for fold in (0, 1) if cross_fit else (0,):
        train = half != fold if cross_fit else np.ones(m, dtype=bool)
        learned = train[rows.episode].astype(np.float64)
        started = np.bincount(place, train, minlength=len(codes))
        if not learned.any():
            raise LogsError(
                "cross_fit: expected usable transitions in both halves of the episodes, found none "
                "in one of them. Use cross_fit=False."
            )
        # A constant that is earned at every step is known without a model; past an absorbing
        # termination it is not earned.
        constant = bool(step.restart) or not rows.terminated.any()
        offset = float(learned @ rows.reward / learned.sum()) if constant else 0.0
        seen = bellman._replace(step=step._replace(reward=rows.reward - offset))
        found = evaluate(seen, ridge, learned / learned.sum(), started / started.sum())
        # A fresh start is worth the mean over all episodes, of which the model saw a half.
        shift = (count / m - started / started.sum()) @ found.start_value
        anew = step.gamma * step.restart * step.ended * shift
        judged = half == fold
        here = judged[rows.episode]
        error[here] = (found.error + anew)[here]
        start[judged] = found.start_value[place.ravel()][judged]
        base[judged] = offset + (found.value if step.average else 0.0)
    return FittedErrors(base, start, error)


def bellman_episodes(
    logs: Logs, gamma: float
) -> tuple[EpisodeRows, Int[np.ndarray, " n"], Int[np.ndarray, " m"]]:
    """Rows that have a successor, their places in the log, and where the episodes start.

    At gamma = 0 every row is an episode of its own.

    Raises
    ------
    LogsError
        Successors are missing elsewhere than at the ends of the episodes.
    """
    if gamma == 0.0:
        return lone_rows(logs.reward), np.arange(logs.n_transitions), logs.state
    check_every_step(logs)
    used = np.flatnonzero(usable_rows(logs, gamma).mask)
    episode, step = logs.episode[used], logs.step[used]
    first = np.r_[True, episode[1:] != episode[:-1]]
    if (step[first] > 0).any() or (np.diff(step)[~first[1:]] > 1).any():
        raise LogsError(
            "a successor state is missing before the last step of an episode, or at a step at "
            "which other episodes terminated or went on. Doubly robust estimates need it: add a "
            "column next_state."
        )
    rows = EpisodeRows(episode, step, logs.reward[used], logs.terminated[used], logs.n_episodes)
    return rows, used, logs.initial_state


doubly_robust = DoublyRobust
