"""How much of its time a candidate would spend in states that the log does not hold.

A belief on vectors says something about every state, also about those that nobody has seen. So each
candidate is simulated from the log's own transitions: a step takes one that starts nearby, by its
action ratio, and moves as that one did. The logging policy is simulated too. What it seems to leave
is the error of the simulation, and is subtracted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, final

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from bayesdice_ppl.features.maps import scale_of
from bayesdice_ppl.fitting.inputs import Inputs
from bayesdice_ppl.keys import seed_sequence

if TYPE_CHECKING:
    from scipy.spatial import KDTree

PATHS, FEWEST_PATHS, ALL_PATHS = 100, 30, 1_000
"""Most and fewest simulated paths of each policy, and how many all policies share."""
LEFT_WEIGHT, MOST_STEPS = 0.02, 400
"""Discounted weight past the end of a path, and most steps; there are half as many at gamma = 1."""
NEIGHBORS = 15
"""Logged transitions from which a step is taken."""
WIDER = 200
"""Those that are searched for an action of the candidate where none of the nearest has one."""
MOST_ROWS = 10_000
"""Transitions of a larger log that are used, at random."""
LEAST_CORRELATION = 0.3
"""Least correlation between a number and what follows it with which it counts as persisting."""
_FAR = 0.99
"""Share of the logged states that lie nearer to another episode than what counts as far."""
_LEAST_FAR = 1e-6
"""Distances below this, in standard deviations, are rounding."""
_JUDGED, _SEARCHED = 1_000, 60
"""States from which that distance is taken, and how many neighbors are searched for it."""


@final
class Outside(NamedTuple):
    """How much of its discounted time each policy spends outside the log when it is simulated.

    Attributes
    ----------
    share
        Of each candidate, beyond what the logging policy shows, shape (N,), in [0, 1].
    logging
        Of the logging policy: the error of the simulation.
    """

    share: Float[np.ndarray, " N"]
    logging: float


def outside_log(inputs: Inputs, rng_key: PRNGKeyArray) -> Outside | None:
    """Share of each candidate's steps outside the log's states; see `share_outside`.

    Parameters
    ----------
    inputs
        The input of a fit.
    rng_key
        The fit's key.

    Returns
    -------
    Outside or None
        None for labels, for bandits, for one episode, and where the logging policy is not known.
    """
    logs, moments, known = inputs.logs, inputs.settings.form.moments, inputs.action_ratios
    if known is None or not logs.vector_states or moments.gamma == 0.0 or logs.n_episodes < 2:
        return None
    used, states = inputs.rows.mask, logs.state_labels
    return share_outside(
        states[logs.state[used]],
        states[logs.next_state[used]],
        logs.terminated[used],
        logs.episode[used],
        states[logs.initial_state],
        known.by_pair[:, inputs.pairs.of_row],
        moments.gamma,
        np.random.default_rng(seed_sequence(jax.random.fold_in(rng_key, 6))),
        restart=moments.restart,
    )


def share_outside(
    state: Float[np.ndarray, "n p"],
    following: Float[np.ndarray, "n p"],
    ended: Bool[np.ndarray, " n"],
    episode: Int[np.ndarray, " n"],
    start: Float[np.ndarray, "m p"],
    ratio: Float[np.ndarray, "N n"],
    gamma: float,
    rng: np.random.Generator,
    *,
    restart: bool,
) -> Outside:
    """Share of each candidate's discounted time far from all logged states, or without its actions.

    Parameters
    ----------
    state, following, ended, episode
        Each logged transition: where it started and led, whether it ended its episode, which
        episode it is of. What follows an end is not read.
    start
        The first state of each episode.
    ratio
        Action ratio of each candidate and transition.
    gamma
        Discount, above 0.
    rng
        Draws the paths.
    restart
        Whether a termination is followed by a fresh start; else the path ends.

    Notes
    -----
    A state is far if the nearest logged one is farther than 99 % of the logged states are from
    their nearest neighbor in another episode, all numbers in standard deviations. It counts as far
    too if the candidate takes none of the actions that were logged nearby. Time after the end of
    a path that ends is inside. A number that does not persist from step to step takes the value
    that followed, and does not move.
    """
    from scipy.spatial import KDTree

    if len(state) > MOST_ROWS:
        some = np.sort(rng.choice(len(state), MOST_ROWS, replace=False))
        state, following, ended = state[some], following[some], ended[some]
        episode, ratio = episode[some], ratio[:, some]
    scale = scale_of(state)
    tree = KDTree(scale(state))
    far = _far(tree, episode, rng)
    weights = np.concatenate([np.ones((1, len(state))), ratio])
    n_paths = int(np.clip(ALL_PATHS // len(weights), FEWEST_PATHS, PATHS))
    of_path = np.repeat(np.arange(len(weights)), n_paths)
    kept = _persists(state[~ended], following[~ended])
    moved = np.where(ended[:, None], 0.0, following - kept * state)

    def fresh() -> Float[np.ndarray, "paths p"]:
        # Policies share all that is random, so that equal ones go the same way.
        return np.tile(start[rng.integers(len(start), size=n_paths)], (len(weights), 1))

    def weighed(
        path: Int[np.ndarray, " q"], k: int
    ) -> tuple[Float[np.ndarray, " q"], Int[np.ndarray, "q k"], Float[np.ndarray, "q k"]]:
        near = np.arange(1, min(k, len(state)) + 1)
        distance, found = tree.query(scale(now[path]), k=near, workers=-1)
        weight = weights[of_path[path][:, None], found]
        if k > NEIGHBORS:
            weight = np.where(distance <= distance[:, :1] + 2.0 * far, weight, 0.0)
        return distance[:, 0], found, weight

    now, alive = fresh(), np.ones(len(of_path), dtype=bool)
    outside, total = np.zeros(len(of_path)), 0.0
    for discount in gamma ** np.arange(_steps(gamma)):
        total += discount
        uniform, again = np.tile(rng.random(n_paths), len(weights)), fresh()
        path = np.flatnonzero(alive)
        distance, near, weight = weighed(path, NEIGHBORS)
        taken = _drawn(near, weight, uniform[path])
        none = np.flatnonzero(weight.sum(axis=1) == 0.0)
        if len(none):
            # An action that is rare in the log may still be there, a little farther away.
            _, near, weight = weighed(path[none], WIDER)
            found = weight.sum(axis=1) > 0.0
            taken[none[found]] = _drawn(near, weight, uniform[path[none]])[found]
            none = none[~found]
        left = distance > far
        left[none] = True
        outside[path] += discount * left
        over = ended[taken]
        now[path] = np.where(over[:, None], again[path], kept * now[path] + moved[taken])
        if not restart:
            alive[path] = ~over
    share = outside.reshape(len(weights), n_paths).mean(axis=1) / total
    # A candidate that is always outside has a share of 1, whatever the simulation errs.
    beyond = np.maximum(share[1:] - share[0], 0.0) / max(1.0 - share[0], np.finfo(float).tiny)
    return Outside(beyond, float(share[0]))


def _drawn(
    near: Int[np.ndarray, "q k"], weight: Float[np.ndarray, "q k"], uniform: Float[np.ndarray, " q"]
) -> Int[np.ndarray, " q"]:
    """One of the neighbors by weight, or any of them where none has weight."""
    none = weight.sum(axis=1, keepdims=True) == 0.0
    reached = np.cumsum(np.where(none, 1.0, weight), axis=1)
    place = (reached < uniform[:, None] * reached[:, -1:]).sum(axis=1)
    return np.take_along_axis(near, place[:, None], axis=1)[:, 0]


def _persists(
    state: Float[np.ndarray, "n p"], following: Float[np.ndarray, "n p"]
) -> Float[np.ndarray, " p"]:
    """1 for each number that is correlated with what follows it, else 0."""
    if len(state) == 0:
        return np.ones(state.shape[1])
    before, after = state - state.mean(axis=0), following - following.mean(axis=0)
    size = np.sqrt(np.mean(before**2, axis=0) * np.mean(after**2, axis=0))
    # What never varies is there to stay.
    correlation = np.mean(before * after, axis=0) / np.where(size > 0.0, size, 1.0)
    return np.where(size > 0.0, np.abs(correlation) >= LEAST_CORRELATION, True).astype(np.float64)


def _steps(gamma: float) -> int:
    """Length of a path."""
    if gamma == 1.0:
        return MOST_STEPS // 2
    return min(math.ceil(math.log(LEFT_WEIGHT) / math.log(gamma)), MOST_STEPS)


def _far(tree: KDTree, episode: Int[np.ndarray, " n"], rng: np.random.Generator) -> float:
    """Distance past which a state is far from a logged one."""
    judged = rng.choice(tree.n, min(_JUDGED, tree.n), replace=False)
    searched = np.arange(1, min(_SEARCHED, tree.n) + 1)
    distance, near = tree.query(tree.data[judged], k=searched)
    other = episode[near] != episode[judged][:, None]
    # Where no neighbor is of another episode, the last one stands for it.
    first = np.where(other.any(axis=1), np.argmax(other, axis=1), len(searched) - 1)
    return max(float(np.quantile(distance[np.arange(len(judged)), first], _FAR)), _LEAST_FAR)
