"""The features that the residual and the ratio are written in, made of a map's over one log.

The test features are the map's own, rotated to their principal directions. The ratio's are a
constant and those test features that vary.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.maps import FeatureMap, Points

LEAST_DIRECTION = 1e-10
"""Directions whose mean square is below this share of the largest are left out."""


@final
class PrincipalMap(NamedTuple):
    """A map rotated to the principal directions of its features over the log.

    Attributes
    ----------
    inner
        The map.
    rotation
        Orthonormal columns, shape (d, d').
    """

    inner: FeatureMap
    rotation: Float[np.ndarray, "d d2"]

    def __call__(self, points: Points) -> Float[np.ndarray, "b d2"]:
        """Features of points."""
        return self.inner(points) @ self.rotation


def principal_map(feature_map: FeatureMap, points: Points) -> PrincipalMap:
    """Rotate features to their principal directions over the log, and drop negligible ones.

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

    Notes
    -----
    Smooth features are nearly collinear. A direction whose mean square is below 1e-10 of the
    largest adds nothing to a ratio, and costs precision in every system that it is part of. A
    rotation leaves the prior and every penalty as they were.
    """
    at_points = feature_map(points)
    values, vectors = np.linalg.eigh(at_points.T @ at_points)
    kept = values > LEAST_DIRECTION * values.max(initial=0.0)
    if not kept.any():
        raise SettingsError(
            "features: expected a feature that is not zero over the log, found none. Choose other "
            "features."
        )
    return PrincipalMap(feature_map, np.ascontiguousarray(vectors[:, kept][:, ::-1]))


def ratio_basis(at_pair: Float[np.ndarray, "P d"]) -> Float[np.ndarray, "P K"]:
    """Features of the ratio: a constant, and the test features that vary over the log.

    Parameters
    ----------
    at_pair
        Test features of the logged pairs, shape (P, d).
    """
    varies = np.ptp(at_pair, axis=0) > 0.0
    return np.concatenate([np.ones((len(at_pair), 1)), at_pair[:, varies]], axis=1)
