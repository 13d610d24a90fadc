"""Features of a log's points, and their expectation under each candidate: phi(s, pi).

Over labels the expectation is a sum over the action space. Over vectors it is a mean of sampled
actions, in mirrored pairs where the policy has a center; how much the sampling adds to the error of
a value is measured, so that it can be reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from bayesdice_ppl.errors import PoliciesError, SettingsError
from bayesdice_ppl.features.maps import FeatureMap, Points
from bayesdice_ppl.policies import ContinuousPolicy
from bayesdice_ppl.policies.gaussian import SymmetricPolicy

_LEAST_DIRECTION = 1e-10
_CHUNK_NUMBERS = 2**23
"""Features that are held at once while means are taken."""


@final
class PrincipalMap(NamedTuple):
    """A map in the principal directions that its features have over the log.

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
    """Rotate features, and leave out directions in which they hardly differ over the log.

    Parameters
    ----------
    feature_map
        The map.
    points
        The logged points.

    Raises
    ------
    SettingsError
        The map gives no feature, or zeros only.

    Notes
    -----
    Smooth features are nearly collinear: a direction whose mean square is below 1e-10 of the
    largest adds nothing to a ratio, and takes digits from everything that is solved with it. A
    rotation leaves the prior and every penalty as they were.
    """
    at_points = feature_map(points)
    values, vectors = np.linalg.eigh(at_points.T @ at_points)
    kept = values > _LEAST_DIRECTION * values.max(initial=0.0)
    if not kept.any():
        raise SettingsError("features: the map gives no feature that is not zero over the log.")
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


def expect_over_labels(
    feature_map: FeatureMap,
    states: Float[np.ndarray, "S p"] | Float[np.ndarray, " S"],
    probabilities: Float[np.ndarray, "N S A"],
    needed: Bool[np.ndarray, " S"],
    n_features: int,
) -> Float[np.ndarray, "N S d"]:
    """phi(s, pi) by the sum over the action space.

    Parameters
    ----------
    feature_map
        The map.
    states
        States by code: vectors, shape (S, p), or the codes themselves, shape (S,).
    probabilities
        The candidates, shape (N, S, A).
    needed
        States in which actions are taken, shape (S,); the others keep zeros.
    n_features
        d.
    """
    n_policies, n_states, n_actions = probabilities.shape
    result = np.zeros((n_policies, n_states, n_features))
    for rows in _chunks(np.flatnonzero(needed), n_actions * n_features):
        points = Points(
            np.repeat(states[rows], n_actions, axis=0), np.tile(np.arange(n_actions), len(rows))
        )
        phi = feature_map(points).reshape(len(rows), n_actions, n_features)
        result[:, rows] = np.einsum("nca,cad->ncd", probabilities[:, rows], phi, optimize=True)
    return result


class SampledActions(NamedTuple):
    """Actions of every candidate in every state that is needed.

    Attributes
    ----------
    action
        Shape (N, L, S', q).
    rows
        Codes of the S' states.
    group
        Draws that belong together and are averaged first: 2 for mirrored pairs, else 1.
    """

    action: Float[np.ndarray, "N L S2 q"]
    rows: Int[np.ndarray, " S2"]
    group: tuple[int, ...]


def sample_actions(
    policies: Sequence[tuple[str, ContinuousPolicy]],
    observations: Float[np.ndarray, "S p"],
    needed: Bool[np.ndarray, " S"],
    n_draws: int,
    n_numbers: int,
    rng_key: PRNGKeyArray,
) -> SampledActions:
    """Draw the candidates' actions, with the same key for all, so that their errors are alike.

    Parameters
    ----------
    policies
        Name and policy of each candidate.
    observations
        What they are given, by state code.
    needed
        States in which actions are taken, shape (S,).
    n_draws
        L, even.
    n_numbers
        q, the length of the log's actions.
    rng_key
        Key of the draws.

    Raises
    ------
    PoliciesError
        A policy gives another shape, or numbers that are not finite.
    """
    rows = np.flatnonzero(needed)
    obs = observations[rows]
    drawn, group = [], []
    for name, policy in policies:
        center = policy if isinstance(policy, SymmetricPolicy) else None
        n = n_draws if center is None else n_draws // 2
        action = np.asarray(policy.sample(rng_key, obs, n), dtype=np.float64)
        if action.shape != (n, len(rows), n_numbers):
            raise PoliciesError(
                f"policy {name!r}: sample gave shape {action.shape} for n={n} and {len(rows)} "
                f"observations; expected {(n, len(rows), n_numbers)}, as the log's actions have "
                f"{n_numbers} numbers."
            )
        if center is not None:
            other = np.asarray(center.mirror(obs, action), dtype=np.float64)
            # A pair stands side by side.
            action = np.stack([action, other], axis=1).reshape(n_draws, len(rows), n_numbers)
        if not np.isfinite(action).all():
            raise PoliciesError(f"policy {name!r}: sample gave a number that is not finite.")
        drawn.append(action)
        group.append(1 if center is None else 2)
    return SampledActions(np.stack(drawn), rows, tuple(group))


def expect_over_samples(
    feature_map: FeatureMap,
    states: Float[np.ndarray, "S p"],
    sampled: SampledActions,
    n_features: int,
) -> Float[np.ndarray, "N S d"]:
    """phi(s, pi) by the mean over sampled actions, shape (N, S, d)."""
    n_policies = len(sampled.action)
    result = np.zeros((n_policies, len(states), n_features))
    for j, rows, phi in _sampled_features(feature_map, states, sampled, n_features):
        result[j, sampled.rows[rows]] = phi.mean(axis=0)
    return result


def sampling_variance(
    feature_map: FeatureMap,
    states: Float[np.ndarray, "S p"],
    sampled: SampledActions,
    slope: Float[np.ndarray, "N d"],
) -> Float[np.ndarray, "N S"]:
    """Variance of slope'phi(s, pi) over the sampling of actions.

    Parameters
    ----------
    feature_map, states, sampled
        As for `expect_over_samples`.
    slope
        Direction of each candidate in which the features matter, shape (N, d).

    Returns
    -------
    array
        Shape (N, S), the variance of the mean; 0 in states that are not needed.
    """
    result = np.zeros((len(sampled.action), len(states)))
    for j, rows, phi in _sampled_features(feature_map, states, sampled, slope.shape[1]):
        group = sampled.group[j]
        values = (phi @ slope[j]).reshape(-1, group, len(rows)).mean(axis=1)
        result[j, sampled.rows[rows]] = values.var(axis=0, ddof=1) / len(values)
    return result


def _sampled_features(
    feature_map: FeatureMap,
    states: Float[np.ndarray, "S p"],
    sampled: SampledActions,
    n_features: int,
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Features (L, c, d) of one candidate's actions in some of the states at a time."""
    n_draws, n_rows = sampled.action.shape[1:3]
    for j, action in enumerate(sampled.action):
        for rows in _chunks(np.arange(n_rows), n_draws * n_features):
            here = states[sampled.rows[rows]]
            points = Points(
                np.tile(here, (n_draws, *(1,) * (here.ndim - 1))),
                action[:, rows].reshape(n_draws * len(rows), -1),
            )
            yield j, rows, feature_map(points).reshape(n_draws, len(rows), n_features)


def _chunks(rows: np.ndarray, width: int) -> Iterator[np.ndarray]:
    size = max(_CHUNK_NUMBERS // max(width, 1), 1)
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
