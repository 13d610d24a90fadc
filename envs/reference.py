"""Reference policies: one family a world, indexed by alpha from worst (0) to best (1).

Logging policies and candidates of the experiments are members of one family, so that how far a
candidate lies from the logs, and how good it is, are set by one number. All of them are tables.
"""

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.envs.tabular import Outcomes, as_tabular, reward_matrix, transition_matrix
from bayesdice_ppl.errors import EnvironmentSpecError
from bayesdice_ppl.policies import TabularPolicy

# The discount at which "the optimal policy" is meant, where a family needs one.
OPTIMAL_GAMMA = 0.99
LARGEST_EPSILON = 0.2


def optimal_actions(outcomes: Outcomes, *, gamma: float = OPTIMAL_GAMMA) -> Int[np.ndarray, " S"]:
    """Optimal actions by value iteration, ties broken to the lowest action.

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
    if not 0 <= gamma < 1:
        raise EnvironmentSpecError(f"gamma: expected a discount in [0, 1), got {gamma}")
    moves, rewards = transition_matrix(outcomes), reward_matrix(outcomes)
    # Action values are at most max|r| / (1 - gamma). Stopped at a change of `step`, they are
    # within tolerance / 10 of their limits, and those closer than the tolerance count as tied.
    scale = max(float(np.max(np.abs(rewards))), np.finfo(np.float64).tiny)
    tolerance = 1e-8 * scale
    step = 0.1 * tolerance * (1 - gamma)
    values = np.zeros(rewards.shape[0])
    while True:
        action_values = rewards + gamma * (moves @ values)
        best = action_values.max(axis=1)
        if np.max(np.abs(best - values)) <= step:
            break
        values = best
    return np.argmax(action_values >= best[:, None] - tolerance, axis=1)


def one_hot(actions: Int[np.ndarray, " S"], n_actions: int) -> Float[np.ndarray, "S A"]:
    """Turn one action a state (S,) into the table of the deterministic policy, (S, A)."""
    return np.eye(n_actions)[actions]


def bandit_policy(env: object, alpha: float) -> TabularPolicy:
    """Build the bandit's policy: the best arm with probability alpha, the others uniformly.

    Parameters
    ----------
    env
        A `Bandit`, or Gymnasium's wrapping of one.
    alpha
        In [0, 1]: 0 never and 1 always pulls the best arm.

    Returns
    -------
    TabularPolicy
        Probabilities (1, A).

    Raises
    ------
    EnvironmentSpecError
        If alpha is outside [0, 1], the world has more than one state, or there is one arm only.

    Notes
    -----
    Yang, Dai, Nachum, Tucker, Schuurmans, "Offline Policy Selection under Uncertainty", appendix
    C.1: alpha is the proportion of the optimal arm.
    """
    _check_alpha(alpha)
    means = as_tabular(env).reward_matrix
    n_states, n_arms = means.shape
    if n_states != 1 or n_arms < 2:
        raise EnvironmentSpecError(
            f"bandit_policy: expected a bandit of 2 or more arms, got {n_states} states and "
            f"{n_arms} actions"
        )
    probabilities = np.full((1, n_arms), (1.0 - alpha) / (n_arms - 1))
    probabilities[0, np.argmax(means[0])] = alpha
    return TabularPolicy(probabilities)


def frozen_lake_policy(env: object, alpha: float) -> TabularPolicy:
    """Build FrozenLake's policy: epsilon-greedy of the optimal one, epsilon = 0.2 (1 - alpha).

    Parameters
    ----------
    env
        An `InfiniteFrozenLake`, or any tabular world.
    alpha
        In [0, 1]: 0 errs one time in five (epsilon 0.2), 0.9 one in fifty, 1 is the optimum at
        discount 0.99.

    Returns
    -------
    TabularPolicy
        Probabilities (S, A), epsilon / A for each action and the rest for the optimal one.

    Raises
    ------
    EnvironmentSpecError
        If alpha is outside [0, 1] or the world is not tabular.
    """
    _check_alpha(alpha)
    outcomes = as_tabular(env).outcomes
    n_actions = outcomes.probability.shape[1]
    epsilon = LARGEST_EPSILON * (1.0 - alpha)
    greedy = one_hot(optimal_actions(outcomes), n_actions)
    return TabularPolicy((1.0 - epsilon) * greedy + epsilon / n_actions)


def garnet_policy(env: object, alpha: float, *, seed: int) -> TabularPolicy:
    """Build a Garnet's policy: a random one at alpha 0, the optimal one at alpha 1, mixed between.

    Parameters
    ----------
    env
        A `Garnet`, a `Restart` around one, or any tabular world.
    alpha
        Weight of the optimal policy (at discount 0.99) in [0, 1].
    seed
        Nonnegative integer: the random policy's rows are uniform on the simplex, drawn from it.

    Returns
    -------
    TabularPolicy
        Probabilities (S, A): alpha optimal + (1 - alpha) random.

    Raises
    ------
    EnvironmentSpecError
        If alpha is outside [0, 1] or the world is not tabular.
    """
    _check_alpha(alpha)
    outcomes = as_tabular(env).outcomes
    n_states, n_actions, _ = outcomes.probability.shape
    random = np.random.default_rng(seed).dirichlet(np.ones(n_actions), size=n_states)
    optimal = one_hot(optimal_actions(outcomes), n_actions)
    return TabularPolicy(alpha * optimal + (1.0 - alpha) * random)


def _check_alpha(alpha: float) -> None:
    if not 0 <= alpha <= 1:
        raise EnvironmentSpecError(f"alpha: expected a number in [0, 1], got {alpha}")
