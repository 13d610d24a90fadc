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

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.exploration.planning import FoundPolicy
from bayesdice_ppl.exploration.spaces import Beliefs
from bayesdice_ppl.models import Optimism, PairBeliefs, PairCounts, PairPrior, pair_beliefs

type States = Int[np.ndarray, " n"] | Float[np.ndarray, "n p"]


@final
class ExplorationTask(NamedTuple):
    """What an explorer knows beforehand.

    Attributes
    ----------
    n_states, n_actions
        Sizes; of states that are vectors None.
    gamma
        Discount in [0, 1].
    rewards
        Range of the rewards, and weight of the prior.
    absorb
        Whether nothing is paid after a termination. Else a new start follows.
    seed
        Seed of random features.
    """

    n_states: int | None
    n_actions: int
    gamma: float
    rewards: PairPrior
    absorb: bool = False
    seed: int = 0


@final
class RoundRows(NamedTuple):
    """Steps of a round in their order, each field of shape (n,).

    Attributes
    ----------
    episode, step
        Which episode, counted over all rounds, and which of its steps.
    state, action, reward, next_state
        What was seen, done, paid, and seen next; states may be vectors, shape (n, p).
    successor
        The next state, or the first state of the next episode where this one terminated.
    terminated, truncated
        Whether the episode ended, or was cut.
    propensity
        Probability with which the action was taken.
    """

    episode: Int[np.ndarray, " n"]
    step: Int[np.ndarray, " n"]
    state: States
    action: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    next_state: States
    successor: States
    terminated: Bool[np.ndarray, " n"]
    truncated: Bool[np.ndarray, " n"]
    propensity: Float[np.ndarray, " n"]


@final
class Chosen(NamedTuple):
    """The policy of a round.

    Attributes
    ----------
    policy
        Probabilities, shape (S, A), or weights of features, shape (k, A): see `Explorer.policy`.
    mean, sd, score
        What is believed of its value, and its U, reward per step; None where the explorer has no
        such belief.
    """

    policy: Float[np.ndarray, "K A"]
    mean: float | None = None
    sd: float | None = None
    score: float | None = None


@final
class TablePolicy(NamedTuple):
    """A policy of states that are codes.

    Attributes
    ----------
    table
        Probabilities, shape (S, A).
    """

    table: Float[np.ndarray, "S A"]

    def probs(self, obs: Any) -> Float[np.ndarray, "batch A"]:
        """Probabilities of the actions.

        Parameters
        ----------
        obs
            Codes, shape (batch,).
        """
        return self.table[obs]


def table_policy(state: Any, policy: Float[np.ndarray, "S A"]) -> TablePolicy:
    """The policy of a table; no state of an explorer enters."""
    return TablePolicy(policy)


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
    policy
        From a state and the array that was chosen at it to what plays, which has ``probs``.
    vectors
        Whether states may be vectors.
    """

    name: str
    init: Callable[[ExplorationTask], Any]
    learn: Callable[[Any, RoundRows], Any]
    choose: Callable[[Any, np.random.Generator], Chosen]
    policy: Callable[[Any, Float[np.ndarray, "K A"]], Any] = table_policy
    vectors: bool = False


class PolicySearch(Protocol):
    """What finds the policy that may be best."""

    @property
    def averages(self) -> bool:
        """Whether it knows the average reward, gamma 1, on tables."""
        ...

    def find(
        self, beliefs: Beliefs, gamma: float, optimism: Optimism, rng: np.random.Generator
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
    assert task.n_states is not None
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


def by_counts(
    name: str,
    choose: Callable[[Counted, np.random.Generator], Chosen],
    *,
    averages: bool = True,
) -> Explorer:
    """An explorer that counts, and begins with the uniform policy.

    Parameters
    ----------
    name
        What it is called.
    choose
        From the state, of at least one row, to the policy.
    averages
        Whether it knows the average reward, gamma 1.
    """

    def init(task: ExplorationTask) -> Counted:
        if not averages:
            check_discounted(name, task)
        return empty(task)

    def first_uniform(state: Counted, rng: np.random.Generator) -> Chosen:
        if not state.counts.starts.any():
            return Chosen(uniform(state.task))
        return choose(state, rng)

    return Explorer(name, init, counted, first_uniform)


def check_discounted(name: str, task: ExplorationTask) -> None:
    """Refuse the average reward.

    Raises
    ------
    SettingsError
        gamma is 1.
    """
    if task.gamma == 1.0:
        raise SettingsError(
            f"gamma: expected a discount in [0, 1) for {name}, found 1. Its sums of rewards have "
            "no limit then. On tables bayesdice with planning, psrl and rlsvi take 1."
        )


def uniform(task: ExplorationTask) -> Float[np.ndarray, "S A"]:
    """The policy of somebody who knows nothing, shape (S, A)."""
    assert task.n_states is not None
    return np.full((task.n_states, task.n_actions), 1.0 / task.n_actions)
