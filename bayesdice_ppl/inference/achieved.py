"""How far a Gaussian posterior meets its chance constraint, without draws.

With a quadratic penalty and a linear ratio, ell is half a weighted sum of chi-squares under q, so
that P_q(ell <= epsilon) and the surrogates' bounds need no Monte Carlo.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from jaxtyping import Float

from bayesdice_ppl.arrays import compiled_for_jax, each, library_of
from bayesdice_ppl.constraint import (
    Penalty,
    QuadraticLoss,
    Surrogate,
    chi_square,
    loss_of_gaussian,
)
from bayesdice_ppl.inference.engine import Solution
from bayesdice_ppl.inference.problem import QUICK, Problem
from bayesdice_ppl.models import Ratio, ValueAlone, jacobian_of, less_value

MOST_ROWS = 512
"""Rows of the residual past which the singular values of all candidates take too long."""


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
        The level of the bound, shape (N,): the one that was given, or else the best. NaN for
        surrogates without a level. It may be infinite for `bernstein`.
    """

    probability: Float[np.ndarray, " N"]
    expected_loss: Float[np.ndarray, " N"]
    bound: Float[np.ndarray, " N"]
    level: Float[np.ndarray, " N"]


def closed_form_bounds(
    problem: Problem, solution: Solution, surrogate: Surrogate, *, linear: bool
) -> Achieved | None:
    """The chance constraint under the posterior, where it has a closed form.

    Parameters
    ----------
    problem, solution
        From `prepare` and an engine.
    surrogate
        The surrogate of the bound.
    linear
        Whether the ratio is linear in the latent numbers.

    Returns
    -------
    Achieved or None
        None where the penalty is not quadratic, the ratio is not linear, the posterior is made of
        draws (NUTS), or the residual has more than `MOST_ROWS` rows.

    Notes
    -----
    These are numbers of the Gaussian q itself. With the small-sample rule the values of a belief's
    draws have the heavier tails of Student's t, and the ratio follows them. Averages over the
    draws' losses then differ by more than Monte Carlo error. Without the rule they agree.
    """
    if problem.alone:
        return _alone(problem, surrogate)
    if not linear or solution.sampled is not None or problem.n_rows > MOST_ROWS:
        return None
    with jax.enable_x64(True):
        whitening, matrix, offset = _forms(problem.constraint.penalty, problem.ratio)
        if whitening is None:
            return None
    found = []
    for j, price in enumerate(problem.prices):
        loss = loss_of_gaussian(
            np.asarray(solution.posterior.mean)[j],
            np.asarray(solution.posterior.factor)[j],
            np.asarray(matrix)[j],
            np.asarray(offset)[j],
            np.asarray(whitening, dtype=np.float64)[j],
        )
        found.append(_row(loss, price.epsilon, surrogate))
    return Achieved(*np.array(found, dtype=np.float64).reshape(-1, 4).T)


def _row(loss: QuadraticLoss, epsilon: float, surrogate: Surrogate) -> tuple[float, ...]:
    """The fields of `Achieved` of one candidate."""
    probability = 1.0 - chi_square.exceedance(loss, epsilon)
    return probability, chi_square.mean(loss), *surrogate.exact_bound(loss, epsilon)


def _alone(problem: Problem, surrogate: Surrogate) -> Achieved:
    """The same where the weights were eliminated."""
    ratio = cast("ValueAlone", problem.ratio)
    found = [
        _row(ValueAlone(*(field[j] for field in ratio)).loss(n), price.epsilon, surrogate)
        for j, (price, n) in enumerate(zip(problem.prices, problem.constraint.price, strict=True))
    ]
    return Achieved(*np.array(found, dtype=np.float64).reshape(-1, 4).T)


@partial(compiled_for_jax, compiler_options=QUICK)
def _forms(penalty: Penalty, ratio: Ratio) -> tuple[Any, Any, Any]:
    """Whitening of each candidate's penalty if it has one, matrix and offset of its residual."""
    whitening = each(lambda own: own.whitening(), penalty)
    return whitening, *each(_affine, ratio)


def _affine(ratio: Ratio) -> tuple[Float[Any, "R K"], Float[Any, " R"]]:
    """Matrix and offset of the residual of a linear ratio in (latent numbers, value)."""
    size = ratio.latent_prior().event_shape[0]
    dtype = ratio.moments.offset.dtype
    xp = library_of(ratio.moments.offset)
    offset = ratio.residual(xp.zeros(size, dtype))
    matrix = jacobian_of(ratio)(xp.zeros(size, dtype))
    value = less_value(xp.zeros_like(offset), xp.ones((), dtype))
    return xp.concatenate([matrix, value[:, None]], axis=1), offset
