"""What is believed of every pair of state and action, also of those that were never logged.

The law of reward and successor of each pair has a Dirichlet process prior. The log is thereby
completed by a few imaginary steps in every pair, so that what is not known of a pair never logged
comes from the prior. For a fixed policy the belief of its value follows in closed form. The
derivation is in `docs/exploration.md`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

from jaxtyping import Float

from bayesdice_ppl import checks
from bayesdice_ppl.arrays import library_of
from bayesdice_ppl.errors import SettingsError


@final
class PairPrior(NamedTuple):
    """The prior of what follows a pair (hashable); make one with `pair_prior`.

    Attributes
    ----------
    low, high
        Range of the rewards.
    weight
        Imaginary steps w of each pair.
    """

    low: float
    high: float
    weight: float = 1.0

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return 0.5 * (self.low + self.high)

    @property
    def variance(self) -> float:
        """The largest variance of rewards in the range."""
        return 0.25 * (self.high - self.low) ** 2


def pair_prior(low: float, high: float, *, weight: float = 1.0) -> PairPrior:
    """The prior of what follows a pair of state and action.

    Parameters
    ----------
    low, high
        Range of the rewards. No log can say how much a pair that it does not have may pay.
    weight
        Imaginary steps of each pair, above 0.

    Raises
    ------
    SettingsError
        The range is empty, or the weight is not above 0.
    """
    if not (checks.is_number(low) and checks.is_number(high) and low < high):
        raise SettingsError(
            f"reward range: expected two numbers, the lower one first, found {low!r} and {high!r}."
        )
    return PairPrior(float(low), float(high), checks.positive("prior weight", weight))


class PairCounts(NamedTuple):
    """A log on S states and A actions, as sums by pair and successor.

    Attributes
    ----------
    moves
        Number of transitions, shape (S, A, S).
    reward_sum, reward_square_sum
        Sums of their rewards and squared rewards, shape (S, A, S).
    starts
        Number of episodes that started in each state, shape (S,).
    """

    moves: Float[Any, "S A S"]
    reward_sum: Float[Any, "S A S"]
    reward_square_sum: Float[Any, "S A S"]
    starts: Float[Any, " S"]

    @property
    def visits(self) -> Float[Any, "S A"]:
        """How often each pair was logged, shape (S, A)."""
        return self.moves.sum(axis=-1)

    @property
    def seen(self) -> Float[Any, " S"]:
        """1 for the states that were seen, shape (S,)."""
        touched = self.visits.sum(axis=-1) + self.moves.sum(axis=(0, 1)) + self.starts
        return library_of(touched).where(touched > 0.0, 1.0, 0.0)


class PairBeliefs(NamedTuple):
    """The completed log: means, and what the variance of a mean needs.

    Attributes
    ----------
    counts
        The log.
    total
        Steps of each pair with the imaginary ones, n + w, shape (S, A).
    moves
        Mean probability of each successor, shape (S, A, S).
    reward
        Mean reward, shape (S, A).
    by_successor
        Mean of reward times indicator of the successor, shape (S, A, S).
    reward_square
        Mean squared reward, shape (S, A).
    start
        Distribution of the first state, shape (S,).
    """

    counts: PairCounts
    total: Float[Any, "S A"]
    moves: Float[Any, "S A S"]
    reward: Float[Any, "S A"]
    by_successor: Float[Any, "S A S"]
    reward_square: Float[Any, "S A"]
    start: Float[Any, " S"]

    @property
    def n_starts(self) -> Float[Any, ""]:
        """Number of logged episodes."""
        return self.counts.starts.sum()

    @property
    def size(self) -> Float[Any, ""]:
        """Steps of the completed log."""
        return self.total.sum()

    @property
    def steps(self) -> float:
        """Steps of the log."""
        return float(self.counts.visits.sum())

    @property
    def logit_shape(self) -> tuple[int, int]:
        """Shape of the logits of a policy, (S, A)."""
        n_states, n_actions = self.reward.shape
        return n_states, n_actions

    def probabilities(self, logits: Float[Any, "*b S A"]) -> Float[Any, "*b S A"]:
        """The softmax of logits."""
        from jax.nn import softmax

        return softmax(logits, axis=-1)

    def flow_parts(self, policy: Float[Any, "S A"]) -> tuple[Float[Any, "S S"], Float[Any, " S"]]:
        """Mean moves between states and mean rewards under a policy."""
        moves = (policy[..., None] * self.moves).sum(axis=1)
        return moves, (policy * self.reward).sum(axis=1)

    def noise(
        self, policy: Float[Any, "S A"], states: Float[Any, " S"], gamma: float
    ) -> Float[Any, "R R"]:
        """Covariance of the residual of flow and value, without that of the starts.

        Parameters
        ----------
        policy
            Probabilities, shape (S, A).
        states
            Occupancy of the states, shape (S,).
        gamma
            Discount.
        """
        occupancy = self.occupancy(library_of(states).clip(states, 0.0, None), policy)
        return (occupancy[..., None, None] ** 2 * pair_covariances(self, gamma)).sum((0, 1))

    def occupancy(self, states: Float[Any, " S"], policy: Float[Any, "S A"]) -> Float[Any, "S A"]:
        """Share of the discounted steps in each pair."""
        return states[:, None] * policy

    @property
    def share(self) -> Float[Any, "S A"]:
        """Share of each pair in the completed log."""
        return self.total / self.size

    def start_noise(self, gamma: float) -> Float[Any, "S S"]:
        """Covariance of the flow that starts, given a finite number of them."""
        xp, start = library_of(self.start), self.start
        spread = xp.diag(start) - start[:, None] * start
        return (1.0 - gamma) ** 2 / (self.n_starts + 1.0) * spread


class PolicyBelief(NamedTuple):
    """The belief of one fixed policy's value.

    Attributes
    ----------
    mean, variance
        Of the value, in reward per step (and its square), scalars.
    occupancy
        Share of the policy's discounted steps in each pair, shape (S, A).
    pair_variance
        Variance c of the mean of reward plus discounted next value of each pair, shape (S, A). The
        pair adds occupancy^2 c to the variance.
    state_value
        Discounted sum of rewards from each state, not normalized, shape (S,). At gamma 1 what a
        start there is worth more than others, up to a constant.
    """

    mean: Float[Any, ""]
    variance: Float[Any, ""]
    occupancy: Float[Any, "S A"]
    pair_variance: Float[Any, "S A"]
    state_value: Float[Any, " S"]


def pair_beliefs(counts: PairCounts, prior: PairPrior) -> PairBeliefs:
    """Complete a log by the prior.

    Parameters
    ----------
    counts
        The log, with at least one start.
    prior
        Range of the rewards, and number of imaginary steps.
    """
    xp = library_of(counts.moves)
    visits, weight = counts.visits, prior.weight
    total = visits + weight
    seen = counts.seen
    successor = seen / seen.sum()
    level = (counts.reward_sum.sum() + prior.middle) / (visits.sum() + 1.0)
    moves = (counts.moves + weight * successor) / total[..., None]
    by_successor = (counts.reward_sum + weight * level * successor) / total[..., None]
    square = counts.reward_square_sum.sum(axis=-1) + weight * (prior.variance + level**2)
    starts = counts.starts / xp.maximum(counts.starts.sum(), 1.0)
    return PairBeliefs(
        counts, total, moves, by_successor.sum(axis=-1), by_successor, square / total, starts
    )


def policy_belief(beliefs: PairBeliefs, policy: Float[Any, "S A"], gamma: float) -> PolicyBelief:
    """Mean and variance of a fixed policy's value, to first order in what is not known.

    Parameters
    ----------
    beliefs
        The completed log.
    policy
        Probabilities, shape (S, A).
    gamma
        Discount in [0, 1]; at 1 the value is the average reward.
    """
    xp = library_of(beliefs.moves, policy)
    moves, reward = beliefs.flow_parts(policy)
    start = beliefs.start
    system = xp.eye(len(moves), dtype=moves.dtype) - gamma * moves
    # The completed log has one recurrent class. With 1 start' added, the equations of the average
    # reward have one solution: values whose mean over starts is that reward.
    system = system + start if gamma == 1.0 else system
    factor = 1.0 - gamma if gamma < 1.0 else 1.0
    value = xp.linalg.solve(system, reward)
    states = factor * xp.linalg.solve(system.T, start)
    occupancy = states[:, None] * policy
    pairs = pair_variance(beliefs, value, gamma)
    off = value - start @ value
    starts = (1.0 - gamma) ** 2 * (start @ off**2) / (beliefs.n_starts + 1.0)
    variance = (occupancy**2 * pairs).sum() + starts
    return PolicyBelief((occupancy * beliefs.reward).sum(), variance, occupancy, pairs, value)


def pair_variance(beliefs: PairBeliefs, value: Float[Any, " S"], gamma: float) -> Float[Any, "S A"]:
    """Variance of the mean of r + gamma V(s') of each pair under its Dirichlet process, (S, A).

    Parameters
    ----------
    beliefs
        The completed log.
    value
        V, shape (S,).
    gamma
        Discount.
    """
    xp = library_of(beliefs.moves, value)
    # A constant in V changes nothing but rounding.
    following = gamma * (value - value.mean())
    mean = beliefs.reward + beliefs.moves @ following
    square = beliefs.reward_square + 2.0 * beliefs.by_successor @ following
    square = square + beliefs.moves @ following**2
    return xp.maximum(square - mean**2, 0.0) / (beliefs.total + 1.0)


def pair_covariances(beliefs: PairBeliefs, gamma: float) -> Float[Any, "S A R R"]:
    """Covariance of the means of (gamma e_s', r) of each pair, shape (S, A, S + 1, S + 1).

    Parameters
    ----------
    beliefs
        The completed log.
    gamma
        Discount.
    """
    xp = library_of(beliefs.moves)
    n_states = beliefs.moves.shape[-1]
    mean = xp.concatenate([gamma * beliefs.moves, beliefs.reward[..., None]], axis=-1)
    crossed = gamma * beliefs.by_successor
    flow = gamma**2 * beliefs.moves[..., None] * xp.eye(n_states)
    top = xp.concatenate([flow, crossed[..., None]], axis=-1)
    last = xp.concatenate([crossed, beliefs.reward_square[..., None]], axis=-1)
    square = xp.concatenate([top, last[..., None, :]], axis=-2)
    covariance = square - mean[..., :, None] * mean[..., None, :]
    return covariance / (beliefs.total + 1.0)[..., None, None]
