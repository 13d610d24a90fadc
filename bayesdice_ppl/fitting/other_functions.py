"""Smooth functions, drawn apart from those that a belief is fitted to, to judge it by."""

from __future__ import annotations

from bayesdice_ppl import features as feature_maps
from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.logs import Logs

N_FUNCTIONS = 60
"""Functions that are drawn, of which only what the fitted ones leave counts."""
MOST_NUMBERS = 2_000_000
"""Functions times transitions, at most."""


def other_functions(logs: Logs, *, sees_action: bool) -> FeatureChoice:
    """Smooth functions to judge a fit by: random waves, and each number of the state by itself.

    Parameters
    ----------
    logs
        The log.
    sees_action
        Whether the fit's own functions look at the action. The others then do too.
    """
    number = min(N_FUNCTIONS, max(MOST_NUMBERS // logs.n_transitions, 10))
    if not sees_action:
        waves = feature_maps.fourier(_even(number), of="state", recode=True)
        return feature_maps.concatenate(waves, feature_maps.columns("state"))
    if logs.vector_states and logs.vector_actions:
        return feature_maps.fourier(_even(number))
    vector, label = ("state", "action") if logs.vector_states else ("action", "state")
    labels = logs.action_labels if logs.vector_states else logs.state_labels
    return feature_maps.product(
        feature_maps.fourier(_even(number // len(labels)), of=vector),
        feature_maps.one_hot(of=label),
    )


def _even(number: int) -> int:
    return max(number - number % 2, 2)
