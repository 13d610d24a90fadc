"""Write a policy as a table over the states and actions of a tabular world.

A world numbers its states and actions. A policy may label rows and columns in another order, or
leave out states that are never reached. A reachable state without a row is refused.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from bayesdice_ppl.envs.tabular import Outcomes, TabularEnv
from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.policies import ContinuousPolicy, Policy, TabularPolicy
from bayesdice_ppl.policies.named_columns import by_label
from bayesdice_ppl.policies.tabular import TOLERANCE, number_table


def reachable(
    moves: csr_array, initial_distribution: Float[np.ndarray, " S"]
) -> Bool[np.ndarray, " S"]:
    """Find the states that are ever visited.

    Parameters
    ----------
    moves
        (S, S), sparse: positive where a step from the row's to the column's state is possible.
    initial_distribution
        (S,).

    Returns
    -------
    numpy.ndarray
        (S,) flags.
    """
    n_states = len(initial_distribution)
    starts = np.flatnonzero(initial_distribution > 0)
    # One extra node that leads to every start state makes a single search do.
    edges = moves.tocoo()
    rows = np.concatenate([edges.row[edges.data > 0], np.full(starts.size, n_states)])
    columns = np.concatenate([edges.col[edges.data > 0], starts])
    graph = csr_array((np.ones(rows.size), (rows, columns)), shape=(n_states + 1, n_states + 1))
    found = np.zeros(n_states + 1, dtype=bool)
    found[breadth_first_order(graph, n_states, return_predecessors=False)] = True
    return found[:n_states]


def policy_moves(outcomes: Outcomes, probabilities: Float[np.ndarray, "S A"]) -> csr_array:
    """Transition matrix under a policy.

    Parameters
    ----------
    outcomes
        The table, fields (S, A, K).
    probabilities
        (S, A): the policy.

    Returns
    -------
    scipy.sparse.csr_array
        (S, S), without stored zeros; a row sums to 1 minus the probability of termination.
    """
    n_states = outcomes.probability.shape[0]
    weight = np.where(outcomes.terminated, 0.0, outcomes.probability) * probabilities[:, :, None]
    positive = weight > 0
    state = np.broadcast_to(np.arange(n_states)[:, None, None], weight.shape)
    return csr_array(
        (weight[positive], (state[positive], outcomes.next_state[positive])),
        shape=(n_states, n_states),
    )


def policy_table(env: TabularEnv, policy: Any) -> Float[np.ndarray, "S A"]:
    """Tabulate a policy over every state of a world.

    Parameters
    ----------
    env
        The world, of S states and A actions.
    policy
        A `TabularPolicy` labeled with the world's integers, in any order; any object with
        `probs(states) -> (batch, A)`; or the array (S, A) itself. Actions that a table leaves out
        have probability 0; states may be left out that no policy can reach.

    Returns
    -------
    numpy.ndarray
        (S, A), float64. Rows of unreachable states that the policy leaves out are uniform, which
        changes no value.

    Raises
    ------
    PoliciesError
        If a reachable state has no row, a state or action is not the world's, or the
        probabilities are not probabilities.
    """
    n_states, n_actions, _ = env.outcomes.probability.shape
    if isinstance(policy, TabularPolicy):
        return _from_labels(env, policy)
    if isinstance(policy, ContinuousPolicy):
        raise PoliciesError(
            f"policy: it draws continuous actions, and this world has {n_actions} actions; "
            "expected a table, or an object with probs(states)."
        )
    given = policy.probs(np.arange(n_states)) if isinstance(policy, Policy) else policy
    table = number_table(by_label(given, range(n_actions), "policy"), "policy")
    if table.shape != (n_states, n_actions):
        raise PoliciesError(
            f"policy: expected probabilities of shape ({n_states}, {n_actions}), states by "
            f"actions of this world, found {table.shape}."
        )
    sums = table.sum(axis=1)
    wrong = ~(np.all(table >= 0, axis=1) & (np.abs(sums - 1.0) <= TOLERANCE))
    if np.any(wrong):
        state = int(np.argmax(wrong))
        raise PoliciesError(
            f"policy, state {state}: expected nonnegative probabilities that sum to 1, found "
            f"{table[state]}."
        )
    return table


def action_columns(policy: TabularPolicy, n_actions: int) -> Int[np.ndarray, " k"]:
    """Which of a world's actions, 0 to A - 1, each column of a table stands for.

    Raises
    ------
    PoliciesError
        A label is not one of them.
    """
    _check_labels("action", policy.actions, n_actions)
    return policy.actions.astype(np.int64)


def _check_labels(kind: str, labels: Shaped[np.ndarray, " k"], count: int) -> None:
    for label in labels.tolist():
        if not isinstance(label, int) or not 0 <= label < count:
            raise PoliciesError(
                f"policy: {kind} {label!r} is not one of this world's, which are the integers "
                f"0 to {count - 1}."
            )


def _from_labels(env: TabularEnv, policy: TabularPolicy) -> Float[np.ndarray, "S A"]:
    outcomes = env.outcomes
    n_states, n_actions, _ = outcomes.probability.shape
    _check_labels("state", policy.states, n_states)
    _check_labels("action", policy.actions, n_actions)
    table = np.zeros((n_states, n_actions))
    table[np.ix_(policy.states, policy.actions)] = policy.probabilities
    missing = np.ones(n_states, dtype=bool)
    missing[policy.states] = False
    if np.any(missing):
        uniform = np.full((n_states, n_actions), 1.0 / n_actions)
        visited = reachable(policy_moves(outcomes, uniform), env.initial_distribution)
        if np.any(missing & visited):
            raise PoliciesError(
                f"policy: no row for state {int(np.argmax(missing & visited))}, which can be "
                "reached in this world."
            )
        table[missing] = 1.0 / n_actions
    return table
