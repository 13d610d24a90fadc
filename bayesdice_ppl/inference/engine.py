"""From moments to posteriors: pilot and posterior of all candidates, compiled once for all.

Candidates differ in their numbers and not in their shapes, so every stage is one `jax.vmap` over
them. `prepare` gives the problem that the NumPyro program of `bayesdice_ppl.models` takes, and
`solve` its posterior.
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
    mahalanobis,
    residual_rank,
)
from bayesdice_ppl.inference.exact import GaussianPosterior, exact_posterior
from bayesdice_ppl.inference.pilot import Pilot, run_pilot
from bayesdice_ppl.inference.settings import FitSettings
from bayesdice_ppl.inference.svi import run_svi, tight_coordinates
from bayesdice_ppl.models import Coordinates
from bayesdice_ppl.moments import Cells, Moments, build_moments

# For what runs once and spends its time in LAPACK: optimizing the code around it takes longer
# than it saves.
_QUICK = {"xla_backend_optimization_level": 0}


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
                residual_rank(covariance),
                xi=settings.xi,
                lam=settings.lam,
                epsilon=settings.epsilon,
            )
            for covariance in np.asarray(pilots.covariance)
        )
        price = jnp.asarray([p.lam / p.epsilon for p in prices])
        constraint, coordinates = _constraints(cells, moments, pilots, price, settings)
    return Problem(cells, moments, constraint, coordinates, pilots, prices)


@partial(jax.jit, static_argnames="settings", compiler_options=_QUICK)
def _pilots(cells: Cells, candidates: Candidates, settings: FitSettings) -> tuple[Moments, Pilot]:
    def one(target: Array, active: Array, kept: Array) -> tuple[Moments, Pilot]:
        moments = build_moments(cells, target, active, kept, settings.moments)
        pilot = run_pilot(
            cells,
            moments,
            settings.moments,
            by_episode=settings.by_episode,
            small_sample=settings.small_sample,
        )
        return moments, pilot

    return jax.vmap(one)(*(jnp.asarray(field) for field in candidates))


@partial(jax.jit, static_argnames="settings", compiler_options=_QUICK)
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
            penalty = mahalanobis(metric, rows)
        else:
            metric = jnp.eye(len(rows))
            penalty = Squared(rows)
        coordinates = tight_coordinates(
            moments, metric, rows, price, value_constraint=settings.value_constraint
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
