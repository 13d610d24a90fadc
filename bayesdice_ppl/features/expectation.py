"""The expectation of features over a candidate's actions: phi(s, pi) = E_{a ~ pi(.|s)} phi(s, a).

Over labels the expectation is a sum over the action space. Over vectors it is a mean over sampled
actions, in mirrored pairs where the policy is symmetric, and the variance of that mean is at hand
for the belief to report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.features.maps import FeatureMap, Points
from bayesdice_ppl.policies import ContinuousPolicy, SymmetricPolicy

_CHUNK_NUMBERS = 2**23
"""Most numbers in memory at once while means are taken."""


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
        States in which actions are taken, shape (S,); the others get zeros.
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
    """Draw the candidates' actions, with the same key for all, so that their errors move together.

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
                f"policy {name!r}: expected sample to give shape {(n, len(rows), n_numbers)} for "
                f"n={n} and {len(rows)} observations, as the log's actions have {n_numbers} "
                f"numbers, found {action.shape}."
            )
        if center is not None:
            other = np.asarray(center.mirror(obs, action), dtype=np.float64)
            # Mirror images stand side by side, and are averaged as one draw.
            action = np.stack([action, other], axis=1).reshape(n_draws, len(rows), n_numbers)
        if not np.isfinite(action).all():
            raise PoliciesError(
                f"policy {name!r}: expected sample to give finite numbers, found others."
            )
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
    """Features (L, c, d) of one candidate's actions in a few states at a time."""
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
