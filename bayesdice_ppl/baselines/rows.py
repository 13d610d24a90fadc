"""From a log and a policy to the rows of the Bellman equation: on labels, or on features.

Labels are counted on one-hot features of the pairs that were logged. Vectors go onto the library's
own features, those that a fit would take by default, or any others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, final

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from bayesdice_ppl.baselines.interface import Asked
from bayesdice_ppl.baselines.tabular import tabulate
from bayesdice_ppl.features.maps import FeatureChoice
from bayesdice_ppl.logs import Logs, usable_rows
from bayesdice_ppl.policies import ContinuousPolicy, Policy


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


type Rows = LabelRows | FeatureRows


@final
class _Kept(NamedTuple):
    """Rows that were made, with what they were made of: its identity stands for it as a key."""

    rows: FeatureRows
    made_of: tuple[object, ...]


_kept: ContextVar[dict[Hashable, _Kept] | None] = ContextVar("kept", default=None)


@contextmanager
def keep_rows() -> Iterator[None]:
    """Let methods that are asked about the same log share its rows.

    Bringing vectors onto features takes far longer than what a method then does with them. Within
    this context the rows of one log, policy, choice of features and key are made once, and held
    read-only; on leaving it they are forgotten. Answers are the same with and without it, as long
    as a policy and a feature map say the same whenever they are asked.
    """
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def make_rows(
    logs: Logs,
    policy: Policy | ContinuousPolicy,
    asked: Asked,
    *,
    features: FeatureChoice | None = None,
    rng_key: PRNGKeyArray | None = None,
    renormalize: bool = False,
    merge: bool = False,
) -> Rows:
    """Rows of the Bellman equation.

    Parameters
    ----------
    logs, policy, asked
        The log, the candidate, the question.
    features
        None: one-hot for labels, and for vectors those that `bayesdice_ppl.fit` takes by default.
    rng_key
        Key of random features and of sampled actions, where there are vectors.
    renormalize
        On one-hot features: let the candidate take only actions that were logged in a state, in
        proportion to its own probabilities. False: what it does otherwise has Q = 0.
    merge
        Count transitions that agree in everything, the reward too, as one row.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        The policy does not cover the log, or a key is missing.
    """
    if features is None and not (logs.vector_states or logs.vector_actions):
        return _label_rows(logs, policy, asked, renormalize, merge)
    memo = _kept.get()
    if memo is None:
        return _feature_rows(logs, policy, asked, features, rng_key)
    made_of = (logs, policy, features)
    drawn = None if rng_key is None else np.asarray(jax.random.key_data(rng_key)).tobytes()
    key = (*map(id, made_of), asked.gamma, asked.restart, drawn)
    if key not in memo:
        memo[key] = _Kept(_feature_rows(logs, policy, asked, features, rng_key), made_of)
        for array in jax.tree.leaves(memo[key].rows):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
    return memo[key].rows


def _label_rows(
    logs: Logs, policy: Policy | ContinuousPolicy, asked: Asked, renormalize: bool, merge: bool
) -> LabelRows:
    table = tabulate(logs, policy, asked.gamma)
    target = table.target
    if renormalize:
        logged = np.zeros(target.shape)
        logged[table.state, table.action] = 1.0
        kept = np.sum(target * logged, axis=1, keepdims=True)
        target = target * logged / np.where(kept > 0.0, kept, 1.0)
    pair, reward, counts = table.pair, table.reward, np.ones(len(table.reward))
    reads = _successor(table.next_state, table.terminated, asked)
    if merge:
        levels, level = np.unique(reward, return_inverse=True)
        key = (pair * table.n_states + reads.following) * 2 + (reads.ended > 0.0)
        key = key * len(levels) + level
        _, at, times = np.unique(key, return_index=True, return_counts=True)
        pair, reward, counts = pair[at], reward[at], times.astype(np.float64)
        reads = _Successor(reads.following[at], reads.ended[at])
    start, start_count = np.unique(table.initial, return_counts=True)
    return LabelRows(
        step=Step(
            pair=pair,
            following=reads.following,
            onward=1.0 - reads.ended,
            ended=reads.ended,
            reward=reward,
            counts=counts,
            start=start,
            start_count=start_count.astype(np.float64),
            gamma=asked.gamma,
            restart=asked.restart,
        ),
        state=pair // table.n_actions,
        probability=target.ravel()[pair],
        n_states=table.n_states,
        n_actions=table.n_actions,
    )


def _feature_rows(
    logs: Logs,
    policy: Policy | ContinuousPolicy,
    asked: Asked,
    features: FeatureChoice | None,
    rng_key: PRNGKeyArray | None,
) -> FeatureRows:
    from bayesdice_ppl.fitting import FitSettings, default_features
    from bayesdice_ppl.fitting.featured import featured_inputs

    settings = FitSettings(
        asked.gamma,
        features=default_features(logs) if features is None else features,
        cluster="transition",
    )
    rows = usable_rows(logs, asked.gamma)
    inputs = featured_inputs(logs, {"policy": policy}, settings, rows, rng_key)
    at_pair = np.asarray(inputs.cells.pair_features)
    at_state = np.asarray(inputs.candidates.at_state)
    reads = _successor(logs.next_state[rows.mask], logs.terminated[rows.mask], asked)
    start, start_count = np.unique(logs.initial_state, return_counts=True)
    return FeatureRows(
        step=Step(
            pair=inputs.pairs.of_row,
            following=reads.following,
            onward=1.0 - reads.ended,
            ended=reads.ended,
            reward=logs.reward[rows.mask],
            counts=np.ones(len(reads.ended)),
            start=start,
            start_count=start_count.astype(np.float64),
            gamma=asked.gamma,
            restart=asked.restart,
        ),
        at_pair=at_pair,
        at_state=at_state[0],
    )


@final
class _Successor(NamedTuple):
    following: np.ndarray
    ended: Float[np.ndarray, " n"]


def _successor(
    next_state: np.ndarray, terminated: Bool[np.ndarray, " n"], asked: Asked
) -> _Successor:
    """Successors where they are read: past a termination, and at gamma = 0, none is."""
    ended = terminated & (asked.gamma > 0.0)
    unread = ended | (asked.gamma == 0.0)
    return _Successor(np.where(unread, 0, next_state), ended.astype(np.float64))
