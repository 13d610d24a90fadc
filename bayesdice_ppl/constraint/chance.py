"""The chance constraint P_q(ell <= epsilon) >= xi and its price.

The posterior is argmin over q of KL(q || p) - lambda P_q(ell <= epsilon). Markov's inequality
bounds the probability by 1 - E_q[ell] / epsilon, which leaves KL + (lambda / epsilon) E_q[ell]:
a plain factor in a probabilistic program (Yang et al., eqs. 12 to 14).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesdice_ppl.constraint.penalties import Penalty
from bayesdice_ppl.moments import VALUE_ROW, Cells, Moments

RIDGE = 1e-10
"""Share of its own diagonal that is added to Sigma where an inverse is unavoidable.

The value is a sum of action values of order 1 / (1 - gamma) whose noise nearly cancels; a ridge
does not, and widens the belief the more the longer the horizon (on small random worlds at gamma =
0.99, a ridge of 1e-5 widened it by 41 %).
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
    price: Float[Array, ""]
    epsilon: Float[Array, ""]


class ChanceConstraint(NamedTuple):
    """A penalty with its price.

    Attributes
    ----------
    penalty
        f and its conjugate.
    price
        lambda / epsilon, scalar.
    epsilon
        Bound that ell is held against, scalar; Markov's surrogate needs its price alone.
    auxiliary
        The same of the normalization, where that is a chance constraint of its own: its penalty
        looks at the normalization's row alone, and the one above at all others.
    """

    penalty: Penalty
    price: Float[Array, ""]
    epsilon: Float[Array, ""]
    auxiliary: AuxiliaryConstraint | None = None


def live_rows(moments: Moments) -> Float[Array, " R"]:
    """Which rows of the residual say anything, shape (R,): 1 for a live row, else 0."""
    assert moments.by_ratio is not None
    touches = jnp.any(moments.by_ratio != 0.0, axis=1).at[VALUE_ROW].set(True)
    return jnp.where(touches, 1.0, 0.0)


def row_mean_square(cells: Cells, moments: Moments) -> Float[Array, " R"]:
    """Mean over transitions of each row's squared term, shape (R,)."""
    square = (moments.design**2).T @ cells.count
    crossed = 2.0 * moments.design[:, VALUE_ROW] @ cells.reward_sum
    crossed = crossed + jnp.sum(cells.reward_square_sum)
    return square.at[VALUE_ROW].add(crossed) / cells.n_transitions


def invertible(
    covariance: Float[Array, "R R"],
    rows: Float[Array, " R"],
    mean_square: Float[Array, " R"],
) -> Float[Array, "R R"]:
    """Sigma made invertible: a small ridge on live rows, the identity on the others.

    Parameters
    ----------
    covariance
        Sigma, shape (R, R).
    rows, mean_square
        From `live_rows` and `row_mean_square`. A row that holds exactly has a zero diagonal in
        Sigma. A ridge relative to that alone would be none, so a tiny share of the mean square
        joins it.
    """
    both = rows[:, None] * rows
    ridge = RIDGE * jnp.diagonal(covariance) + _FLOOR * jnp.where(
        mean_square > 0.0, mean_square, _SMALLEST
    )
    return covariance * both + jnp.diag(jnp.where(rows > 0.0, ridge, 1.0))


def residual_rank(covariance: Float[np.ndarray, "R R"]) -> int:
    """Rank r of Sigma, its rows scaled to a unit diagonal (the degrees of freedom of ell)."""
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

    With the Mahalanobis penalty n ell is half a chi-square of r degrees of freedom at the truth,
    so that this epsilon bounds it with probability xi, and lambda / epsilon = n makes the
    posterior spread as the estimator does over repeated logs.
    """
    from scipy.special import chdtri

    bound = epsilon
    if bound is None:
        bound = float(chdtri(max(rank, 1), 1.0 - xi)) / (2.0 * n_transitions)
    return Price(n_transitions * bound if lam is None else lam, bound, xi)
