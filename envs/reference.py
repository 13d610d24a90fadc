"""Reference policies: one family a world, indexed by alpha from worst (0) to best (1).

Logging policies and candidates of the experiments are members of one family, so that how far a
candidate lies from the logs, and how good it is, are set by one number. Those of tabular worlds
are tables; for the others see `continuous`.
"""

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.checks import is_number
from bayesdice_ppl.envs.checks import check_share
from bayesdice_ppl.envs.planning import optimal_action_values, optimal_actions
from bayesdice_ppl.envs.tabular import as_tabular
from bayesdice_ppl.errors import EnvironmentSpecError
from bayesdice_ppl.policies import TabularPolicy

LARGEST_EPSILON = 0.2


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
    check_share("alpha", alpha)
    means = as_tabular(env).reward_matrix
    n_states, n_arms = means.shape
    if n_states != 1 or n_arms < 2:
        raise EnvironmentSpecError(
            f"bandit_policy: expected a bandit of 2 or more arms, found {n_states} states and "
            f"{n_arms} actions."
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
        In [0, 1]: 0 acts at random one time in five (epsilon 0.2), 0.9 one in fifty, 1 is the
        optimum at discount 0.99.

    Returns
    -------
    TabularPolicy
        Probabilities (S, A), epsilon / A for each action and the rest for the optimal one.

    Raises
    ------
    EnvironmentSpecError
        If alpha is outside [0, 1] or the world is not tabular.
    """
    check_share("alpha", alpha)
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
    n_states, n_actions, _ = as_tabular(env).outcomes.probability.shape
    random = np.random.default_rng(seed).dirichlet(np.ones(n_actions), size=n_states)
    return _toward_optimal(env, alpha, random)


def contextual_bandit_policy(env: object, alpha: float) -> TabularPolicy:
    """Build the contextual bandit's policy: each context's best arm with probability alpha.

    Parameters
    ----------
    env
        A `ContextualBandit`, or any tabular world in which the next state does not matter.
    alpha
        In [0, 1]: 0 never and 1 always pulls the best arm; the other arms share the rest.

    Returns
    -------
    TabularPolicy
        Probabilities (C, A).

    Raises
    ------
    EnvironmentSpecError
        If alpha is outside [0, 1], the world is not tabular, or there is one arm only.
    """
    check_share("alpha", alpha)
    means = as_tabular(env).reward_matrix
    n_arms = means.shape[1]
    if n_arms < 2:
        raise EnvironmentSpecError(
            f"contextual_bandit_policy: expected 2 or more arms, found {n_arms}."
        )
    best = one_hot(np.argmax(means, axis=1), n_arms)
    return TabularPolicy(alpha * best + (1.0 - alpha) / (n_arms - 1) * (1.0 - best))


def river_swim_policy(env: object, alpha: float) -> TabularPolicy:
    """Build RiverSwim's policy: uniform at alpha 0, the optimal one at alpha 1, mixed between.

    Parameters
    ----------
    env
        A `RiverSwim`, or any tabular world.
    alpha
        Weight of the optimal policy (at discount 0.99) in [0, 1].

    Returns
    -------
    TabularPolicy
        Probabilities (S, A): alpha optimal + (1 - alpha) uniform.

    Raises
    ------
    EnvironmentSpecError
        If alpha is outside [0, 1] or the world is not tabular.
    """
    n_states, n_actions, _ = as_tabular(env).outcomes.probability.shape
    return _toward_optimal(env, alpha, np.full((n_states, n_actions), 1.0 / n_actions))


def taxi_policy(env: object, alpha: float, *, temperature: float = 1.0) -> TabularPolicy:
    """Build Taxi's policy: a softmax of the optimal action values, mixed with the uniform policy.

    Parameters
    ----------
    env
        An `InfiniteTaxi`, or any tabular world.
    alpha
        Weight of the softmax in [0, 1]; 0 is uniform. At temperature 1, alpha 1 takes an optimal
        action at 79 % of its steps (discount 0.99), and is worth 0.08 a step where the optimum is
        worth 0.52 and the uniform policy -3.93.
    temperature
        In units of reward, above 0; the lower, the closer alpha 1 comes to the optimum.

    Returns
    -------
    TabularPolicy
        Probabilities (S, A): alpha softmax(Q / temperature) + (1 - alpha) uniform, Q the optimal
        action values at discount 0.99.

    Raises
    ------
    EnvironmentSpecError
        If alpha is outside [0, 1], the temperature is not positive, or the world is not tabular.
    """
    check_share("alpha", alpha)
    if not is_number(temperature) or temperature <= 0:
        raise EnvironmentSpecError(f"temperature: expected a number above 0, found {temperature}.")
    outcomes = as_tabular(env).outcomes
    values = optimal_action_values(outcomes)
    soft = np.exp((values - values.max(axis=1, keepdims=True)) / temperature)
    soft /= soft.sum(axis=1, keepdims=True)
    return TabularPolicy(alpha * soft + (1.0 - alpha) / values.shape[1])


def _toward_optimal(env: object, alpha: float, other: Float[np.ndarray, "S A"]) -> TabularPolicy:
    """Mix the optimum at discount 0.99, by weight alpha, with another policy."""
    check_share("alpha", alpha)
    outcomes = as_tabular(env).outcomes
    optimal = one_hot(optimal_actions(outcomes), other.shape[1])
    return TabularPolicy(alpha * optimal + (1.0 - alpha) * other)
