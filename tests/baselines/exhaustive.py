"""Logs that hold every pair with its exact next-state frequencies, and exact values step by step.

Each transition is an episode of its own, so that the starts' distribution is that of the logged
states. On such a log an estimator that is consistent must be exact.
"""

import numpy as np

from bayesdice_ppl import Logs, TabularPolicy

SETTINGS = [(0.9, "restart"), (0.9, "absorb"), (1.0, "restart"), (0.0, "restart")]
TARGET = np.array([[0.6, 0.4], [0.9, 0.1], [0.25, 0.75]])
POLICY = TabularPolicy(TARGET)
# (state, action) -> [(quarters, successor, reward, terminated)], and how often it is all repeated
OUTCOMES = {
    (0, 0): ([(2, 0, 1.0, False), (1, 1, 0.0, False), (1, 2, 3.0, True)], 1),
    (0, 1): ([(3, 1, 2.0, False), (1, 2, -1.0, False)], 3),
    (1, 0): ([(4, 2, 0.5, False)], 2),
    (1, 1): ([(1, 0, 3.0, False), (2, 2, 0.25, False), (1, 1, -2.0, True)], 1),
    (2, 0): ([(2, 0, 0.0, False), (2, 2, 1.5, True)], 2),
    (2, 1): ([(1, 0, 4.0, False), (3, 1, -0.5, False)], 1),
}


def make_logs(rows, n_states, n_actions):
    """Logs from (episode, step, state, action, reward, next_state, terminated)."""
    episode, step, state, action, reward, following, ended = map(np.array, zip(*rows, strict=True))
    last = np.append(episode[1:] != episode[:-1], True)
    return Logs(
        episode=episode,
        step=step,
        state=state,
        action=action,
        reward=reward.astype(float),
        next_state=following,
        terminated=ended.astype(bool),
        truncated=last & ~ended.astype(bool),
        propensity=None,
        state_labels=np.arange(n_states),
        action_labels=np.arange(n_actions),
        episode_labels=np.arange(episode[-1] + 1),
        row=np.arange(1, len(rows) + 1),
        declared_actions=np.arange(n_actions),
    )


def exhaustive_logs():
    rows = []
    for (state, action), (outcomes, times) in OUTCOMES.items():
        for quarters, successor, reward, ended in outcomes:
            for _ in range(quarters * times):
                rows.append((len(rows), 0, state, action, reward, successor, ended))
    return make_logs(rows, 3, 2)


def logged_share():
    """Share of the rows on each pair, (3, 2)."""
    share = np.zeros((3, 2))
    for pair, (_, times) in OUTCOMES.items():
        share[pair] = 4 * times
    return share / share.sum()


def occupancy(gamma, termination, *, steps=4000):
    """Share of steps on each pair under the target, (3, 2), by following the distribution."""
    start = logged_share().sum(axis=1)
    now, total = start[:, None] * TARGET, np.zeros((3, 2))
    for t in range(steps):
        if gamma < 1.0:
            total += (1.0 - gamma) * gamma**t * now
        elif t >= steps // 2:
            total += now / (steps - steps // 2)
        after = np.zeros(3)
        for pair, (outcomes, _) in OUTCOMES.items():
            for quarters, successor, _, ended in outcomes:
                if not ended:
                    after[successor] += now[pair] * quarters / 4
                elif termination == "restart":
                    after += now[pair] * quarters / 4 * start
        now = after[:, None] * TARGET
    return total


def exact_value(gamma, termination):
    reward = {
        pair: sum(quarters / 4 * r for quarters, _, r, _ in outcomes)
        for pair, (outcomes, _) in OUTCOMES.items()
    }
    share = occupancy(gamma, termination)
    return sum(share[pair] * r for pair, r in reward.items())
