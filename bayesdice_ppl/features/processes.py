"""A Gaussian process over the ratio as features: any covariance, through inducing points.

The prior of the ratio is 1 plus a constant and a process with the given kernel. The process is
kept at inducing points: those logged points that say most about all others. With every logged point
among them, nothing is left out.
"""

from __future__ import annotations

from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from bayesdice_ppl.checks import whole
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.kernels import Kernel
from bayesdice_ppl.features.low_rank import NystromFeatures, gram_root, nystrom
from bayesdice_ppl.features.maps import (
    Points,
    Scale,
    Space,
    check_part,
    numbers,
    parts_of,
    scale_of,
)

MOST_POINTS = 2000
"""Most logged points among which inducing points are chosen."""


@final
class ProcessMap(NamedTuple):
    """Nystrom features of standardized numbers.

    Attributes
    ----------
    of
        Which parts the numbers come from.
    scale
        Of the logged numbers.
    features
        The features of standardized numbers.
    """

    of: str
    scale: Scale
    features: NystromFeatures

    def __call__(self, points: Points) -> Float[np.ndarray, "b d"]:
        """Features of points."""
        values = self.scale(numbers(points, self.of, "gaussian_process"))
        with jax.enable_x64(True):
            return np.asarray(self.features(jnp.asarray(values)))

    @property
    def sees(self) -> frozenset[str]:
        """Which parts it looks at."""
        return frozenset(parts_of(self.of))

    def under_gaussian(
        self,
        states: Float[np.ndarray, "b p"] | Int[np.ndarray, " b"],
        mean: Float[np.ndarray, "b q"],
        sd: Float[np.ndarray, "#b q"] | Float[np.ndarray, " q"],
    ) -> Float[np.ndarray, "b d"] | None:
        """Mean features, known for squared-exponential kernels and sums of them."""
        if "action" not in self.sees:
            return self(Points(states, mean))
        center, spread = self.scale.normal(states, mean, sd, self.of, "gaussian_process")
        with jax.enable_x64(True):
            found = self.features.under_gaussian(jnp.asarray(center), jnp.asarray(spread**2))
            return None if found is None else np.asarray(found)


@final
class Process(NamedTuple):
    """A choice of a process; make one with `gaussian_process`."""

    kernel: Kernel
    n_inducing: int
    of: str

    @property
    def sees(self) -> frozenset[str]:
        """Which parts it looks at."""
        return frozenset(parts_of(self.of))

    @property
    def is_prior(self) -> bool:
        """The kernel is the covariance of the ratio, so the features keep their size."""
        return True

    def build(self, space: Space, rng_key: PRNGKeyArray | None) -> ProcessMap:
        """Choose the inducing points."""
        values = numbers(space.points, self.of, "gaussian_process")
        scale = scale_of(values)
        places = np.unique(scale(values), axis=0)
        if len(places) > MOST_POINTS:
            if rng_key is None:
                raise SettingsError(
                    "gaussian_process: expected an rng_key, since inducing points are chosen among "
                    f"{MOST_POINTS:,} random logged points, found none."
                )
            chosen = jax.random.choice(rng_key, len(places), (MOST_POINTS,), replace=False)
            places = places[np.asarray(chosen)]
        inducing = places[inducing_points(self.kernel, places, self.n_inducing)]
        return ProcessMap(self.of, scale, nystrom(self.kernel, inducing))

    def __str__(self) -> str:
        kernel = getattr(self.kernel, "__name__", str(self.kernel))
        return f"gaussian_process({kernel}, n_inducing={self.n_inducing}, of={self.of!r})"


def inducing_points(
    kernel: Kernel, places: Float[np.ndarray, "n p"], n_inducing: int
) -> Int[np.ndarray, " M"]:
    """Choose points one after another, each the one that is least determined by those before it.

    Parameters
    ----------
    kernel
        The covariance.
    places
        Points to choose from, shape (n, p).
    n_inducing
        How many at most; fewer where they already determine all the others.
    """
    with jax.enable_x64(True):
        points = jnp.asarray(places)
        try:
            gram = np.array(kernel(points, points), dtype=np.float64)
        except (TypeError, ValueError) as cause:
            raise SettingsError(
                f"gaussian_process: expected a kernel of points of {places.shape[1]} numbers, "
                f"found one that fails on them: {str(cause).splitlines()[0]}"
            ) from cause
    expected = (len(places), len(places))
    if gram.shape != expected or not np.isfinite(gram).all():
        raise SettingsError(
            f"gaussian_process: expected a kernel that gives finite numbers of shape {expected}, "
            f"found shape {gram.shape}"
            + ("." if np.isfinite(gram).all() else " with some that are not finite.")
        )
    size = gram.diagonal().max()
    if not size > 0.0 or gram.diagonal().min() < 0.0 or np.abs(gram - gram.T).max() > 1e-8 * size:
        raise SettingsError(
            "gaussian_process: expected a kernel that is symmetric and has positive variances, as "
            "a covariance does, found another."
        )
    # Each step of a pivoted Cholesky factorization takes the point with most variance left.
    _, order = gram_root(gram)
    return np.sort(order[:n_inducing])


def gaussian_process(kernel: Kernel, *, n_inducing: int = 200, of: str = "both") -> Process:
    """A Gaussian process with any covariance as the prior of the ratio, and as test features.

    Parameters
    ----------
    kernel
        From `bayesdice_ppl.features.kernels` (`squared_exponential`, `matern`, `linear`, sums and
        products of them), or a function of JAX arrays, (n, p) and (m, p) -> (n, m), of standardized
        numbers. Its size is set by ``prior_sd``.
    n_inducing
        Number of inducing points.
    of
        ``"state"``, ``"action"`` or ``"both"``: the vectors that are looked at.

    Raises
    ------
    SettingsError
        The kernel is not a function, or a number is out of range.
    """
    if not callable(kernel):
        raise SettingsError(
            "gaussian_process: expected a kernel such as kernels.matern(2.5, 1.0), found "
            f"{kernel!r}."
        )
    n_inducing = whole("gaussian_process: n_inducing", n_inducing)
    return Process(kernel, n_inducing, check_part(of, "gaussian_process"))
