"""Gaussians: conditioning in gain form, for noise that may be singular, and square roots.

The residual is G x + c with noise covariance V. Redundant rows (u'G = 0 and u'V = 0) must drop out,
and exact constraints (u'V = 0, u'G != 0) must bind. A pseudo-inverse of V loses the second kind;
the gain form treats both correctly.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Float

RELATIVE_TOLERANCE = 1e-12
"""Eigenvalues of the scaled innovation below this share of the largest count as zero."""
_ROOT_JITTER = 1e-10
WIDE = 512
"""Rows from which the innovation is factored by Cholesky: ten times as fast as by eigenvectors."""
WIDE_STEP = 64
"""The same where many estimates are made of which none is kept: steps, and groups left out."""
JITTER = 1e-12
"""Added to its unit diagonal before Cholesky. For a redundant row the right-hand side is zero, and
so is the solution. For an exact constraint the prior's spread is on the diagonal already."""


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


class ConditionedValue(NamedTuple):
    """All means after conditioning on a residual, and the spread of the last latent number.

    Attributes
    ----------
    mean
        Means of all K latent numbers, shape (K,).
    variance
        Variance of the last one, scalar.
    gain
        How the mean of the last one moves against the residual, shape (R,): the last row of
        `Conditioned.gain`.
    """

    mean: Float[Array, " K"]
    variance: Float[Array, ""]
    gain: Float[Array, " R"]


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
    K = P0 G' (G P0 G' + V)^+. The covariance is in Joseph's form, (I - K G) P0 (I - K G)' + K V K',
    which stays positive semidefinite when the posterior is much narrower than the prior.
    """
    variance = prior_scale**2
    spread = matrix * variance
    unit, scale = _innovation(matrix, spread, noise)
    gain = _unit_solve(unit, spread * scale[:, None]).T * scale
    mean = prior_mean - gain @ (matrix @ prior_mean + offset)
    left = jnp.eye(prior_mean.shape[0], dtype=matrix.dtype) - gain @ matrix
    covariance = (left * variance) @ left.T + gain @ noise @ gain.T
    return Conditioned(mean, 0.5 * (covariance + covariance.T), gain)


def condition_value(
    matrix: Float[Array, "R K"],
    offset: Float[Array, " R"],
    noise: Float[Array, "R R"],
    prior_mean: Float[Array, " K"],
    prior_scale: Float[Array, " K"],
    *,
    wide: int | None = None,
) -> ConditionedValue:
    """Condition as `condition` does, but compute only the last variance and gain.

    Parameters
    ----------
    matrix, offset
        G, shape (R, K), and c, shape (R,).
    noise
        Covariance V of the residual, shape (R, R), positive semidefinite, possibly singular.
    prior_mean, prior_scale
        Shapes (K,).
    wide
        Rows from which the innovation is factored by Cholesky; `WIDE` by default.

    Notes
    -----
    Two right-hand sides replace the R of the whole gain. The residual at the prior's mean moves all
    means, and the last column of G P0 gives the last row k of the gain. With l = e - G'k the
    variance is the last entry of Joseph's form, l' P0 l + k' V k.
    """
    variance = prior_scale**2
    spread = matrix * variance
    unit, scale = _innovation(matrix, spread, noise)
    right = jnp.stack([spread[:, -1], matrix @ prior_mean + offset], axis=1)
    solved = _unit_solve(unit, right * scale[:, None], wide) * scale[:, None]
    gain, pull = solved[:, 0], solved[:, 1]
    left = (-gain @ matrix).at[-1].add(1.0)
    return ConditionedValue(
        mean=prior_mean - spread.T @ pull,
        variance=jnp.sum(left**2 * variance) + gain @ (noise @ gain),
        gain=gain,
    )


def _innovation(
    matrix: Float[Array, "R K"], spread: Float[Array, "R K"], noise: Float[Array, "R R"]
) -> tuple[Float[Array, "R R"], Float[Array, " R"]]:
    """G P0 G' + V scaled to a unit diagonal, and the scale of each row, 0 for an empty one."""
    innovation = spread @ matrix.T + noise
    # Rows differ in units. On a unit diagonal one tolerance fits all.
    diagonal = jnp.diagonal(innovation)
    scale = jnp.where(diagonal > 0.0, 1.0 / jnp.sqrt(jnp.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    return innovation * scale[:, None] * scale, scale


def _unit_solve(
    unit: Float[Array, "R R"], right: Float[Array, "R L"], wide: int | None = None
) -> Float[Array, "R L"]:
    """unit^+ right for a positive semidefinite matrix with a diagonal of ones, or zeros."""
    if unit.shape[0] > (WIDE if wide is None else wide):
        added = jnp.where(jnp.diagonal(unit) > 0.0, JITTER, 1.0)
        factor = jnp.linalg.cholesky(unit + jnp.diag(added))
        return cho_solve((factor, True), right)
    values, vectors = jnp.linalg.eigh(unit)
    kept = values > RELATIVE_TOLERANCE * values[-1]
    inverse = jnp.where(kept, 1.0 / jnp.where(kept, values, 1.0), 0.0)
    return (vectors * inverse) @ (vectors.T @ right)


def square_root(covariance: Float[Array, "K K"]) -> Float[Array, "K K"]:
    """A square root of a positive semidefinite matrix, singular ones included."""
    scale = jnp.sqrt(jnp.maximum(jnp.diagonal(covariance), 0.0))
    safe = jnp.where(scale > 0.0, scale, 1.0)
    unit = covariance / safe[:, None] / safe
    if unit.shape[0] > WIDE:
        # A number without spread keeps a row of zeros.
        added = jnp.where(scale > 0.0, _ROOT_JITTER, 1.0)
        return scale[:, None] * jnp.linalg.cholesky(unit + jnp.diag(added))
    values, vectors = jnp.linalg.eigh(unit)
    return scale[:, None] * vectors * jnp.sqrt(jnp.maximum(values, 0.0))
