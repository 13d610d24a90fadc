"""The expectation of features over a candidate's actions: phi(s, pi) = E_{a ~ pi(.|s)} phi(s, a).

Over labels the expectation is a sum over the action space. Over vectors it is exact where the map
looks at the state alone, and where the policy is normal and the map knows its mean under a normal
action. Else it is a mean over sampled actions, whose variance is at hand for the belief to report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray, Shaped

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.maps import FeatureMap, Points, gaussian_mean, sees_action
from bayesdice_ppl.features.sampling import (
    SampledActions,
    chunks,
    expect_over_samples,
    sample_actions,
)
from bayesdice_ppl.policies import ContinuousPolicy, NormalPolicy, checked_moments

_EXACT_NUMBERS = 2**20
"""Features at once where the mean is exact; a processor's cache holds more of them than memory."""


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
    for rows in chunks(np.flatnonzero(needed), n_actions * n_features):
        points = Points(
            np.repeat(states[rows], n_actions, axis=0), np.tile(np.arange(n_actions), len(rows))
        )
        phi = feature_map(points).reshape(len(rows), n_actions, n_features)
        result[:, rows] = np.einsum("nca,cad->ncd", probabilities[:, rows], phi, optimize=True)
    return result


class Expected(NamedTuple):
    """Features under every candidate's actions.

    Attributes
    ----------
    at_state
        phi(s, pi), shape (N, S, d); 0 in states that are not needed.
    sampled
        The actions behind the means that are not exact, None if all are.
    """

    at_state: Float[np.ndarray, "N S d"]
    sampled: SampledActions | None


def expect(
    feature_map: FeatureMap,
    states: Float[np.ndarray, "S p"] | Int[np.ndarray, " S"],
    policies: Sequence[tuple[str, ContinuousPolicy]],
    observations: Shaped[np.ndarray, "S *p"],
    needed: Bool[np.ndarray, " S"],
    n_features: int,
    *,
    n_numbers: int,
    n_draws: int,
    rng_key: PRNGKeyArray | None,
) -> Expected:
    """phi(s, pi) over vectors: exact for candidates and maps that can say it, else sampled.

    Parameters
    ----------
    feature_map
        The map.
    states
        States by code as the map takes them: vectors, shape (S, p), or codes, shape (S,).
    policies
        Name and policy of each candidate.
    observations
        States by code as policies take them: vectors, or labels.
    needed
        States in which actions are taken, shape (S,); the others get zeros.
    n_features
        d.
    n_numbers
        q, the length of the log's actions.
    n_draws, rng_key
        As for `sample_actions`; no key is needed if every mean is exact.

    Raises
    ------
    PoliciesError
        A policy gives another shape, numbers that are not finite, or another density than the
        normal one that it says.
    SettingsError
        Actions have to be drawn, and there is no key.
    """
    result = np.zeros((len(policies), len(states), n_features))
    rows = np.flatnonzero(needed)
    if not sees_action(feature_map):
        for here in chunks(rows, n_features, _EXACT_NUMBERS):
            # No action moves it, so that any will do, and all candidates are alike.
            result[:, here] = feature_map(Points(states[here], np.zeros((len(here), n_numbers))))
        return Expected(result, None)
    asked = any(isinstance(policy, NormalPolicy) for _, policy in policies)
    known = asked and _knows_mean(feature_map, states, n_numbers)
    rest = []
    for j, (name, policy) in enumerate(policies):
        if known and isinstance(policy, NormalPolicy):
            mean, sd = checked_moments(name, policy, observations[rows], n_numbers)
            for part in chunks(np.arange(len(rows)), n_features, _EXACT_NUMBERS):
                here = rows[part]
                spread = sd if sd.ndim == 1 else sd[part]
                result[j, here] = gaussian_mean(feature_map, states[here], mean[part], spread)
        else:
            rest.append(j)
    if not rest:
        return Expected(result, None)
    if rng_key is None:
        raise SettingsError(
            "rng_key: expected a key such as jax.random.key(0), found None. The actions of policy "
            f"{policies[rest[0]][0]!r} are drawn at random, since their mean features have no "
            "closed form."
        )
    drawn = sample_actions(
        [policies[j] for j in rest], observations, needed, n_draws, n_numbers, rng_key
    )._replace(candidates=tuple(rest))
    result[rest] = expect_over_samples(feature_map, states, drawn, n_features)
    return Expected(result, drawn)


def _knows_mean(feature_map: FeatureMap, states: np.ndarray, n_numbers: int) -> bool:
    """Whether the map knows its mean under normal actions, asked at one point."""
    center, sd = np.zeros((1, n_numbers)), np.ones(n_numbers)
    return gaussian_mean(feature_map, states[:1], center, sd) is not None
