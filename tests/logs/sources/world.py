"""A few episodes, as rows of our own log and as each tool would hold them.

The rows are written by hand, one step at a time, and share no code with the readers. States are
labels 0 .. 4; as vectors they are two numbers each. Episodes end, or are cut after six steps.
"""

from typing import NamedTuple

import numpy as np
import polars as pl

from bayesdice_ppl import Logs

CHANCES = np.array([[0.25, 0.75], [0.5, 0.5], [0.75, 0.25], [0.5, 0.5], [0.25, 0.75]])
VECTORS = np.array([[0.0, 1.0], [0.5, -1.0], [2.0, 0.25], [-1.5, 0.0], [1.0, 1.0]])
STEPS = 6


class Played(NamedTuple):
    """One episode: T + 1 states, T of everything else."""

    states: list
    actions: list
    rewards: list
    chances: list
    terminated: bool


def play(seed=0, episodes=14, steps=STEPS, stop=0.2):
    rng = np.random.default_rng(seed)
    played = []
    for _ in range(episodes):
        states, actions, rewards, chances = [int(rng.integers(5))], [], [], []
        ended = False
        while not ended and len(actions) < steps:
            action = int(rng.choice(2, p=CHANCES[states[-1]]))
            actions.append(action)
            chances.append(float(CHANCES[states[-1], action]))
            rewards.append(float(rng.integers(-2, 5)) / 4.0)
            states.append(int(rng.integers(5)))
            ended = bool(rng.random() < stop)
        played.append(Played(states, actions, rewards, chances, ended))
    return played


def own_rows(played, *, last_known=True, propensity=False):
    """Our own rows; without ``last_known`` nothing says where an episode that was cut led."""
    rows = []
    for number, one in enumerate(played):
        n = len(one.actions)
        for t in range(n):
            last = t == n - 1
            row = {
                "episode_id": number,
                "step": t,
                "state": one.states[t],
                "action": one.actions[t],
                "reward": one.rewards[t],
                "next_state": one.states[t + 1] if last_known or not last else None,
                "terminated": one.terminated and last,
                "truncated": last and not one.terminated,
            }
            if propensity:
                row["propensity"] = one.chances[t]
            rows.append(row)
    return rows


def own_log(played, *, vectors=False, actions=None, **options):
    frame = pl.DataFrame(own_rows(played, **options))
    if vectors:
        pairs = {"obs": "state", "next_obs": "next_state"}
        frame = frame.with_columns(
            pl.Series(
                new,
                [None if s is None else VECTORS[s].tolist() for s in frame[old]],
                dtype=pl.List(pl.Float64),
            )
            for new, old in pairs.items()
        ).drop("state", "next_state")
    return Logs.from_dataframe(frame, actions=actions)


ARRAYS = (
    "episode",
    "step",
    "state",
    "action",
    "reward",
    "next_state",
    "terminated",
    "truncated",
    "state_labels",
    "action_labels",
    "episode_labels",
    "row",
)


def differences(one, other):
    """Names of the arrays in which two logs differ."""
    found = [
        name for name in ARRAYS if not np.array_equal(getattr(one, name), getattr(other, name))
    ]
    for name in ("propensity", "declared_actions"):
        a, b = getattr(one, name), getattr(other, name)
        if (a is None) != (b is None) or (a is not None and not np.array_equal(a, b)):
            found.append(name)
    return found
