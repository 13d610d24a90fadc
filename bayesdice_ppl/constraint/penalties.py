"""Convex penalties f of the residual, each with its Fenchel conjugate f*.

The chance-constraint loss is ell = f(residual) = max over beta of beta'residual - f*(beta): any
f >= 0 that is convex with f(0) = 0 is in the paper's family, and the choice of f decides how the
belief spreads.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, final

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float


class Penalty(Protocol):
    """A convex penalty with its conjugate, and coordinates in which it is a plain square."""

    def value(self, residual: Float[Array, "*b R"]) -> Float[Array, "*b"]:
        """f(residual) >= 0."""
        ...

    def conjugate(self, beta: Float[Array, "*b R"]) -> Float[Array, "*b"]:
        """f*(beta) = max over x of beta'x - f(x)."""
        ...

    def maximizer(self, residual: Float[Array, "*b R"]) -> Float[Array, "*b R"]:
        """The beta at which beta'residual - f*(beta) is largest."""
        ...

    def unwhiten(self, whitened: Float[Array, "*b R"]) -> Float[Array, "*b R"]:
        """The beta of given whitened coordinates, in which f* is |.|^2 / 2 near the maximum."""
        ...


@final
class Squared(NamedTuple):
    """f(x) = |x|^2 / 2, its own conjugate: the paper's default.

    Attributes
    ----------
    rows
        1 for the rows of the residual that count, 0 for those that do not, shape (R,).
    """

    rows: Float[Array, " R"]

    def value(self, residual: Float[Array, "*b R"]) -> Float[Array, "*b"]:
        """f(residual)."""
        return 0.5 * jnp.sum((residual * self.rows) ** 2, axis=-1)

    def conjugate(self, beta: Float[Array, "*b R"]) -> Float[Array, "*b"]:
        """f*(beta), for a beta that is zero where the rows do not count."""
        return 0.5 * jnp.sum(beta**2, axis=-1)

    def maximizer(self, residual: Float[Array, "*b R"]) -> Float[Array, "*b R"]:
        """The residual itself."""
        return residual * self.rows

    def unwhiten(self, whitened: Float[Array, "*b R"]) -> Float[Array, "*b R"]:
        """The same coordinates."""
        return whitened * self.rows


@final
class Mahalanobis(NamedTuple):
    """f(x) = x' Sigma^-1 x / 2, f*(beta) = beta' Sigma beta / 2: the default.

    Attributes
    ----------
    factor, inverse
        Lower Cholesky factor L of Sigma (ridged), and L^-1, shapes (R, R).
    rows
        1 for the rows of the residual that count, shape (R,); the factor is the identity
        elsewhere.
    """

    factor: Float[Array, "R R"]
    inverse: Float[Array, "R R"]
    rows: Float[Array, " R"]

    def value(self, residual: Float[Array, "*b R"]) -> Float[Array, "*b"]:
        """f(residual)."""
        return 0.5 * jnp.sum(self._whiten(residual) ** 2, axis=-1)

    def conjugate(self, beta: Float[Array, "*b R"]) -> Float[Array, "*b"]:
        """f*(beta)."""
        return 0.5 * jnp.sum((beta @ self.factor) ** 2, axis=-1)

    def maximizer(self, residual: Float[Array, "*b R"]) -> Float[Array, "*b R"]:
        """Sigma^-1 residual."""
        return self.unwhiten(self._whiten(residual))

    def unwhiten(self, whitened: Float[Array, "*b R"]) -> Float[Array, "*b R"]:
        """L'^-1 whitened, with Sigma = L L'."""
        return (whitened * self.rows) @ self.inverse

    def _whiten(self, residual: Float[Array, "*b R"]) -> Float[Array, "*b R"]:
        return (residual * self.rows) @ self.inverse.T


def mahalanobis(covariance: Float[Array, "R R"], rows: Float[Array, " R"]) -> Mahalanobis:
    """Factor an invertible Sigma once, for all the evaluations to come."""
    factor = jnp.linalg.cholesky(covariance)
    identity = jnp.eye(len(rows), dtype=covariance.dtype)
    return Mahalanobis(factor, solve_triangular(factor, identity, lower=True), rows)
