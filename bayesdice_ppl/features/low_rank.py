"""Finite features that stand in for a kernel, with which the linear model is a low-rank process.

Nystrom's features reproduce the kernel exactly between its inducing points.
"""

from __future__ import annotations

from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.linalg.lapack import dpstrf

from bayesdice_ppl.features.kernels import (
    RELATIVE_TOLERANCE,
    Kernel,
    kernel_mean,
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

    def under_gaussian(
        self, mean: Float[Array, "n p"], variance: Float[Array, "#n p"]
    ) -> Float[Array, "n d"] | None:
        """E phi(x) over x ~ Normal(mean, diag(variance)), None where the kernel's is not known."""
        found = kernel_mean(self.kernel, mean, variance, self.inducing)
        return None if found is None else found @ self.whiten

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
