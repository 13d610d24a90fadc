"""One model of all candidates at once: the joint belief in closed form, the copula's oracle.

The residuals of all candidates are means over the same transitions, and their noise is correlated
across candidates. Conditioning the stacked latent numbers on the stacked residual gives the joint
posterior of all values in one step. The cost grows as the cube of N times R. The copula joins
marginals instead, and is tested against this.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesdice_ppl.arrays import added, replaced
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
"""Relative difference of two prices that rounding may cause."""


class OneModelPosterior(NamedTuple):
    """The Gaussian over (weights, value) of all N candidates, one candidate after another.

    Attributes
    ----------
    mean
        Means of the K weights and the value of each candidate, shape (N, K + 1).
    covariance
        Covariance of all of them, shape (N (K + 1), N (K + 1)).
    correlation
        Correlation of the values, shape (N, N).
    """

    mean: Float[np.ndarray, "N K"]
    covariance: Float[np.ndarray, "NK NK"]
    correlation: Float[np.ndarray, "N N"]


def one_model_posterior(problem: Problem) -> OneModelPosterior:
    """Posterior of the one model that holds all candidates, in closed form.

    Parameters
    ----------
    problem
        From `bayesdice_ppl.prepare`, with the defaults: Mahalanobis penalty, value constraint,
        lambda = n epsilon, identity link. The independent unit is the one it was prepared with.

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
    With one-hot features as many rows bind as there are latent numbers. Under a flat prior each
    candidate then keeps its own posterior; the difference falls as the square of the prior's width.
    Under a narrower prior candidates inform each other about their noise, and a candidate that is
    given twice counts its prior twice.
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
    """Penalty and price of the stacked residual, for `bayesdice_ppl.models.joint_model`.

    Parameters
    ----------
    problem
        As for `one_model_posterior`.

    Returns
    -------
    ChanceConstraint
        The Mahalanobis penalty under `stacked_covariance`, with lambda / epsilon = n. Negative
        eigenvalues are set to zero, and the ridge that an inverse needs is added. The arrays are
        float64: use them under ``jax.enable_x64(True)``.

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
    """Sigma of all residuals at the frozen first estimates, with the small-sample rule.

    Parameters
    ----------
    cells, ratios, pilots
        The log; the ratios and first estimates of all N candidates, stacked along a leading axis.
    by_episode
        Whether episodes are the independent unit; needs cells that are kept apart by episode.

    Notes
    -----
    The diagonal blocks are the Sigma of each candidate alone. The small-sample rule adds to the
    variance of each value and to the covariance of two, so that equal candidates correlate at 1. It
    widens every value, but it can narrow a difference of two values. Where rewards follow from the
    successors alone, Sigma then has a negative eigenvalue (on FrozenLake with 20 episodes -4e-8, by
    episode -4e-3, with a unit diagonal).
    """
    moments = ratios.moments
    n_policies, _, n_rows = moments.design.shape
    values = jnp.arange(n_rows - 1, n_policies * n_rows, n_rows)
    covariance = cross_covariance(
        cells, moments, pilots.ratio, pilots.start_weight, by_episode=by_episode
    )
    # The degrees of freedom are finite only under the rule.
    on = jnp.isfinite(pilots.degrees_of_freedom)
    hidden = small_sample_covariance(cells, pilots.by_pair, pilots.error, pilots.unit)
    hidden = jnp.where(on[:, None] & on, hidden, 0.0)
    covariance = added(covariance, (values[:, None], values), cells.n_transitions * hidden)
    return replaced(covariance, (values, values), pilots.covariance[:, VALUE_ROW, VALUE_ROW])


def _without_negative(covariance: Float[Array, "NR NR"]) -> Float[Array, "NR NR"]:
    """The covariance with the negative eigenvalues of the small-sample rule set to zero.

    Where rewards follow from the successors alone, a value's row has no noise beyond that of the
    other rows. The rule narrows some differences of values, and makes them negative there.
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
    """The problem's ratio and penalty; refuse problems without this closed form."""
    if not isinstance(problem.ratio, LinearRatio):
        raise SettingsError("model: expected 'linear' for the one model of all candidates.")
    if problem.cells.basis is not None:
        raise SettingsError("features: expected one_hot() for the one model of all candidates.")
    if problem.rewards is not None or problem.constraint.auxiliary is not None:
        raise SettingsError(
            "statistic, normalization: expected neither for the one model of all candidates. "
            "Prepare the problem without them."
        )
    unit = problem.unit
    if unit is not None and (unit.groupings or unit.adaptive):
        raise SettingsError(
            "cluster: expected 'transition' or 'episode' for the one model of all candidates, "
            "found rows that move together. Prepare the problem with cluster='transition'."
        )
    penalty = problem.constraint.penalty
    if not isinstance(penalty, penalties.Mahalanobis):
        raise SettingsError(
            f"penalty: expected 'mahalanobis' for the one model of all candidates, found "
            f"{type(penalty).__name__.lower()!r}."
        )
    if not np.all(np.asarray(penalty.rows)[:, -1] > 0.0):
        raise SettingsError(
            "value_constraint: expected True for the one model of all candidates, found False. "
            "Prepare the problem with value_constraint=True."
        )
    n = float(problem.cells.n_transitions)
    price = np.asarray(problem.constraint.price)
    off = np.abs(price / n - 1.0) > _PRICE_TOLERANCE
    if np.any(off):
        raise SettingsError(
            f"lam: expected lambda / epsilon = n = {n:g} for the one model of all candidates, "
            f"found {price[off][0]:g}. Leave lam out."
        )
    return problem.ratio, penalty
