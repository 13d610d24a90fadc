"""The closed form: with a linear ratio, a quadratic penalty and Markov's bound, q is Gaussian.

KL(q || p) + (lambda / epsilon) E_q[ell] over *all* q is minimized by the Gaussian that conditions
the prior on residual = 0 with noise (epsilon / lambda) Sigma. It is the oracle of every other
engine where it exists, and `inference="exact"`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesdice_ppl.inference.gain import WIDE, condition, condition_value
from bayesdice_ppl.moments import Moments

_ROOT_JITTER = 1e-10


class GaussianPosterior(NamedTuple):
    """A Gaussian over (weights, value).

    Attributes
    ----------
    mean
        Shape (P + 1,).
    factor
        A square root of the covariance, shape (P + 1, L): covariance = factor factor'.
    """

    mean: Float[Array, " K"]
    factor: Float[Array, "K L"]

    @property
    def sd(self) -> Float[Array, " K"]:
        """Standard deviations, shape (P + 1,)."""
        return jnp.sqrt(jnp.sum(self.factor**2, axis=-1))


class ValuePosterior(NamedTuple):
    """The means of a Gaussian over (weights, value), and the value's spread.

    Attributes
    ----------
    mean
        Of (weights, value), shape (P + 1,).
    sd
        Standard deviation of the value, in reward per step, scalar.
    """

    mean: Float[Array, " K"]
    sd: Float[Array, ""]


def exact_posterior(
    moments: Moments,
    covariance: Float[Array, "R R"],
    price: Float[Array, ""],
    *,
    value_constraint: bool = True,
) -> GaussianPosterior:
    """Closed-form posterior of (weights, value).

    Parameters
    ----------
    moments
        What the log says of one policy.
    covariance
        Sigma for the Mahalanobis penalty, the identity for the squared one, shape (R, R).
    price
        lambda / epsilon.
    value_constraint
        False: the value is the sum of ratio times reward exactly.
    """
    matrix, offset = moments.matrix, moments.offset
    if value_constraint:
        found = condition(
            matrix, offset, covariance / price, moments.prior_mean, moments.prior_scale
        )
        return GaussianPosterior(found.mean, square_root(found.covariance))
    found = condition(
        matrix[:-1, :-1],
        offset[:-1],
        covariance[:-1, :-1] / price,
        moments.prior_mean[:-1],
        moments.prior_scale[:-1],
    )
    return with_implied_value(moments, found.mean, square_root(found.covariance))


def exact_value(
    moments: Moments, covariance: Float[Array, "R R"], price: Float[Array, ""]
) -> ValuePosterior:
    """Closed-form posterior of the value alone, for those who need no draws of the weights.

    Where pairs are many, most of `exact_posterior` is the covariance of the weights and its root;
    this is one factorization and two solves.

    Parameters
    ----------
    moments
        What the log says of one policy.
    covariance
        Sigma for the Mahalanobis penalty, the identity for the squared one, shape (R, R).
    price
        lambda / epsilon.

    Returns
    -------
    ValuePosterior
        What `exact_posterior`, with the value constraint, says of the means and of the value.
    """
    found = condition_value(
        moments.matrix,
        moments.offset,
        covariance / price,
        moments.prior_mean,
        moments.prior_scale,
    )
    # Where nothing varies, rounding may leave the variance below 0.
    return ValuePosterior(found.mean, jnp.sqrt(jnp.maximum(found.variance, 0.0)))


def with_implied_value(
    moments: Moments, mean: Float[Array, " P"], factor: Float[Array, "P L"]
) -> GaussianPosterior:
    """Append the value that the weights imply, mean_i zeta_i sigma(r_i), to their Gaussian."""
    reward = moments.matrix[-1, :-1]
    value = reward @ mean + moments.offset[-1]
    return GaussianPosterior(
        jnp.append(mean, value), jnp.concatenate([factor, (reward @ factor)[None]], axis=0)
    )


def square_root(covariance: Float[Array, "K K"]) -> Float[Array, "K K"]:
    """A square root of a positive semidefinite matrix, singular ones included."""
    scale = jnp.sqrt(jnp.maximum(jnp.diagonal(covariance), 0.0))
    safe = jnp.where(scale > 0.0, scale, 1.0)
    unit = covariance / safe[:, None] / safe
    if unit.shape[0] > WIDE:
        # What has no spread of its own keeps a row of zeros.
        added = jnp.where(scale > 0.0, _ROOT_JITTER, 1.0)
        return scale[:, None] * jnp.linalg.cholesky(unit + jnp.diag(added))
    values, vectors = jnp.linalg.eigh(unit)
    return scale[:, None] * vectors * jnp.sqrt(jnp.maximum(values, 0.0))
