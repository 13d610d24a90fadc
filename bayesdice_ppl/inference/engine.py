"""From moments to draws: pilot, posterior and draws of all candidates, compiled once for all.

Candidates differ in their numbers and not in their shapes, so every stage is one `jax.vmap` over
them. `prepare` gives the problem that the NumPyro program of `bayesdice_ppl.models` takes,
`solve` its posterior, and `draw` the joint draws.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from bayesdice_ppl.constraint import (
    ChanceConstraint,
    Mahalanobis,
    Price,
    Squared,
    chance_price,
    invertible,
    live_rows,
    residual_rank,
)
from bayesdice_ppl.inference.copula import (
    correlation_matrix,
    influence_covariance,
    joint_ranks,
    reorder,
)
from bayesdice_ppl.inference.exact import GaussianPosterior, exact_posterior
from bayesdice_ppl.inference.pilot import Pilot, run_pilot
from bayesdice_ppl.inference.settings import FitSettings
from bayesdice_ppl.inference.svi import run_svi, tight_coordinates
from bayesdice_ppl.models import Coordinates
from bayesdice_ppl.moments import Cells, Moments, build_moments


class Candidates(NamedTuple):
    """The candidates on the logged pairs, stacked: target (N, P), active (N, P), kept (N, S)."""

    target: Float[np.ndarray, "N P"]
    active: Float[np.ndarray, "N P"]
    kept: Float[np.ndarray, "N S"]


class Problem(NamedTuple):
    """All N candidates' problems, stacked along a leading axis; `of(j)` is one of them.

    Attributes
    ----------
    cells
        The log (shared).
    moments, constraint, coordinates
        What the model and the guide take.
    pilots
        The pilots, Sigma among them.
    prices
        lambda, epsilon and xi of each candidate.
    """

    cells: Cells
    moments: Moments
    constraint: ChanceConstraint
    coordinates: Coordinates
    pilots: Pilot
    prices: tuple[Price, ...]

    def of(self, j: int) -> tuple[Moments, ChanceConstraint, Coordinates]:
        """The arguments of the guide (and, but for the last, of the model) for candidate j."""
        return jax.tree.map(lambda x: x[j], (self.moments, self.constraint, self.coordinates))


class Solution(NamedTuple):
    """The posterior of every candidate, stacked, and the ELBO (N, steps), empty when exact."""

    posterior: GaussianPosterior
    elbo: Float[np.ndarray, "N steps"]


class Draws(NamedTuple):
    """Joint draws.

    Attributes
    ----------
    value, loss
        Shape (S, N): the value in reward per step, and the chance-constraint loss ell.
    weights
        The ratio of each pair, shape (S, N, P).
    correlation
        Of the values as the copula was given it, shape (N, N); the identity if not joint.
    """

    value: Float[np.ndarray, "S N"]
    loss: Float[np.ndarray, "S N"]
    weights: Float[np.ndarray, "S N P"]
    correlation: Float[np.ndarray, "N N"]


def prepare(cells: Cells, candidates: Candidates, settings: FitSettings) -> Problem:
    """Moments, pilot, chance constraint and coordinates of every candidate.

    Raises
    ------
    SettingsError
        lambda, epsilon or xi are out of range.
    """
    with jax.enable_x64(True):
        moments, pilots = _pilots(cells, candidates, settings)
        prices = tuple(
            chance_price(
                float(cells.n_transitions),
                residual_rank(np.asarray(covariance)),
                xi=settings.xi,
                lam=settings.lam,
                epsilon=settings.epsilon,
            )
            for covariance in pilots.covariance
        )
        price = jnp.asarray([p.lam / p.epsilon for p in prices])
        constraint, coordinates = _constraints(cells, moments, pilots, price, settings)
    return Problem(cells, moments, constraint, coordinates, pilots, prices)


@partial(jax.jit, static_argnames="settings")
def _pilots(cells: Cells, candidates: Candidates, settings: FitSettings) -> tuple[Moments, Pilot]:
    def one(candidate: Candidates) -> tuple[Moments, Pilot]:
        moments = build_moments(cells, *candidate, settings.moments)
        pilot = run_pilot(
            cells,
            moments,
            settings.moments,
            by_episode=settings.by_episode,
            small_sample=settings.small_sample,
        )
        return moments, pilot

    return jax.vmap(one)(jax.tree.map(jnp.asarray, candidates))


@partial(jax.jit, static_argnames="settings")
def _constraints(
    cells: Cells, moments: Moments, pilots: Pilot, price: Array, settings: FitSettings
) -> tuple[ChanceConstraint, Coordinates]:
    def one(moments: Moments, pilot: Pilot, price: Array) -> tuple[ChanceConstraint, Coordinates]:
        rows, mean_square = live_rows(cells, moments)
        if not settings.value_constraint:
            rows = rows.at[-1].set(0.0)
        penalty: Mahalanobis | Squared
        if settings.penalty == "mahalanobis":
            metric = invertible(pilot.covariance, rows, mean_square)
            penalty = Mahalanobis(jnp.linalg.cholesky(metric), rows)
        else:
            metric = jnp.eye(len(rows))
            penalty = Squared(rows)
        coordinates = tight_coordinates(
            moments, metric, rows, price, pilot.mean, value_constraint=settings.value_constraint
        )
        return ChanceConstraint(penalty, price), coordinates

    return jax.vmap(one)(moments, pilots, price)


def solve(problem: Problem, rng_key: PRNGKeyArray, settings: FitSettings) -> Solution:
    """Posterior of every candidate, by SVI or in closed form.

    Parameters
    ----------
    problem
        From `prepare`.
    rng_key
        Key of SVI's draws, the same for every candidate, so that a candidate that is given under
        two names gets one posterior.
    settings
        The fit's settings.
    """
    with jax.enable_x64(True):
        solved = _solve(problem._replace(prices=()), rng_key, settings)
        posterior, elbo = jax.block_until_ready(solved)
        return Solution(posterior, np.asarray(elbo))


@partial(jax.jit, static_argnames="settings")
def _solve(
    problem: Problem, rng_key: PRNGKeyArray, settings: FitSettings
) -> tuple[GaussianPosterior, Array]:
    if settings.inference == "svi":
        fit = partial(
            run_svi,
            rng_key=rng_key,
            settings=settings.svi,
            inner=settings.inner,
            value_constraint=settings.value_constraint,
        )
        return jax.vmap(fit)(problem.moments, problem.constraint, problem.coordinates)
    covariance = problem.pilots.covariance
    if settings.penalty == "squared":
        covariance = jnp.broadcast_to(jnp.eye(covariance.shape[-1]), covariance.shape)
    exact = partial(exact_posterior, value_constraint=settings.value_constraint)
    posterior = jax.vmap(exact)(problem.moments, covariance, problem.constraint.price)
    return posterior, jnp.zeros((covariance.shape[0], 0))


def draw(
    problem: Problem,
    solution: Solution,
    candidates: Candidates,
    rng_key: PRNGKeyArray,
    settings: FitSettings,
) -> Draws:
    """Draw values, weights and losses of all candidates.

    With ``joint`` the draws of all candidates share their key and are reordered by the copula, so
    that identical candidates share every draw; without, each has a key of its own.
    """
    key_draws, key_ranks = jax.random.split(rng_key)
    n_policies = candidates.target.shape[0]
    keys = (
        jnp.stack([key_draws] * n_policies)
        if settings.joint
        else jax.random.split(key_draws, n_policies)
    )
    with jax.enable_x64(True):
        values, losses, weights = _draws(
            problem._replace(prices=()), solution.posterior, keys, settings.draws
        )
        value, loss, weight = np.asarray(values), np.asarray(losses), np.asarray(weights)
        if not settings.joint:
            return Draws(value, loss, weight, np.eye(n_policies))
        # One column of the copula for each distinct candidate: equal ones share it exactly.
        _, first, copy = np.unique(
            candidates.target, axis=0, return_index=True, return_inverse=True
        )
        covariance = influence_covariance(
            problem.cells, problem.pilots, by_episode=settings.by_episode
        )
        correlation = correlation_matrix(np.asarray(covariance))
        distinct = correlation[np.ix_(first, first)]
        ranks = joint_ranks(distinct, settings.draws, key_ranks)[:, copy.ravel()]
    chosen = reorder(value, ranks)
    return Draws(
        np.take_along_axis(value, chosen, axis=0),
        np.take_along_axis(loss, chosen, axis=0),
        np.take_along_axis(weight, chosen[:, :, None], axis=0),
        distinct[np.ix_(copy.ravel(), copy.ravel())],
    )


@partial(jax.jit, static_argnames="n_draws")
def _draws(
    problem: Problem, posterior: GaussianPosterior, keys: PRNGKeyArray, n_draws: int
) -> tuple[Array, Array, Array]:
    def one(
        moments: Moments,
        constraint: ChanceConstraint,
        pilot: Pilot,
        posterior: GaussianPosterior,
        key: PRNGKeyArray,
    ) -> tuple[Array, Array, Array]:
        key_normal, key_spread = jax.random.split(key)
        mean, factor = posterior
        normal = jax.random.normal(key_normal, (n_draws, factor.shape[1]), mean.dtype)
        latent = mean + normal @ factor.T
        finite = jnp.isfinite(pilot.degrees_of_freedom)
        df = jnp.where(finite, pilot.degrees_of_freedom, 1.0)
        chi2 = jax.random.chisquare(key_spread, df, (n_draws,), mean.dtype)
        widen = jnp.where(finite, jnp.sqrt(df / chi2), 1.0)
        value = mean[-1] + (latent[:, -1] - mean[-1]) * widen
        weights = latent[:, :-1]
        residual = weights @ moments.matrix[:, :-1].T + value[:, None] * moments.matrix[:, -1]
        loss = constraint.penalty.value(residual + moments.offset)
        return value, loss, weights * moments.active

    value, loss, weights = jax.vmap(one)(
        problem.moments, problem.constraint, problem.pilots, posterior, keys
    )
    return value.T, loss.T, jnp.moveaxis(weights, 0, 1)
