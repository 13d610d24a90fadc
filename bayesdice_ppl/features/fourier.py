"""Random Fourier features: cosines and sines that add up to a squared-exponential kernel.

With many frequencies, drawn at random, a linear function of them is a draw from a Gaussian process;
with a few hundred it is a smooth function of the numbers with a known length scale.
"""

from __future__ import annotations

import math
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from bayesdice_ppl.checks import even, flag, positive
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.columns import Columns, columns_of
from bayesdice_ppl.features.maps import (
    Points,
    Scale,
    Space,
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
        Of the logged numbers, or their form.
    frequency
        Shape (p, d / 2), in radians per standard deviation.
    length_scale
        What the frequencies were drawn with, in standard deviations.
    """

    of: str
    scale: Scale | Columns
    frequency: Float[np.ndarray, "p h"]
    length_scale: float

    def __call__(self, points: Points) -> Float[np.ndarray, "b d"]:
        """Features of points; the squares of all but the constant sum to 1."""
        return self._waves(self.scale(numbers(points, self.of, "fourier")), None)

    @property
    def sees(self) -> frozenset[str]:
        """Which parts it looks at."""
        return frozenset(parts_of(self.of))

    def under_gaussian(
        self,
        states: Float[np.ndarray, "b p"] | Int[np.ndarray, " b"],
        mean: Float[np.ndarray, "b q"],
        sd: Float[np.ndarray, "#b q"] | Float[np.ndarray, " q"],
    ) -> Float[np.ndarray, "b d"]:
        """Mean features: waves at the mean, damped as the normal's characteristic function says.

        E cos(w'x) = cos(w'm) exp(-sum_j (w_j s_j)^2 / 2) for x ~ Normal(m, diag(s^2)), and so for
        the sine.
        """
        center, spread = self.scale.normal(states, mean, sd, self.of, "fourier")
        return self._waves(center, np.exp(-0.5 * (spread**2 @ self.frequency**2)))

    def _waves(
        self, values: Float[np.ndarray, "b p"], damping: Float[np.ndarray, "#b h"] | None
    ) -> Float[np.ndarray, "b d"]:
        """A constant, cosines and sines of standardized numbers, times a factor."""
        phase = values @ self.frequency
        h = phase.shape[1]
        result = np.empty((len(phase), 1 + 2 * h))
        result[:, 0] = 1.0
        np.cos(phase, out=result[:, 1 : h + 1])
        np.sin(phase, out=result[:, h + 1 :])
        size = 1.0 / math.sqrt(h)
        factor = size if damping is None else size * damping
        result[:, 1 : h + 1] *= factor
        result[:, h + 1 :] *= factor
        return result


@final
class Fourier(NamedTuple):
    """A choice of random Fourier features; make one with `fourier`."""

    n_features: int
    length_scale: float | None
    times_median: float
    of: str
    recode: bool = False

    @property
    def sees(self) -> frozenset[str]:
        """Which parts it looks at."""
        return frozenset(parts_of(self.of))

    def build(self, space: Space, rng_key: PRNGKeyArray | None) -> FourierMap:
        """Fix the scales and draw the frequencies."""
        import jax

        if rng_key is None:
            raise SettingsError(
                "fourier: expected an rng_key, since its frequencies are random, found none."
            )
        values = numbers(space.points, self.of, "fourier")
        scale = columns_of(values) if self.recode else scale_of(values)
        at_points = scale(values)
        key_points, key_frequency = jax.random.split(rng_key)
        length = self.length_scale
        if length is None:
            length = self.times_median * median_distance(at_points, key_points)
        # The kernel's spectral density is normal. Of the key's two halves only the first is used.
        key_normal, _ = jax.random.split(key_frequency)
        shape = (self.n_features // 2, at_points.shape[1])
        with jax.enable_x64(True):
            frequency = np.asarray(jax.random.normal(key_normal, shape, np.float64) / length)
        return FourierMap(self.of, scale, frequency.T, length)

    def __str__(self) -> str:
        length = (
            f"times_median={self.times_median:g}"
            if self.length_scale is None
            else f"length_scale={self.length_scale:g}"
        )
        recoded = ", recode=True" if self.recode else ""
        return f"fourier({self.n_features}, {length}, of={self.of!r}{recoded})"


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
    recode: bool = False,
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
    recode
        True: numbers with few values as indicators, and heavy tails compressed, as `columns` has
        them. For ``of="state"``.

    Raises
    ------
    SettingsError
        A number is out of range; a length scale and a multiple of the median are both given; or
        actions are to be recoded.
    """
    n_features = even("fourier: n_features", n_features)
    if length_scale is not None:
        length_scale = positive("fourier: length_scale", length_scale)
    times_median = positive("fourier: times_median", times_median)
    if length_scale is not None and times_median != 1.0:
        raise SettingsError("fourier: expected length_scale or times_median, found both.")
    of = check_part(of, "fourier")
    if flag("fourier: recode", recode) and of != "state":
        raise SettingsError(
            f"fourier: expected of='state' with recode=True, found of={of!r}. The mean features of "
            "recoded actions are not known."
        )
    return Fourier(n_features, length_scale, times_median, of, recode)
