"""Functions apart from those that a belief is fitted to, to judge it by.

Of vectors they are smooth, and drawn; of labels they are the pairs of state and action.
"""

from __future__ import annotations

import numpy as np

from bayesdice_ppl import features as feature_maps
from bayesdice_ppl.features import FeatureChoice
from bayesdice_ppl.features.columns import width_of
from bayesdice_ppl.logs import Logs

N_FUNCTIONS, FEWEST_FUNCTIONS = 60, 10
"""Functions that are drawn, of which only what the fitted ones leave counts; and the fewest."""
MOST_NUMBERS = 50_000_000
"""Functions times transitions times candidates, at most."""


def other_functions(logs: Logs, n_policies: int, *, sees_action: bool) -> FeatureChoice | None:
    """Functions to judge a fit by: random waves, and each number of the state by itself; or pairs.

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
        None where they would take too much memory.
    """
    most = MOST_NUMBERS // (logs.n_transitions * (n_policies if sees_action else 1))
    most_pairs = MOST_NUMBERS // (len(logs.state_labels) * len(logs.action_labels) * n_policies)
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
        # Of labels there are no others than the pairs themselves.
        n_pairs = len(np.unique(logs.state * len(logs.action_labels) + logs.action))
        pairs = feature_maps.product(
            feature_maps.one_hot(of="state"), feature_maps.one_hot(of="action")
        )
        return pairs if n_pairs <= most_pairs else None
    vector, label = ("state", "action") if logs.vector_states else ("action", "state")
    labels = logs.action_labels if logs.vector_states else logs.state_labels
    each = number // len(labels)
    if each < 2:
        return None
    return feature_maps.product(
        feature_maps.fourier(each - each % 2, of=vector), feature_maps.one_hot(of=label)
    )
