"""One joint belief from many marginal ones: errors on the same logs move together.

The correlation of the candidates' influence functions is the correlation of their values over
repeated logs. Whole draws are reordered by the ranks of a Gaussian with that correlation (Iman
and Conover, 1982). Every marginal stays as it was, and a draw's value, weights and loss stay
together. Candidates also share the errors that few visits hide: the small-sample rule has
cross-products too.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from bayesdice_ppl.arrays import library_of, sums_by, symmetric_root
from bayesdice_ppl.constraint import small_sample_covariance
from bayesdice_ppl.inference.pilot import Pilot
from bayesdice_ppl.keys import normal_numbers
from bayesdice_ppl.moments import Cells, TransformedRewards


def influence_covariance(
    cells: Cells,
    pilots: Pilot,
    rewards: TransformedRewards | None = None,
    *,
    by_episode: bool = False,
    small_sample: bool = False,
) -> Float[Any, "N N"]:
    """Covariance of the candidates' values over repeated logs.

    Parameters
    ----------
    cells
        The log.
    pilots
        The first estimates of all N candidates, stacked along a leading axis.
    rewards
        Each candidate's transformed rewards, or None for the log's own.
    by_episode
        Whether episodes are the independent unit, rather than transitions.
    small_sample
        Add `bayesdice_ppl.constraint.small_sample_covariance`, as the pilots add its diagonal to
        their Sigma. For one-hot features.

    Returns
    -------
    Array
        Shape (N, N), in squared reward per step.

    Notes
    -----
    The influence of a transition is IF_i = zeta_i (sigma(r_i) + error_i), with error_i the temporal
    difference without its reward. The influence of an episode is c0 (V(s0_e) - mean). The
    covariance is Cov(IF) / n + c0 c0' Cov(V) / m.
    """
    covariance = _plain_covariance(cells, pilots, rewards, by_episode=by_episode)
    if not small_sample:
        return covariance
    return covariance + small_sample_covariance(
        cells, pilots.by_pair, pilots.error, pilots.unit, rewards
    )


def _plain_covariance(
    cells: Cells, pilots: Pilot, rewards: TransformedRewards | None, *, by_episode: bool
) -> Float[Any, "N N"]:
    n, m = cells.n_transitions, cells.n_episodes
    ratio, error, starts = pilots.ratio, pilots.error, pilots.start_value
    entry = pilots.start_weight[:, None] * (
        starts - (starts * cells.initial_weight).sum(axis=1, keepdims=True)
    )
    total = ratio * (error * cells.count + (cells.reward_sum if rewards is None else rewards.total))
    if by_episode:
        lengths = sums_by(cells.count, cells.episode, starts.shape[1])
        mean = total.sum(axis=1, keepdims=True) / n
        sums = sums_by(total.T, cells.episode, starts.shape[1]).T
        influence = (m / n) * (sums - lengths * mean) + entry
        influence = influence - influence.mean(axis=1, keepdims=True)
        return influence @ influence.T / m**2
    mean = total.sum(axis=1) / n
    if rewards is not None:
        # Within a cell the rewards of different entries covary, which sums of squares do not hold.
        influence = ratio[:, rewards.cell] * (error[:, rewards.cell] + rewards.by_row)
        influence = influence - mean[:, None]
        return influence @ influence.T / n**2 + (entry * cells.initial_weight) @ entry.T / m
    weighted = ratio * error
    second = (
        (weighted * cells.count) @ weighted.T
        + (weighted * cells.reward_sum) @ ratio.T
        + (ratio * cells.reward_sum) @ weighted.T
        + (ratio * cells.reward_square_sum) @ ratio.T
    ) / n
    return (second - library_of(second).outer(mean, mean)) / n + (
        entry * cells.initial_weight
    ) @ entry.T / m


def correlation_matrix(covariance: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
    """Correlations from a covariance; 0 for a value that does not vary."""
    sd = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    moves = sd > 0.0
    safe = np.where(moves, sd, 1.0)
    correlation = np.where(
        moves[:, None] & moves, covariance / safe[:, None] / safe, np.eye(len(sd))
    )
    return np.clip(correlation, -1.0, 1.0)


def joint_ranks(
    correlation: Float[np.ndarray, "N N"], n_draws: int, rng_key: PRNGKeyArray
) -> Int[np.ndarray, "S N"]:
    """Ranks of correlated normal draws: row s has the rank of each candidate's value in draw s.

    Parameters
    ----------
    correlation
        Shape (N, N), positive semidefinite.
    n_draws
        S.
    rng_key
        Key of the draws.

    Notes
    -----
    The scores are first made exactly uncorrelated (Iman and Conover), so that the correlation of
    the joint belief has no Monte Carlo error.
    """
    n = len(correlation)
    dtype = jax.dtypes.canonicalize_dtype(np.float64)
    scores = normal_numbers(rng_key, (n_draws, n), dtype).astype(np.float64)
    scores = scores - scores.mean(axis=0)
    if n_draws > n:
        scores = np.linalg.qr(scores)[0]
    correlated = scores @ symmetric_root(correlation)
    return np.argsort(np.argsort(correlated, axis=0, kind="stable"), axis=0, kind="stable")


def reorder(
    values: Float[np.ndarray, "S N"], ranks: Int[np.ndarray, "S N"]
) -> Int[np.ndarray, "S N"]:
    """The draw of each candidate for each place, so that its values have these ranks."""
    order = np.argsort(values, axis=0, kind="stable")
    return np.take_along_axis(order, ranks, axis=0)
