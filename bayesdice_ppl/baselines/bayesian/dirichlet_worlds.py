"""Worlds drawn from a Dirichlet-process posterior of each state-action pair's outcomes.

What a pair leads to is one of the outcomes that were logged for it, with Dirichlet weights, or any
outcome in the log: the less often, the more the pair was logged. So a world needs no more room than
the log, and a pair that was never logged still leads somewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, final

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int, PRNGKeyArray

from bayesdice_ppl.baselines.bayesian.beta_bandit import label_stream
from bayesdice_ppl.baselines.bayesian.dirichlet_rewards import Rewards
from bayesdice_ppl.logs import Logs, usable_rows
from bayesdice_ppl.policies import (
    ContinuousPolicy,
    Policy,
    align_policies,
    needed_states,
)

ENTRIES = 1 << 20
"""Numbers in the largest array of one batch of worlds, unless one world has more."""
SHORTFALL = 1e-3
"""Share of the prior's variance that ending its sticks early may leave out."""


@final
class Model(NamedTuple):
    """A log of labels as counted outcomes, and a policy; K states in which actions are taken.

    Attributes
    ----------
    cells
        Distinct (action, state, outcome, level of the reward), in this order, shape (C, 4); the
        outcome is a state, or K for a termination.
    counts
        How often each was logged, shape (C,).
    state, action, outcome, reward
        Of each row, shape (n,).
    start, start_count
        States in which episodes start, and how many do, shapes (E,).
    levels
        Reward of each level, shape (L,); empty where rewards are not part of the outcome.
    target
        pi(a|s), shape (K, A).
    actions
        Labels of the A actions.
    """

    cells: Int[np.ndarray, "C 4"]
    counts: Float[np.ndarray, " C"]
    state: Int[np.ndarray, " n"]
    action: Int[np.ndarray, " n"]
    outcome: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    start: Int[np.ndarray, " E"]
    start_count: Float[np.ndarray, " E"]
    levels: Float[np.ndarray, " L"]
    target: Float[np.ndarray, "K A"]
    actions: list[Any]

    @property
    def n_states(self) -> int:
        """Number of states in which actions are taken, K."""
        return len(self.target)


@final
class Worlds(NamedTuple):
    """B worlds, seen through one policy.

    Attributes
    ----------
    moves
        Probability of each outcome in each state, shape (B, K, K + 1); the last is termination.
    reward
        Mean reward in each state, shape (B, K).
    start
        Distribution of the first state, shape (B, K).
    """

    moves: Float[np.ndarray, "B K K1"]
    reward: Float[np.ndarray, "B K"]
    start: Float[np.ndarray, "B K"]


def count_outcomes(
    logs: Logs, policy: Policy | ContinuousPolicy, gamma: float, *, rewards: bool
) -> Model:
    """Count the outcomes of each pair, of which rewards may be part; at gamma = 0 no successors.

    Raises
    ------
    LogsError, PoliciesError
        The policy does not cover the log.
    """
    onward = gamma > 0.0
    aligned = align_policies(logs, {"policy": policy}, needs_successors=onward)
    live = needed_states(logs, needs_successors=onward)
    code, k = np.cumsum(live) - 1, int(live.sum())
    rows = np.flatnonzero(usable_rows(logs, gamma).mask)
    state, action = code[logs.state[rows]], aligned.codes(logs)[logs.action[rows]]
    following = np.where(logs.terminated[rows], k, code[logs.next_state[rows]])
    outcome = following if onward else np.zeros(len(rows), dtype=np.intp)
    levels, level = np.unique(logs.reward[rows], return_inverse=True)
    if not rewards:
        levels, level = np.zeros(0), np.zeros(len(rows), dtype=np.intp)
    shape = (aligned.probabilities.shape[2], k, k + 1, max(1, len(levels)))
    at = np.ravel_multi_index((action, state, outcome, level), shape)
    cells, counts = np.unique(at, return_counts=True)
    start, start_count = np.unique(code[logs.initial_state], return_counts=True)
    return Model(
        cells=np.stack(np.unravel_index(cells, shape), axis=1),
        counts=counts.astype(np.float64),
        state=state,
        action=action,
        outcome=outcome,
        reward=logs.reward[rows],
        start=start,
        start_count=start_count.astype(np.float64),
        levels=levels,
        target=aligned.probabilities[0][live],
        actions=aligned.actions.tolist(),
    )


