"""From a log and a policy to the rows of the Bellman equation: on labels, or on features.

Labels are counted on one-hot features of the pairs that were logged. Vectors go onto the library's
own features: the default ones of a fit, or any others.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from bayesdice_ppl.features.maps import FeatureChoice
from bayesdice_ppl.fitting import FitSettings, default_features
from bayesdice_ppl.fitting.featured import featured_inputs
from bayesdice_ppl.logs import Logs, usable_rows
from bayesdice_ppl.policies import ContinuousPolicy, Policy, align_policies


@final
class Step(NamedTuple):
    """What all rows of a log hold, whatever the features.

    Attributes
    ----------
    pair
        Code of the state-action pair of each row, shape (C,).
    following
        Code of the successor state, shape (C,); 0 where it is not read.
    onward, ended
        1 where the episode went on, and where it terminated, shapes (C,).
    reward
        Shape (C,).
    counts
        Transitions that each row stands for, shape (C,).
    start, start_count
        States in which episodes start, and how many do, shapes (E,).
    gamma
        Discount.
    restart
        Whether a termination is followed by a fresh start.
    """

    pair: Int[np.ndarray, " C"]
    following: Int[np.ndarray, " C"]
    onward: Float[np.ndarray, " C"]
    ended: Float[np.ndarray, " C"]
    reward: Float[np.ndarray, " C"]
    counts: Float[np.ndarray, " C"]
    start: Int[np.ndarray, " E"]
    start_count: Float[np.ndarray, " E"]
    gamma: float
    restart: bool

    @property
    def average(self) -> bool:
        """Whether the value is the average reward, gamma = 1."""
        return self.gamma == 1.0

    @property
    def scale(self) -> float:
        """What a start's value is multiplied by to give reward per step."""
        return 1.0 if self.average else 1.0 - self.gamma

    @property
    def n(self) -> float:
        """Number of transitions."""
        return float(self.counts.sum())

    @property
    def weight(self) -> Float[np.ndarray, " C"]:
        """The log's own weights of the rows, of sum 1."""
        return self.counts / self.counts.sum()

    @property
    def start_weight(self) -> Float[np.ndarray, " E"]:
        """The log's own weights of the starts, of sum 1."""
        return self.start_count / self.start_count.sum()

    @property
    def mass(self) -> Float[np.ndarray, " C"]:
        """Discounted steps that each row stands for: itself, and those after it was absorbed."""
        endless = self.restart or self.average
        return 1.0 + (0.0 if endless else self.gamma / (1.0 - self.gamma)) * self.ended

    def next_value(
        self, at_state: Float[np.ndarray, " S"], at_start: float
    ) -> Float[np.ndarray, " C"]:
        """Value after each row: of its successor, of a fresh start, or 0 where it is absorbed."""
        after = at_start * self.ended if self.restart else 0.0
        return self.onward * at_state[self.following] + after


@final
class LabelRows(NamedTuple):
    """Rows of a log of labels, under one policy.

    Attributes
    ----------
    step
        The rows; their pairs are state * A + action.
    state
        State of each row, shape (C,).
    probability
        pi(a|s) of each row's action, shape (C,).
    n_states, n_actions
        S and A.
    """

    step: Step
    state: Int[np.ndarray, " C"]
    probability: Float[np.ndarray, " C"]
    n_states: int
    n_actions: int

    @property
    def default_ridge(self) -> float:
        """Transitions made up for each feature, few: to settle only what the log leaves open."""
        return 1e-6


@final
class FeatureRows(NamedTuple):
    """Rows of a log on features, under one policy.

    Attributes
    ----------
    step
        The rows; their pairs index ``at_pair``.
    at_pair
        phi(s, a) of each pair, shape (P, d).
    at_state
        phi(s, pi) of each state, shape (S, d).
    """

    step: Step
    at_pair: Float[np.ndarray, "P d"]
    at_state: Float[np.ndarray, "S d"]

    @property
    def default_ridge(self) -> float:
        """As on labels, but more: the smallest directions of features are next to nothing."""
        return 1e-3


