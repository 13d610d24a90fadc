"""Coordinates in which a guide or a sampler moves, and its start in them.

They are made from the residual's noise, never from the posterior that is to be found. Nearly exact
constraints make a posterior thin; in these coordinates it is round enough to move in.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxtyping import Float

from bayesdice_ppl.arrays import cholesky, eigh, library_of
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

    center: Float[Any, " L"]
    factor: Float[Any, "L L"]


class Start(NamedTuple):
    """Where the guide starts, in its coordinates.

    The defaults are far off on purpose: three standard deviations away and three times too wide. So
    the guide has to find the posterior.

    Attributes
    ----------
    offset, scale
        Mean and standard deviation of every coordinate. The mean points in the direction that
        raises the last latent number, the value, which starts at least this many of its own
        standard deviations off.
    """

    offset: float | Float[Any, ""] = 3.0
    scale: float | Float[Any, ""] = 3.0


def start_direction(coordinates: Coordinates) -> Float[Any, " L"]:
    """Signs with which every coordinate raises the last latent number, shape (L,)."""
    last = coordinates.factor[-1]
    xp = library_of(last)
    return xp.where(last >= 0.0, xp.ones_like(last), -xp.ones_like(last))


def rough_noise(
    covariance: Float[Any, "R R"],
    rows: Float[Any, " R"],
    price: Float[Any, ""],
    *,
    tight: bool,
) -> Float[Any, "R R"]:
    """Noise of the residual, made round except in its nearly exact directions.

    Parameters
    ----------
    covariance
        Sigma at the first estimate, invertible, shape (R, R), for any penalty.
    rows
        1 for the live rows, shape (R,).
    price
        lambda / epsilon.
    tight
        Whether nearly exact constraints bind, as they do with the Mahalanobis penalty.

    Notes
    -----
    Directions in which the residual has little variance make the problem stiff (a condition number
    of 1e5 on small worlds). With the Mahalanobis penalty the residual's correlation matrix keeps
    its eigenvalues below 0.05, and all others are set to one. The engine still has to find the
    correlations, and with them the posterior's shape. The squared penalty has no such directions,
    and gets only the scales of Sigma.
    """
    xp = library_of(covariance)
    scale = xp.sqrt(xp.diagonal(covariance))
    both = rows[:, None] * rows
    if tight:
        correlation = xp.where(both > 0.0, covariance / scale[:, None] / scale, xp.eye(len(rows)))
        values, vectors = eigh(correlation)
        flattened = (vectors * xp.where(values < _TIGHT, values, 1.0)) @ vectors.T
    else:
        flattened = xp.eye(len(rows))
        # In the squared penalty's units: scales relative to their geometric mean.
        scale = scale / xp.exp(xp.sum(rows * xp.log(scale)) / xp.sum(rows))
    return both * flattened * scale[:, None] * scale / price


def gaussian_coordinates(
    matrix: Float[Any, "R L"],
    offset: Float[Any, " R"],
    noise: Float[Any, "R R"],
    prior_mean: Float[Any, " L"],
    prior_scale: Float[Any, " L"],
) -> Coordinates:
    """Coordinates from conditioning the prior on residual = 0 under a rough noise.

    Any other center would be hundreds of standard deviations off along a nearly exact constraint.
    `Start` moves the guide away from this one.

    Parameters
    ----------
    matrix, offset
        The residual as an affine function of the latent numbers; 0 on rows that do not count.
    noise
        From `rough_noise`.
    prior_mean, prior_scale
        Prior means and sds of the latent numbers.
    """
    found = condition(matrix, offset, noise, prior_mean, prior_scale)
    spread = found.covariance
    xp = library_of(spread)
    jitter = _JITTER * xp.diagonal(spread) + xp.finfo(spread.dtype).tiny
    return Coordinates(found.mean, cholesky(spread + xp.diag(jitter)))
