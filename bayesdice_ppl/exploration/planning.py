"""Best policies of a known model, and the policy that may be best by a belief.

The score U is convex in the occupancy, so its best policies are deterministic, and a policy that is
optimal for the slope of U is at least as good as the one at which the slope was taken. The search
repeats this step from several starts. It gives a local optimum, and no proof of a global one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl import checks
from bayesdice_ppl.models import Optimism, PairBeliefs, PolicyBelief, policy_belief

_ROUNDS = 100
_TIE = 1e-10
"""Share of the largest size by which an action has to be better than the present one."""


def plan(
    moves: Float[np.ndarray, "S A S"],
    reward: Float[np.ndarray, "S A"],
    gamma: float,
    *,
    start: Int[np.ndarray, " S"] | None = None,
) -> Int[np.ndarray, " S"]:
    """Optimal actions of a known model, by policy iteration.

    Parameters
    ----------
    moves
        Probability of each successor, shape (S, A, S), rows that sum to at most 1.
    reward
        Mean reward, shape (S, A).
    gamma
        Discount in [0, 1).
    start
        Actions to start from, shape (S,). None: the best ones if nothing follows.

    Returns
    -------
    numpy.ndarray
        The best action of each state, shape (S,).
    """
    n_states = len(moves)
    states, identity = np.arange(n_states), np.eye(n_states)
    actions = reward.argmax(axis=1) if start is None else start
    for _ in range(_ROUNDS):
        value = np.linalg.solve(identity - gamma * moves[states, actions], reward[states, actions])
        worth = reward + gamma * (moves @ value)
        here = worth[states, actions]
        best = worth.argmax(axis=1)
        # Rounding must not make ties go around.
        better = worth[states, best] > here + _TIE * np.abs(worth).max()
        if not better.any():
            break
        actions = np.where(better, best, actions)
    return actions


def as_policy(actions: Int[np.ndarray, " S"], n_actions: int) -> Float[np.ndarray, "S A"]:
    """Probabilities of a policy that takes one action in each state, shape (S, A)."""
    return np.eye(n_actions)[actions]


class FoundPolicy(NamedTuple):
    """The policy that a search found.

    Attributes
    ----------
    policy
        Probabilities, shape (S, A).
    belief
        The belief of its value.
    score
        Its U.
    """

    policy: Float[np.ndarray, "S A"]
    belief: PolicyBelief
    score: float


@final
class Planning(NamedTuple):
    """The engine that plans; make one with `planning`.

    Attributes
    ----------
    starts
        How many of the most uncertain pairs a start goes to.
    refined
        How many of the starts, the best first, are improved.
    """

    starts: int = 32
    refined: int = 4

    def __str__(self) -> str:
        return with_settings("planning", self._asdict(), self._field_defaults)

    def find(
        self, beliefs: PairBeliefs, gamma: float, optimism: Optimism, rng: np.random.Generator
    ) -> FoundPolicy:
        """The best policy by U that the search finds; it uses no random number.

        Parameters
        ----------
        beliefs
            The completed log.
        gamma
            Discount in [0, 1).
        optimism
            U.
        rng
            Not used: every engine has one.
        """
        tried = self.candidates(beliefs, gamma, optimism)
        steps, best = float(beliefs.counts.visits.sum()), tried[0]
        for one in tried[: self.refined]:
            better = self._improve(beliefs, one, gamma, optimism, steps)
            best = better if better.score > best.score else best
        return best

    def candidates(
        self, beliefs: PairBeliefs, gamma: float, optimism: Optimism
    ) -> list[FoundPolicy]:
        """The different policies that the search starts from, the best by U first.

        Parameters
        ----------
        beliefs, gamma, optimism
            As for `find`.
        """
        steps = float(beliefs.counts.visits.sum())
        found = {}
        for actions in self._starts(beliefs, gamma, optimism, steps):
            if actions.tobytes() not in found:
                found[actions.tobytes()] = self._judge(beliefs, actions, gamma, optimism, steps)
        return sorted(found.values(), key=lambda one: -one.score)

    def _starts(
        self, beliefs: PairBeliefs, gamma: float, optimism: Optimism, steps: float
    ) -> Iterator[Int[np.ndarray, " S"]]:
        greedy = plan(beliefs.moves, beliefs.reward, gamma)
        yield greedy
        n_actions = beliefs.reward.shape[1]
        known = policy_belief(beliefs, as_policy(greedy, n_actions), gamma)
        variance = known.pair_variance
        bonus = optimism.score(np.zeros_like(variance), variance, steps)
        if not bonus.any():
            return
        yield plan(beliefs.moves, beliefs.reward + bonus, gamma, start=greedy)
        usable = np.where(beliefs.counts.seen[:, None] > 0.0, variance, -1.0)
        for pair in np.argsort(-usable, axis=None, kind="stable")[: self.starts]:
            if usable.flat[pair] <= 0.0:
                return
            aim = np.zeros_like(variance)
            aim.flat[pair] = 1.0
            # Where all actions lead there alike, those that are best in the mean.
            yield plan(beliefs.moves, aim, gamma, start=greedy)

    def _judge(
        self,
        beliefs: PairBeliefs,
        actions: Int[np.ndarray, " S"],
        gamma: float,
        optimism: Optimism,
        steps: float,
    ) -> FoundPolicy:
        policy = as_policy(actions, beliefs.reward.shape[1])
        belief = policy_belief(beliefs, policy, gamma)
        return FoundPolicy(
            policy, belief, float(optimism.score(belief.mean, belief.variance, steps))
        )

    def _improve(
        self,
        beliefs: PairBeliefs,
        found: FoundPolicy,
        gamma: float,
        optimism: Optimism,
        steps: float,
    ) -> FoundPolicy:
        """Follow the slope of U until U no longer grows."""
        for _ in range(_ROUNDS):
            of_pairs = 2.0 * found.belief.occupancy * found.belief.pair_variance
            slope = beliefs.reward + optimism.slope(found.belief.variance, steps) * of_pairs
            actions = plan(beliefs.moves, slope, gamma, start=found.policy.argmax(axis=1))
            moved = self._judge(beliefs, actions, gamma, optimism, steps)
            if moved.score <= found.score:
                break
            found = moved
        return found


def with_settings(name: str, settings: dict[str, Any], defaults: dict[str, Any]) -> str:
    """The text of an engine: its name, with the settings that are not the default."""
    said = [f"{key}={value:g}" for key, value in settings.items() if defaults.get(key) != value]
    return f"{name}({', '.join(said)})" if said else name


def planning(*, starts: int = 32, refined: int = 4) -> Planning:
    """The engine that plans: U in the limit of a large lambda_2, where all but pi is closed form.

    Parameters
    ----------
    starts
        How many of the most uncertain pairs a start goes to, at least 0.
    refined
        How many of the starts are improved, at least 1.

    Raises
    ------
    SettingsError
        A number is too small.
    """
    return Planning(
        checks.whole("planning: starts", starts, 0), checks.whole("planning: refined", refined)
    )
