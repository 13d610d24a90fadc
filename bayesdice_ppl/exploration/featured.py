"""Explorers through features of states: vectors, or labels that share what is learned.

The state of such an explorer is its rows. Features are built anew before each choice, since their
scales come from the states seen so far. So a policy is its weights, and the rows that were there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.exploration.explorers import (
    Chosen,
    ExplorationTask,
    Explorer,
    RoundRows,
    States,
)
from bayesdice_ppl.exploration.spaces import as_policy
from bayesdice_ppl.features import (
    FeatureChoice,
    FeatureMap,
    Points,
    RotatedMap,
    Space,
    whitened_map,
)
from bayesdice_ppl.models import FeatureBeliefs, FeatureLog, feature_beliefs

MOST_POINTS = 1000
"""Most states at which the flow is balanced."""
_CONSTANT = 1e-6
"""Largest error of a constant that the features are said to express."""


@final
class FeatureState(NamedTuple):
    """The state of an explorer through features.

    Attributes
    ----------
    task
        What is known beforehand.
    features
        The choice of features.
    rows
        The log; None before the first round.
    """

    task: ExplorationTask
    features: FeatureChoice
    rows: RoundRows | None

    def points(self) -> States:
        """States at which the flow is balanced, out of all that a start or a step led to."""
        assert self.rows is not None
        met = (self.rows.state, self.rows.successor[self._going_on])
        states = np.concatenate(met)
        return states[spread_states(states)]

    @property
    def _going_on(self) -> Bool[np.ndarray, " n"]:
        """Which rows are followed by a state."""
        assert self.rows is not None
        if self.task.absorb:
            return ~self.rows.terminated
        return np.ones(len(self.rows.reward), dtype=bool)

    def beliefs(self) -> FeatureBeliefs:
        """The log, completed by the prior."""
        rows, points = self.rows, self.points()
        assert rows is not None
        found = state_map(self.features, points, self.task)
        tests = whitened_map(found, Points(points, np.zeros(len(points))))
        log = FeatureLog(
            found.of(rows.state),
            rows.action,
            rows.reward.astype(np.float64),
            # Nothing is worth anything after the end.
            _tests(tests, rows.successor) * self._going_on[:, None],
            _tests(tests, rows.state[rows.step == 0]),
            found.of(points),
            _tests(tests, points),
            self.task.n_actions,
        )
        return feature_beliefs(log, self.task.rewards)


@final
class StateMap(NamedTuple):
    """Features of states, of mean square 1 over the states seen so far.

    Attributes
    ----------
    inner
        The map that the user chose.
    n_actions
        How many actions its features are taken at, side by side; 0 if it does not see the action.
    size
        Root mean square by which all are divided.
    constant
        Whether a constant was added, which the others cannot express.
    """

    inner: FeatureMap
    n_actions: int
    size: float = 1.0
    constant: bool = False

    def __call__(self, points: Points) -> Float[np.ndarray, "b k"]:
        """Features of points, by their states alone."""
        return self.of(points.state)

    def of(self, states: States) -> Float[np.ndarray, "b k"]:
        """Features of states.

        Parameters
        ----------
        states
            Vectors, shape (b, p), or codes, shape (b,).
        """
        n = len(states)
        parts = [
            self.inner(Points(states, np.full(n, action))) for action in range(self.n_actions or 1)
        ]
        if self.constant:
            parts.append(np.ones((n, 1)))
        return np.concatenate(parts, axis=1) / self.size


@final
class GreedyPolicy(NamedTuple):
    """Takes the action whose linear function of the features is largest.

    Attributes
    ----------
    features
        Of states.
    weights
        Shape (k, A).
    """

    features: StateMap
    weights: Float[np.ndarray, "k A"]

    def probs(self, obs: Any) -> Float[np.ndarray, "batch A"]:
        """Probabilities of the actions, 1 for one of them.

        Parameters
        ----------
        obs
            Vectors, shape (batch, p), or labels, shape (batch,).
        """
        worth = self.features.of(np.asarray(obs)) @ self.weights
        return as_policy(worth.argmax(axis=1), self.weights.shape[1])


@final
class UniformPolicy(NamedTuple):
    """Takes all actions alike.

    Attributes
    ----------
    n_actions
        How many there are.
    """

    n_actions: int

    def probs(self, obs: Any) -> Float[np.ndarray, "batch A"]:
        """Probabilities of the actions.

        Parameters
        ----------
        obs
            Vectors, shape (batch, p), or labels, shape (batch,).
        """
        return np.full((len(obs), self.n_actions), 1.0 / self.n_actions)


def by_features(
    name: str,
    features: FeatureChoice,
    choose: Callable[[FeatureBeliefs, float, np.random.Generator], Chosen],
) -> Explorer:
    """An explorer through features, which begins with the uniform policy.

    Parameters
    ----------
    name
        What it is called.
    features
        From `bayesdice_ppl.features`.
    choose
        From the completed log and the discount to the weights of the policy.

    Raises
    ------
    SettingsError
        There are no such features.
    """
    if not isinstance(features, FeatureChoice):
        raise SettingsError(
            "features: expected a feature map such as bd.features.fourier(50, of='state'), found "
            f"{features!r}."
        )

    def init(task: ExplorationTask) -> FeatureState:
        if task.gamma == 1.0:
            raise SettingsError(
                "gamma: expected a discount in [0, 1) to explore through features, found 1. A "
                "linear model has no average reward that is sure to exist."
            )
        if task.n_states is not None:
            # Labels are known beforehand: what does not fit them is told before the first round.
            state_map(features, np.arange(task.n_states), task)
        return FeatureState(task, features, None)

    def learn(state: FeatureState, rows: RoundRows) -> FeatureState:
        if state.rows is not None:
            pairs = zip(state.rows, rows, strict=True)
            rows = RoundRows(*(np.concatenate(pair) for pair in pairs))
        return state._replace(rows=rows)

    def first_uniform(state: FeatureState, rng: np.random.Generator) -> Chosen:
        if state.rows is None:
            return Chosen(np.zeros((0, state.task.n_actions)))
        return choose(state.beliefs(), state.task.gamma, rng)

    def policy(state: FeatureState, weights: Float[np.ndarray, "k A"]) -> Any:
        if state.rows is None:
            return UniformPolicy(state.task.n_actions)
        return GreedyPolicy(state_map(features, state.points(), state.task), weights)

    return Explorer(f"{name} by {features}", init, learn, first_uniform, policy, vectors=True)


def _tests(tests: RotatedMap, states: States) -> Float[np.ndarray, "b c"]:
    """A constant and the whitened features."""
    found = tests(Points(states, np.zeros(len(states))))
    return np.concatenate([np.ones((len(found), 1)), found], axis=1)


def state_map(features: FeatureChoice, points: States, task: ExplorationTask) -> StateMap:
    """Features of states, with scales from the states seen so far.

    Parameters
    ----------
    features
        The choice. Features that see the action are taken at all actions, side by side.
    points
        The states.
    task
        What is known beforehand; its seed draws random features.

    Raises
    ------
    SettingsError
        The features do not fit such states, or are all zero.
    """
    import jax

    n_actions = task.n_actions if "action" in features.sees else 0
    labels = None if task.n_states is None else np.arange(task.n_states)
    actions = np.repeat(np.arange(max(n_actions, 1)), len(points))
    every = Points(np.concatenate([points] * max(n_actions, 1)), actions)
    space = Space(every, labels, np.arange(task.n_actions))
    try:
        plain = StateMap(features.build(space, jax.random.key(task.seed)), n_actions)
    except SettingsError as cause:
        fitting = "polynomial or fourier" if labels is None else "one_hot, or a table of your own"
        raise SettingsError(f"{cause} To explore such states, use {fitting}.") from cause
    at_points = plain.of(points)
    unit = np.ones(len(points))
    error = at_points @ np.linalg.lstsq(at_points, unit)[0] - unit
    plain = plain._replace(constant=bool(np.abs(error).max() > _CONSTANT))
    size = float(np.sqrt(np.mean(np.sum(plain.of(points) ** 2, axis=1))))
    return plain._replace(size=size)


def spread_states(states: States, most: int = MOST_POINTS) -> Int[np.ndarray, " P"]:
    """Which states to keep, so that they cover where the others are.

    Parameters
    ----------
    states
        Codes, shape (b,), of which one each is kept; or vectors, shape (b, p), of which one is
        kept in each cell of a grid.
    most
        The cells are made larger until there are no more than these.
    """
    if states.ndim == 1:
        return np.unique(states, return_index=True)[1]
    first = np.unique(states, axis=0, return_index=True)[1]
    values = states[first]
    sd = values.std(axis=0)
    at = (values - values.min(axis=0)) / np.where(sd > 0.0, sd, 1.0)
    width = 1e-3
    kept = np.arange(len(values))
    while len(kept) > most:
        kept = np.unique(np.floor(at / width).astype(np.int64), axis=0, return_index=True)[1]
        width *= 1.5
    return first[kept]
