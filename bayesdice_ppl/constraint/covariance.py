"""Sampling covariance of the residual: how far from zero chance alone would put it.

With this matrix as the metric of the penalty, the chance-constrained posterior spreads as the
estimator itself would over repeated logs (Chernozhukov and Hong, 2003), which is what makes the
belief calibrated.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesdice_ppl.moments import Cells, Moments, MomentSettings, cell_ratio


def start_weight(
    cells: Cells, ratio: Float[Array, " C"], settings: MomentSettings
) -> Float[Array, ""]:
    """Mass that enters by the initial states per step, c0.

    Parameters
    ----------
    cells
        The log.
    ratio
        The ratio of each cell, shape (C,).
    settings
        Discount and meaning of a termination.
    """
    fresh = jnp.asarray(1.0 - settings.gamma, ratio.dtype)
    if not settings.restart:
        return fresh
    ended = jnp.sum(cells.count * cells.terminated * ratio) / cells.n_transitions
    return fresh + settings.gamma * ended


def residual_covariance(
    cells: Cells,
    moments: Moments,
    weights: Float[Array, " K"],
    settings: MomentSettings,
    *,
    by_episode: bool = False,
) -> Float[Array, "R R"]:
    """Covariance Sigma of sqrt(n) times the residual, at a given ratio.

    Parameters
    ----------
    cells, moments
        The log, and what it says about one policy. ``by_episode`` needs cells that are kept apart
        by episode.
    weights
        Weights of the ratio at which Sigma is evaluated, shape (K,); of one-hot features they are
        the ratio of each pair.
    settings
        Discount and meaning of a termination.
    by_episode
        False: transitions are the independent unit, right where the test features can express the
        action value. True: episodes are.

    Returns
    -------
    Array
        Shape (R, R), positive semidefinite; divided by n it is the covariance of the residual.
    """
    n, m = cells.n_transitions, cells.n_episodes
    ratio = cell_ratio(cells, moments, weights)
    entry = start_weight(cells, ratio, settings)
    if by_episode:
        return _episode_covariance(cells, moments, ratio, entry)
    design, count = moments.design, cells.count
    squared = ratio**2
    mean_reward = cells.reward_sum / jnp.where(count > 0.0, count, 1.0)
    # Within a cell only the reward varies: its spread adds to the last entry alone.
    rows = design.at[:, -1].add(mean_reward)
    second = rows.T @ (rows * (squared * count)[:, None]) / n
    spread = jnp.maximum(cells.reward_square_sum - cells.reward_sum * mean_reward, 0.0)
    second = second.at[-1, -1].add(jnp.sum(squared * spread) / n)
    mean = rows.T @ (ratio * count) / n
    centered = moments.initial - cells.initial_weight @ moments.initial
    starts = centered.T @ (centered * cells.initial_weight[:, None])
    return second - jnp.outer(mean, mean) + (n / m) * entry**2 * starts


def _episode_covariance(
    cells: Cells, moments: Moments, ratio: Float[Array, " C"], entry: Float[Array, ""]
) -> Float[Array, "R R"]:
    n, m = cells.n_transitions, cells.n_episodes
    n_episodes = moments.initial.shape[0]
    terms = moments.design * (ratio * cells.count)[:, None]
    terms = terms.at[:, -1].add(ratio * cells.reward_sum)
    sums = jax.ops.segment_sum(terms, cells.episode, num_segments=n_episodes)
    lengths = jax.ops.segment_sum(cells.count, cells.episode, num_segments=n_episodes)
    mean = sums.sum(axis=0) / n
    centered = moments.initial - cells.initial_weight @ moments.initial
    influence = (m / n) * (sums - lengths[:, None] * mean) + entry * centered
    influence = influence - influence.mean(axis=0)
    return (n / m) * (influence.T @ influence) / m
