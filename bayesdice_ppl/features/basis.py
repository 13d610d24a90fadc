"""The features that the residual and the ratio are written in, made of a map's over one log.

Whitened features have mean zero and unit second moment in every direction over the log. One prior
width then means the same in every direction, and the fine directions of a smooth map have as much
room as its coarse ones. The ratio has a constant beside them; the normalization is the test of it.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.maps import FeatureMap, GaussianMeanMap, Points, gaussian_mean

LEAST_DIRECTION = 1e-8
"""Directions with less than this share of the features' total variance are left out."""
ROUNDING = 1e-24
"""Share of a feature's mean square that may be rounding, in a variance."""
LEAST_OWN_DIRECTION = 1e-10
"""The same for features whose size is a prior, by their mean squares."""
_STEP = 8


@final
class RotatedMap(NamedTuple):
    """A map moved and rotated: (features - center) @ rotation.

    Attributes
    ----------
    inner
        The map.
    center
        Shape (d,).
    rotation
        Shape (d, d').
    """

    inner: FeatureMap
    center: Float[np.ndarray, " d"]
    rotation: Float[np.ndarray, "d d2"]

    def __call__(self, points: Points) -> Float[np.ndarray, "b d2"]:
        """Features of points."""
        return (self.inner(points) - self.center) @ self.rotation

    def padded(self) -> RotatedMap:
        """Add features that are zero, to the next multiple of 8.

        Logs of one world then have few different shapes, and find the compiled functions. A feature
        that is zero has no row in the residual, and its weight keeps its prior.
        """
        extra = -self.rotation.shape[1] % _STEP
        return self._replace(rotation=np.pad(self.rotation, ((0, 0), (0, extra))))

    @property
    def sees(self) -> frozenset[str]:
        """Which parts the map looks at; all parts where it does not say."""
        both = frozenset(("state", "action"))
        return self.inner.sees if isinstance(self.inner, GaussianMeanMap) else both

    def under_gaussian(
        self,
        states: Float[np.ndarray, "b p"] | Int[np.ndarray, " b"],
        mean: Float[np.ndarray, "b q"],
        sd: Float[np.ndarray, "#b q"] | Float[np.ndarray, " q"],
    ) -> Float[np.ndarray, "b d2"] | None:
        """Mean features, moved and rotated; None where the map cannot say."""
        found = gaussian_mean(self.inner, states, mean, sd)
        return None if found is None else (found - self.center) @ self.rotation


def whitened_map(
    feature_map: FeatureMap, points: Points, weight: Float[np.ndarray, " P"] | None = None
) -> RotatedMap:
    """Center features over the log, and give every direction a unit second moment.

    Parameters
    ----------
    feature_map
        The map, with d features.
    points
        The logged points, P of them.
    weight
        How often each was logged, shape (P,); once each if left out.

    Returns
    -------
    RotatedMap
        Its features have mean 0 and covariance 1 over the log, the coarsest direction first. No
        feature is left where all are constant over the log.

    Raises
    ------
    SettingsError
        The map gives no features, or only zeros.

    Notes
    -----
    Smooth features are nearly collinear. A direction with less than 1e-8 of the total variance is
    known to too few digits to be scaled up, and is left out.
    """
    at_points = _not_zero(feature_map(points))
    share = np.full(len(at_points), 1.0) if weight is None else np.asarray(weight, np.float64)
    share = share / share.sum()
    center = share @ at_points
    centered = at_points - center
    values, vectors = np.linalg.eigh(centered.T @ (centered * share[:, None]))
    rounding = ROUNDING * np.max(share @ at_points**2)
    least = max(LEAST_DIRECTION * np.sum(np.maximum(values, 0.0)), rounding)
    kept = np.flatnonzero(values > least)[::-1]
    return RotatedMap(feature_map, center, vectors[:, kept] / np.sqrt(values[kept]))


def principal_map(feature_map: FeatureMap, points: Points) -> RotatedMap:
    """Rotate features to their principal directions over the log, and keep their size.

    For features whose size is a prior, such as those of a Gaussian process: a rotation leaves it
    as it was. A direction whose mean square is below 1e-10 of the largest adds nothing to a ratio,
    and costs precision in every system that it is part of.

    Parameters
    ----------
    feature_map
        The map.
    points
        The logged points.

    Raises
    ------
    SettingsError
        The map gives no features, or only zeros.
    """
    at_points = _not_zero(feature_map(points))
    values, vectors = np.linalg.eigh(at_points.T @ at_points)
    kept = values > LEAST_OWN_DIRECTION * values.max(initial=0.0)
    rotation = np.ascontiguousarray(vectors[:, kept][:, ::-1])
    return RotatedMap(feature_map, np.zeros(at_points.shape[1]), rotation)


def ratio_basis(at_pair: Float[np.ndarray, "P d"]) -> Float[np.ndarray, "P K"]:
    """Features of the ratio: a constant, and the test features.

    A test feature that is constant over the log, and not zero, is left out: it is known already.

    Parameters
    ----------
    at_pair
        Test features of the logged pairs, shape (P, d).
    """
    varies = (np.ptp(at_pair, axis=0) > 0.0) | ~np.any(at_pair != 0.0, axis=0)
    return np.concatenate([np.ones((len(at_pair), 1)), at_pair[:, varies]], axis=1)


def standard_numbers(
    points: Points, visits: Int[np.ndarray, " P"], sees: frozenset[str]
) -> Float[np.ndarray, "P q"]:
    """Points as numbers of like size, for models that make features of their own.

    Parameters
    ----------
    points
        The logged points.
    visits
        How often each was logged, shape (P,).
    sees
        The parts, of ``"state"`` and ``"action"``.

    Returns
    -------
    array
        Vectors less their mean over the log, over their sd; an indicator for each label.
    """
    share = visits / visits.sum()
    found = []
    for part in sorted(sees, reverse=True):
        values = getattr(points, part)
        if values.ndim == 1:
            found.append(np.eye(int(values.max()) + 1)[values])
            continue
        centered = values - share @ values
        sd = np.sqrt(share @ centered**2)
        found.append(centered / np.where(sd > 0.0, sd, 1.0))
    return np.concatenate(found, axis=1)


def _not_zero(at_points: Float[np.ndarray, "P d"]) -> Float[np.ndarray, "P d"]:
    if not np.any(at_points != 0.0):
        raise SettingsError(
            "features: expected a feature that is not zero over the log, found none. Choose other "
            "features."
        )
    return at_points
