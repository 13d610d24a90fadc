"""Support: how much of a candidate the logs have seen, and when to say that they cannot tell.

A belief only speaks of what was logged. Mass that had to be moved off unlogged actions, mass that
ran into states with nothing to go on, a ratio that rests on a few transitions or on one episode:
each is a number here, with a sentence once it passes its threshold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.moments import Cells

MOVED_WARN, MOVED_ABSTAIN = 0.02, 0.1
"""Share of a candidate's steps at which it takes an unlogged action."""
LOST_WARN, LOST_ABSTAIN = 1e-6, 1e-3
"""Share of a candidate's steps about which the log has nothing."""
ESS_WARN, ESS_ABSTAIN = 50.0, 10.0
"""Effective number of transitions behind a ratio."""
NEGATIVE_WARN, NEGATIVE_ABSTAIN = 0.05, 0.2
"""Share of a ratio's mass that is negative, of which a true ratio has none."""
EPISODE_WARN = 0.5
"""Share of the variance that one episode carries."""


class Support(NamedTuple):
    """What the logs hold of each candidate, every field of shape (N,).

    Attributes
    ----------
    moved_mass
        sum_s d(s) pi(unlogged | s), with d the candidate's (discounted) occupancy: the share of
        its steps at which it takes an action that the log does not have in that state, and whose
        probability was moved to logged ones.
    lost_mass
        Share of its steps that follow after running into a state in which it takes no logged
        action; at gamma = 1 the flow into such states per step.
    effective_sample_size
        (sum zeta)^2 / sum zeta^2, in transitions.
    influential_episode_share
        Share of the sum of squared influences that the most influential episode has.
    negative_mass
        sum max(-zeta, 0) / sum |zeta| over the log, of the pilot's ratio, which is linear whatever
        the link is. A true ratio is never negative: that of features is where they cannot express
        how the candidate's steps differ from the logged ones, and so goes on in a straight line
        past what was logged.
    """

    moved_mass: Float[np.ndarray, " N"]
    lost_mass: Float[np.ndarray, " N"]
    effective_sample_size: Float[np.ndarray, " N"]
    influential_episode_share: Float[np.ndarray, " N"]
    negative_mass: Float[np.ndarray, " N"]


def state_flow(
    cells: Cells,
    ratio: Float[np.ndarray, "N C"],
    kept: Float[np.ndarray, "N S"],
    dead: Bool[np.ndarray, "N S"],
    start_weight: Float[np.ndarray, " N"],
    gamma: float,
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Moved and lost mass of every candidate; see `Support`.

    Parameters
    ----------
    cells
        The log.
    ratio
        The ratio of each cell, shape (N, C).
    kept
        Probability of each candidate on logged actions in each state, shape (N, S).
    dead
        States that each candidate reaches and in which it takes no logged action, shape (N, S).
    start_weight
        Mass that enters by the initial states per step, shape (N,).
    gamma
        Discount.
    """
    share = ratio * cells.count / cells.n_transitions
    moved = np.sum(share * (1.0 - kept[:, cells.pair_state[cells.pair]]), axis=1)
    onward = share * (1.0 - cells.terminated) * dead[:, cells.successor] * gamma
    started = dead[:, cells.initial_state] @ cells.initial_weight
    # An arrival loses all of the discounted trajectory that would have followed, a share of
    # 1 / (1 - gamma) steps.
    horizon = 1.0 if gamma == 1.0 else 1.0 / (1.0 - gamma)
    lost = (onward.sum(axis=1) + start_weight * started) * horizon
    return np.maximum(moved, 0.0), np.clip(lost, 0.0, 1.0)


def episode_share(
    influence: Float[np.ndarray, "N n"],
    starts: Float[np.ndarray, "N m"],
    episode: Int[np.ndarray, " n"],
) -> Float[np.ndarray, " N"]:
    """Share of the squared influence that the most influential episode has.

    Parameters
    ----------
    influence
        Influence of each transition on each value, shape (N, n).
    starts
        Influence of each episode's initial state, shape (N, m), in the same units.
    episode
        Episode of each transition, shape (n,).
    """
    centered = influence - influence.mean(axis=1, keepdims=True)
    n_episodes = starts.shape[1]
    by_episode = np.stack([np.bincount(episode, row, minlength=n_episodes) for row in centered])
    squares = (by_episode + starts) ** 2
    total = squares.sum(axis=1)
    return np.where(total > 0.0, squares.max(axis=1) / np.where(total > 0.0, total, 1.0), 0.0)


def support_warnings(
    names: tuple[str, ...], support: Support, *, extrapolates: bool = False
) -> tuple[SupportWarning, ...]:
    """Sentences for every number that is past its threshold, to be read after the policy's name.

    Parameters
    ----------
    names
        Of the N candidates.
    support
        Their numbers.
    extrapolates
        Whether features stand in for unlogged actions, instead of the logged ones of the state.
    """
    found = []
    for j, name in enumerate(names):
        moved, lost, ess, episode, negative = (float(field[j]) for field in support)
        if moved > MOVED_WARN:
            done = (
                "what they are worth is extrapolated by the features."
                if extrapolates
                else "their probability was moved to logged actions of the same state."
            )
            reason = f"takes actions that the log does not have at {moved:.1%} of its steps; {done}"
            found.append(SupportWarning(name, reason, moved > MOVED_ABSTAIN and not extrapolates))
        if lost > LOST_WARN:
            reason = (
                "reaches states in which the log has none of its actions; "
                f"{lost:.2%} of its steps are unknown."
            )
            found.append(SupportWarning(name, reason, lost > LOST_ABSTAIN))
        if ess < ESS_WARN:
            reason = f"rests on {ess:.1f} effective transitions."
            found.append(SupportWarning(name, reason, ess < ESS_ABSTAIN))
        if episode > EPISODE_WARN:
            reason = f"one episode carries {episode:.0%} of the evidence about it."
            found.append(SupportWarning(name, reason, False))
        if negative > NEGATIVE_WARN:
            reason = (
                f"{negative:.0%} of the mass of its ratio to the log, as the features give it, is "
                "negative, and of a true ratio none is: what it does lies outside of what was "
                "logged, or the features cannot express it, and its value may be off by far more "
                "than the belief says. It takes logs of a policy closer to it, or other features."
            )
            found.append(SupportWarning(name, reason, negative > NEGATIVE_ABSTAIN))
    return tuple(found)
