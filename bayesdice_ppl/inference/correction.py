"""Values of a bandit's log whose policy followed its own rewards, with the bias taken out.

A correction moves the value row of the residual, and says how the values vary over repeated logs.
It takes the place of what the log's plain means say within pairs; the spread of the states in which
episodes start stays as it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from bayesdice_ppl.constraint import small_sample_covariance
from bayesdice_ppl.inference.pilot import Pilot
from bayesdice_ppl.moments import Cells


class Correction(NamedTuple):
    """What the values of N candidates are, instead of sums of the pairs' plain means.

    Attributes
    ----------
    name
        What was done, in a word: ``"weighted"`` or ``"pooled"``.
    reasons
        The same in words for the warning of each candidate.
    shift
        How far each value moves, shape (N,), in reward per step.
    covariance
        Covariance of the values, given the states, shape (N, N).
    degrees_of_freedom
        Of each value's Student t, shape (N,).
    abstains
        Whether a candidate's value depends so much on the correction that nothing should be
        recommended, shape (N,).
    """

    name: str
    reasons: tuple[str, ...]
    shift: Float[np.ndarray, " N"]
    covariance: Float[np.ndarray, "N N"]
    degrees_of_freedom: Float[np.ndarray, " N"]
    abstains: Bool[np.ndarray, " N"]


def within_pairs(cells: Cells, pilots: Pilot, *, small_sample: bool) -> Float[Any, "N N"]:
    """Covariance of the values that comes from the spread of rewards within pairs.

    Parameters
    ----------
    cells, pilots
        The log at gamma = 0 on one-hot features, and the first estimates of all N candidates.
    small_sample
        Whether to add what few visits hide, as the pilots do.
    """
    n, n_pairs = float(cells.n_transitions), len(cells.pair_state)
    pair = np.asarray(cells.pair)

    def sums(x: Float[Any, " C"]) -> Float[np.ndarray, " P"]:
        return np.bincount(pair, np.asarray(x), n_pairs)

    visits, total = sums(cells.count), sums(cells.reward_sum)
    scatter = sums(cells.reward_square_sum) - total**2 / np.where(visits > 0.0, visits, 1.0)
    ratio = np.asarray(pilots.by_pair) / n
    seen = (ratio * np.maximum(scatter, 0.0)) @ ratio.T
    if not small_sample:
        return seen
    return seen + np.asarray(small_sample_covariance(cells, pilots.by_pair, pilots.error))
