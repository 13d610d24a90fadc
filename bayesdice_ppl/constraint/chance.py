"""The chance constraint P_q(ell <= epsilon) >= xi and its price.

The posterior is argmin over q of KL(q || p) - lambda P_q(ell <= epsilon). Markov's inequality
bounds the probability by 1 - E_q[ell] / epsilon, which leaves KL + (lambda / epsilon) E_q[ell]:
a plain factor in a probabilistic program (Yang et al., eqs. 12 to 14).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.arrays import added, library_of, replaced
from bayesdice_ppl.constraint.penalties import Penalty
from bayesdice_ppl.moments import VALUE_ROW, Cells, Moments

RIDGE = 1e-10
"""Share of its own diagonal that is added to Sigma where an inverse is needed.

The value sums action values of order 1 / (1 - gamma) whose noise nearly cancels. The ridge does not
cancel, and widens the belief more for longer horizons: on small random worlds at gamma = 0.99 a
ridge of 1e-5 widened it by 41 %.
"""

_FLOOR = 1e-13
_SMALLEST = 1e-8
_RANK_TOLERANCE = 1e-9


class AuxiliaryConstraint(NamedTuple):
    """Penalty and price of a second chance constraint on the same residual.

    Attributes
    ----------
    penalty, price, epsilon
        As for `ChanceConstraint`.
    """

    penalty: Penalty
    price: Float[Any, ""]
    epsilon: Float[Any, ""]


class ChanceConstraint(NamedTuple):
    """A penalty with its price.

    Attributes
    ----------
    penalty
        f and its conjugate.
    price
        lambda / epsilon, scalar.
    epsilon
        Bound on ell, scalar; Markov's surrogate needs only the price.
    auxiliary
        The normalization as a chance constraint of its own, or None. Its penalty looks at the
        normalization's row alone, and the main one at all other rows.
    """

    penalty: Penalty
    price: Float[Any, ""]
    epsilon: Float[Any, ""]
    auxiliary: AuxiliaryConstraint | None = None


def live_rows(moments: Moments) -> Float[Any, " R"]:
    """1 for the live rows of the residual, those that the ratio or the value moves, shape (R,)."""
    assert moments.by_ratio is not None
    xp = library_of(moments.by_ratio)
    touches = replaced(xp.any(moments.by_ratio != 0.0, axis=1), VALUE_ROW, True)
    return xp.where(touches, 1.0, 0.0)


def row_mean_square(cells: Cells, moments: Moments) -> Float[Any, " R"]:
    """Mean over transitions of each row's squared term, shape (R,)."""
    square = (moments.design**2).T @ cells.count
    crossed = 2.0 * moments.design[:, VALUE_ROW] @ cells.reward_sum
    crossed = crossed + cells.reward_square_sum.sum()
    return added(square, VALUE_ROW, crossed) / cells.n_transitions


def invertible(
    covariance: Float[Any, "R R"],
    rows: Float[Any, " R"],
    mean_square: Float[Any, " R"],
) -> Float[Any, "R R"]:
    """Sigma made invertible: a small ridge on live rows, the identity on the others.

    Parameters
    ----------
    covariance
        Sigma, shape (R, R).
    rows, mean_square
        From `live_rows` and `row_mean_square`. A row that holds exactly has a zero diagonal in
        Sigma, and a ridge relative to it would be zero. So a tiny share of the mean square is
        added.
    """
    xp = library_of(covariance)
    both = rows[:, None] * rows
    ridge = RIDGE * xp.diagonal(covariance) + _FLOOR * xp.where(
        mean_square > 0.0, mean_square, _SMALLEST
    )
    return covariance * both + xp.diag(xp.where(rows > 0.0, ridge, 1.0))


def residual_rank(covariance: Float[np.ndarray, "R R"]) -> int:
    """Rank r of Sigma scaled to a unit diagonal: the degrees of freedom of ell."""
    diagonal = np.diagonal(covariance)
    live = diagonal > 0.0
    scale = np.sqrt(diagonal[live])
    values = np.linalg.eigvalsh(covariance[np.ix_(live, live)] / scale[:, None] / scale)
    return int((values > _RANK_TOLERANCE * max(values.max(initial=0.0), 1.0)).sum())


class Price(NamedTuple):
    """The numbers of the chance constraint, for one policy.

    Attributes
    ----------
    lam, epsilon, xi
        P_q(ell <= epsilon) >= xi, priced at lambda.
    """

    lam: float
    epsilon: float
    xi: float


def chance_price(
    n_transitions: float,
    rank: int,
    *,
    xi: float = 0.95,
    lam: float | None = None,
    epsilon: float | None = None,
) -> Price:
    """Fill in the defaults: epsilon = chi2_{r, xi} / (2 n), lambda = n epsilon.

    With the Mahalanobis penalty, 2 n ell is a chi-square of r degrees of freedom at the true ratio,
    so that this epsilon bounds ell with probability xi. With lambda / epsilon = n the posterior
    spreads as the estimate does over repeated logs.
    """
    from scipy.special import chdtri

    bound = epsilon
    if bound is None:
        bound = float(chdtri(max(rank, 1), 1.0 - xi)) / (2.0 * n_transitions)
    return Price(n_transitions * bound if lam is None else lam, bound, xi)
