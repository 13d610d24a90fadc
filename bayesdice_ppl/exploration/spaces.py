"""What a search for a policy asks of a belief: on tables, and through features of states.

On tables a policy is an array of probabilities. Through features it takes the action whose linear
function of them is largest, the limit of a softmax. A reward is an array of the same shape. So the
slope of a score is a reward, and has a policy that is optimal for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.models import (
    FeatureBeliefs,
    LinearPolicyBelief,
    PairBeliefs,
    PolicyBelief,
    linear_policy_belief,
    policy_belief,
    prediction_covariance,
    without_growth,
)

_ROUNDS = 100
_TIE = 1e-10
"""Share of the largest size by which an action has to be better than the present one."""
_TINY = 1e-300
_SLACK = 0.1
"""Share of the range of rewards by which a linear model may miss it."""

type Beliefs = PairBeliefs | FeatureBeliefs


class PolicySpace(Protocol):
    """All policies of one kind, with the belief of each; K is S, or the number of features."""

    @property
    def reward(self) -> Float[np.ndarray, "K A"]:
        """Mean reward."""
        ...

    @property
    def steps(self) -> float:
        """Steps of the log."""
        ...

    @property
    def seen(self) -> Bool[np.ndarray, " P"]:
        """Which states, or points, a policy can aim at."""
        ...

    def optimal(
        self, reward: Float[np.ndarray, "K A"], start: Float[np.ndarray, "K A"] | None
    ) -> Float[np.ndarray, "K A"]:
        """The best policy for a reward in the mean model; of ties those of `start`."""
        ...

    def actions(self, policy: Float[np.ndarray, "K A"]) -> Int[np.ndarray, " P"]:
        """What a policy does in each state, or at each point."""
        ...

    def worth(self, policy: Float[np.ndarray, "K A"]) -> Float[np.ndarray, "P A"]:
        """The numbers of which it takes the largest, in each state or at each point."""
        ...

    def belief(self, policy: Float[np.ndarray, "K A"]) -> Any:
        """The belief of its value, with ``mean`` and ``variance``."""
        ...

    def beyond(self, belief: Any) -> float:
        """How far the mean of a belief is beyond what rewards allow, and may be by rounding."""
        ...

    @property
    def highest(self) -> float:
        """What no score can be above."""
        ...

    def pair_variance(self, belief: Any) -> Float[np.ndarray, "P A"]:
        """Variance of the mean of reward and next value of each pair."""
        ...

    def as_reward(self, table: Float[np.ndarray, "P A"]) -> Float[np.ndarray, "K A"]:
        """The reward that is closest to numbers of each pair."""
        ...

    def aim(self, pair: int) -> Float[np.ndarray, "K A"]:
        """The reward of going to one pair, and to what is like it."""
        ...

    def variance_slope(self, belief: Any) -> Float[np.ndarray, "K A"]:
        """Half the derivative of the variance by the occupancy."""
        ...


def space_of(beliefs: Beliefs, gamma: float) -> PolicySpace:
    """All policies of a belief.

    Parameters
    ----------
    beliefs
        The completed log.
    gamma
        Discount in [0, 1]; through features below 1.
    """
    if isinstance(beliefs, PairBeliefs):
        return TablePolicies(beliefs, gamma)
    at_points = beliefs.at_points
    unit = np.linalg.lstsq(at_points, np.ones(len(at_points)))[0]
    return LinearPolicies(beliefs, gamma, unit)


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
        Discount in [0, 1]. At 1 the average reward is maximized; each policy needs one recurrent
        class.
    start
        Actions to start from, shape (S,). None: the best ones if nothing follows.

    Returns
    -------
    numpy.ndarray
        The best action of each state, shape (S,).
    """
    n_states = len(moves)
    states, system = np.arange(n_states), np.eye(n_states)
    if gamma == 1.0:
        # Values have no level then, and any that is fixed will do.
        system = system + 1.0 / n_states
    actions = reward.argmax(axis=1) if start is None else start
    for _ in range(_ROUNDS):
        value = np.linalg.solve(system - gamma * moves[states, actions], reward[states, actions])
        worth = reward + gamma * (moves @ value)
        here = worth[states, actions]
        best = worth.argmax(axis=1)
        # Rounding must not make ties go around.
        rounding = 4.0 * np.finfo(np.float64).eps * np.abs(worth).max()
        better = worth[states, best] > here + _TIE * np.ptp(worth) + rounding
        if not better.any():
            break
        actions = np.where(better, best, actions)
    return actions


