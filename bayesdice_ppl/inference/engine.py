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
from bayesdice_ppl.inference.svi import SviSettings, flat_coordinates, run_svi
from bayesdice_ppl.models import Coordinates
from bayesdice_ppl.moments import Cells, Moments, MomentSettings, build_moments

# For what runs once and spends its time in LAPACK: optimizing the code around it takes longer
# than it saves.
_QUICK = {"xla_backend_optimization_level": 0}


GUIDE_FEATURES = 512
"""Past as many rows of the residual, multipliers are not fitted unless that is asked for."""


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
    """The posterior of every candidate, stacked.

    Attributes
    ----------
    posterior
        Means (N, P + 1) and factors (N, P + 1, L).
    elbo
        Shape (N, steps); no steps in closed form.
    drift
        How far SVI still moved in its last window, shape (N, 2); see `SviResult`.
    """

    posterior: GaussianPosterior
    elbo: Float[np.ndarray, "N steps"]
    drift: Float[np.ndarray, "N 2"]


class _Engine(NamedTuple):
    """The settings that a compiled stage depends on: others must not compile it again."""

    inference: str
    penalty: str
    inner: str | None
    value_constraint: bool
    svi: SviSettings


def prepare(cells: Cells, candidates: Candidates, settings: FitSettings) -> Problem:
    """Moments, pilot, chance constraint and coordinates of every candidate.

    Raises
    ------
    SettingsError
        lambda, epsilon or xi are out of range.
    """
    with jax.enable_x64(True):
        moments, pilots = _pilots(
            cells, candidates, settings.moments, settings.by_episode, settings.small_sample
        )
        live = None if settings.value_constraint else -1
        prices = tuple(
            chance_price(
                float(cells.n_transitions),
                # Without the value constraint its row is no part of the residual.
                residual_rank(covariance[:live, :live]),
                xi=settings.xi,
                lam=settings.lam,
                epsilon=settings.epsilon,
            )
            for covariance in np.asarray(pilots.covariance)
        )
        price = jnp.asarray([p.lam / p.epsilon for p in prices])
        constraint, coordinates = _constraints(
            cells, moments, pilots, price, settings.penalty, settings.value_constraint
        )
    return Problem(cells, moments, constraint, coordinates, pilots, prices)


_STATIC = ("settings", "by_episode", "small_sample", "penalty", "value_constraint")


@partial(jax.jit, static_argnames=_STATIC[:3], compiler_options=_QUICK)
def _pilots(
    cells: Cells,
    candidates: Candidates,
    settings: MomentSettings,
    by_episode: bool,
    small_sample: bool,
) -> tuple[Moments, Pilot]:
    def one(target: Array, active: Array, kept: Array) -> tuple[Moments, Pilot]:
        moments = build_moments(cells, target, active, kept, settings)
        pilot = run_pilot(
            cells, moments, settings, by_episode=by_episode, small_sample=small_sample
        )
        return moments, pilot

    return jax.vmap(one)(*(jnp.asarray(field) for field in candidates))


@partial(jax.jit, static_argnames=_STATIC[3:], compiler_options=_QUICK)
def _constraints(
    cells: Cells,
    moments: Moments,
    pilots: Pilot,
    price: Array,
    penalty: str,
    value_constraint: bool,
) -> tuple[ChanceConstraint, Coordinates]:
    def one(moments: Moments, pilot: Pilot, price: Array) -> tuple[ChanceConstraint, Coordinates]:
        rows, mean_square = live_rows(cells, moments)
        if not value_constraint:
            rows = rows.at[-1].set(0.0)
        metric = invertible(pilot.covariance, rows, mean_square)
        tight = penalty == "mahalanobis"
        made = mahalanobis(metric, rows) if tight else Squared(rows)
        coordinates = flat_coordinates(
            moments, metric, rows, price, tight=tight, value_constraint=value_constraint
        )
        return ChanceConstraint(made, price), coordinates

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
    engine = _Engine(*(getattr(settings, name) for name in _Engine._fields))
    if engine.inner is None:
        wide = problem.moments.matrix.shape[-2] > GUIDE_FEATURES
        engine = engine._replace(inner="exact" if wide else "guide")
    with jax.enable_x64(True):
        solved = _solve(problem._replace(prices=()), rng_key, engine)
        posterior, elbo, drift = jax.block_until_ready(solved)
        return Solution(posterior, np.asarray(elbo), np.asarray(drift))


@partial(jax.jit, static_argnames="engine")
def _solve(
    problem: Problem, rng_key: PRNGKeyArray, engine: _Engine
) -> tuple[GaussianPosterior, Array, Array]:
    if engine.inference == "svi":
        fit = partial(
            run_svi,
            rng_key=rng_key,
            settings=engine.svi,
            inner=engine.inner or "guide",
            value_constraint=engine.value_constraint,
        )
        return jax.vmap(fit)(problem.moments, problem.constraint, problem.coordinates)
    covariance = problem.pilots.covariance
    if engine.penalty == "squared":
        covariance = jnp.broadcast_to(jnp.eye(covariance.shape[-1]), covariance.shape)
    exact = partial(exact_posterior, value_constraint=engine.value_constraint)
    posterior = jax.vmap(exact)(problem.moments, covariance, problem.constraint.price)
    n_policies = covariance.shape[0]
    return posterior, jnp.zeros((n_policies, 0)), jnp.zeros((n_policies, 2))
