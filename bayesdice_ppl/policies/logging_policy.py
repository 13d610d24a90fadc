"""The logging policy, estimated by how often the log took each action in each state.

The estimate has noise of its own, which adds to the uncertainty of its value;
`bayesdice_ppl.moments.build_moments` says where.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.logs import AnyLogs, CountedLogs
from bayesdice_ppl.policies.alignment import AlignedPolicies

LOGGED = "logged"
"""Name of the logging policy among the candidates."""


def action_frequencies(
    state: Int[np.ndarray, " n"],
    action: Int[np.ndarray, " n"],
    shape: tuple[int, int],
    count: Float[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, "S A"]:
    """Share of the visits to each state in which each action was taken, n_sa / n_s.

    Parameters
    ----------
    state, action
        Codes of what was logged, shape (n,).
    shape
        (S, A).
    count
        Number of rows that each entry stands for, shape (n,); one if None.

    Returns
    -------
    array
        Shape (S, A), zero in states that were never visited.
    """
    pair = np.ravel_multi_index((state, action), shape)
    counts = np.bincount(pair, count, shape[0] * shape[1]).reshape(shape)
    frequencies: Float[np.ndarray, "S A"] = counts / np.maximum(
        counts.sum(axis=1, keepdims=True), 1
    )
    return frequencies


def with_logged_policy(
    aligned: AlignedPolicies, logs: AnyLogs, mask: Bool[np.ndarray, " n"]
) -> AlignedPolicies:
    """Add the logging policy, estimated by the frequencies of its actions, as the last one.

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
            f"policies: expected no candidate named {LOGGED!r}, since include_logged=True adds the "
            "logging policy under this name, found one. Rename it, or leave include_logged out."
        )
    taken = aligned.codes(logs)[logs.action[mask]]
    n_states, n_actions = aligned.probabilities.shape[1:]
    count = logs.count[mask] if isinstance(logs, CountedLogs) else None
    frequencies = action_frequencies(logs.state[mask], taken, (n_states, n_actions), count)
    return aligned._replace(
        names=(*aligned.names, LOGGED),
        probabilities=np.concatenate([aligned.probabilities, frequencies[None]]),
    )
