"""Sigma, the sampling covariance of the residual: how far from zero chance alone would put it.

With Sigma as the metric of the penalty, the chance-constrained posterior spreads as the estimate
does over repeated logs (Chernozhukov and Hong, 2003). This makes the belief calibrated. Few visits
to a pair hide a part of Sigma; see `bayesdice_ppl.constraint.small_sample`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.arrays import added, library_of, sums_by
from bayesdice_ppl.moments import VALUE_ROW, Cells, Moments, MomentSettings


def start_weight(cells: Cells, ratio: Float[Any, " C"], settings: MomentSettings) -> Float[Any, ""]:
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
    fresh = library_of(ratio).asarray(1.0 - settings.gamma, ratio.dtype)
    if not settings.restart:
        return fresh
    ended = (cells.count * cells.terminated * ratio).sum() / cells.n_transitions
    return fresh + settings.gamma * ended


def residual_covariance(
    cells: Cells,
    moments: Moments,
    ratio: Float[Any, " C"],
    settings: MomentSettings,
    *,
    by_episode: bool = False,
) -> Float[Any, "R R"]:
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
    xp = library_of(design, ratio)
    squared = ratio**2
    mean_reward = cells.reward_sum / xp.where(count > 0.0, count, 1.0)
    # Within a cell only the reward varies: its spread adds to the last entry alone.
    rows = added(design, np.s_[:, VALUE_ROW], mean_reward)
    second = rows.T @ (rows * (squared * count)[:, None]) / n
    spread = xp.maximum(cells.reward_square_sum - cells.reward_sum * mean_reward, 0.0)
    second = added(second, (VALUE_ROW, VALUE_ROW), (squared * spread).sum() / n)
    mean = rows.T @ (ratio * count) / n
    centered = moments.initial - cells.initial_weight @ moments.initial
    starts = centered.T @ (centered * cells.initial_weight[:, None])
    return second - xp.outer(mean, mean) + (n / m) * entry**2 * starts


def _episode_covariance(
    cells: Cells, moments: Moments, ratio: Float[Any, " C"], entry: Float[Any, ""]
) -> Float[Any, "R R"]:
    n, m = cells.n_transitions, cells.n_episodes
    n_episodes = moments.initial.shape[0]
    terms = moments.design * (ratio * cells.count)[:, None]
    terms = added(terms, np.s_[:, VALUE_ROW], ratio * cells.reward_sum)
    sums = sums_by(terms, cells.episode, n_episodes)
    lengths = sums_by(cells.count, cells.episode, n_episodes)
    mean = sums.sum(axis=0) / n
    centered = moments.initial - cells.initial_weight @ moments.initial
    influence = (m / n) * (sums - lengths[:, None] * mean) + entry * centered
    influence = influence - influence.mean(axis=0)
    return (n / m) * (influence.T @ influence) / m


def cross_covariance(
    cells: Cells,
    moments: Moments,
    ratio: Float[Any, "N C"],
    entering: Float[Any, " N"],
    *,
    by_episode: bool = False,
) -> Float[Any, "NR NR"]:
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
    xp = library_of(moments.design, ratio)
    size = n_policies * n_rows
    values = xp.arange(n_rows - 1, size, n_rows)

    def side_by_side(x: Float[Any, "N X R"]) -> Float[Any, "X NR"]:
        return xp.moveaxis(x, 0, 1).reshape(x.shape[1], size)

    count = cells.count
    mean_reward = cells.reward_sum / xp.where(count > 0.0, count, 1.0)
    # Within a cell only the reward varies: its spread adds to the values' entries alone.
    terms = side_by_side(
        ratio[:, :, None] * added(moments.design, np.s_[:, :, VALUE_ROW], mean_reward)
    )
    mean = count @ terms / n
    shares = cells.initial_weight
    centered = moments.initial - xp.einsum("e,ner->nr", shares, moments.initial)[:, None]
    entry = side_by_side(entering[:, None, None] * centered)
    if by_episode:
        sums = sums_by(terms * count[:, None], cells.episode, len(entry))
        lengths = sums_by(count, cells.episode, len(entry))
        influence = (m / n) * (sums - lengths[:, None] * mean) + entry
        influence = influence - influence.mean(axis=0)
        covariance = (n / m) * (influence.T @ influence) / m
    else:
        off = terms - mean
        covariance = off.T @ (off * count[:, None]) / n
        spread = xp.maximum(cells.reward_square_sum - cells.reward_sum * mean_reward, 0.0)
        of_rewards = (ratio * spread) @ ratio.T / n
        covariance = added(covariance, (values[:, None], values), of_rewards)
        covariance = covariance + (n / m) * (entry.T @ (entry * shares[:, None]))
    return covariance
