"""The closed form: with a linear ratio, a quadratic penalty and Markov's bound, q is Gaussian.

Over *all* q, KL(q || p) + (lambda / epsilon) E_q[ell] is least at the Gaussian that conditions the
prior on residual = 0 with noise (epsilon / lambda) Sigma. Where it exists it is the oracle of every
other engine. The model of the ratio works it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast, final

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from bayesdice_ppl.arrays import each
from bayesdice_ppl.constraint import Constraint, PenaltyChoice
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.inference.engine import Solution, nothing_but
from bayesdice_ppl.inference.problem import QUICK, FitForm, Problem, joined_metric
from bayesdice_ppl.models import GaussianPosterior, LinearGaussianRatio, RatioModel


@final
@dataclass(frozen=True)
class Exact:
    """The closed form as an engine, without settings."""

    @property
    def name(self) -> str:
        """What it is called."""
        return "exact"

    @property
    def guided(self) -> bool:
        """It moves in no coordinates."""
        return False

    @property
    def tangent(self) -> bool:
        """It takes the ratio as it is."""
        return False

    def check(self, form: FitForm, draws: int) -> None:
        """Refuse what has no closed form."""
        missing = no_closed_form(form.constraint, form.model)
        if missing is not None:
            raise SettingsError(
                f"inference='exact': {missing} has no closed form. Use 'svi' or 'nuts'."
            )

    def solve(self, problem: Problem, rng_key: PRNGKeyArray, form: FitForm, draws: int) -> Solution:
        """The closed form of every candidate."""
        chosen = form.constraint
        closed = _solve if form.plain else _compiled_solve
        # The price search hands on what it found as JAX's arrays.
        needed = jax.tree.map(np.asarray, problem) if form.plain else problem
        posterior = closed(needed, chosen.penalty, chosen.value_constraint)
        return nothing_but(posterior, problem, form)


def no_closed_form(constraint: Constraint, model: RatioModel) -> str | None:
    """The part without a closed form, in words, or None."""
    missing = constraint.closed_form_missing()
    return f"the model {model}" if missing is None and not model.linear else missing


def _solve(problem: Problem, penalty: PenaltyChoice, value_constraint: bool) -> GaussianPosterior:
    covariance = each(penalty.metric, problem.pilots.covariance)
    own = problem.constraint.auxiliary
    if own is not None:
        share = problem.constraint.price / own.price
        covariance = each(joined_metric, covariance, covariance, share)

    def one(ratio: LinearGaussianRatio, metric: Array, price: Array) -> GaussianPosterior:
        return ratio.posterior(metric, price, value_constraint=value_constraint)

    ratio = cast("LinearGaussianRatio", problem.ratio)
    return each(one, ratio, covariance, problem.constraint.price)


_compiled_solve = jax.jit(
    _solve, static_argnames=("penalty", "value_constraint"), compiler_options=QUICK
)
