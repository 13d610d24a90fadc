"""Smooth functions, drawn apart from those that a belief is fitted to, to judge it by."""

from __future__ import annotations

from bayesdice_ppl import features as feature_maps
from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.features.columns import width_of
from bayesdice_ppl.logs import Logs

N_FUNCTIONS, FEWEST_FUNCTIONS = 60, 10
"""Functions that are drawn, of which only what the fitted ones leave counts; and the fewest."""
MOST_NUMBERS = 50_000_000
"""Functions times transitions times candidates, at most."""


def other_functions(logs: Logs, n_policies: int, *, sees_action: bool) -> FeatureChoice | None:
    """Smooth functions to judge a fit by: random waves, and each number of the state by itself.

    Parameters
    ----------
    logs
        The log.
    n_policies
        Number of candidates.
    sees_action
        Whether the fit's own functions look at the action. The others then do too.

    Returns
    -------
    FeatureChoice or None
        None where there is no vector to look at, and where they would take too much memory.
    """
    most = MOST_NUMBERS // (logs.n_transitions * (n_policies if sees_action else 1))
    number = min(N_FUNCTIONS, most - most % 2)
    if number < FEWEST_FUNCTIONS:
        return None
    if not sees_action:
        if not logs.vector_states:
            return None
        waves = feature_maps.fourier(number, of="state", recode=True)
        if number + width_of(logs.state_labels, 0) > most:
            return waves
        return feature_maps.concatenate(waves, feature_maps.columns("state"))
    if logs.vector_states and logs.vector_actions:
        return feature_maps.fourier(number)
    if not (logs.vector_states or logs.vector_actions):
        return None
    vector, label = ("state", "action") if logs.vector_states else ("action", "state")
    labels = logs.action_labels if logs.vector_states else logs.state_labels
    each = number // len(labels)
    if each < 2:
        return None
    return feature_maps.product(
        feature_maps.fourier(each - each % 2, of=vector), feature_maps.one_hot(of=label)
    )
