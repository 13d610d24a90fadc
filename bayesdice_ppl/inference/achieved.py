"""What a Gaussian posterior achieves of its chance constraint, without draws.

With a quadratic penalty and a ratio that is linear in the weights, ell is half a weighted sum of
chi-squares under q, so that P_q(ell <= epsilon) and the surrogates' bounds need no Monte Carlo.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from bayesdice_ppl.constraint import quadratic_loss
from bayesdice_ppl.inference.engine import Problem, Solution
from bayesdice_ppl.inference.settings import FitSettings
from bayesdice_ppl.surrogates import Surrogate

MOST_ROWS = 512
"""Past as many rows of the residual the singular values of all candidates take too long."""


class Achieved(NamedTuple):
    """The chance constraint under the Gaussian q of each candidate.

    Attributes
    ----------
    probability
        P_q(ell <= epsilon), shape (N,).
    expected_loss
        E_q[ell], shape (N,).
    bound
        The surrogate's bound on P_q(ell > epsilon), at most 1, shape (N,).
    level
        The level of the bound, shape (N,): the one that was given, or else the best; NaN for
        surrogates whose bound has none. It may be infinite for `bernstein`.
    """

    probability: Float[np.ndarray, " N"]
    expected_loss: Float[np.ndarray, " N"]
    bound: Float[np.ndarray, " N"]
    level: Float[np.ndarray, " N"]


def closed_form_bounds(
    problem: Problem, solution: Solution, settings: FitSettings
) -> Achieved | None:
    """The chance constraint as the posterior meets it, where that has a closed form.

    Parameters
    ----------
    problem, solution
        From `prepare` and `solve`.
    settings
        The fit's settings.

    Returns
    -------
    Achieved or None
        None where the penalty is not quadratic, the link is not the identity, the posterior is one
        of draws (NUTS), or the residual has more than `MOST_ROWS` rows.

    Notes
    -----
    These numbers are of the Gaussian q itself. With ``small_sample`` the draws of a belief have
    values in the heavier tails of Student's t, which take the weights along, so that averages over
    the draws' losses differ from them by more than Monte Carlo error; without it they agree.
    """
    moments = problem.moments
    if (
        not settings.penalty.quadratic
        or settings.link != "identity"
        or solution.sampled is not None
        or moments.matrix.shape[-2] > MOST_ROWS
    ):
        return None
    penalty = jax.tree.map(np.asarray, problem.constraint.penalty)
    found = []
    for j, price in enumerate(problem.prices):
        whitening = quadratic_loss.whitening(jax.tree.map(lambda x, j=j: x[j], penalty))
        if whitening is None:
            return None
        loss = quadratic_loss.loss_of_gaussian(
            np.asarray(solution.posterior.mean)[j],
            np.asarray(solution.posterior.factor)[j],
            np.asarray(moments.matrix)[j],
            np.asarray(moments.offset)[j],
            whitening,
        )
        exceedance = quadratic_loss.exceedance(loss, price.epsilon)
        bound = _bound(settings.surrogate, loss, price.epsilon, exceedance)
        found.append((1.0 - exceedance, quadratic_loss.mean(loss), *bound))
    return Achieved(*np.array(found, dtype=np.float64).reshape(-1, 4).T)


def _bound(
    surrogate: Surrogate, loss: quadratic_loss.QuadraticLoss, epsilon: float, exceedance: float
) -> quadratic_loss.LevelBound:
    """As `Surrogate.bound`, with an expectation in place of the mean over draws."""
    if surrogate.name == "cvar":
        return quadratic_loss.cvar_bound(loss, epsilon, level=surrogate.level)
    if surrogate.name == "bernstein":
        return quadratic_loss.bernstein_bound(loss, epsilon, level=surrogate.level)
    if surrogate.name == "cdf":
        return quadratic_loss.LevelBound(exceedance, math.nan)
    return quadratic_loss.LevelBound(min(quadratic_loss.mean(loss) / epsilon, 1.0), math.nan)
