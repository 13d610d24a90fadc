"""Kernels between state-action points.

A kernel is a function k(x, y) of two sets of points that returns their matrix. It is a prior
covariance of the ratio, and through k(x, .) a set of test features, one for each point.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, final, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesdice_ppl.checks import positive
from bayesdice_ppl.errors import SettingsError

SMOOTHNESS = (0.5, 1.5, 2.5)
"""The Matern kernels that have a closed form, by their nu."""

RELATIVE_TOLERANCE = 1e-12
"""Directions of a kernel matrix below this share of the largest are rounding errors, left out."""

type LengthScale = float | tuple[float, ...]


class Kernel(Protocol):
    """A positive semidefinite function of two points, for two sets of points at once.

    Any function of JAX arrays will do. It is traced, so that it may call JAX functions only.
    """

    def __call__(self, x: Float[Array, "n p"], y: Float[Array, "m p"]) -> Float[Array, "n m"]:
        """The matrix k(x_i, y_j)."""
        ...


@runtime_checkable
class GaussianMeanKernel(Kernel, Protocol):
    """A kernel whose mean over a normal first point may be known exactly."""

    def under_gaussian(
        self, mean: Float[Array, "n p"], variance: Float[Array, "#n p"], y: Float[Array, "m p"]
    ) -> Float[Array, "n m"] | None:
        """The matrix E k(x_i, y_j) over x_i ~ Normal(mean_i, diag(variance_i)).

        None if no closed form is known, which depends on the kernel alone.
        """
        ...


class FeatureFunction(Protocol):
    """Features of points, for a set of points at once."""

    def __call__(self, x: Float[Array, "n p"]) -> Float[Array, "n d"]:
        """The features of each point."""
        ...


@final
class SquaredExponential(NamedTuple):
    """``k(x, y) = sd^2 exp(-|x - y|^2 / 2)``, distances in length scales.

    Attributes
    ----------
    length_scale
        In units of the points: one for all coordinates, or one for each.
    sd
        Prior standard deviation of a function with this covariance.
    """

    length_scale: LengthScale
    sd: float = 1.0

    def __call__(self, x: Float[Array, "n p"], y: Float[Array, "m p"]) -> Float[Array, "n m"]:
        """The kernel's matrix."""
        return self.sd**2 * jnp.exp(-0.5 * _squared_distance(x, y, self.length_scale))

    def under_gaussian(
        self, mean: Float[Array, "n p"], variance: Float[Array, "#n p"], y: Float[Array, "m p"]
    ) -> Float[Array, "n m"]:
        """Mean of the kernel: the same one with wider length scales, and lower."""
        square = jnp.asarray(self.length_scale, mean.dtype) ** 2
        wide = square + variance
        exponent = jnp.zeros((mean.shape[0], y.shape[0]), mean.dtype)
        for j in range(mean.shape[1]):
            exponent = exponent + (mean[:, None, j] - y[None, :, j]) ** 2 / wide[:, None, j]
        height = jnp.prod(jnp.sqrt(square / wide), axis=1)
        return self.sd**2 * height[:, None] * jnp.exp(-0.5 * exponent)


@final
class Matern(NamedTuple):
    """Matern kernel, whose functions are differentiable nu - 1/2 times.

    Attributes
    ----------
    nu
        0.5, 1.5 or 2.5.
    length_scale, sd
        As for `SquaredExponential`.
    """

    nu: float
    length_scale: LengthScale
    sd: float = 1.0

    def __call__(self, x: Float[Array, "n p"], y: Float[Array, "m p"]) -> Float[Array, "n m"]:
        """The kernel's matrix."""
        square = 2.0 * self.nu * _squared_distance(x, y, self.length_scale)
        # The root has no derivative at 0, where two points meet.
        apart = square > 0.0
        distance = jnp.where(apart, jnp.sqrt(jnp.where(apart, square, 1.0)), 0.0)
        polynomial = jnp.ones_like(distance)
        if self.nu > 0.5:
            polynomial = polynomial + distance
        if self.nu > 1.5:
            polynomial = polynomial + square / 3.0
        return self.sd**2 * polynomial * jnp.exp(-distance)


@final
class Linear(NamedTuple):
    """k(x, y) = sd^2 phi(x)'phi(y): a linear function of features, with independent weights.

    Attributes
    ----------
    features
        phi, points (n, p) -> (n, d).
    sd
        Prior standard deviation of each weight.
    """

    features: FeatureFunction
    sd: float = 1.0

    def __call__(self, x: Float[Array, "n p"], y: Float[Array, "m p"]) -> Float[Array, "n m"]:
        """The kernel's matrix."""
        return (self.sd * self.features(x)) @ (self.sd * self.features(y)).T


