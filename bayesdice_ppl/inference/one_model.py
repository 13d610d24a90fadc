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
from jaxtyping import Array, Float

from bayesdice_ppl.constraint import (
    ChanceConstraint,
    Penalty,
    chance_price,
    cross_covariance,
    invertible,
    penalties,
    residual_rank,
    row_mean_square,
    small_sample_covariance,
)
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.inference.copula import correlation_matrix
from bayesdice_ppl.inference.pilot import Pilot
from bayesdice_ppl.inference.problem import Problem
from bayesdice_ppl.models import LinearRatio, joint_posterior
from bayesdice_ppl.moments import VALUE_ROW, Cells

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


def one_model_posterior(problem: Problem) -> OneModelPosterior:
    """Posterior of the one model that holds all candidates, in closed form.

    Parameters
    ----------
    problem
        From `bayesdice_ppl.prepare`, with the Mahalanobis penalty, the value
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
    ratios, _ = _check(problem)
    with jax.enable_x64(True):
        mean, covariance = _condition(
            problem.cells, ratios, problem.pilots, by_episode=_by_episode(problem)
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
        The Mahalanobis penalty under `stacked_covariance`, its directions below zero put at zero
        and with the ridge that an inverse needs, and lambda / epsilon = n. Its arrays are float64:
        use it under ``jax.enable_x64(True)``.

    Raises
    ------
    SettingsError
        The problem has another penalty, another price, or no value constraint.
    """
    ratios, own = _check(problem)
    with jax.enable_x64(True):
        covariance, penalty = _penalty(
            problem.cells,
            ratios,
            problem.pilots,
            own.rows.ravel(),
            by_episode=_by_episode(problem),
        )
        n = float(problem.cells.n_transitions)
        price = chance_price(n, residual_rank(np.asarray(covariance)), xi=problem.prices[0].xi)
        return ChanceConstraint(penalty, jnp.asarray(n), jnp.asarray(price.epsilon))


@partial(jax.jit, static_argnames="by_episode")
def _condition(
    cells: Cells, ratios: LinearRatio, pilots: Pilot, *, by_episode: bool
) -> tuple[Float[Array, "N K"], Float[Array, "NK NK"]]:
    noise = stacked_covariance(cells, ratios, pilots, by_episode=by_episode)
    return joint_posterior(ratios, noise / cells.n_transitions)


@partial(jax.jit, static_argnames="by_episode")
def _penalty(
    cells: Cells,
    ratios: LinearRatio,
    pilots: Pilot,
    rows: Float[Array, " NR"],
    *,
    by_episode: bool,
) -> tuple[Float[Array, "NR NR"], Penalty]:
    covariance = stacked_covariance(cells, ratios, pilots, by_episode=by_episode)
    covariance = _without_negative(covariance)
    mean_square = jax.vmap(partial(row_mean_square, cells))(ratios.moments).ravel()
    metric = invertible(covariance, rows, mean_square)
    return covariance, penalties.mahalanobis().build(metric, rows)


def stacked_covariance(
    cells: Cells, ratios: LinearRatio, pilots: Pilot, *, by_episode: bool = False
) -> Float[Array, "NR NR"]:
    """Sigma of all residuals at the pilots' frozen ratios, the small-sample rule included.

    Parameters
    ----------
    cells, ratios, pilots
        The log; the ratios and pilots of all N candidates, stacked along a leading axis.
    by_episode
        Whether episodes are the independent unit; needs cells that are kept apart by episode.

    Notes
    -----
    The diagonal blocks are the pilots' own Sigma. The small-sample rule adds to the noise of each
    value and to what two values share of it, so that equal candidates correlate at 1. It widens
    every value, yet it can narrow a difference of two; where rewards follow from the successors
    alone, Sigma then has a direction below zero (on FrozenLake of 20 episodes at -4e-8, by episode
    at -4e-3, where the diagonal is one).
    """
    moments = ratios.moments
    n_policies, _, n_rows = moments.design.shape
    values = jnp.arange(n_rows - 1, n_policies * n_rows, n_rows)
    covariance = cross_covariance(
        cells, moments, pilots.ratio, pilots.start_weight, by_episode=by_episode
    )
    # Only under the rule are the degrees of freedom finite.
    on = jnp.isfinite(pilots.degrees_of_freedom)
    hidden = small_sample_covariance(cells, pilots.by_pair, pilots.error, pilots.unit)
    hidden = jnp.where(on[:, None] & on, hidden, 0.0)
    covariance = covariance.at[values[:, None], values].add(cells.n_transitions * hidden)
    return covariance.at[values, values].set(pilots.covariance[:, VALUE_ROW, VALUE_ROW])


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


def _check(problem: Problem) -> tuple[LinearRatio, penalties.Mahalanobis]:
    """The problem's ratio and penalty; refuse what the stacked Gaussian is not the posterior of."""
    if not isinstance(problem.ratio, LinearRatio):
        raise SettingsError("model: the one model of all candidates needs 'linear'.")
    if problem.cells.basis is not None:
        raise SettingsError("features: the one model of all candidates needs one-hot ones.")
    if problem.rewards is not None or problem.constraint.auxiliary is not None:
        raise SettingsError(
            "the one model of all candidates is about the plain mean, with the normalization as "
            "one of the rows; prepare the problem without statistic and normalization."
        )
    penalty = problem.constraint.penalty
    if not isinstance(penalty, penalties.Mahalanobis):
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
    return problem.ratio, penalty
