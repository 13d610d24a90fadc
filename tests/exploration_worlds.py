"""Exact logs and exact values of tabular worlds, written apart from the library."""

import numpy as np

from bayesdice_ppl.envs import as_tabular
from bayesdice_ppl.models import PairCounts


def exact_counts(env, n):
    """A log in which every pair was tried n times and all happened as often as it is probable."""
    world = as_tabular(env)
    table = world.outcomes
    n_states, n_actions, n_outcomes = table.probability.shape
    sums = np.zeros((3, n_states, n_actions, n_states))
    for s in range(n_states):
        for a in range(n_actions):
            for k in range(n_outcomes):
                reward, seen = table.reward[s, a, k], n * table.probability[s, a, k]
                sums[:, s, a, table.next_state[s, a, k]] += seen * np.array([1, reward, reward**2])
    return PairCounts(*sums, n * world.initial_distribution)


def drawn_counts(env, policy, n_episodes, horizon, seed):
    """A log that is played, as counts and as rows."""
    rng, world = np.random.default_rng(seed), as_tabular(env)
    n_states, n_actions = world.reward_matrix.shape
    sums, starts = np.zeros((3, n_states, n_actions, n_states)), np.zeros(n_states)
    rows = []
    for episode in range(n_episodes):
        state, _ = env.reset(seed=int(rng.integers(2**31)))
        starts[state] += 1
        for step in range(horizon):
            action = int(rng.choice(n_actions, p=policy[state]))
            following, reward, *_ = env.step(action)
            sums[:, state, action, following] += (1.0, reward, reward**2)
            rows.append((episode, step, state, action, reward, following))
            state = following
    return PairCounts(*sums, starts), rows


def value_of(env, policy, gamma):
    """The exact normalized value of a policy."""
    world = as_tabular(env)
    moves = np.einsum("sa,sat->st", policy, world.transition_matrix)
    reward = np.sum(policy * world.reward_matrix, axis=1)
    value = np.linalg.solve(np.eye(len(reward)) - gamma * moves, reward)
    return (1.0 - gamma) * world.initial_distribution @ value


def best_value(env, gamma):
    """The exact value of the best policy, by value iteration."""
    world = as_tabular(env)
    value = np.zeros(len(world.initial_distribution))
    for _ in range(10_000):
        worth = world.reward_matrix + gamma * world.transition_matrix @ value
        value = worth.max(axis=1)
    return (1.0 - gamma) * world.initial_distribution @ value


def flow_tests(n):
    """Tests of n labels that are orthonormal over them, the first 1, shape (n, n)."""
    columns = np.concatenate([np.ones((n, 1)), np.eye(n)[:, : n - 1]], axis=1)
    axes, _ = np.linalg.qr(columns)
    return axes * np.sqrt(n) * np.sign(axes[0, 0])
