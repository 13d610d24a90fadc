"""Random Fourier features: cosines and sines that add up to a squared-exponential kernel.

With many frequencies, drawn at random, a linear function of them is a draw from a Gaussian process;
with a few hundred it is a smooth function of the numbers with a known length scale.
"""

from __future__ import annotations

import math
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.maps import (
    Points,
    Scale,
    Space,
    check_count,
    check_part,
    numbers,
    parts_of,
    scale_of,
)

MEDIAN_POINTS = 1000
"""Most points between which distances are taken for the median rule."""


@final
class FourierMap(NamedTuple):
    """Cosines and sines of projections of standardized numbers, and a constant.

    Attributes
    ----------
    of
        Which parts the numbers come from.
    scale
        Of the logged numbers.
    frequency
        Shape (p, d / 2), in radians per standard deviation.
    length_scale
        What the frequencies were drawn with, in standard deviations.
    """

    of: str
    scale: Scale
    frequency: Float[np.ndarray, "p h"]
    length_scale: float

    def __call__(self, points: Points) -> Float[np.ndarray, "b d"]:
        """Features of points; the squares of all but the constant sum to 1."""
        phase = self.scale(numbers(points, self.of, "fourier")) @ self.frequency
        size = 1.0 / math.sqrt(self.frequency.shape[1])
        return np.concatenate(
            [np.ones((len(phase), 1)), size * np.cos(phase), size * np.sin(phase)], axis=1
        )


@final
class Fourier(NamedTuple):
    """A choice of random Fourier features; make one with `fourier`."""

    n_features: int
    length_scale: float | None
    times_median: float
    of: str

    @property
    def sees(self) -> frozenset[str]:
        """Which parts it looks at."""
        return frozenset(parts_of(self.of))

    def build(self, space: Space, rng_key: PRNGKeyArray | None) -> FourierMap:
        """Fix the scales and draw the frequencies."""
        import jax

        if rng_key is None:
            raise SettingsError("fourier: its frequencies are random; give rng_key.")
        values = numbers(space.points, self.of, "fourier")
        scale = scale_of(values)
        key_points, key_frequency = jax.random.split(rng_key)
        length = self.length_scale
        if length is None:
            length = self.times_median * median_distance(scale(values), key_points)
        # The kernel's spectral density is normal. Of the key's two halves only the first is used.
        key_normal, _ = jax.random.split(key_frequency)
        shape = (self.n_features // 2, values.shape[1])
        with jax.enable_x64(True):
            frequency = np.asarray(jax.random.normal(key_normal, shape, np.float64) / length)
        return FourierMap(self.of, scale, frequency.T, length)

    def __str__(self) -> str:
        length = (
            f"times_median={self.times_median:g}"
            if self.length_scale is None
            else f"length_scale={self.length_scale:g}"
        )
        return f"fourier({self.n_features}, {length}, of={self.of!r})"


def median_distance(values: Float[np.ndarray, "b p"], rng_key: PRNGKeyArray) -> float:
    """Median distance between points, of at most a thousand of them chosen at random.

    Parameters
    ----------
    values
        Standardized numbers, shape (b, p).
    rng_key
        Chooses the points.

    Returns
    -------
    float
        In standard deviations; 1 where all points are the same.
    """
    import jax
    from scipy.spatial.distance import pdist

    if len(values) > MEDIAN_POINTS:
        chosen = jax.random.choice(rng_key, len(values), (MEDIAN_POINTS,), replace=False)
        values = values[np.asarray(chosen)]
    distances = pdist(values)
    apart = distances[distances > 0.0]
    return float(np.median(apart)) if apart.size else 1.0


def fourier(
    n_features: int = 200,
    *,
    length_scale: float | None = None,
    times_median: float = 1.0,
    of: str = "both",
) -> Fourier:
    """Random Fourier features of the squared-exponential kernel (Rahimi and Recht, 2007).

    Parameters
    ----------
    n_features
        Even, at least 2; a constant joins them.
    length_scale
        In standard deviations of the logged numbers; None: by the median rule, the median distance
        between logged points.
    times_median
        Multiple of the median that is used.
    of
        ``"state"``, ``"action"`` or ``"both"``: the vectors that are looked at.

    Raises
    ------
    SettingsError
        A number is out of range, or a length scale and a multiple of the median are both given.
    """
    check_count(n_features, "fourier: n_features", 2)
    if n_features % 2:
        raise SettingsError(f"fourier: n_features: expected an even number, found {n_features}.")
    for name, number in (("length_scale", length_scale), ("times_median", times_median)):
        if number is not None and not (
            isinstance(number, int | float) and math.isfinite(number) and number > 0.0
        ):
            raise SettingsError(f"fourier: {name}: expected a positive number, found {number!r}.")
    if length_scale is not None and times_median != 1.0:
        raise SettingsError("fourier: give length_scale or times_median, not both.")
    return Fourier(int(n_features), length_scale, float(times_median), check_part(of, "fourier"))
