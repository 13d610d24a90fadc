"""Features under sampled actions: their mean, and how far chance may have moved it.

Actions are drawn in mirrored pairs where the policy is symmetric. All candidates share the random
numbers, so that the errors of their means move together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.features.maps import FeatureMap, Points
from bayesdice_ppl.policies import ContinuousPolicy, SymmetricPolicy
from bayesdice_ppl.policies.asking import ask, number_array

MOST_NUMBERS = 2**23
"""Most numbers in memory at once while means over actions are taken."""


class SampledActions(NamedTuple):
    """Actions of the candidates that are sampled, in every state that is needed.

    Attributes
    ----------
    action
        Shape (M, L, S', q).
    rows
        Codes of the S' states.
    group
        Draws that belong together and are averaged first: 2 for mirrored pairs, else 1.
    candidates
        Which of the N candidates they are.
    """

    action: Float[np.ndarray, "M L S2 q"]
    rows: Int[np.ndarray, " S2"]
    group: tuple[int, ...]
    candidates: tuple[int, ...]


def sample_actions(
    policies: Sequence[tuple[str, ContinuousPolicy]],
    observations: Float[np.ndarray, "S p"],
    needed: Bool[np.ndarray, " S"],
    n_draws: int,
    n_numbers: int,
    rng_key: PRNGKeyArray,
) -> SampledActions:
    """Draw candidates' actions, with the same key for all, so that their errors move together.

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
        action = ask(name, "sample", partial(_drawn, policy, rng_key, obs, n), obs)
        if action.shape != (n, len(rows), n_numbers):
            raise PoliciesError(
                f"policy {name!r}: expected sample to give shape {(n, len(rows), n_numbers)} for "
                f"n={n} and {len(rows)} observations, as the log's actions have {n_numbers} "
                f"numbers, found {action.shape}."
            )
        if center is not None:
            other = number_array(center.mirror(obs, action), f"policy {name!r}: mirror")
            # Mirror images stand side by side, and are averaged as one draw.
            action = np.stack([action, other], axis=1).reshape(n_draws, len(rows), n_numbers)
        if not np.isfinite(action).all():
            raise PoliciesError(
                f"policy {name!r}: expected sample to give finite numbers, found others."
            )
        drawn.append(action)
        group.append(1 if center is None else 2)
    return SampledActions(np.stack(drawn), rows, tuple(group), tuple(range(len(policies))))


def _drawn(policy: ContinuousPolicy, rng_key: Any, obs: Any, n: int, some: np.ndarray) -> Any:
    return policy.sample(rng_key, obs[some], n)


def expect_over_samples(
    feature_map: FeatureMap,
    states: Float[np.ndarray, "S p"] | Int[np.ndarray, " S"],
    sampled: SampledActions,
    n_features: int,
) -> Float[np.ndarray, "M S d"]:
    """phi(s, pi) of the sampled candidates by the mean over their actions, shape (M, S, d)."""
    result = np.zeros((len(sampled.action), len(states), n_features))
    for j, rows, phi in _sampled_features(feature_map, states, sampled, n_features):
        result[j, sampled.rows[rows]] = phi.mean(axis=0)
    return result


def sampling_variance(
    feature_map: FeatureMap,
    states: Float[np.ndarray, "S p"] | Int[np.ndarray, " S"],
    sampled: SampledActions | None,
    slope: Float[np.ndarray, "N d"],
) -> Float[np.ndarray, "N S"]:
    """Variance of slope'phi(s, pi) over the sampling of actions.

    Parameters
    ----------
    feature_map, states, sampled
        As for `expect_over_samples`; None where nothing was drawn.
    slope
        Direction of each candidate in which the features matter, shape (N, d).

    Returns
    -------
    array
        Shape (N, S), the variance of the mean; 0 for candidates whose mean is exact, and in states
        that are not needed.
    """
    result = np.zeros((len(slope), len(states)))
    if sampled is None:
        return result
    for i, rows, phi in _sampled_features(feature_map, states, sampled, slope.shape[1]):
        j = sampled.candidates[i]
        values = (phi @ slope[j]).reshape(-1, sampled.group[i], len(rows)).mean(axis=1)
        result[j, sampled.rows[rows]] = values.var(axis=0, ddof=1) / len(values)
    return result


def _sampled_features(
    feature_map: FeatureMap,
    states: Float[np.ndarray, "S p"] | Int[np.ndarray, " S"],
    sampled: SampledActions,
    n_features: int,
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Features (L, c, d) of one candidate's actions in a few states at a time."""
    n_draws, n_rows = sampled.action.shape[1:3]
    for j, action in enumerate(sampled.action):
        for rows in chunks(np.arange(n_rows), n_draws * n_features):
            here = states[sampled.rows[rows]]
            points = Points(
                np.tile(here, (n_draws, *(1,) * (here.ndim - 1))),
                action[:, rows].reshape(n_draws * len(rows), -1),
            )
            yield j, rows, feature_map(points).reshape(n_draws, len(rows), n_features)


def chunks(rows: np.ndarray, width: int, numbers: int = MOST_NUMBERS) -> Iterator[np.ndarray]:
    """Rows in parts of at most so many numbers, with so many to a row."""
    size = max(numbers // max(width, 1), 1)
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
