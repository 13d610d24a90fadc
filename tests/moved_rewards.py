"""A log whose rewards are exact, its candidates, and the same log moved or renamed."""

import jax
import numpy as np
import polars as pl

import bayesdice_ppl as bd

EPS = np.finfo(float).eps
KEY = jax.random.key(1)

# (factor, constant): 1e-8 times as large and far from zero by 1e8 spreads; and others like it.
TINY_AND_FAR = (2.0**-27, 1.0)
MOVES = [(2.0**-27, 0.0), (2.0**27, 0.0), (1.0, -(2.0**27)), (2.0**27, 2.0**54)]
STATES, ACTIONS = np.arange(4), np.arange(3)
BEHAVIOR = np.array([[0.5, 0.5, 0.0], [0.3, 0.3, 0.4], [0.2, 0.6, 0.2], [0.4, 0.4, 0.2]])
TARGETS = {
    # Takes an action that the log does not have, in state 0.
    "bold": np.array([[0.4, 0.4, 0.2], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.6, 0.2, 0.2]]),
    "calm": np.array([[0.7, 0.3, 0.0], [0.5, 0.4, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]),
}


def frame_of(n_episodes=30, n_steps=6, *, ends=True, two=False, vectors=False):
    """A log as a table; rewards are multiples of 2^-10, below 2^3."""
    rng = np.random.default_rng(0)
    move = rng.dirichlet(np.ones(4), size=(4, 3))
    rows = []
    for episode in range(n_episodes):
        state = rng.integers(4)
        for step in range(n_steps):
            action = rng.choice(3, p=BEHAVIOR[state])
            following = rng.choice(4, p=move[state, action])
            reward = np.round(1024 * np.tanh(0.3 * action + 0.2 * state + rng.normal())) / 1024
            reward = float(reward > 0.3) if two else reward
            ended = ends and rng.random() < 0.1
            seen = BEHAVIOR[state, action]
            rows.append((episode, step, state, action, reward, following, ended, seen))
            state = following
            if ended:
                break
    names = [
        "episode_id",
        "step",
        "state",
        "action",
        "reward",
        "next_state",
        "terminated",
        "propensity",
    ]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    if vectors:
        place = rng.normal(size=(4, 2))
        frame = frame.drop("state", "next_state").with_columns(
            pl.Series(name, place[frame[state], k])
            for k in range(2)
            for name, state in ((f"obs_{k}", "state"), (f"next_obs_{k}", "next_state"))
        )
    return frame


def moved(frame, factor, constant):
    return frame.with_columns(pl.col("reward") * factor + constant)


def renamed(frame):
    """The same log under other names, its rows in another order; its states sort backwards."""
    rng = np.random.default_rng(1)
    labels = pl.Series([f"s{9 - s}" for s in STATES])
    names = pl.Series(["zoom", "mute", "ask"])
    episodes = pl.Series([f"e{k}" for k in rng.permutation(1 + frame["episode_id"].max())])
    # Episodes in turn, as they would be logged at once; each keeps the order of its steps.
    turn = pl.Series("turn", rng.random(len(frame)))
    mixed = frame.with_columns(turn).with_columns(pl.col("turn").sort().over("episode_id"))
    shuffled = mixed.sort("turn").drop("turn")
    return shuffled.with_columns(
        episode_id=episodes[shuffled["episode_id"]],
        state=labels[shuffled["state"]],
        next_state=labels[shuffled["next_state"]],
        action=names[shuffled["action"]],
    ), tabled(labels, names, reversed(TARGETS))


def tabled(labels, names, order):
    """Candidates as a table of their probabilities."""
    return bd.Policies.from_dataframe(
        pl.DataFrame(
            [
                (each, labels[int(s)], names[int(a)], float(TARGETS[each][s, a]))
                for each in order
                for s in STATES
                for a in ACTIONS
            ],
            schema=["policy", "state", "action", "prob"],
            orient="row",
        )
    )
