"""What a fit says of state-action pairs that were never logged.

A candidate that takes them has a value that the log cannot know whole. On labels they become
latents (`bayesdice_ppl.inference.add_unseen`), which widen the belief. Here they are handed over,
and a candidate is warned of whose belief rests on them more than on its log.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Bool, Float

from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.inputs import Inputs
from bayesdice_ppl.fitting.support import arrivals
from bayesdice_ppl.inference import Pilot, Problem, Unseen, add_unseen, value_covariance
from bayesdice_ppl.moments import Candidates, TransformedRewards


def unseen_of(inputs: Inputs, problem: Problem, candidates: Candidates) -> Unseen | None:
    """What unlogged pairs do to the values; None where nothing does, or where it is not asked.

    Parameters
    ----------
    inputs
        The input.
    problem, candidates
        Those of every entry: of each statistic, all candidates.
    """
    settings = inputs.settings
    form = settings.form
    if not latent_pairs(inputs):
        return None
    with jax.enable_x64(True):
        covariance = value_covariance(problem, form)
    found = unseen_from(inputs, problem.pilots, candidates, covariance, problem.rewards)
    if found is None or settings.gamma == 1.0:
        return found
    # Rewards are measured from their mean, here and where mass is lost.
    rewards = problem.rewards
    total = inputs.cells.reward_sum if rewards is None else rewards.total
    mean = total.sum(axis=-1) / inputs.cells.n_transitions
    from_zero = found.mass.sum(axis=1) * mean / (1.0 - settings.gamma)
    return found._replace(base=found.base + from_zero * form.moments.centered)


def latent_pairs(inputs: Inputs) -> bool:
    """Whether pairs that were never logged are latents of the values."""
    settings = inputs.settings
    asked = settings.prior.unseen == "pooled" and settings.form.constraint.calibrated
    return inputs.unseen is not None and asked


def unseen_from(
    inputs: Inputs,
    pilots: Pilot,
    candidates: Candidates,
    covariance: Float[np.ndarray, "N N"],
    rewards: TransformedRewards | None = None,
) -> Unseen | None:
    """What unlogged pairs do to values of this covariance; None where nothing does.

    Parameters
    ----------
    inputs
        The input, with unlogged pairs.
    pilots, candidates, rewards
        Of every entry, as for `bayesdice_ppl.inference.add_unseen`.
    covariance
        Of the values without these pairs, shape (N, N).
    """
    pairs = inputs.unseen
    assert pairs is not None
    times = len(candidates.active) // len(inputs.names)
    return add_unseen(
        inputs.cells,
        pilots,
        candidates,
        pairs._replace(probability=np.tile(pairs.probability, (times, 1))),
        np.tile(_arriving(inputs, pilots), (times, 1)),
        covariance,
        rewards,
        gamma=inputs.settings.gamma,
    )


def _arriving(inputs: Inputs, pilots: Pilot) -> Float[np.ndarray, "N S"]:
    """Share of steps at which a candidate comes to a state where no action of its own was logged.

    At gamma = 1 what is lost there never comes back, and no share of steps says what it is worth:
    it is left to the warning of lost mass.
    """
    gamma, dead = inputs.settings.gamma, inputs.dead_state
    if gamma == 1.0 or not dead.any():
        return np.zeros(dead.shape)
    ratio, entering = np.asarray(pilots.ratio), np.asarray(pilots.start_weight)
    n = len(dead)
    return np.maximum(arrivals(inputs.cells, ratio[:n], dead, entering[:n], gamma), 0.0)


def predicted_states(inputs: Inputs) -> Bool[np.ndarray, " N"]:
    """Whether latents stand for every state that a candidate gets to without a logged action.

    They do not at gamma = 1, nor for the logging policy where it is estimated: what it does in a
    state without actions is not known.
    """
    pairs, dead = inputs.unseen, inputs.dead_state
    if pairs is None or inputs.settings.gamma == 1.0:
        return np.zeros(len(dead), dtype=bool)
    known = np.zeros(dead.shape)
    for j, row in enumerate(pairs.probability):
        known[j] = np.bincount(pairs.state, row, minlength=dead.shape[1])
    return np.all(~dead | (known > 0.5), axis=1)


def rests_on_unseen(
    names: tuple[str, ...], unseen: Unseen | None, *, corrected: bool = False
) -> list[SupportWarning]:
    """Warn of a value whose spread comes from pairs that were never logged.

    Parameters
    ----------
    names
        Names of the candidates.
    unseen
        What these pairs add to their values; None where they add nothing.
    corrected
        Whether a bias by an adaptive policy was taken out of the means of logged pairs. The pairs
        are predicted from the means as they are, and have that bias.
    """
    if unseen is None:
        return []
    found: list[SupportWarning] = []
    for name, mass, share in zip(names, unseen.mass.sum(axis=1), unseen.share, strict=True):
        takes = f"takes actions that the log does not have at {mass:.1%} of its steps."
        reason = (
            f"{takes} They make {share:.0%} of the variance of its value, if they differ from "
            "logged ones as logged ones do from each other. Log these actions."
        )
        found += gauges.UNSEEN.judge(name, share, reason)
        if corrected:
            reason = (
                f"{takes} They are predicted from the means of an adaptive log, which are too "
                "low. Log these actions, under a fixed policy."
            )
            found += gauges.UNLOGGED.judge(name, mass, reason)
    return found
