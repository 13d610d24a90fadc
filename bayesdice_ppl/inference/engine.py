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
    mahalanobis,
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
    key_draws, key_ranks = split_key(rng_key)
    n_policies = candidates.target.shape[0]
    mean, factor = (np.asarray(array) for array in solution.posterior)
    with jax.enable_x64(True):
        shape = (settings.draws, factor.shape[2])
        shape = shape if settings.joint else (n_policies, *shape)
        normal = np.asarray(jax.random.normal(key_draws, shape, factor.dtype))
        df = np.asarray(problem.pilots.degrees_of_freedom)
        value = _student_values(normal, mean[:, -1], factor[:, -1], df)
        found = _draws(
            problem._replace(prices=()), solution.posterior, normal, value, settings.joint
        )
        loss, weight = (np.asarray(array) for array in found)
        if not settings.joint:
            return Draws(value, loss, weight, np.eye(n_policies))
        # One column of the copula for each distinct candidate: equal ones share it exactly.
        _, first, copy = np.unique(
            candidates.target, axis=0, return_index=True, return_inverse=True
        )
        covariance = _influence_covariance(
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


# Compiled as a whole, once: operation by operation, a first fit would compile dozens.
_influence_covariance = jax.jit(influence_covariance, static_argnames="by_episode")


@jax.jit
def split_key(rng_key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """Two keys from one."""
    first, second = jax.random.split(rng_key)
    return first, second


def _student_values(
    normal: Float[np.ndarray, "*N S L"],
    mean: Float[np.ndarray, " N"],
    factor: Float[np.ndarray, "N L"],
    df: Float[np.ndarray, " N"],
) -> Float[np.ndarray, "S N"]:
    """Values of the draws: each normal draw of the value, at its own quantile of Student's t."""
    from scipy.special import ndtr, stdtrit

    sd = np.sqrt(np.sum(factor**2, axis=1))
    unit = factor / np.where(sd > 0.0, sd, 1.0)[:, None]
    score = normal @ unit.T if normal.ndim == 2 else np.einsum("nsl,nl->sn", normal, unit)
    # From the lower tail, where probabilities keep their precision.
    return mean + sd * np.copysign(stdtrit(df, ndtr(-np.abs(score))), score)


@partial(jax.jit, static_argnames="shared")
def _draws(
    problem: Problem, posterior: GaussianPosterior, normal: Array, value: Array, shared: bool
) -> tuple[Array, Array]:
    def one(
        moments: Moments,
        constraint: ChanceConstraint,
        posterior: GaussianPosterior,
        normal: Array,
        value: Array,
    ) -> tuple[Array, Array]:
        weights = posterior.mean[:-1] + normal @ posterior.factor[:-1].T
        residual = weights @ moments.matrix[:, :-1].T + value[:, None] * moments.matrix[:, -1]
        loss = constraint.penalty.value(residual + moments.offset)
        return loss, weights * moments.active

    return jax.vmap(one, in_axes=(0, 0, 0, None if shared else 0, 1), out_axes=1)(
        problem.moments, problem.constraint, posterior, normal, value
    )
