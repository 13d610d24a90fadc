"""One model of all candidates at once: the joint belief in closed form, the copula's oracle.

The residuals of all candidates are means over the same transitions, so that their noise has a
covariance across candidates too. Conditioning the stacked latents on the stacked residual gives
the joint posterior of all values in one step, at a cost that grows as the cube of N times R; the
copula joins marginals instead, and this is what it is judged by.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Float

from bayesdice_ppl.constraint import (
    ChanceConstraint,
    Mahalanobis,
    chance_price,
    invertible,
    live_rows,
    mahalanobis,
    residual_rank,
)
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.inference.copula import correlation_matrix
from bayesdice_ppl.inference.engine import Problem
from bayesdice_ppl.inference.gain import condition
from bayesdice_ppl.inference.pilot import Pilot
from bayesdice_ppl.moments import Cells, Moments

_PRICE_TOLERANCE = 1e-9
"""Relative difference of two prices that rounding explains."""


class OneModelPosterior(NamedTuple):
    """The Gaussian over the latents of all N policies; (weights, value) of one follow the other's.

    Attributes
    ----------
    mean
        Of the K weights and the value of each policy, shape (N, K + 1).
    covariance
        Of all of them, policy by policy, shape (N (K + 1), N (K + 1)).
    correlation
        Of the values, shape (N, N).
    """

    mean: Float[np.ndarray, "N K"]
    covariance: Float[np.ndarray, "NK NK"]
    correlation: Float[np.ndarray, "N N"]


def cross_covariance(
    cells: Cells, moments: Moments, pilots: Pilot, *, by_episode: bool = False
) -> Float[Array, "NR NR"]:
    """Covariance Sigma of sqrt(n) times the stacked residual, at the pilots' frozen ratios.

    Parameters
    ----------
    cells
        The log; ``by_episode`` needs cells that are kept apart by episode.
    moments, pilots
        Those of all N candidates, stacked along a leading axis.
    by_episode
        False: transitions are the independent unit; True: episodes are.

    Returns
    -------
    Array
        Shape (N R, N R), the residual of one policy after the other's. With one-hot features it is
        singular for any two candidates: how far the log's counts of a state's actions are off
        tells all of them the same. These are exact constraints, to be kept.

    Notes
    -----
    With c0 the mass that enters by the initial states, block (j, k) is::

        Cov_i[zeta^j_i D~^j_i, zeta^k_i D~^k_i] + (n / m) c0^j c0^k Cov_e[phi0^j_e, phi0^k_e]

    or, by episode, (n / m) Cov_e[psi^j_e, psi^k_e] with the sums of an episode in psi. On the
    diagonal these are the pilots' own Sigma. The small-sample rule, where the pilots hold it, adds
    to the noise of each value and to what two values share of it, so that equal candidates
    correlate at 1. It widens every value, yet it can narrow a difference of two; where rewards
    follow from the successors alone, Sigma then has a direction below zero (on FrozenLake of 20
    episodes at -4e-8, by episode at -4e-3, where the diagonal is one).
    """
    n, m = cells.n_transitions, cells.n_episodes
    n_policies, _, n_rows = moments.design.shape
    size = n_policies * n_rows
    values = jnp.arange(n_rows - 1, size, n_rows)

    def side_by_side(x: Float[Array, "N X R"]) -> Float[Array, "X NR"]:
        return jnp.moveaxis(x, 0, 1).reshape(x.shape[1], size)

    count, ratio = cells.count, pilots.ratio
    mean_reward = cells.reward_sum / jnp.where(count > 0.0, count, 1.0)
    # Within a cell only the reward varies: its spread adds to the values' entries alone.
    terms = side_by_side(ratio[:, :, None] * moments.design.at[:, :, -1].add(mean_reward))
    mean = count @ terms / n
    shares = cells.initial_weight
    centered = moments.initial - jnp.einsum("e,ner->nr", shares, moments.initial)[:, None]
    entry = side_by_side(pilots.start_weight[:, None, None] * centered)
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
    if cells.basis is None and cells.pair_features is None:
        covariance = covariance.at[values[:, None], values].add(n * _few_visits(cells, pilots))
    # The pilot's entry is this one, and with features other than one-hot its episodes' surplus.
    return covariance.at[values, values].set(pilots.covariance[:, -1, -1])


def _few_visits(cells: Cells, pilots: Pilot) -> Float[Array, "N N"]:
    """What the small-sample rule adds to the covariance of the values; 0 where it is off.

    The pilot's rule, with products of two candidates' errors in the place of squares. Where the
    pilot takes the larger of two variances, the candidate's products grow in proportion.
    """
    n, n_pairs = cells.n_transitions, cells.pair_state.shape[0]

    def by_pair(x: Float[Array, "C *b"]) -> Float[Array, "P *b"]:
        return jax.ops.segment_sum(x, cells.pair, num_segments=n_pairs)

    count, reward = cells.count[:, None], cells.reward_sum[:, None]
    error = pilots.error.T
    visits = by_pair(cells.count)
    total = by_pair(count * error + reward)
    product = by_pair(
        count[:, :, None] * error[:, :, None] * error[:, None, :]
        + (error[:, :, None] + error[:, None, :]) * reward[:, :, None]
        + cells.reward_square_sum[:, None, None]
    )
    visited = visits[:, None, None]
    scatter = product - total[:, :, None] * total[:, None, :] / visited
    repeats = jnp.sum(visits - 1.0)
    variance = cells.reward_square_sum.sum() / n - (cells.reward_sum.sum() / n) ** 2
    pool = jnp.where(repeats > 0.0, scatter.sum(axis=0) / jnp.maximum(repeats, 1.0), variance)
    # With one-hot features the weights are the ratio of each pair.
    share = pilots.mean[:, :-1].T * visits[:, None] / n
    shares = share[:, :, None] * share[:, None, :]
    before = jnp.sum(shares * scatter / visited**2, axis=0)
    after = jnp.sum(shares * (scatter + 2.0 * pool) / (visited + 1.0) / visited, axis=0)
    held, larger = jnp.diagonal(after), jnp.diagonal(jnp.maximum(after, before))
    growth = jnp.sqrt(larger / jnp.where(held > 0.0, held, 1.0))
    # Only under the rule are the degrees of freedom of one-hot features finite.
    on = jnp.isfinite(pilots.degrees_of_freedom)
    return jnp.where(on[:, None] & on, growth[:, None] * growth * after - before, 0.0)


def one_model_posterior(problem: Problem) -> OneModelPosterior:
    """Posterior of the one model that holds all candidates, in closed form.

    Parameters
    ----------
    problem
        From `bayesdice_ppl.preparation.prepare`, with the Mahalanobis penalty, the value
        constraint, lambda = n epsilon and the identity link, which are the defaults. The unit of
        independence is the one it was prepared with.

    Returns
    -------
    OneModelPosterior
        Means, covariance of everything, correlation of the values.

    Raises
    ------
    SettingsError
        The problem has another penalty, another price, or no value constraint.

    Notes
    -----
    With one-hot features the rows that bind are as many as the latents, so that under a flat prior
    each candidate keeps the posterior that it has alone (how far it is from that falls as the
    square of the prior's width). Under a narrower one candidates tell of each other's noise; and
    one that is given twice counts its prior twice.
    """
    _check(problem)
    with jax.enable_x64(True):
        mean, covariance = _condition(
            problem.cells, problem.moments, problem.pilots, by_episode=_by_episode(problem)
        )
    covariance = np.asarray(covariance)
    n_latent = mean.shape[1]
    last = slice(n_latent - 1, None, n_latent)
    return OneModelPosterior(
        np.asarray(mean), covariance, correlation_matrix(covariance[last, last])
    )


def one_model_constraint(problem: Problem) -> ChanceConstraint:
    """Penalty and price of the stacked residual: what `bayesdice_ppl.models.joint_model` takes.

    Parameters
    ----------
    problem
        As for `one_model_posterior`.

    Returns
    -------
    ChanceConstraint
        The Mahalanobis penalty under `cross_covariance`, its directions below zero put at zero and
        with the ridge that an inverse needs, and lambda / epsilon = n. Its arrays are float64: use
        it under ``jax.enable_x64(True)``.

    Raises
    ------
    SettingsError
        The problem has another penalty, another price, or no value constraint.
    """
    _check(problem)
    with jax.enable_x64(True):
        covariance, penalty = _penalty(
            problem.cells, problem.moments, problem.pilots, by_episode=_by_episode(problem)
        )
        n = float(problem.cells.n_transitions)
        price = chance_price(n, residual_rank(np.asarray(covariance)), xi=problem.prices[0].xi)
        return ChanceConstraint(penalty, jnp.asarray(n), jnp.asarray(price.epsilon))


@partial(jax.jit, static_argnames="by_episode")
def _condition(
    cells: Cells, moments: Moments, pilots: Pilot, *, by_episode: bool
) -> tuple[Float[Array, "N K"], Float[Array, "NK NK"]]:
    noise = cross_covariance(cells, moments, pilots, by_episode=by_episode) / cells.n_transitions
    found = condition(
        block_diag(*moments.matrix),
        moments.offset.ravel(),
        noise,
        moments.prior_mean.ravel(),
        moments.prior_scale.ravel(),
    )
    return found.mean.reshape(moments.prior_mean.shape), found.covariance


@partial(jax.jit, static_argnames="by_episode")
def _penalty(
    cells: Cells, moments: Moments, pilots: Pilot, *, by_episode: bool
) -> tuple[Float[Array, "NR NR"], Mahalanobis]:
    covariance = cross_covariance(cells, moments, pilots, by_episode=by_episode)
    covariance = _without_negative(covariance)
    rows, mean_square = (x.ravel() for x in jax.vmap(partial(live_rows, cells))(moments))
    return covariance, mahalanobis(invertible(covariance, rows, mean_square), rows)


def _without_negative(covariance: Float[Array, "NR NR"]) -> Float[Array, "NR NR"]:
    """The covariance without the directions in which the small-sample rule left it below zero.

    Where rewards follow from the successors alone no noise is left in a value's row beside the
    others', and the rule, which narrows some differences of values, goes below it there.
    """
    scale = jnp.sqrt(jnp.diagonal(covariance))
    safe = jnp.where(scale > 0.0, scale, 1.0)
    values, vectors = jnp.linalg.eigh(covariance / safe[:, None] / safe)
    lift = (vectors * jnp.maximum(-values, 0.0)) @ vectors.T
    return covariance + lift * safe[:, None] * safe


def _by_episode(problem: Problem) -> bool:
    """Whether the cells were kept apart by episode; otherwise all of them are in the first."""
    return bool(np.any(np.asarray(problem.cells.episode) != 0))


def _check(problem: Problem) -> None:
    """Refuse what the stacked Gaussian is not the posterior of."""
    if problem.cells.basis is not None:
        raise SettingsError("features: the one model of all candidates needs one-hot ones.")
    if problem.rewards is not None or problem.constraint.auxiliary is not None:
        raise SettingsError(
            "the one model of all candidates is about the plain mean, with the normalization as "
            "one of the rows; prepare the problem without statistic and normalization."
        )
    penalty = problem.constraint.penalty
    if not isinstance(penalty, Mahalanobis):
        raise SettingsError(
            f"penalty: the one model of all candidates needs 'mahalanobis', found "
            f"{type(penalty).__name__.lower()!r}."
        )
    if not np.all(np.asarray(penalty.rows)[:, -1] > 0.0):
        raise SettingsError(
            "value_constraint: the one model of all candidates needs the value constraint; "
            "prepare the problem with value_constraint=True."
        )
    n = float(problem.cells.n_transitions)
    price = np.asarray(problem.constraint.price)
    off = np.abs(price / n - 1.0) > _PRICE_TOLERANCE
    if np.any(off):
        raise SettingsError(
            f"lam: the one model of all candidates is priced at lambda / epsilon = n = {n:g}, "
            f"found {price[off][0]:g}; leave lam out."
        )
