"""One joint belief from many marginal ones: errors on the same logs move together.

The correlation of the candidates' influence functions is the correlation of their values over
repeated logs. Whole draws are reordered by the ranks of a Gaussian with that correlation (Iman
and Conover, 1982), so that every marginal stays as it was and a draw's value, weights and loss
stay together. What few visits hide of a candidate's errors is shared between candidates like the
rest of them, so that the small-sample rule has cross-products too.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bayesdice_ppl.inference.pilot import FewVisits, Pilot, few_visits
from bayesdice_ppl.moments import Cells, TransformedRewards, reward_moments, with_rewards


def influence_covariance(
    cells: Cells,
    pilots: Pilot,
    rewards: TransformedRewards | None = None,
    *,
    by_episode: bool = False,
    small_sample: bool = False,
) -> Float[Array, "N N"]:
    """Covariance of the candidates' values over repeated logs.

    Parameters
    ----------
    cells
        The log.
    pilots
        The pilots of all N candidates, stacked along a leading axis.
    rewards
        What each candidate counts instead of the log's own rewards, or None.
    by_episode
        Whether episodes are the independent unit, rather than transitions.
    small_sample
        Add `small_sample_covariance`, as the pilots add its diagonal to their Sigma. For one-hot
        features.

    Returns
    -------
    Array
        Shape (N, N), in squared reward per step.

    Notes
    -----
    A transition's influence is IF_i = zeta_i (sigma(r_i) + error_i) with error_i the temporal
    difference without its reward, an episode's c0 (V(s0_e) - mean); the covariance is Cov(IF) / n
    + c0 c0' Cov(V) / m.
    """
    covariance = _plain_covariance(cells, pilots, rewards, by_episode=by_episode)
    if not small_sample:
        return covariance
    return covariance + small_sample_covariance(cells, pilots, rewards)


def small_sample_covariance(
    cells: Cells, pilots: Pilot, rewards: TransformedRewards | None = None
) -> Float[Array, "N N"]:
    """Covariance of the candidates' values that few visits to a pair hide.

    Parameters
    ----------
    cells
        The log, on one-hot features.
    pilots
        The pilots of all N candidates, stacked along a leading axis.
    rewards
        What each candidate counts instead of the log's own rewards, or None.

    Returns
    -------
    Array
        Shape (N, N), in squared reward per step. Its diagonal is what
        `bayesdice_ppl.inference.pilot.small_sample_rule` adds to each candidate's variance.

    Notes
    -----
    The rule on cross-products. With delta the temporal-difference errors, n_sa the visits of a
    pair and d = zeta n_sa / n a candidate's share of it::

        SS_jk,sa = sum_i delta_j,i delta_k,i - (sum_i delta_j,i)(sum_i delta_k,i) / n_sa
        pool_jk  = sum_sa SS_jk,sa / sum_sa (n_sa - 1)
        S_jk     = sum_sa d_j d_k (SS_jk,sa + 2 pool_jk) / (n_sa (n_sa + 1))
        V_jk     = sum_sa d_j d_k SS_jk,sa / n_sa^2

    it adds S - V, and where no pair was logged twice pools the covariance of the rewards. Where
    S_jj < V_jj the rule leaves a variance as it is: row and column j of S are then stretched until
    S_jj = V_jj. S stays positive semidefinite, so that its sum with the influences' covariance,
    which by transition holds V, is a covariance too, and equal candidates correlate at 1.

    The policy that logged counts its visits by state, and shares with the candidates what varies
    within a pair: its row and column of S are those of pairs, as long as S_jj by pair is no more
    than max(S_jj, V_jj) by state, to which they are shrunk, and its diagonal is the one by state.
    What is left of that is the noise of its actions, in which candidates have no part.
    """
    n_pairs = cells.pair_state.shape[0]
    visits = jax.ops.segment_sum(cells.count, cells.pair, num_segments=n_pairs)
    repeats = jnp.sum(jnp.where(visits > 0.0, visits - 1.0, 0.0))
    # One point for each cell, where all candidates see the same spread of the rewards; or for
    # each transition, where every candidate counts rewards of its own.
    if rewards is None:
        pair, weight, ratio = cells.pair, cells.count, pilots.ratio
        mean_reward = cells.reward_sum / jnp.where(weight > 0.0, weight, 1.0)
        delta = pilots.error + mean_reward
        spread = jnp.maximum(cells.reward_square_sum - cells.reward_sum * mean_reward, 0.0)
        of_rewards = reward_moments(cells)[1] ** 2
    else:
        pair = cells.pair[rewards.cell]
        weight, spread = jnp.ones(pair.shape), jnp.zeros(pair.shape)
        ratio = pilots.ratio[:, rewards.cell]
        delta = pilots.error[:, rewards.cell] + rewards.by_row
        centered = rewards.by_row - jnp.mean(rewards.by_row, axis=1, keepdims=True)
        of_rewards = centered @ centered.T / cells.n_transitions
    divisor = jnp.where(visits > 0.0, visits, 1.0)
    by_pair = jax.vmap(lambda x: jax.ops.segment_sum(x, pair, num_segments=n_pairs))
    # Centered first, because action values of 1 / (1 - gamma) cancel in the errors.
    off = delta - (by_pair(weight * delta) / divisor)[:, pair]

    def scatter(scale: Float[Array, "N X"]) -> Float[Array, "N N"]:
        """Sum over pairs of scale_j scale_k SS_jk."""
        scaled = scale * off
        return (scaled * weight) @ scaled.T + (scale * spread) @ scale.T

    at = divisor[pair]
    pool = jnp.where(
        repeats > 0.0,
        scatter(jnp.ones_like(ratio)) / jnp.where(repeats > 0.0, repeats, 1.0),
        of_rewards,
    )
    share = ratio * at / cells.n_transitions
    damped = share / jnp.sqrt(at * (at + 1.0))
    seen = scatter(share / at)
    # A pair's points share its term, which is there once for each pair.
    shrunk = scatter(damped) + 2.0 * pool * ((damped * weight / at) @ damped.T)
    own, least = jnp.diagonal(shrunk), jnp.diagonal(seen)
    if pilots.unit is None:
        stretch = jnp.sqrt(jnp.where(own < least, least / jnp.where(own > 0.0, own, 1.0), 1.0))
        return shrunk * stretch[:, None] * stretch - seen
    by_unit = _few_visits_by_unit(cells, pilots, rewards)
    whole = jnp.maximum(by_unit.shrunk, by_unit.seen)
    held = jnp.minimum(jnp.maximum(own, least), whole)
    stretch = jnp.sqrt(held / jnp.where(own > 0.0, own, 1.0))
    added = shrunk * stretch[:, None] * stretch - seen
    return jnp.fill_diagonal(added, whole - by_unit.seen, inplace=False)


def _few_visits_by_unit(
    cells: Cells, pilots: Pilot, rewards: TransformedRewards | None
) -> FewVisits:
    """What few visits say of each candidate's own variance, counted as its pilot does."""
    sums = None if rewards is None else rewards._replace(by_row=None, cell=None)

    def one(pilot: Pilot, counted: TransformedRewards | None) -> FewVisits:
        # With one-hot features the weights are the ratio of each pair.
        own = with_rewards(cells, counted)
        return few_visits(own, pilot.mean[:-1], pilot.error, pilot.unit)

    return jax.vmap(one)(pilots, sums)


