"""What an engine is: from the prepared problem to the posterior of every candidate.

An engine is what a user asks for, such as ``Exact()`` or ``Nuts(chains=8)``. It is hashable, and
refuses what it cannot do before any work is done.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.constraint import ChanceConstraint
from bayesdice_ppl.inference.problem import FitForm, Problem
from bayesdice_ppl.models import GaussianPosterior, Ratio


class Solution(NamedTuple):
    """The posterior of every candidate, stacked.

    Attributes
    ----------
    posterior
        Means (N, L + 1) of the ratio's latent numbers and the value, and factors (N, L + 1, M).
    elbo
        The ELBO at each step, shape (N, steps); no steps except for SVI.
    drift
        How far SVI still moved in its last window, shape (N, 2); see `SviResult`.
    level
        The surrogate's level, shape (N,).
    sampled
        Draws of an engine whose q is not Gaussian, shape (N, chains, draws, L + 1); `posterior`
        has their mean and covariance. Independent draws are one chain. None for other engines.
    diverging
        Share of the trajectories of NUTS that diverged, shape (N,).
    trained
        The ratio of every candidate after training, and the constraint that it was trained on, if
        the engine trains. They take the place of the problem's.
    """

    posterior: GaussianPosterior
    elbo: Float[Any, "N steps"]
    drift: Float[Any, "N 2"]
    level: Float[Any, " N"]
    sampled: Float[Any, "N chains draws K"] | None
    diverging: Float[Any, " N"]
    trained: tuple[Ratio, ChanceConstraint] | None = None

    def of(self, problem: Problem) -> Problem:
        """The problem whose latent numbers these are."""
        if self.trained is None:
            return problem
        ratio, constraint = self.trained
        return problem._replace(ratio=ratio, constraint=constraint)

    @property
    def value_mean(self) -> Float[np.ndarray, " N"]:
        """Mean of each value, shape (N,)."""
        return np.asarray(self.posterior.mean)[:, -1]

    @property
    def value_sd(self) -> Float[np.ndarray, " N"]:
        """Standard deviation of each value, shape (N,)."""
        return np.sqrt(np.sum(np.asarray(self.posterior.factor)[:, -1] ** 2, axis=-1))


@runtime_checkable
class Engine(Protocol):
    """An engine that can be asked for."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def guided(self) -> bool:
        """Whether it moves in the problem's coordinates."""
        ...

    @property
    def tangent(self) -> bool:
        """Whether it solves the problem as it is linear around its mode."""
        ...

    def check(self, form: FitForm, draws: int) -> None:
        """Refuse what it cannot do, and say which engine can.

        Raises
        ------
        SettingsError
            The form has no posterior that this engine finds.
        """
        ...

    def solve(self, problem: Problem, rng_key: PRNGKeyArray, form: FitForm, draws: int) -> Solution:
        """Posterior of every candidate; called under ``jax.enable_x64(True)``.

        Parameters
        ----------
        problem
            From `bayesdice_ppl.inference.prepare`.
        rng_key
            The same for every candidate, so that equal candidates get equal posteriors.
        form
            What is fitted.
        draws
            Number of draws that the belief needs.
        """
        ...


@runtime_checkable
class TrainingEngine(Engine, Protocol):
    """An engine that trains a `bayesdice_ppl.models.TrainedModel`."""

    @property
    def trains(self) -> bool:
        """Whether it does."""
        ...


def nothing_but(posterior: GaussianPosterior, problem: Problem, form: FitForm) -> Solution:
    """The solution of an engine without an ELBO trace and draws of its own."""
    n_policies = problem.n_policies
    return Solution(
        posterior=posterior,
        elbo=np.zeros((n_policies, 0)),
        drift=np.zeros((n_policies, 2)),
        level=np.full(n_policies, form.constraint.surrogate.start),
        sampled=None,
        diverging=np.zeros(n_policies),
    )


def solve(
    problem: Problem, rng_key: PRNGKeyArray, form: FitForm, engine: Engine, draws: int
) -> Solution:
    """Posterior of every candidate by one engine; see `Engine.solve`."""
    with jax.enable_x64(True):
        needed = problem.arrays
        return jax.tree.map(np.asarray, engine.solve(needed, rng_key, form, draws))
