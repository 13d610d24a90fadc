"""Finite features that stand in for a kernel, with which the linear model is a low-rank process.

Nystrom's features are exact between the inducing points; random Fourier features are a Monte Carlo
estimate of the kernel that is the better the more frequencies there are.
"""

from __future__ import annotations

import math
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from scipy.linalg.lapack import dpstrf

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.kernels import (
    RELATIVE_TOLERANCE,
    Kernel,
    Matern,
    SquaredExponential,
)


@final
class NystromFeatures(NamedTuple):
    """phi(x) = k(x, Z) V s^(-1/2) with K_ZZ = V s V', so that phi(x)'phi(y) is Nystrom's kernel.

    Attributes
    ----------
    kernel
        k.
    inducing
        Z, shape (M, p).
    whiten
        V s^(-1/2), shape (M, d); d is the rank of K_ZZ.
    """

    kernel: Kernel
    inducing: Float[Array, "M p"]
    whiten: Float[Array, "M d"]

    def __call__(self, x: Float[Array, "n p"]) -> Float[Array, "n d"]:
        """The features of each point."""
        return self.kernel(x, self.inducing) @ self.whiten

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        # Arrays have no hash, and a compiled function is looked up by its kernel's.
        return id(self)


@final
class FourierFeatures(NamedTuple):
    """phi(x) = sd (cos(x w_1), sin(x w_1), ...) / sqrt(F) at F random frequencies.

    Attributes
    ----------
    frequencies
        w, in radians per unit of the points, shape (F, p).
    sd
        The kernel's standard deviation.
    """

    frequencies: Float[Array, "F p"]
    sd: float

    def __call__(self, x: Float[Array, "n p"]) -> Float[Array, "n d"]:
        """The features of each point, cosines before sines."""
        angle = x @ self.frequencies.T
        waves = jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], axis=-1)
        return self.sd / math.sqrt(self.frequencies.shape[0]) * waves

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        # Arrays have no hash, and a compiled function is looked up by its kernel's.
        return id(self)


def gram_root(
    gram: Float[np.ndarray, "N N"],
) -> tuple[Float[np.ndarray, "N R"], Int[np.ndarray, " R"]]:
    """A rank-revealing root of a Gram matrix, by Cholesky with pivoting.

    Parameters
    ----------
    gram
        Positive semidefinite, shape (N, N).

    Returns
    -------
    (array, array)
        L with L L' = gram, shape (N, R), and the R rows of which the others are combinations, on
        which L is lower triangular. What is left of any row's square is below 1e-12 of the
        largest.
    """
    factor, order, rank, _ = dpstrf(gram, lower=1, tol=RELATIVE_TOLERANCE * gram.diagonal().max())
    order = order - 1
    root = np.zeros((len(gram), rank))
    root[order] = np.tril(factor[:, :rank])
    return root, order[:rank]


def nystrom(kernel: Kernel, inducing_points: Float[np.ndarray, "M p"]) -> NystromFeatures:
    """Features whose linear kernel is Nystrom's approximation of a kernel.

    Parameters
    ----------
    kernel
        The kernel.
    inducing_points
        Z, shape (M, p). Between points of Z the approximation is exact.

    Returns
    -------
    NystromFeatures
        Points (n, p) -> (n, d), with d <= M the numerical rank of K_ZZ.

    Notes
    -----
    phi(x) = k(x, Z) K_ZZ^(-1/2) up to a rotation, which no linear model sees (Williams and
    Seeger, "Using the Nystrom method to speed up kernel machines", 2001).
    """
    with jax.enable_x64(True):
        inducing = jnp.asarray(inducing_points, jnp.float64)
        values, vectors = jnp.linalg.eigh(kernel(inducing, inducing))
        kept = np.asarray(values > RELATIVE_TOLERANCE * values[-1])
        whiten = vectors[:, kept] / jnp.sqrt(values[kept])
    return NystromFeatures(kernel, inducing, whiten)


def random_fourier(
    kernel: SquaredExponential | Matern, n_features: int, n_dims: int, rng_key: PRNGKeyArray
) -> FourierFeatures:
    """Random features whose linear kernel is a Monte Carlo estimate of a kernel.

    Parameters
    ----------
    kernel
        A squared-exponential or a Matern kernel.
    n_features
        d, an even number: a cosine and a sine for each frequency.
    n_dims
        p, the number of coordinates of a point.
    rng_key
        Key of the frequencies.

    Returns
    -------
    FourierFeatures
        Points (n, p) -> (n, d). phi(x)'phi(x) is sd^2 exactly.

    Raises
    ------
    SettingsError
        The kernel is another one, or the number of features is odd or not positive.

    Notes
    -----
    The frequencies follow the kernel's spectral density, a normal or a Student t with 2 nu degrees
    of freedom (Rahimi and Recht, "Random features for large-scale kernel machines", 2007).
    """
    if not isinstance(kernel, SquaredExponential | Matern):
        raise SettingsError(
            "random_fourier: expected a squared_exponential or matern kernel, found "
            f"{type(kernel).__name__}; nystrom takes any kernel."
        )
    if n_features < 2 or n_features % 2:
        raise SettingsError(
            f"random_fourier: expected an even number of features, found {n_features}."
        )
    with jax.enable_x64(True):
        normal_key, scale_key = jax.random.split(rng_key)
        count = n_features // 2
        frequencies = jax.random.normal(normal_key, (count, n_dims), jnp.float64)
        if isinstance(kernel, Matern):
            gamma = jax.random.gamma(scale_key, kernel.nu, (count, 1), jnp.float64)
            frequencies = frequencies * jnp.sqrt(kernel.nu / gamma)
        frequencies = frequencies / jnp.asarray(kernel.length_scale, jnp.float64)
    return FourierFeatures(frequencies, kernel.sd)
