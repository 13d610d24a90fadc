"""Exploration by BayesDICE: play the policy whose belief has the best U."""

from __future__ import annotations

import numpy as np

from bayesdice_ppl.exploration.explorers import (
    Chosen,
    Counted,
    Explorer,
    PolicySearch,
    by_counts,
)
from bayesdice_ppl.exploration.featured import by_features
from bayesdice_ppl.exploration.planning import Planning
from bayesdice_ppl.exploration.spaces import Beliefs
from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.models import Optimism
from bayesdice_ppl.models.optimism import quantile

_THROUGH_FEATURES = Planning(starts=8, refined=2)
"""A policy costs more to judge there."""


def bayesdice(
    optimism: Optimism = quantile(),  # noqa: B008  an immutable NamedTuple
    engine: PolicySearch | None = None,
    *,
    features: FeatureChoice | None = None,
) -> Explorer:
    """Exploration by BayesDICE: the policy whose belief has the best U.

    Parameters
    ----------
    optimism
        U: `bayesdice_ppl.models.quantile` (default) or `bayesdice_ppl.models.variance`.
    engine
        `planning` (default; through features with 8 starts, of which 2 are improved) or
        `variational`.
    features
        Features of the state, from `bayesdice_ppl.features`, such as ``fourier(50, of="state")``.
        Needed where states are vectors. None: tables.

    Raises
    ------
    SettingsError
        There are no such features.
    """
    usual = Planning() if features is None else _THROUGH_FEATURES
    search = usual if engine is None else engine
    # A run in a folder is known by it, so that it is not continued by another engine.
    other = "" if search == usual else f", {search}"
    name = f"bayesdice({optimism}{other})"

    def found(beliefs: Beliefs, gamma: float, rng: np.random.Generator) -> Chosen:
        best = search.find(beliefs, gamma, optimism, rng)
        sd = float(best.belief.variance) ** 0.5
        return Chosen(best.policy, float(best.belief.mean), sd, best.score)

    def choose(state: Counted, rng: np.random.Generator) -> Chosen:
        return found(state.beliefs, state.task.gamma, rng)

    if features is not None:
        return by_features(name, features, found)
    return by_counts(name, choose, averages=search.averages)
