"""Gaussian conditioning in gain form, where the noise may be singular.

The residual is G x + c with noise covariance V. Rows that say nothing (u'G = 0 and u'V = 0) must
drop out, and rows that hold exactly (u'V = 0, u'G != 0) must bind; a pseudo-inverse of V loses
the second kind, the gain form keeps both.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Bool, Float

RELATIVE_TOLERANCE = 1e-12
"""Eigenvalues of the scaled innovation below this share of the largest count as zero."""


WIDE = 512
"""Rows from which the innovation is factored by Cholesky: ten times as fast as by eigenvectors."""
JITTER = 1e-12
"""What is then added to its unit diagonal. A redundant row meets nothing in the spread, so that
dividing by so little there gives nothing; a row that holds exactly has the prior's spread."""


class Conditioned(NamedTuple):
    """A Gaussian after conditioning on a residual.

    Attributes
    ----------
    mean, covariance
        Shapes (K,) and (K, K).
    gain
        How the mean moves against the residual, shape (K, R): mean = mean0 - gain residual0.
    """

    mean: Float[Array, " K"]
    covariance: Float[Array, "K K"]
    gain: Float[Array, "K R"]


def condition(
    matrix: Float[Array, "R K"],
    offset: Float[Array, " R"],
    noise: Float[Array, "R R"],
    prior_mean: Float[Array, " K"],
    prior_scale: Float[Array, " K"],
) -> Conditioned:
    """Condition N(prior_mean, diag(prior_scale^2)) on matrix x + offset = 0 up to noise.

    Parameters
    ----------
    matrix, offset
        G, shape (R, K), and c, shape (R,).
    noise
        Covariance V of the residual, shape (R, R), positive semidefinite, possibly singular.
    prior_mean, prior_scale
        Shapes (K,).

    Notes
    -----
    K = P0 G' (G P0 G' + V)^+; the covariance is in Joseph's form, (I - K G) P0 (I - K G)' + K V K',
    which stays positive semidefinite when little of a wide prior is left.
    """
    variance = prior_scale**2
    spread = matrix * variance
    innovation = spread @ matrix.T + noise
    # Rows differ in units; scaled to a unit diagonal, one tolerance fits all.
    diagonal = jnp.diagonal(innovation)
    scale = jnp.where(diagonal > 0.0, 1.0 / jnp.sqrt(jnp.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    unit = innovation * scale[:, None] * scale
    if unit.shape[0] > WIDE:
        gain = _gain_of_many(unit, spread * scale[:, None], diagonal > 0.0).T * scale
    else:
        values, vectors = jnp.linalg.eigh(unit)
        kept = values > RELATIVE_TOLERANCE * values[-1]
        inverse = jnp.where(kept, 1.0 / jnp.where(kept, values, 1.0), 0.0)
        gain = (((spread.T * scale) @ vectors) * inverse) @ (vectors.T * scale)
    mean = prior_mean - gain @ (matrix @ prior_mean + offset)
    left = jnp.eye(prior_mean.shape[0], dtype=matrix.dtype) - gain @ matrix
    covariance = (left * variance) @ left.T + gain @ noise @ gain.T
    return Conditioned(mean, 0.5 * (covariance + covariance.T), gain)


def _gain_of_many(
    unit: Float[Array, "R R"], spread: Float[Array, "R K"], live: Bool[Array, " R"]
) -> Float[Array, "R K"]:
    """unit^-1 spread for a positive semidefinite matrix with unit diagonal on its live rows."""
    added = jnp.where(live, JITTER, 1.0)
    factor = jnp.linalg.cholesky(unit + jnp.diag(added))
    return cho_solve((factor, True), spread)