def as_policy(actions: Int[np.ndarray, " S"], n_actions: int) -> Float[np.ndarray, "S A"]:
    """Probabilities of a policy that takes one action in each state, shape (S, A)."""
    return np.eye(n_actions)[actions]


@final
class TablePolicies(NamedTuple):
    """Policies of labels.

    Attributes
    ----------
    beliefs
        The completed log.
    gamma
        Discount in [0, 1].
    """

    beliefs: PairBeliefs
    gamma: float

    @property
    def reward(self) -> Float[np.ndarray, "S A"]:
        """Mean reward."""
        return self.beliefs.reward

    @property
    def steps(self) -> float:
        """Steps of the log."""
        return self.beliefs.steps

    @property
    def seen(self) -> Bool[np.ndarray, " S"]:
        """Which states were seen."""
        return self.beliefs.counts.seen > 0.0

    def optimal(
        self, reward: Float[np.ndarray, "S A"], start: Float[np.ndarray, "S A"] | None
    ) -> Float[np.ndarray, "S A"]:
        """The best policy for a reward; of ties those of `start`."""
        first = None if start is None else self.actions(start)
        actions = plan(self.beliefs.moves, reward, self.gamma, start=first)
        return as_policy(actions, reward.shape[1])

    def worth(self, policy: Float[np.ndarray, "S A"]) -> Float[np.ndarray, "S A"]:
        """Its probabilities."""
        return policy

    def actions(self, policy: Float[np.ndarray, "S A"]) -> Int[np.ndarray, " S"]:
        """What a policy does."""
        return policy.argmax(axis=1)

    def belief(self, policy: Float[np.ndarray, "S A"]) -> PolicyBelief:
        """The belief of its value."""
        return policy_belief(self.beliefs, policy, self.gamma)

    def beyond(self, belief: PolicyBelief) -> float:
        """A mean over counts is always one of rewards in their range."""
        return 0.0

    @property
    def highest(self) -> float:
        """On tables a score is what its belief says."""
        return np.inf

    def pair_variance(self, belief: PolicyBelief) -> Float[np.ndarray, "S A"]:
        """As the belief has it."""
        return belief.pair_variance

    def as_reward(self, table: Float[np.ndarray, "S A"]) -> Float[np.ndarray, "S A"]:
        """A reward is a number of each pair."""
        return table

    def aim(self, pair: int) -> Float[np.ndarray, "S A"]:
        """1 at the pair."""
        found = np.zeros_like(self.reward)
        found.flat[pair] = 1.0
        return found

    def variance_slope(self, belief: PolicyBelief) -> Float[np.ndarray, "S A"]:
        """Occupancy times variance."""
        return belief.occupancy * belief.pair_variance


