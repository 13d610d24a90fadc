"""A world small enough to list every episode of it, and what episodes are worth, term by term.

Probabilities are multiples of 1/16 per step, so that a log can hold each possible episode exactly
as often as the logging policy plays it. Averages over such a log are expectations.
"""

from itertools import product

import numpy as np
import polars as pl

from bayesdice_ppl import Logs, TabularPolicy

BEHAVIOR = np.array([[0.25, 0.75], [0.5, 0.5]])
TARGET = np.array([[0.6, 0.4], [0.9, 0.1]])
START = (0.5, 0.5)
# (state, action) -> (probability, successor, reward, terminated)
ENDLESS = {
    (0, 0): [(0.5, 0, 1.0, False), (0.5, 1, 0.0, False)],
    (0, 1): [(0.75, 1, 2.0, False), (0.25, 0, -1.0, False)],
    (1, 0): [(1.0, 0, 0.5, False)],
    (1, 1): [(0.5, 1, 3.0, False), (0.5, 0, 0.25, False)],
}
ENDING = {
    (0, 0): [(0.5, 0, 1.0, False), (0.5, 1, 0.0, False)],
    (0, 1): [(0.75, 1, 2.0, False), (0.25, 0, -1.0, True)],
    (1, 0): [(1.0, 0, 0.5, False)],
    (1, 1): [(0.5, 1, 3.0, False), (0.5, 0, 0.25, True)],
}
HORIZON = 3


def episodes(world, policy, horizon=HORIZON, *, last_ends=False):
    """(probability, [(state, action, reward, next_state, terminated), ...]) of every episode."""

    def played(state, left):
        if left == 0:
            yield 1.0, []
            return
        for action in (0, 1):
            for chance, successor, reward, ended in world[state, action]:
                ends = ended or (last_ends and left == 1)
                step = (state, action, reward, successor, ends)
                now = policy[state, action] * chance
                for later, rest in [(1.0, [])] if ends else played(successor, left - 1):
                    yield now * later, [step, *rest]

    for state in (0, 1):
        for probability, steps in played(state, horizon):
            if probability > 0.0:
                yield START[state] * probability, steps


def discount(gamma, t):
    return 1.0 if gamma == 1.0 else (1.0 - gamma) * gamma**t


def expectation(listed, of):
    return sum(probability * of(steps) for probability, steps in listed)


def horizon_value(world, gamma, *, restart, horizon=HORIZON):
    """Value of the target over the steps that are logged, normalized by their weight."""
    listed = list(episodes(world, TARGET, horizon))

    def earned(steps):
        return sum(discount(gamma, t) * step[2] for t, step in enumerate(steps))

    def weight(steps):
        if gamma < 1.0 and steps[-1][4] and not restart:
            return 1.0
        return sum(discount(gamma, t) for t in range(len(steps)))

    return expectation(listed, earned) / expectation(listed, weight)


def endless_value(world, gamma, *, restart):
    """Value of the target for ever, by iterating the distribution of its state."""
    if gamma == 1.0:
        assert restart
    now, total, weight = np.array(START), 0.0, 0.0
    for t in range(3000):
        after = np.zeros(2)
        earned = 0.0
        for (state, action), outcomes in world.items():
            for chance, successor, reward, ended in outcomes:
                mass = now[state] * TARGET[state, action] * chance
                earned += mass * reward
                if not ended:
                    after[successor] += mass
                elif restart:
                    after += mass * np.array(START)
        if gamma < 1.0:
            total += (1.0 - gamma) * gamma**t * earned
        elif t >= 1000:
            total, weight = total + earned, weight + 1.0
        now = after
    return total if gamma < 1.0 else total / weight


def exhaustive_log(world, horizon=HORIZON, *, cut=(), last_ends=False, propensities=True):
    """A log with every episode as often as its probability says.

    Parameters
    ----------
    cut
        Horizons at which whole copies of it are cut.
    """
    rows, number = [], 0
    for stop in cut or (horizon,):
        listed = list(episodes(world, BEHAVIOR, stop, last_ends=last_ends))
        for probability, steps in listed:
            copies = probability * 2 * 16**horizon
            assert copies == int(copies)
            for _ in range(int(copies)):
                for t, step in enumerate(steps):
                    rows.append((number, t, *step, BEHAVIOR[step[0], step[1]]))
                number += 1
    names = ["episode_id", "step", "state", "action", "reward", "next_state", "terminated"]
    frame = pl.DataFrame(rows, schema=[*names, "propensity"], orient="row")
    return Logs.from_dataframe(frame if propensities else frame.drop("propensity"))


def small_log(seed, *, n_episodes=12, horizon=5, world=ENDING, last_ends=False):
    """A few simulated episodes of the world."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(n_episodes):
        state = int(rng.integers(2))
        for t in range(horizon):
            action = int(rng.random() < BEHAVIOR[state, 1])
            outcomes = world[state, action]
            chosen = rng.choice(len(outcomes), p=[outcome[0] for outcome in outcomes])
            _, successor, reward, ended = outcomes[chosen]
            ended = ended or (last_ends and t == horizon - 1)
            rows.append(
                (number, t, state, action, reward, successor, ended, BEHAVIOR[state, action])
            )
            if ended:
                break
            state = successor
    names = ["episode_id", "step", "state", "action", "reward", "next_state", "terminated"]
    return Logs.from_dataframe(
        pl.DataFrame(rows, schema=[*names, "propensity"], orient="row"), actions=[0, 1]
    )


def by_episode(logs):
    """Rows of each episode as dicts."""
    found = {}
    for row in logs.to_dataframe().iter_rows(named=True):
        found.setdefault(row["episode_id"], []).append(row)
    return list(found.values())


def products(episode, target=TARGET):
    """rho_t of an episode, one ratio at a time."""
    weights, now = [], 1.0
    for row in episode:
        now *= target[row["state"], row["action"]] / row["propensity"]
        weights.append(now)
    return weights


CANDIDATE = TabularPolicy(TARGET)
CASES = [
    (world, gamma, restart)
    for world, gamma, restart in product(("endless", "ending"), (0.5, 0.9, 1.0), (True, False))
    if gamma < 1.0 or restart
]
WORLDS = {"endless": ENDLESS, "ending": ENDING}


def termination(restart):
    return "restart" if restart else "absorb"
