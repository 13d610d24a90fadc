"""Support: how much of a candidate's behavior was logged, and when it is too little.

A belief rests on what was logged. Each figure here says how far a candidate departs from it: steps
with actions never logged, steps after states with no logged action, few effective transitions, one
episode that decides. A figure past its threshold becomes a warning.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.arrays import sums_by
from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.features import sampling_variance
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.inputs import Inputs, Prepared
from bayesdice_ppl.inference import Pilot
from bayesdice_ppl.moments import Cells


class Support(NamedTuple):
    """How well the logs cover each candidate, every field of shape (N,).

    Attributes
    ----------
    moved_mass
        Share of its steps with an action that was never logged in that state. With d the
        candidate's (discounted) occupancy it is sum_s d(s) pi(unlogged | s). The probability of
        these actions was moved to logged ones.
    lost_mass
        Share of its steps that follow a state in which it takes no logged action. At gamma = 1 it
        is the flow into such states per step.
    effective_sample_size
        (sum zeta)^2 / sum zeta^2, in transitions.
    influential_episode_share
        Share of the most influential episode in the sum of squared influences.
    negative_mass
        ``sum max(-zeta, 0) / sum |zeta|`` over the log. zeta is the first estimate, which is linear
        but for ``link="exp"``, where it is never negative. A true ratio is never negative. A linear
        one turns negative when the features cannot express how the candidate differs from the
        logging policy, and extrapolate in a straight line.
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
    swallowed = arrivals(cells, ratio, dead, start_weight, gamma).sum(axis=1)
    # An arrival loses all of the discounted trajectory that would have followed: 1 / (1 - gamma)
    # steps.
    horizon = 1.0 if gamma == 1.0 else 1.0 / (1.0 - gamma)
    return np.maximum(moved, 0.0), np.clip(swallowed * horizon, 0.0, 1.0)


def arrivals(
    cells: Cells,
    ratio: Float[np.ndarray, "N C"],
    dead: Bool[np.ndarray, "N S"],
    start_weight: Float[np.ndarray, " N"],
    gamma: float,
) -> Float[np.ndarray, "N S"]:
    """Share of each candidate's steps at which it comes to each of its dead states, shape (N, S).

    Parameters
    ----------
    cells, ratio, dead, start_weight, gamma
        As for `state_flow`.
    """
    n_states = dead.shape[1]
    onward = ratio * (gamma * (1.0 - cells.terminated) * cells.count / cells.n_transitions)
    found: np.ndarray = sums_by(onward.T, cells.successor, n_states).T
    entering = np.bincount(cells.initial_state, cells.initial_weight, minlength=n_states)
    return np.where(dead, found + start_weight[:, None] * entering, 0.0)


def episode_share(
    influence: Float[np.ndarray, " n"],
    starts: Float[np.ndarray, " m"],
    episode: Int[np.ndarray, " n"],
) -> float:
    """Share of the most influential episode in the squared influence on one value.

    Parameters
    ----------
    influence
        Influence of each transition on the value, shape (n,).
    starts
        Influence of each episode's initial state, shape (m,), in the same units.
    episode
        Episode of each transition, shape (n,).
    """
    lengths = np.bincount(episode, minlength=len(starts))
    by_episode = np.bincount(episode, influence, minlength=len(starts))
    squares = (by_episode - influence.mean() * lengths + starts) ** 2
    total = float(squares.sum())
    return float(squares.max()) / total if total > 0.0 else 0.0


def support_warnings(
    names: tuple[str, ...],
    support: Support,
    *,
    extrapolates: bool = False,
    latent: bool = False,
    n_episodes: int | None = None,
    predicted: Bool[np.ndarray, " N"] | None = None,
) -> tuple[SupportWarning, ...]:
    """Warn of every figure that is past its threshold.

    Parameters
    ----------
    names
        Names of the N candidates.
    support
        Their figures.
    extrapolates
        Whether features extrapolate to unlogged actions. If not, their probability was moved to
        the logged actions of the state.
    latent
        Whether unlogged pairs are latents of the values, which then say themselves how uncertain
        they are.
    n_episodes
        Episodes of several steps in the log, or None where it is not known. Of one alone every
        candidate has all its evidence.
    predicted
        For which candidates latents stand for states without a logged action too, shape (N,).

    Returns
    -------
    tuple of SupportWarning
        Candidate by candidate.
    """
    found: list[SupportWarning] = []
    for j, name in enumerate(names):
        moved, lost, ess, episode, negative = (float(field[j]) for field in support)
        if not latent:
            done = (
                "The features extrapolate what these are worth."
                if extrapolates
                else "Their probability was moved to logged actions of the same state."
            )
            gauge = gauges.UNLOGGED
            if extrapolates:
                gauge = gauge._replace(abstains=math.inf)
            reason = f"takes actions that the log does not have at {moved:.1%} of its steps. {done}"
            found += gauge.judge(name, moved, reason)
        known = predicted is not None and bool(predicted[j])
        reason = (
            "reaches states in which none of its actions were logged. The log says nothing of "
            f"{lost:.2%} of its steps."
        )
        found += (gauges.PREDICTED if known else gauges.LOST).judge(name, lost, reason)
        reason = (
            f"rests on {ess:.1f} effective transitions; more than {gauges.EFFECTIVE.warns:g} are "
            "wanted. Log more of what it does."
        )
        found += gauges.EFFECTIVE.judge(name, ess, reason)
        reason = f"rests on one episode for {episode:.0%} of its evidence. Log more episodes."
        if n_episodes is None or n_episodes > 1:
            found += gauges.EPISODE.judge(name, episode, reason)
        reason = (
            f"its estimated ratio is negative on {negative:.0%} of the mass; a true ratio "
            "never is. It acts outside of what was logged, or the features cannot express how "
            "it acts. Its value may be off by far more than the belief says. Use other "
            "features, or logs of a policy closer to it."
        )
        found += gauges.NEGATIVE.judge(name, negative, reason)
    return tuple(found)


