"""Explorers: pure functions that learn rows and choose the next policy.

An explorer is a few functions over a state of its own, as samplers are in BlackJAX: `init` gives
the first state, `learn` takes the rows of a round, and `choose` gives the policy of the next one.
No function changes what it is given, so that a run is replayed from its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.exploration.planning import FoundPolicy, Planning
from bayesdice_ppl.models import Optimism, PairBeliefs, PairCounts, PairPrior, pair_beliefs
from bayesdice_ppl.models.optimism import quantile


@final
class ExplorationTask(NamedTuple):
    """What an explorer knows beforehand.

    Attributes
    ----------
    n_states, n_actions
        Sizes.
    gamma
        Discount in [0, 1).
    rewards
        Range of the rewards, and weight of the prior.
    """

    n_states: int
    n_actions: int
    gamma: float
    rewards: PairPrior


@final
class RoundRows(NamedTuple):
    """Steps of a round in their order, each field of shape (n,).

    Attributes
    ----------
    episode, step
        Which episode, counted over all rounds, and which of its steps.
    state, action, reward, next_state
        What was seen, done, paid, and seen next.
    successor
        The next state, or the first state of the next episode where this one terminated.
    terminated, truncated
        Whether the episode ended, or was cut.
    propensity
        Probability with which the action was taken.
    """

    episode: Int[np.ndarray, " n"]
    step: Int[np.ndarray, " n"]
    state: Int[np.ndarray, " n"]
    action: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    next_state: Int[np.ndarray, " n"]
    successor: Int[np.ndarray, " n"]
    terminated: Bool[np.ndarray, " n"]
    truncated: Bool[np.ndarray, " n"]
    propensity: Float[np.ndarray, " n"]


@final
class Chosen(NamedTuple):
    """The policy of a round.

    Attributes
    ----------
    policy
        Probabilities, shape (S, A).
    mean, sd, score
        What is believed of its value, and its U, reward per step; None where the explorer has no
        such belief.
    """

    policy: Float[np.ndarray, "S A"]
    mean: float | None = None
    sd: float | None = None
    score: float | None = None


@final
class Explorer(NamedTuple):
    """How to explore; the state is the explorer's own.

    Attributes
    ----------
    name
        What it is called, with its settings.
    init
        From the task to the first state.
    learn
        From a state and the rows of a round to the next state.
    choose
        From a state and a generator of random numbers to the policy of the next round.
    """

    name: str
    init: Callable[[ExplorationTask], Any]
    learn: Callable[[Any, RoundRows], Any]
    choose: Callable[[Any, np.random.Generator], Chosen]


class PolicySearch(Protocol):
    """What finds the policy that may be best."""

    def find(
        self, beliefs: PairBeliefs, gamma: float, optimism: Optimism, rng: np.random.Generator
    ) -> FoundPolicy:
        """The best policy by U that it finds."""
        ...


@final
class Counted(NamedTuple):
    """The state of every explorer that counts.

    Attributes
    ----------
    task
        What is known beforehand.
    counts
        The log.
    """

    task: ExplorationTask
    counts: PairCounts

    @property
    def beliefs(self) -> PairBeliefs:
        """The log, completed by the prior."""
        return pair_beliefs(self.counts, self.task.rewards)


def empty(task: ExplorationTask) -> Counted:
    """A state without rows."""
    moves, rewards, squares = np.zeros((3, task.n_states, task.n_actions, task.n_states))
    return Counted(task, PairCounts(moves, rewards, squares, np.zeros(task.n_states)))


def counted(state: Counted, rows: RoundRows) -> Counted:
    """The state with the rows of one more round."""
    shape = state.counts.moves.shape
    at = np.ravel_multi_index((rows.state, rows.action, rows.successor), shape)
    moves, rewards, squares = (
        sums + np.bincount(at, weights, minlength=sums.size).reshape(shape)
        for sums, weights in zip(
            state.counts[:3], (np.ones(len(at)), rows.reward, rows.reward**2), strict=True
        )
    )
    begun = np.bincount(rows.state[rows.step == 0], minlength=shape[0])
    return state._replace(counts=PairCounts(moves, rewards, squares, state.counts.starts + begun))


def by_counts(name: str, choose: Callable[[Counted, np.random.Generator], Chosen]) -> Explorer:
    """An explorer that counts, and begins with the uniform policy.

    Parameters
    ----------
    name
        What it is called.
    choose
        From the state, of at least one row, to the policy.
    """

    def first_uniform(state: Counted, rng: np.random.Generator) -> Chosen:
        if not state.counts.starts.any():
            return Chosen(uniform(state.task))
        return choose(state, rng)

    return Explorer(name, empty, counted, first_uniform)


def uniform(task: ExplorationTask) -> Float[np.ndarray, "S A"]:
    """The policy of somebody who knows nothing, shape (S, A)."""
    return np.full((task.n_states, task.n_actions), 1.0 / task.n_actions)


def bayesdice(
    optimism: Optimism = quantile(),  # noqa: B008  an immutable NamedTuple
    engine: PolicySearch = Planning(),  # noqa: B008  an immutable NamedTuple
) -> Explorer:
    """Exploration by BayesDICE: the policy whose belief has the best U.

    Parameters
    ----------
    optimism
        U: `bayesdice_ppl.models.quantile` (default) or `bayesdice_ppl.models.variance`.
    engine
        `planning` (default) or `variational`.
    """

    def choose(state: Counted, rng: np.random.Generator) -> Chosen:
        found = engine.find(state.beliefs, state.task.gamma, optimism, rng)
        sd = float(found.belief.variance) ** 0.5
        return Chosen(found.policy, float(found.belief.mean), sd, found.score)

    # A run in a folder is known by it, so that it is not continued by another engine.
    other = "" if engine == Planning() else f", {engine}"
    return by_counts(f"bayesdice({optimism}{other})", choose)
