"""Gaussians: conditioning in gain form, for noise that may be singular, and square roots.

The residual is G x + c with noise covariance V. Redundant rows (u'G = 0 and u'V = 0) must drop out,
and exact constraints (u'V = 0, u'G != 0) must bind. A pseudo-inverse of V loses the second kind;
the gain form treats both correctly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxtyping import Float

from bayesdice_ppl.arrays import added, cholesky, eigh, library_of, solve_lower, symmetric_root

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

    mean: Float[Any, " K"]
    factor: Float[Any, "K L"]

    @property
    def sd(self) -> Float[Any, " K"]:
        """Standard deviations, shape (P + 1,)."""
        return library_of(self.factor).sqrt((self.factor**2).sum(axis=-1))


class Conditioned(NamedTuple):
    """A Gaussian after conditioning on a residual.

    Attributes
    ----------
    mean, covariance
        Shapes (K,) and (K, K).
    gain
        How the mean moves against the residual, shape (K, R): mean = mean0 - gain residual0.
    """

    mean: Float[Any, " K"]
    covariance: Float[Any, "K K"]
    gain: Float[Any, "K R"]


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

    mean: Float[Any, " K"]
    variance: Float[Any, ""]
    gain: Float[Any, " R"]


def condition(
    matrix: Float[Any, "R K"],
    offset: Float[Any, " R"],
    noise: Float[Any, "R R"],
    prior_mean: Float[Any, " K"],
    prior_scale: Float[Any, " K"],
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
    gain = unit_solve(unit, spread * scale[:, None]).T * scale
    mean = prior_mean - gain @ (matrix @ prior_mean + offset)
    identity = library_of(matrix).eye(prior_mean.shape[0], dtype=matrix.dtype)
    left = identity - gain @ matrix
    covariance = (left * variance) @ left.T + gain @ noise @ gain.T
    return Conditioned(mean, 0.5 * (covariance + covariance.T), gain)


def condition_value(
    matrix: Float[Any, "R K"],
    offset: Float[Any, " R"],
    noise: Float[Any, "R R"],
    prior_mean: Float[Any, " K"],
    prior_scale: Float[Any, " K"],
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
    xp = library_of(matrix)
    right = xp.stack([spread[:, -1], matrix @ prior_mean + offset], axis=1)
    solved = unit_solve(unit, right * scale[:, None], wide) * scale[:, None]
    gain, pull = solved[:, 0], solved[:, 1]
    left = added(-gain @ matrix, -1, 1.0)
    return ConditionedValue(
        mean=prior_mean - spread.T @ pull,
        variance=(left**2 * variance).sum() + gain @ (noise @ gain),
        gain=gain,
    )


def _innovation(
    matrix: Float[Any, "R K"], spread: Float[Any, "R K"], noise: Float[Any, "R R"]
) -> tuple[Float[Any, "R R"], Float[Any, " R"]]:
    """G P0 G' + V scaled to a unit diagonal, and the scale of each row, 0 for an empty one."""
    xp = library_of(matrix, noise)
    innovation = spread @ matrix.T + noise
    # Rows differ in units. On a unit diagonal one tolerance fits all.
    diagonal = xp.diagonal(innovation)
    scale = xp.where(diagonal > 0.0, 1.0 / xp.sqrt(xp.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    return innovation * scale[:, None] * scale, scale


def unit_solve(
    unit: Float[Any, "R R"], right: Float[Any, "R L"], wide: int | None = None
) -> Float[Any, "R L"]:
    """unit^+ right for a positive semidefinite matrix with a diagonal of ones, or zeros.

    Parameters
    ----------
    unit
        The matrix, shape (R, R).
    right
        Right-hand sides, shape (R, L).
    wide
        Rows from which it is factored by Cholesky, and not by eigenvectors; `WIDE` by default.
    """
    xp = library_of(unit)
    if unit.shape[0] > (WIDE if wide is None else wide):
        jitter = xp.where(xp.diagonal(unit) > 0.0, JITTER, 1.0)
        factor = cholesky(unit + xp.diag(jitter))
        return solve_lower(factor, solve_lower(factor, right), transposed=True)
    values, vectors = eigh(unit)
    kept = values > RELATIVE_TOLERANCE * values[-1]
    inverse = xp.where(kept, 1.0 / xp.where(kept, values, 1.0), 0.0)
    return (vectors * inverse) @ (vectors.T @ right)


def square_root(covariance: Float[Any, "K K"]) -> Float[Any, "K K"]:
    """A square root of a positive semidefinite matrix, singular ones included."""
    xp = library_of(covariance)
    scale = xp.sqrt(xp.maximum(xp.diagonal(covariance), 0.0))
    safe = xp.where(scale > 0.0, scale, 1.0)
    unit = covariance / safe[:, None] / safe
    if unit.shape[0] > WIDE:
        # A number without spread keeps a row of zeros.
        jitter = xp.where(scale > 0.0, _ROOT_JITTER, 1.0)
        return scale[:, None] * cholesky(unit + xp.diag(jitter))
    return scale[:, None] * symmetric_root(unit)
