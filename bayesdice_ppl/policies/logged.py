"""The policy that logged, as far as the log shows it: how often it took each action in each state.

It is not known, so that its own noise is part of what is not known about its value. Where that
enters is said in `bayesdice_ppl.moments.build_moments`.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.logs.logs import Logs
from bayesdice_ppl.policies.alignment import AlignedPolicies

LOGGED = "logged"
"""Name of the policy that logged among the candidates."""


def with_logged_policy(
    aligned: AlignedPolicies, logs: Logs, mask: Bool[np.ndarray, " n"]
) -> AlignedPolicies:
    """Add the policy that logged, by the frequencies of its actions, as the last one.

    Parameters
    ----------
    aligned
        The candidates on the log's states and the action space.
    logs
        The logged transitions.
    mask
        The rows that are used, shape (n,); others are not counted.

    Returns
    -------
    AlignedPolicies
        With one policy more, named ``"logged"``: n_sa / n_s, and zero in states in which none of
        the rows took an action.

    Raises
    ------
    PoliciesError
        A candidate has that name already.
    """
    if LOGGED in aligned.names:
        raise PoliciesError(
            f"policy {LOGGED!r}: include_logged=True adds the policy that logged under this name; "
            "give the candidate another one, or leave include_logged out."
        )
    counts = np.zeros(aligned.probabilities.shape[1:])
    np.add.at(counts, (logs.state[mask], aligned.codes(logs)[logs.action[mask]]), 1.0)
    visits = counts.sum(axis=1, keepdims=True)
    frequencies = counts / np.maximum(visits, 1.0)
    return aligned._replace(
        names=(*aligned.names, LOGGED),
        probabilities=np.concatenate([aligned.probabilities, frequencies[None]]),
    )
