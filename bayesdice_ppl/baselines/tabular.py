"""A log of labels and one policy as plain arrays: what the tabular baselines start from.

The rows are those that a fit would use at the same discount, the states and actions all that the
log or the action space knows, and nothing is renormalized: what the log never saw is each method's
own to deal with.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.logs import Logs, usable_rows
from bayesdice_ppl.policies import ContinuousPolicy, Policy, align_policies


@final
class Tabular(NamedTuple):
    """Transitions in use as codes, n of them, and a policy as a table.

    Attributes
    ----------
    episode, step
        Of each transition, shape (n,).
    state, action, next_state
        Codes, shape (n,); `next_state` is -1 after a termination whose successor is not logged.
    reward, terminated
        Of each transition, shape (n,).
    target
        pi(a|s), shape (S, A); zero rows in states in which no action is ever needed.
    initial
        State in which each of the m episodes starts, shape (m,): all episodes, each once.
    row
        Index of each transition in the log, shape (n,).
    """

    episode: Int[np.ndarray, " n"]
    step: Int[np.ndarray, " n"]
    state: Int[np.ndarray, " n"]
    action: Int[np.ndarray, " n"]
    next_state: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    terminated: Bool[np.ndarray, " n"]
    target: Float[np.ndarray, "S A"]
    initial: Int[np.ndarray, " m"]
    row: Int[np.ndarray, " n"]

    @property
    def n_states(self) -> int:
        """Number of states, S."""
        return self.target.shape[0]

    @property
    def n_actions(self) -> int:
        """Number of actions, A."""
        return self.target.shape[1]

    @property
    def pair(self) -> Int[np.ndarray, " n"]:
        """Code of the state-action pair of each transition, state * A + action."""
        return self.state * self.n_actions + self.action


def tabulate(logs: Logs, policy: Policy | ContinuousPolicy, gamma: float) -> Tabular:
    """Bring a log of labels and a policy to arrays.

    Parameters
    ----------
    logs
        Logged transitions, states and actions labels.
    policy
        The candidate.
    gamma
        Discount: at 0 successors are not asked for.

    Raises
    ------
    LogsError, PoliciesError
        The policy does not cover the log.
    """
    aligned = align_policies(logs, {"policy": policy}, needs_successors=gamma > 0.0)
    rows = np.flatnonzero(usable_rows(logs, gamma).mask)
    return Tabular(
        episode=logs.episode[rows],
        step=logs.step[rows],
        state=logs.state[rows],
        action=aligned.codes(logs)[logs.action[rows]],
        next_state=logs.next_state[rows],
        reward=logs.reward[rows],
        terminated=logs.terminated[rows],
        target=aligned.probabilities[0],
        initial=logs.initial_state,
        row=rows,
    )
