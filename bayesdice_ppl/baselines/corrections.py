"""The two parts of a doubly robust estimate: a model's errors, and the weights that correct them.

The model is the log's own Bellman equation, solved on one half of the episodes and held against
the other, so that no episode is judged by a model that has seen it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.baselines.behavior import check_every_step
from bayesdice_ppl.baselines.bellman import Rows, evaluate
from bayesdice_ppl.baselines.interface import Asked
from bayesdice_ppl.baselines.weights import (
    EpisodeRows,
    lone_rows,
    normalize_steps,
    plain_weights,
    step_discount,
)
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs import Logs, usable_rows


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
    asked: Asked,
    *,
    weighted: bool,
    name: str,
) -> Float[np.ndarray, " m"]:
    """Per-trajectory doubly robust estimates, in reward per step.

    Parameters
    ----------
    fitted
        The model, seen from each episode.
    log_weight
        Log of the product of ratios up to each row, shape (n,).
    rows
        The transitions.
    asked
        Discount, and what follows a termination.
    weighted
        Whether weights are normalized at each step.
    name
        Of the method, for errors.

    Raises
    ------
    LogsError
        Weights overflow.
    """
    gamma = asked.gamma
    steps = normalize_steps(log_weight, rows)
    weight = rows.n_episodes * steps.weight if weighted else plain_weights(log_weight, rows, name)
    correction = rows.by_episode(rows.discount(gamma) * weight * fitted.error)
    discount = step_discount(len(steps.survival), gamma)
    if gamma == 1.0:
        length = float(discount @ steps.survival)
        return fitted.base + correction / (length if length > 0.0 else 1.0)
    scale = 1.0
    if asked.restart and rows.terminated.any() and len(discount) > 0:
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

    Parameters
    ----------
    bellman
        Rows of the Bellman equation, on labels.
    rows
        The same transitions by episode.
    starts
        State in which each episode starts, shape (m,).
    ridge
        Of the model.
    cross_fit
        False: one model of all episodes, for all.

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
                "cross_fit: two halves of the episodes are fitted apart, and one of them has no "
                "usable transition; use cross_fit=False."
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

    Parameters
    ----------
    logs
        Logged transitions, states labels.
    gamma
        Discount; at 0 every row is an episode of its own.

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
            "which other episodes terminated or went on; doubly robust estimates need it: add a "
            "column next_state."
        )
    rows = EpisodeRows(episode, step, logs.reward[used], logs.terminated[used], logs.n_episodes)
    return rows, used, logs.initial_state