def episode_shares(inputs: Inputs, pilots: Pilot) -> Float[np.ndarray, " N"]:
    """Share of the most influential episode in each value, from rows that are held."""
    cells, logs = inputs.cells, inputs.logs
    ratio, error = np.asarray(pilots.ratio), np.asarray(pilots.error)
    n, m = float(cells.n_transitions), logs.n_episodes
    entering = np.asarray(pilots.start_weight)
    rows, reward, kept = inputs.cell_of_row, inputs.reward, logs.episode[inputs.rows.mask]
    found = np.zeros(len(ratio))
    for j, value in enumerate(np.asarray(pilots.start_value)):
        # One candidate's rows at a time: those of all would fill the memory.
        initial = np.zeros(len(logs.state_labels))
        initial[cells.initial_state] = value
        starts = initial[logs.initial_state]
        entry = (n / m) * entering[j] * (starts - starts.mean())
        influence = ratio[j][rows] * (error[j][rows] + reward)
        found[j] = episode_share(influence, entry, kept)
    return found


def measure_support(prepared: Prepared, episode: Float[np.ndarray, " N"] | None = None) -> Support:
    """Compare every candidate with what was logged.

    Parameters
    ----------
    prepared
        The problem, and the input that led to it.
    episode
        Share of the most influential episode in each value, or None: from rows that are held.
    """
    inputs, pilots = prepared.inputs, prepared.problem.pilots
    cells, ratio = inputs.cells, np.asarray(pilots.ratio)
    entering = np.asarray(pilots.start_weight)
    moved, lost = state_flow(
        cells,
        ratio,
        inputs.candidates.kept,
        inputs.dead_state,
        entering,
        inputs.settings.gamma,
    )
    total, square = ratio @ cells.count, ratio**2 @ cells.count
    ess = np.where(square > 0.0, total**2 / np.where(square > 0.0, square, 1.0), 0.0)
    size = np.abs(ratio) @ cells.count
    if episode is None:
        episode = episode_shares(inputs, pilots)
    below = np.maximum(-ratio, 0.0) @ cells.count
    negative = np.where(size > 0.0, below / np.where(size > 0.0, size, 1.0), 0.0)
    return Support(moved, lost, ess, episode, negative)


def action_sampling_error(prepared: Prepared) -> Float[np.ndarray, " N"]:
    """Standard error of each value from drawing actions instead of taking their exact mean.

    Returns
    -------
    array
        Shape (N,), in reward per step; 0 where actions are labels, or their mean is exact.
    """
    inputs, pilots = prepared.inputs, prepared.problem.pilots
    cells = inputs.cells
    at_pair = cells.pair_features
    if inputs.sampling is None or at_pair is None:
        return np.zeros(len(inputs.names))
    feature_map, states, sampled = inputs.sampling
    slope = np.asarray(pilots.slope)[:, : at_pair.shape[1]]
    variance = sampling_variance(feature_map, states, sampled, slope)
    onward = (1.0 - cells.terminated) * inputs.settings.gamma * cells.count / cells.n_transitions
    # All transitions into a state, and all episodes that start there, share its draws.
    inflow = np.zeros_like(variance)
    for j, ratio in enumerate(np.asarray(pilots.ratio)):
        inflow[j] = np.bincount(cells.successor, ratio * onward, minlength=len(states))
        start = np.bincount(cells.initial_state, cells.initial_weight, minlength=len(states))
        inflow[j] += np.asarray(pilots.start_weight)[j] * start
    return np.sqrt(np.sum(inflow**2 * variance, axis=1))