def draw_worlds(
    model: Model,
    rewards: Rewards | None,
    strength: float,
    gamma: float,
    draws: int,
    rng_key: PRNGKeyArray,
) -> Iterator[Worlds]:
    """Draw worlds in batches, as far as a policy sees them.

    What is drawn depends on the log and on the key alone: every action has a stream of random
    numbers of its own, by its label, and the log sets the size of the batches.

    Parameters
    ----------
    model
        From `count_outcomes`.
    rewards
        Posterior of the mean rewards; None: they are part of the outcomes.
    strength
        Number of transitions that the prior of each pair is worth.
    gamma, draws, rng_key
        Discount, at 0 there are no moves; how many worlds in all; the key.
    """
    k, sticks = model.n_states, stick_count(strength)
    width = max(k * (k + 1), len(model.cells), k * sticks)
    size = int(np.clip(ENTRIES // width, 1, draws))
    # An action that the policy never takes is never drawn, as nothing else reads its stream.
    actions = [
        (int(a), label_stream(rng_key, model.actions[a]))
        for a in np.flatnonzero(model.target.any(axis=0))
    ]
    first = label_stream(rng_key, ("first state",))
    for begin in range(0, draws, size):
        n = min(size, draws - begin)
        start = np.zeros((n, k))
        gammas = first.standard_gamma(model.start_count, size=(n, len(model.start)))
        start[:, model.start] = gammas / gammas.sum(axis=1, keepdims=True)
        moves, reward = np.zeros((n, k, k + 1)), np.zeros((n, k))
        if gamma > 0.0 or rewards is None:
            outcomes = _Outcomes(model, n, sticks, strength)
            for a, rng in actions:
                outcomes.draw(a, rng)
            moves, reward = outcomes.collect(moves=gamma > 0.0, rewards=rewards is None)
        if rewards is not None:
            for a, rng in actions:
                reward += model.target[:, a] * rewards.draw(a, rng, n)
        yield Worlds(moves, reward, start)


def stick_count(strength: float) -> int:
    """Number of sticks after which little of the prior's variance is left.

    The length that J sticks leave has a mean square of (strength / (strength + 2))^J. That share of
    the variance is lost when what is left is spread out evenly.
    """
    return max(1, math.ceil(math.log(SHORTFALL) / math.log(strength / (strength + 2.0))))


class _Outcomes:
    """The outcomes of n worlds, collected action by action."""

    def __init__(self, model: Model, n: int, sticks: int, strength: float) -> None:
        self.model, self.n, self.sticks, self.strength = model, n, sticks, strength
        self.logged = np.zeros((n, len(model.cells)))
        self.left = np.zeros((n, model.n_states))
        self.rows: list[np.ndarray] = []
        self.amounts: list[np.ndarray] = []

    def draw(self, a: int, rng: np.random.Generator) -> None:
        """Draw what one action leads to in all states, times the policy's probability."""
        model, k = self.model, self.model.n_states
        policy = model.target[:, a]
        begin, end = np.searchsorted(model.cells[:, 0], [a, a + 1])
        state = model.cells[begin:end, 1]
        gammas = rng.standard_gamma(model.counts[begin:end], size=(self.n, len(state)))
        other = rng.standard_gamma(self.strength, size=(self.n, k))
        # Without a logged outcome all is of the other kind.
        share = np.ones((self.n, k))
        if len(state):
            at = np.flatnonzero(np.r_[True, state[1:] != state[:-1]])
            total = np.zeros((self.n, k))
            total[:, state[at]] = np.add.reduceat(gammas, at, axis=1)
            total += other
            share[:, state[at]] = other[:, state[at]] / total[:, state[at]]
            self.logged[:, begin:end] = gammas / total[:, state] * policy[state]
        share *= policy
        # Sticks of lengths Beta(1, strength), 1 - U^(1 / strength), each broken off what is left.
        steps = rng.standard_exponential((self.n, k, self.sticks)) / self.strength
        left = np.exp(-np.cumsum(steps, axis=2))
        amount = -np.diff(left, axis=2, prepend=1.0) * share[:, :, None]
        self.rows.append(rng.integers(len(model.reward), size=amount.shape))
        self.amounts.append(amount)
        self.left += share * left[:, :, -1]

    def collect(
        self, *, moves: bool, rewards: bool
    ) -> tuple[Float[np.ndarray, "n K K1"], Float[np.ndarray, "n K"]]:
        """Sum up the probabilities of moves, and the mean rewards; zeros where not asked for."""
        model, n, k = self.model, self.n, self.model.n_states
        to, reward = np.zeros((n, k, k + 1)), np.zeros((n, k))
        _, state, outcome, level = model.cells.T
        if moves:
            to = self._sum(state * (k + 1) + outcome, np.ones(len(state)), k * (k + 1))
            to = to.reshape(n, k, k + 1)
            place = np.arange(n * k).reshape(n, k, 1) * (k + 1)
            at = np.concatenate([(place + model.outcome[rows]).ravel() for rows in self.rows])
            amount = np.concatenate([amounts.ravel() for amounts in self.amounts])
            size = n * k * (k + 1)
            to += np.bincount(at, amount, size).reshape(to.shape)
            base = np.bincount(model.outcome, minlength=k + 1) / len(model.outcome)
            to += self.left[:, :, None] * base
        if rewards:
            reward = self._sum(state, model.levels[level], k)
            for rows, amounts in zip(self.rows, self.amounts, strict=True):
                reward += np.sum(model.reward[rows] * amounts, axis=2)
            reward += self.left * model.reward.mean()
        return to, reward

    def _sum(self, place: np.ndarray, factor: np.ndarray, size: int) -> np.ndarray:
        """Sum the cells' weights, times a factor, at their places."""
        shape = (size, len(place))
        gather = scipy.sparse.csr_array((factor, (place, np.arange(len(place)))), shape=shape)
        return (gather @ self.logged.T).T
