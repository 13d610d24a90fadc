"""The state-action pairs that the log holds, and what a candidate does on them.

No ratio can balance the flow into a pair that was never logged: mass would leak, and every value
would be biased. Tabular ratios and test features therefore live on the logged pairs, and each
candidate is renormalized over the actions logged in each state. The belief reports how much
probability was moved.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.arrays import library_of, sums_by
from bayesdice_ppl.codes import combined
from bayesdice_ppl.logs import AnyLogs


class LoggedPairs(NamedTuple):
    """The state-action pairs that were logged.

    Attributes
    ----------
    state, action
        Codes of each pair, shape (P,): states as in the log, actions in the action space.
    of_row
        The pair of each transition, shape (n,).
    """

    state: Int[np.ndarray, " P"]
    action: Int[np.ndarray, " P"]
    of_row: Int[np.ndarray, " n"]


class PairRewards(NamedTuple):
    """Rewards of each pair: how many, their mean, and the sum of squares around it, shape (P,)."""

    visits: Float[np.ndarray, " P"]
    mean: Float[np.ndarray, " P"]
    scatter: Float[np.ndarray, " P"]


def pair_rewards(
    pair: Int[np.ndarray, " n"], reward: Float[np.ndarray, " n"], n_pairs: int
) -> PairRewards:
    """Count the rewards of P pairs, of which each has one at least.

    Parameters
    ----------
    pair, reward
        Of each row, shape (n,).
    n_pairs
        P.
    """
    visits = np.bincount(pair, minlength=n_pairs).astype(np.float64)
    mean = np.bincount(pair, reward, n_pairs) / visits
    return PairRewards(visits, mean, np.bincount(pair, (reward - mean[pair]) ** 2, n_pairs))


def logged_pairs(
    logs: AnyLogs, action_code: Int[np.ndarray, " A_log"], mask: Bool[np.ndarray, " n"]
) -> LoggedPairs:
    """Find the pairs that the usable rows hold.

    Parameters
    ----------
    logs
        The logged transitions.
    action_code
        Position in the action space of each of the log's action labels.
    mask
        The rows that are used; ``of_row`` refers to these only.
    """
    action = action_code[logs.action[mask]]
    state = logs.state[mask]
    (states, actions), of_row = combined(state, action)
    return LoggedPairs(states, actions, of_row)


def renormalize(
    probabilities: Float[Any, "S A"],
    state: Int[Any, " P"],
    action: Int[Any, " P"],
    logged: Float[Any, " P"],
) -> tuple[Float[Any, " P"], Float[Any, " S"]]:
    """Renormalize one policy over the actions logged in each state.

    Parameters
    ----------
    probabilities
        The policy, shape (S, A).
    state, action
        Codes of the pairs, shape (P,).
    logged
        1 for a pair that was logged and 0 for one that was not, shape (P,).

    Returns
    -------
    (Array, Array)
        The renormalized probability of each pair, shape (P,), zero where the policy takes no
        logged action; and the probability that the policy puts on logged actions in each state,
        shape (S,).
    """
    return renormalize_pairs(probabilities[state, action] * logged, state, probabilities.shape[0])


def renormalize_pairs(
    weight: Float[Any, " P"], state: Int[Any, " P"], n_states: int
) -> tuple[Float[Any, " P"], Float[Any, " S"]]:
    """Renormalize weights of pairs within each state; see `renormalize`.

    Parameters
    ----------
    weight
        Probability of each pair, 0 for those that are left out, shape (P,).
    state
        State of each pair, shape (P,).
    n_states
        S.

    Returns
    -------
    (Array, Array)
        Renormalized, shape (P,), and the sum in each state, shape (S,).
    """
    xp = library_of(weight, state)
    kept = sums_by(weight, state, n_states)
    share = kept[state]
    return xp.where(share > 0.0, weight / xp.where(share > 0.0, share, 1.0), 0.0), kept


class Reach(NamedTuple):
    """What a renormalized policy can get to in the log.

    Attributes
    ----------
    pair
        Pairs that it visits with positive probability, shape (P,).
    dead_state
        States that it gets to and in which it takes no logged action, shape (S,).
    """

    pair: Bool[np.ndarray, " P"]
    dead_state: Bool[np.ndarray, " S"]


def reach(
    target: Float[np.ndarray, " P"],
    pair_state: Int[np.ndarray, " P"],
    edges: tuple[Int[np.ndarray, " C"], Int[np.ndarray, " C"]],
    initial: Bool[np.ndarray, " S"],
) -> Reach:
    """Follow a policy through the logged transitions from the initial states.

    Parameters
    ----------
    target
        Renormalized probability of each pair, shape (P,).
    pair_state
        State of each pair, shape (P,).
    edges
        Pair and successor state of each kind of logged, unterminated transition, shapes (C,).
    initial
        The states in which episodes started, shape (S,).
    """
    taken = target > 0.0
    acts = np.zeros(len(initial), dtype=bool)
    acts[pair_state[taken]] = True
    pair, successor = edges
    visited = initial.copy()
    while True:
        followed = taken[pair] & visited[pair_state[pair]]
        grown = visited.copy()
        grown[successor[followed]] = True
        if (grown == visited).all():
            return Reach(taken & visited[pair_state], visited & ~acts)
        visited = grown