type Rows = LabelRows | FeatureRows


def label_rows(
    logs: Logs,
    policy: Policy | ContinuousPolicy,
    gamma: float,
    *,
    restart: bool,
    renormalize: bool,
    merge: bool,
) -> LabelRows:
    """Count a log of labels; see `bayesdice_ppl.baselines.interface.Query.rows`."""
    aligned = align_policies(logs, {"policy": policy}, needs_successors=gamma > 0.0)
    used = usable_rows(logs, gamma).mask
    state, action = logs.state[used], aligned.codes(logs)[logs.action[used]]
    target = aligned.probabilities[0]
    n_states, n_actions = target.shape
    if renormalize:
        logged = np.zeros(target.shape)
        logged[state, action] = 1.0
        kept = np.sum(target * logged, axis=1, keepdims=True)
        target = target * logged / np.where(kept > 0.0, kept, 1.0)
    pair, reward = state * n_actions + action, logs.reward[used]
    following, ended = _successor(logs, used, gamma)
    counts = np.ones(len(reward))
    if merge:
        levels, level = np.unique(reward, return_inverse=True)
        key = (pair * n_states + following) * 2 + (ended > 0.0)
        _, at, times = np.unique(key * len(levels) + level, return_index=True, return_counts=True)
        pair, reward, following, ended = pair[at], reward[at], following[at], ended[at]
        counts = times.astype(np.float64)
    start, start_count = np.unique(logs.initial_state, return_counts=True)
    step = Step(
        pair=pair,
        following=following,
        onward=1.0 - ended,
        ended=ended,
        reward=reward,
        counts=counts,
        start=start,
        start_count=start_count.astype(np.float64),
        gamma=gamma,
        restart=restart,
    )
    return LabelRows(step, pair // n_actions, target.ravel()[pair], n_states, n_actions)


def feature_rows(
    logs: Logs,
    policy: Policy | ContinuousPolicy,
    gamma: float,
    *,
    restart: bool,
    features: FeatureChoice | None,
    rng_key: PRNGKeyArray | None,
) -> FeatureRows:
    """Bring a log onto features, in read-only arrays that methods can share.

    See `bayesdice_ppl.baselines.interface.Query.rows`.
    """
    settings = FitSettings(
        gamma,
        features=default_features(logs) if features is None else features,
        cluster="transition",
    )
    used = usable_rows(logs, gamma)
    inputs = featured_inputs(logs, {"policy": policy}, settings, used, rng_key, whiten=False)
    following, ended = _successor(logs, used.mask, gamma)
    start, start_count = np.unique(logs.initial_state, return_counts=True)
    step = Step(
        pair=inputs.pairs.of_row,
        following=following,
        onward=1.0 - ended,
        ended=ended,
        reward=logs.reward[used.mask],
        counts=np.ones(len(ended)),
        start=start,
        start_count=start_count.astype(np.float64),
        gamma=gamma,
        restart=restart,
    )
    # Without the pairs and states that a fit adds to have few shapes.
    at_pair = np.asarray(inputs.cells.pair_features)[: len(inputs.pairs.state)]
    at_state = np.asarray(inputs.candidates.at_state)[0, : len(logs.state_labels)]
    for array in (*step[:8], at_pair, at_state):
        array.flags.writeable = False
    return FeatureRows(step, at_pair, at_state)


def _successor(
    logs: Logs, used: Bool[np.ndarray, " n"], gamma: float
) -> tuple[Int[np.ndarray, " C"], Float[np.ndarray, " C"]]:
    """Successors, and where episodes ended. Past an end, and at gamma = 0, none is read."""
    ended = logs.terminated[used] & (gamma > 0.0)
    unread = ended | (gamma == 0.0)
    return np.where(unread, 0, logs.next_state[used]), ended.astype(np.float64)