@final
class Sum(NamedTuple):
    """The sum of kernels: covariance of a sum of independent functions."""

    kernels: tuple[Kernel, ...]

    def __call__(self, x: Float[Array, "n p"], y: Float[Array, "m p"]) -> Float[Array, "n m"]:
        """The kernel's matrix."""
        total = self.kernels[0](x, y)
        for kernel in self.kernels[1:]:
            total = total + kernel(x, y)
        return total

    def under_gaussian(
        self, mean: Float[Array, "n p"], variance: Float[Array, "#n p"], y: Float[Array, "m p"]
    ) -> Float[Array, "n m"] | None:
        """Sum of the means, None where one is not known."""
        total = jnp.zeros((mean.shape[0], y.shape[0]), mean.dtype)
        for kernel in self.kernels:
            one = kernel_mean(kernel, mean, variance, y)
            if one is None:
                return None
            total = total + one
        return total


@final
class Product(NamedTuple):
    """The product of kernels: points are similar where every factor says so."""

    kernels: tuple[Kernel, ...]

    def __call__(self, x: Float[Array, "n p"], y: Float[Array, "m p"]) -> Float[Array, "n m"]:
        """The kernel's matrix."""
        total = self.kernels[0](x, y)
        for kernel in self.kernels[1:]:
            total = total * kernel(x, y)
        return total


def squared_exponential(length_scale: LengthScale, sd: float = 1.0) -> SquaredExponential:
    """Squared-exponential kernel, of smooth functions.

    Parameters
    ----------
    length_scale
        Distance over which functions change, in units of the points; one for all coordinates, or
        one for each.
    sd
        Standard deviation of the functions.

    Raises
    ------
    SettingsError
        A length scale or the deviation is not positive.
    """
    return SquaredExponential(
        _scales("squared_exponential", length_scale), positive("squared_exponential: sd", sd)
    )


def matern(nu: float, length_scale: LengthScale, sd: float = 1.0) -> Matern:
    """Matern kernel, of functions that are differentiable nu - 1/2 times.

    Parameters
    ----------
    nu
        0.5, 1.5 or 2.5.
    length_scale, sd
        As for `squared_exponential`.

    Raises
    ------
    SettingsError
        A number is out of its range.
    """
    if nu not in SMOOTHNESS:
        raise SettingsError(f"matern: nu: expected 0.5, 1.5 or 2.5, found {nu!r}.")
    return Matern(float(nu), _scales("matern", length_scale), positive("matern: sd", sd))


def linear(features: FeatureFunction, sd: float = 1.0) -> Linear:
    """Kernel of the linear functions of given features.

    Parameters
    ----------
    features
        Points (n, p) -> (n, d), a function of JAX arrays.
    sd
        Prior standard deviation of each weight.

    Raises
    ------
    SettingsError
        The deviation is not positive.
    """
    return Linear(features, positive("linear: sd", sd))


def sum_of(*kernels: Kernel) -> Sum:
    """Sum of one or more kernels."""
    return Sum(_some("sum_of", kernels))


def product_of(*kernels: Kernel) -> Product:
    """Product of one or more kernels."""
    return Product(_some("product_of", kernels))


def kernel_mean(
    kernel: Kernel,
    mean: Float[Array, "n p"],
    variance: Float[Array, "#n p"],
    y: Float[Array, "m p"],
) -> Float[Array, "n m"] | None:
    """E k(x, y) of any kernel over normal x, None unless it is known exactly.

    Parameters
    ----------
    kernel
        The kernel.
    mean, variance, y
        As for `GaussianMeanKernel.under_gaussian`.
    """
    if not isinstance(kernel, GaussianMeanKernel):
        return None
    return kernel.under_gaussian(mean, variance, y)


def _squared_distance(
    x: Float[Array, "n p"], y: Float[Array, "m p"], length_scale: LengthScale
) -> Float[Array, "n m"]:
    """Sum of squared differences, coordinate by coordinate.

    The shorter |x|^2 + |y|^2 - 2 x'y would round: equal points would be 1e-8 apart, which is more
    than the factorizations tolerate.
    """
    scale = jnp.asarray(length_scale, x.dtype)
    x, y = x / scale, y / scale
    total = jnp.zeros((x.shape[0], y.shape[0]), x.dtype)
    for j in range(x.shape[1]):
        total = total + (x[:, None, j] - y[None, :, j]) ** 2
    return total


def _scales(name: str, length_scale: LengthScale) -> LengthScale:
    setting = f"{name}: length_scale"
    if isinstance(length_scale, Iterable):
        return tuple(positive(setting, one) for one in length_scale)
    return positive(setting, length_scale)


def _some(name: str, kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    if not kernels:
        raise SettingsError(f"{name}: expected one or more kernels, found none.")
    return kernels
