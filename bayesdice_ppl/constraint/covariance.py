"""Sigma, the sampling covariance of the residual: how far from zero chance alone would put it.

With Sigma as the metric of the penalty, the chance-constrained posterior spreads as the estimate
does over repeated logs (Chernozhukov and Hong, 2003). This makes the belief calibrated. Few visits
to a pair hide a part of Sigma; see `bayesdice_ppl.constraint.small_sample`.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesdice_ppl.moments import VALUE_ROW, Cells, Moments, MomentSettings


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
    ratio: Float[Array, " C"],
    settings: MomentSettings,
    *,
    by_episode: bool = False,
) -> Float[Array, "R R"]:
    """Covariance Sigma of sqrt(n) times the residual, at a given ratio.

    Parameters
    ----------
    cells, moments
        The log, and the moments of one policy. ``by_episode`` needs cells that are kept apart by
        episode.
    ratio
        The ratio of each cell, shape (C,), at which Sigma is evaluated.
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
    entry = start_weight(cells, ratio, settings)
    if by_episode:
        return _episode_covariance(cells, moments, ratio, entry)
    design, count = moments.design, cells.count
    squared = ratio**2
    mean_reward = cells.reward_sum / jnp.where(count > 0.0, count, 1.0)
    # Within a cell only the reward varies: its spread adds to the last entry alone.
    rows = design.at[:, VALUE_ROW].add(mean_reward)
    second = rows.T @ (rows * (squared * count)[:, None]) / n
    spread = jnp.maximum(cells.reward_square_sum - cells.reward_sum * mean_reward, 0.0)
    second = second.at[VALUE_ROW, VALUE_ROW].add(jnp.sum(squared * spread) / n)
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
    terms = terms.at[:, VALUE_ROW].add(ratio * cells.reward_sum)
    sums = jax.ops.segment_sum(terms, cells.episode, num_segments=n_episodes)
    lengths = jax.ops.segment_sum(cells.count, cells.episode, num_segments=n_episodes)
    mean = sums.sum(axis=0) / n
    centered = moments.initial - cells.initial_weight @ moments.initial
    influence = (m / n) * (sums - lengths[:, None] * mean) + entry * centered
    influence = influence - influence.mean(axis=0)
    return (n / m) * (influence.T @ influence) / m


def cross_covariance(
    cells: Cells,
    moments: Moments,
    ratio: Float[Array, "N C"],
    entering: Float[Array, " N"],
    *,
    by_episode: bool = False,
) -> Float[Array, "NR NR"]:
    """Covariance Sigma of sqrt(n) times the residuals of N candidates, stacked, at given ratios.

    Parameters
    ----------
    cells
        The log; ``by_episode`` needs cells that are kept apart by episode.
    moments
        Those of all N candidates, stacked along a leading axis.
    ratio, entering
        The ratio of each cell, shape (N, C), and c0, the mass that enters by the initial states per
        step, shape (N,).
    by_episode
        False: transitions are the independent unit; True: episodes are.

    Returns
    -------
    Array
        Shape (N R, N R), one candidate after another. With one-hot features it is singular for any
        two candidates, because both see the same deviations in the counts of each state's actions.
        These directions are exact constraints, and are kept.

    Notes
    -----
    With c0 the mass that enters by the initial states, block (j, k) is::

        Cov_i[zeta^j_i D~^j_i, zeta^k_i D~^k_i] + (n / m) c0^j c0^k Cov_e[phi0^j_e, phi0^k_e]

    or, by episode, (n / m) Cov_e[psi^j_e, psi^k_e] with the sums of an episode in psi. On the
    diagonal these are `residual_covariance`.
    """
    n, m = cells.n_transitions, cells.n_episodes
    n_policies, _, n_rows = moments.design.shape
    size = n_policies * n_rows
    values = jnp.arange(n_rows - 1, size, n_rows)

    def side_by_side(x: Float[Array, "N X R"]) -> Float[Array, "X NR"]:
        return jnp.moveaxis(x, 0, 1).reshape(x.shape[1], size)

    count = cells.count
    mean_reward = cells.reward_sum / jnp.where(count > 0.0, count, 1.0)
    # Within a cell only the reward varies: its spread adds to the values' entries alone.
    terms = side_by_side(ratio[:, :, None] * moments.design.at[:, :, VALUE_ROW].add(mean_reward))
    mean = count @ terms / n
    shares = cells.initial_weight
    centered = moments.initial - jnp.einsum("e,ner->nr", shares, moments.initial)[:, None]
    entry = side_by_side(entering[:, None, None] * centered)
    if by_episode:
        by = partial(jax.ops.segment_sum, num_segments=entry.shape[0])
        sums = by(terms * count[:, None], cells.episode)
        lengths = by(count, cells.episode)
        influence = (m / n) * (sums - lengths[:, None] * mean) + entry
        influence = influence - influence.mean(axis=0)
        covariance = (n / m) * (influence.T @ influence) / m
    else:
        off = terms - mean
        covariance = off.T @ (off * count[:, None]) / n
        spread = jnp.maximum(cells.reward_square_sum - cells.reward_sum * mean_reward, 0.0)
        of_rewards = (ratio * spread) @ ratio.T / n
        covariance = covariance.at[values[:, None], values].add(of_rewards)
        covariance = covariance + (n / m) * (entry.T @ (entry * shares[:, None]))
    return covariance
