"""True values and ratios of policies: in tabular worlds exactly, by one linear solve.

Everything here derives from the occupancy: the share of time that a policy spends in each state,
discounted from the start, or in the long run at gamma = 1. It is computed in float64 from the
world's table. A world without a table is simulated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_array, eye_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import spsolve

from bayesdice_ppl.checks import discount, whole
from bayesdice_ppl.envs.tabular import as_tabular, find_tabular
from bayesdice_ppl.errors import EnvironmentSpecError, SettingsError
from bayesdice_ppl.simulation.tables import policy_moves, policy_table, reachable
from bayesdice_ppl.simulation.true_values import TrueValue

if TYPE_CHECKING:
    import jax

# Up to this many states a dense solve is as fast as a sparse one.
DENSE_STATES = 1000


def true_value(
    env: Any,
    policy: Any,
    gamma: float,
    *,
    rng_key: jax.Array | None = None,
    n_episodes: int = 1000,
    horizon: int | None = None,
) -> TrueValue:
    """Normalized value of a policy: exact in a tabular world, simulated elsewhere.

    Parameters
    ----------
    env
        A world, as made by `gymnasium.make` or bare. Time limits are not part of it.
    policy
        A policy for its states and actions. In a tabular world a tabular policy, or its
        probabilities (S, A).
    gamma
        Discount in [0, 1].
    rng_key
        A JAX key, needed where the world has no table.
    n_episodes, horizon
        How many independent episodes are played where the world has no table, of how many steps;
        by default as many steps as leave out one discounted step in 10,000, and at gamma = 1
        1,000 steps of which the first half is not counted. An exact value needs neither.

    Returns
    -------
    TrueValue
        A float, in reward per step: (1 - gamma) E[sum_t gamma^t r_t] from the world's initial
        distribution; the average reward at gamma = 1. Its `standard_error` is 0 where it is
        exact. In a world that terminates, nothing is earned after the end; wrap it in `Restart`
        for the value of playing it again and again.

    Raises
    ------
    EnvironmentSpecError
        If the world can neither be read as a table nor played; or, at gamma = 1, if it terminates
        or the average reward of its table is not unique (more than one class of states can be
        ended in).
    PoliciesError
        If the policy does not fit the world.
    SettingsError
        If a number is out of its range, or a world without a table is given no key.
    """
    discount(gamma)
    world = find_tabular(env)
    if world is None:
        if rng_key is None:
            raise SettingsError(
                f"rng_key: expected a JAX key, such as jax.random.key(1), since {env} has no table "
                "and its value is simulated; found None."
            )
        # This imports JAX, which exact values do not need.
        from bayesdice_ppl.simulation.monte_carlo import simulated_value

        return simulated_value(
            env, policy, gamma, n_episodes=n_episodes, rng_key=rng_key, horizon=horizon
        )
    probabilities = policy_table(world, policy)
    states = occupancy(
        policy_moves(world.outcomes, probabilities), world.initial_distribution, gamma
    )
    value = states @ np.sum(probabilities * world.reward_matrix, axis=1)
    return TrueValue(float(value), exact=True)


def true_ratio(
    env: Any, policy: Any, behavior: Any, gamma: float, *, horizon: int | None = None
) -> Float[np.ndarray, "S A"]:
    """Exact stationary ratio d^pi(s, a) / d^D(s, a), which a belief's ratio estimates.

    Parameters
    ----------
    env
        A tabular world that never terminates.
    policy
        The target policy. Its occupancy d^pi is the discounted one at gamma, normalized to sum
        to 1, and the stationary one at gamma = 1.
    behavior
        The logging policy. Its distribution d^D is what its logs hold: not discounted.
    gamma
        Discount of the target's occupancy, in [0, 1].
    horizon
        Steps in each logged episode: d^D is then the average of the first `horizon` steps from the
        initial distribution, which is exactly what logs of such episodes hold in expectation.
        None: the stationary distribution, which long episodes tend to.

    Returns
    -------
    numpy.ndarray
        (S, A): 0 where neither policy goes, infinite where only the target does.

    Raises
    ------
    EnvironmentSpecError
        If the world is not tabular or terminates, or a stationary distribution is not unique.
    PoliciesError
        If a policy does not fit the world.
    SettingsError
        If gamma is outside [0, 1] or horizon is below 1.
    """
    world = as_tabular(env)
    outcomes, start = world.outcomes, world.initial_distribution
    target, logging = policy_table(world, policy), policy_table(world, behavior)
    if np.any(outcomes.terminated & (outcomes.probability > 0)):
        raise EnvironmentSpecError(
            "true_ratio: this world terminates. Wrap it in bayesdice_ppl.envs.Restart."
        )
    wanted = occupancy(policy_moves(outcomes, target), start, gamma)[:, None] * target
    logging_moves = policy_moves(outcomes, logging)
    if horizon is None:
        logged_states = occupancy(logging_moves, start, 1.0)
    else:
        logged_states = _average_of_first(logging_moves, start, horizon)
    logged = logged_states[:, None] * logging
    ratio = np.where(wanted > 0, np.inf, 0.0)
    np.divide(wanted, logged, out=ratio, where=logged > 0)
    return ratio


def occupancy(
    moves: csr_array, initial_distribution: Float[np.ndarray, " S"], gamma: float
) -> Float[np.ndarray, " S"]:
    """Share of time spent in each state.

    Parameters
    ----------
    moves
        (S, S), sparse: the transition matrix under the policy, rows summing to at most 1.
    initial_distribution
        (S,).
    gamma
        Discount in [0, 1].

    Returns
    -------
    numpy.ndarray
        (S,): (1 - gamma) sum_t gamma^t P(s_t = s), which sums to 1 where nothing terminates; at
        gamma = 1 its limit, the stationary distribution.

    Raises
    ------
    EnvironmentSpecError
        At gamma = 1, if the stationary distribution is not unique or the world terminates.
    SettingsError
        If gamma is outside [0, 1].
    """
    discount(gamma)
    if gamma == 1:
        return _stationary(moves, initial_distribution)
    system = eye_array(len(initial_distribution)) - gamma * moves.T
    return _solve(system, (1.0 - gamma) * initial_distribution)


def _stationary(
    moves: csr_array, initial_distribution: Float[np.ndarray, " S"]
) -> Float[np.ndarray, " S"]:
    visited = np.flatnonzero(reachable(moves, initial_distribution))
    within = moves[visited][:, visited]
    if np.any(within.sum(axis=1) < 1.0 - 1e-6):
        raise EnvironmentSpecError(
            "gamma = 1: this world terminates, so that it has no average reward. Wrap it in "
            "bayesdice_ppl.envs.Restart, or use gamma < 1."
        )
    n_classes, label = connected_components(within, directed=True, connection="strong")
    edges = within.tocoo()
    left = np.unique(label[edges.row][label[edges.row] != label[edges.col]])
    closed = np.setdiff1d(np.arange(n_classes), left)
    if closed.size > 1:
        examples = [int(visited[np.argmax(label == c)]) for c in closed[:2]]
        raise EnvironmentSpecError(
            f"gamma = 1: the average reward is not unique under this policy: {closed.size} "
            f"classes of states are never left once entered (for example those of states "
            f"{examples[0]} and {examples[1]}). Use gamma < 1, or a policy that mixes them."
        )
    # On its one closed class the chain is irreducible, so d = d P has one solution up to scale.
    # The equations are dependent: the last is replaced by sum(d) = 1.
    core = np.flatnonzero(label == closed[0])
    recurrent = within[core][:, core]
    equations = (eye_array(core.size) - recurrent.T).tolil()
    equations[-1, :] = 1.0
    right = np.zeros(core.size)
    right[-1] = 1.0
    result = np.zeros(len(initial_distribution))
    result[visited[core]] = _solve(equations, right)
    return result


def _average_of_first(
    moves: csr_array, initial_distribution: Float[np.ndarray, " S"], horizon: int
) -> Float[np.ndarray, " S"]:
    horizon = whole("horizon", horizon)
    now = initial_distribution
    total = now.copy()
    backwards = moves.T.tocsr()
    for _ in range(horizon - 1):
        now = backwards @ now
        total += now
    return total / horizon


def _solve(system: Any, right: Float[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
    if right.size <= DENSE_STATES:
        return np.linalg.solve(system.toarray(), right)
    return np.atleast_1d(spsolve(system.tocsc(), right))
