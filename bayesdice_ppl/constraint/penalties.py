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

_ROUNDING = 1e-12
"""Share by which a multiplier may pass Huber's bound and still count as on it."""


class Penalty(Protocol):
    """A convex penalty with its conjugate, and the multipliers at which they meet."""

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
        """The beta that belongs to a residual given in the penalty's own, whitened units."""
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


@final
class Power(NamedTuple):
    """f(x) = sum_j |x_j|^p / p, by coordinate, with p > 1; at p = 2 it is `Squared`.

    Attributes
    ----------
    rows
        1 for the rows of the residual that count, shape (R,).
    exponent
        p, scalar.
    """

    rows: Float[Array, " R"]
    exponent: Float[Array, ""]

    def value(self, residual: Float[Array, "*b R"]) -> Float[Array, "*b"]:
        """f(residual)."""
        size = _power(jnp.abs(residual * self.rows), self.exponent)
        return jnp.sum(size, axis=-1) / self.exponent

    def conjugate(self, beta: Float[Array, "*b R"]) -> Float[Array, "*b"]:
        """f*(beta) = sum_j |beta_j|^q / q with 1/p + 1/q = 1."""
        dual = self.exponent / (self.exponent - 1.0)
        return jnp.sum(_power(jnp.abs(beta), dual), axis=-1) / dual

    def maximizer(self, residual: Float[Array, "*b R"]) -> Float[Array, "*b R"]:
        """sign(x) |x|^(p - 1)."""
        live = residual * self.rows
        return jnp.sign(live) * _power(jnp.abs(live), self.exponent - 1.0)

    def unwhiten(self, whitened: Float[Array, "*b R"]) -> Float[Array, "*b R"]:
        """The maximizer at a residual of these coordinates."""
        return self.maximizer(whitened)


@final
class Huber(NamedTuple):
    """f(x) = max over |beta_j| <= c of beta'x - |beta|^2 / 2: a square that grows linearly past c.

    Attributes
    ----------
    rows
        1 for the rows of the residual that count, shape (R,).
    bound
        c > 0, in units of the residual, scalar.
    """

    rows: Float[Array, " R"]
    bound: Float[Array, ""]

    def value(self, residual: Float[Array, "*b R"]) -> Float[Array, "*b"]:
        """f(residual)."""
        beta = self.maximizer(residual)
        return jnp.sum(beta * residual - 0.5 * beta**2, axis=-1)

    def conjugate(self, beta: Float[Array, "*b R"]) -> Float[Array, "*b"]:
        """f*(beta) = |beta|^2 / 2 within the bound, infinite beyond it."""
        inside = jnp.all(jnp.abs(beta) <= self.bound * (1.0 + _ROUNDING), axis=-1)
        return jnp.where(inside, 0.5 * jnp.sum(beta**2, axis=-1), jnp.inf)

    def maximizer(self, residual: Float[Array, "*b R"]) -> Float[Array, "*b R"]:
        """The residual, cut off at the bound."""
        return jnp.clip(residual * self.rows, -self.bound, self.bound)

    def unwhiten(self, whitened: Float[Array, "*b R"]) -> Float[Array, "*b R"]:
        """The maximizer at a residual of these coordinates."""
        return self.maximizer(whitened)


def _power(size: Float[Array, "*b R"], exponent: Float[Array, ""]) -> Float[Array, "*b R"]:
    """size^exponent for size >= 0, with a gradient of 0 (and not none) at 0."""
    positive = size > 0.0
    return jnp.where(positive, jnp.where(positive, size, 1.0) ** exponent, 0.0)


def mahalanobis(covariance: Float[Array, "R R"], rows: Float[Array, " R"]) -> Mahalanobis:
    """Factor an invertible Sigma once, for all the evaluations to come."""
    factor = jnp.linalg.cholesky(covariance)
    identity = jnp.eye(len(rows), dtype=covariance.dtype)
    return Mahalanobis(factor, solve_triangular(factor, identity, lower=True), rows)
