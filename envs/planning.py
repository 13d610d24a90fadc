"""Planning in a tabular world: optimal action values and actions, by value iteration.

Reference policies are built around the optimum, which is found from the world's table of outcomes.
"""

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from bayesdice_ppl.envs.checks import check_share
from bayesdice_ppl.envs.tabular import Outcomes, reward_matrix

# The discount at which "the optimal policy" is meant, where a family needs one.
OPTIMAL_GAMMA = 0.99
# Action values closer than this share of the largest reward count as tied.
TIE = 1e-8


def optimal_action_values(
    outcomes: Outcomes, *, gamma: float = OPTIMAL_GAMMA
) -> Float[np.ndarray, "S A"]:
    """Optimal action values by value iteration.

    Parameters
    ----------
    outcomes
        The table, fields (S, A, K).
    gamma
        Discount in [0, 1).

    Returns
    -------
    numpy.ndarray
        (S, A): expected discounted sum of rewards (not normalized), within 1e-9 of the largest
        reward.

    Raises
    ------
    EnvironmentSpecError
        If `gamma` is outside [0, 1).
    """
    check_share("gamma", gamma, below_one=True)
    n_states, n_actions, n_outcomes = outcomes.probability.shape
    # Sparse, as a step leads to a few states only, however many there are.
    leading = np.flatnonzero((outcomes.probability > 0) & ~outcomes.terminated)
    moves = csr_array(
        (
            outcomes.probability.ravel()[leading],
            (leading // n_outcomes, outcomes.next_state.ravel()[leading]),
        ),
        shape=(n_states * n_actions, n_states),
    )
    rewards = reward_matrix(outcomes)
    # Stopped at a change of `step`, values are within a tenth of a tie of their limits.
    step = 0.1 * _tie(rewards) * (1 - gamma)
    values = np.zeros(n_states)
    while True:
        action_values = rewards + gamma * (moves @ values).reshape(n_states, n_actions)
        best = action_values.max(axis=1)
        if np.max(np.abs(best - values)) <= step:
            return action_values
        values = best


def optimal_actions(outcomes: Outcomes, *, gamma: float = OPTIMAL_GAMMA) -> Int[np.ndarray, " S"]:
    """Optimal actions, ties broken to the lowest action.

    Parameters
    ----------
    outcomes
        The table, fields (S, A, K).
    gamma
        Discount in [0, 1).

    Returns
    -------
    numpy.ndarray
        (S,): the best action of each state.

    Raises
    ------
    EnvironmentSpecError
        If `gamma` is outside [0, 1).
    """
    action_values = optimal_action_values(outcomes, gamma=gamma)
    best = action_values.max(axis=1, keepdims=True)
    return np.argmax(action_values >= best - _tie(reward_matrix(outcomes)), axis=1)


def _tie(rewards: Float[np.ndarray, "S A"]) -> float:
    return TIE * max(float(np.max(np.abs(rewards))), np.finfo(np.float64).tiny)