@final
class LinearPolicies(NamedTuple):
    """Policies that take the action whose linear function of the features is largest.

    Attributes
    ----------
    beliefs
        The completed log.
    gamma
        Discount in [0, 1).
    unit
        Weights of the features that are 1 at all points, shape (k,).
    """

    beliefs: FeatureBeliefs
    gamma: float
    unit: Float[np.ndarray, " k"]

    @property
    def reward(self) -> Float[np.ndarray, "k A"]:
        """Weights of the reward."""
        found: Float[np.ndarray, "k A"] = self.beliefs.reward.T
        return found + float(self.beliefs.level) * self.unit[:, None]

    @property
    def steps(self) -> float:
        """Steps of the log."""
        return self.beliefs.steps

    @property
    def seen(self) -> Bool[np.ndarray, " P"]:
        """All points were seen."""
        return np.ones(len(self.beliefs.tests), dtype=bool)

    def optimal(
        self, reward: Float[np.ndarray, "k A"], start: Float[np.ndarray, "k A"] | None
    ) -> Float[np.ndarray, "k A"]:
        """The best policy for a reward that policy iteration meets.

        With features that cannot express the values, policy iteration may go around. It then
        keeps the policy whose value was highest.

        Parameters
        ----------
        reward
            Weights, shape (k, A).
        start
            Where all actions are worth the same, those of this policy are taken.
        """
        beliefs = self.beliefs._replace(reward=reward.T, level=np.asarray(0.0))
        paid = beliefs.at_points @ reward
        low, high = min(float(paid.min()), 0.0), max(float(paid.max()), 0.0)
        slack = _SLACK * (high - low)
        system = np.eye(beliefs.tests.shape[1])
        weights = reward if start is None else start
        best, highest = weights, -np.inf
        met = set[bytes]()
        for _ in range(_ROUNDS):
            actions = self.actions(weights)
            if actions.tobytes() in met:
                break
            met.add(actions.tobytes())
            moves, own = beliefs.flow_parts(as_policy(actions, reward.shape[1]))
            value = np.linalg.solve(system - self.gamma * without_growth(moves), own)
            mean = (1.0 - self.gamma) * float(beliefs.start @ value)
            # A value that the rewards do not allow is an error of the model.
            if highest < mean <= high + slack:
                best, highest = weights, mean
            worth = reward + self.gamma * (beliefs.moves @ value).T
            size = max(float(np.abs(weights).max()), _TINY)
            weights = worth + _TIE * np.abs(worth).max() / size * weights
        return best

    def worth(self, policy: Float[np.ndarray, "k A"]) -> Float[np.ndarray, "P A"]:
        """Its linear functions at each point."""
        return self.beliefs.at_points @ policy

    def actions(self, policy: Float[np.ndarray, "k A"]) -> Int[np.ndarray, " P"]:
        """What a policy does at each point."""
        return self.worth(policy).argmax(axis=1)

    def belief(self, policy: Float[np.ndarray, "k A"]) -> LinearPolicyBelief:
        """The belief of its value."""
        table = as_policy(self.actions(policy), policy.shape[1])
        return linear_policy_belief(self.beliefs, table, self.gamma)

    def beyond(self, belief: LinearPolicyBelief) -> float:
        """How far the mean is outside the range of rewards, or of none, and a tenth of it."""
        low, high = min(self.beliefs.prior.low, 0.0), self.highest
        mean, slack = float(belief.mean), _SLACK * (high - low)
        return max(low - slack - mean, mean - high - slack, 0.0)

    @property
    def highest(self) -> float:
        """The best reward for ever; after the end of an episode it may be none."""
        return max(self.beliefs.prior.high, 0.0)

    def pair_variance(self, belief: LinearPolicyBelief) -> Float[np.ndarray, "P A"]:
        """Variance of the prediction at each point."""
        at = self.beliefs.at_points
        covariance = prediction_covariance(self.beliefs, belief.state_value, self.gamma)
        return np.stack([((at @ one) * at).sum(axis=1) for one in covariance], axis=1)

    def as_reward(self, table: Float[np.ndarray, "P A"]) -> Float[np.ndarray, "k A"]:
        """Least squares over the points."""
        found: Float[np.ndarray, "k A"] = np.linalg.lstsq(self.beliefs.at_points, table)[0]
        return found

    def aim(self, pair: int) -> Float[np.ndarray, "k A"]:
        """The covariance of the action's prediction with the one at the point, for noise of one."""
        point, action = divmod(pair, len(self.beliefs.reward))
        root = self.beliefs.root[action]
        found = np.zeros_like(self.reward)
        found[:, action] = root @ (root @ self.beliefs.at_points[point])
        return found

    def variance_slope(self, belief: LinearPolicyBelief) -> Float[np.ndarray, "k A"]:
        """The derivative by the mean features of each action."""
        return belief.slope.T