def _plain_covariance(
    cells: Cells, pilots: Pilot, rewards: TransformedRewards | None, *, by_episode: bool
) -> Float[Array, "N N"]:
    n, m = cells.n_transitions, cells.n_episodes
    ratio, error, starts = pilots.ratio, pilots.error, pilots.start_value
    entry = pilots.start_weight[:, None] * (
        starts - jnp.sum(starts * cells.initial_weight, axis=1, keepdims=True)
    )
    total = ratio * (error * cells.count + (cells.reward_sum if rewards is None else rewards.total))
    if by_episode:
        by = jax.vmap(lambda x: jax.ops.segment_sum(x, cells.episode, num_segments=starts.shape[1]))
        lengths = by(cells.count[None])
        mean = jnp.sum(total, axis=1, keepdims=True) / n
        influence = (m / n) * (by(total) - lengths * mean) + entry
        influence = influence - influence.mean(axis=1, keepdims=True)
        return influence @ influence.T / m**2
    mean = jnp.sum(total, axis=1) / n
    if rewards is not None:
        # Within a cell the rewards of different entries vary together in their own way.
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
    return (second - jnp.outer(mean, mean)) / n + (entry * cells.initial_weight) @ entry.T / m


def correlation_matrix(covariance: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
    """Correlations from a covariance; a value that does not vary is correlated with none."""
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
    """Ranks of correlated normal draws: row s says which of its sorted draws each value takes.

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
    The scores are made exactly uncorrelated before the correlation is put in (as Iman and Conover
    do), so that the joint belief's correlation carries no Monte Carlo error of its own.
    """
    n = len(correlation)
    scores = np.asarray(jax.random.normal(rng_key, (n_draws, n)), dtype=np.float64)
    scores = scores - scores.mean(axis=0)
    if n_draws > n:
        scores = np.linalg.qr(scores)[0]
    values, vectors = np.linalg.eigh(correlation)
    correlated = scores @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return np.argsort(np.argsort(correlated, axis=0, kind="stable"), axis=0, kind="stable")


def reorder(
    values: Float[np.ndarray, "S N"], ranks: Int[np.ndarray, "S N"]
) -> Int[np.ndarray, "S N"]:
    """Which draw of each candidate goes to each place, so that its values take these ranks."""
    order = np.argsort(values, axis=0, kind="stable")
    return np.take_along_axis(order, ranks, axis=0)
