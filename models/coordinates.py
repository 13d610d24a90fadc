"""Coordinates in which a guide or a sampler moves, and where it starts in them.

They come from the residual's own noise, never from the posterior that is to be found. Nearly exact
constraints make a posterior thin; in these coordinates it is round enough to move in.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesdice_ppl.models.gaussian import condition

_TIGHT = 0.05
_JITTER = 1e-10


class Coordinates(NamedTuple):
    """Coordinates y in which the guide moves: latent = center + factor y.

    Attributes
    ----------
    center
        Shape (L,): the latent numbers of the ratio and, with the value constraint, the value.
    factor
        Lower triangular, shape (L, L).
    """

    center: Float[Array, " L"]
    factor: Float[Array, "L L"]


class Start(NamedTuple):
    """Where the guide starts, in its coordinates.

    The defaults are far off on purpose: three standard deviations away and three times too wide,
    so that what the guide arrives at was found and not given.

    Attributes
    ----------
    offset, scale
        Mean of every coordinate, in the direction that raises the last latent (the value, which so
        starts at least this many of its own standard deviations off), and standard deviation.
    """

    offset: float | Float[Array, ""] = 3.0
    scale: float | Float[Array, ""] = 3.0


def start_direction(coordinates: Coordinates) -> Float[Array, " L"]:
    """The signs with which all coordinates move the last latent the same way, shape (L,)."""
    last = coordinates.factor[-1]
    return jnp.where(last >= 0.0, jnp.ones_like(last), -jnp.ones_like(last))


def rough_noise(
    covariance: Float[Array, "R R"],
    rows: Float[Array, " R"],
    price: Float[Array, ""],
    *,
    tight: bool,
) -> Float[Array, "R R"]:
    """Noise of the residual with all but its nearly exact directions made round.

    Parameters
    ----------
    covariance
        Sigma at the pilot's ratio, invertible, shape (R, R), whatever the penalty is.
    rows
        1 for the live rows, shape (R,).
    price
        lambda / epsilon.
    tight
        Whether nearly exact constraints bind, as they do with the Mahalanobis penalty.

    Notes
    -----
    Directions in which the residual hardly varies make the problem stiff (a condition of 1e5 on
    small worlds). With the Mahalanobis penalty the residual's correlation matrix keeps its
    eigenvalues below 0.05, and all others are set to one: what is left to find are the
    correlations, and with them the posterior's shape. The squared penalty has no such directions;
    it is given Sigma's scales, which are not its own.
    """
    scale = jnp.sqrt(jnp.diagonal(covariance))
    both = rows[:, None] * rows
    if tight:
        correlation = jnp.where(both > 0.0, covariance / scale[:, None] / scale, jnp.eye(len(rows)))
        values, vectors = jnp.linalg.eigh(correlation)
        flattened = (vectors * jnp.where(values < _TIGHT, values, 1.0)) @ vectors.T
    else:
        flattened = jnp.eye(len(rows))
        # In the squared penalty's units: scales relative to their geometric mean.
        scale = scale / jnp.exp(jnp.sum(rows * jnp.log(scale)) / jnp.sum(rows))
    return both * flattened * scale[:, None] * scale / price


def gaussian_coordinates(
    matrix: Float[Array, "R L"],
    offset: Float[Array, " R"],
    noise: Float[Array, "R R"],
    prior_mean: Float[Array, " L"],
    prior_scale: Float[Array, " L"],
) -> Coordinates:
    """Coordinates around the point at which residuals weighted by a rough noise vanish.

    Another center would be hundreds of standard deviations off along a nearly exact constraint;
    `Start` puts the guide far from it.

    Parameters
    ----------
    matrix, offset
        The residual as an affine function of the latent numbers, 0 on rows that do not count.
    noise
        From `rough_noise`.
    prior_mean, prior_scale
        Of the latent numbers.
    """
    found = condition(matrix, offset, noise, prior_mean, prior_scale)
    spread = found.covariance
    jitter = _JITTER * jnp.diagonal(spread) + jnp.finfo(spread.dtype).tiny
    return Coordinates(found.mean, jnp.linalg.cholesky(spread + jnp.diag(jitter)))
