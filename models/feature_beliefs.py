"""What is believed of states through features of them: a linear model of each action.

For each action, reward and features of the next state are regressed on features of the state. The
prior of the weights completes the log, as `pair_beliefs` does with one imaginary step a pair: what
is not known of a region where an action was never tried comes from it. With one-hot features the
two are the same. The derivation is in `docs/exploration.md`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.arrays import library_of
from bayesdice_ppl.models.pair_beliefs import PairPrior
from bayesdice_ppl.moments import Moments

_GROWTH = 1e-9
"""Growth that is rounding."""


class FeatureLog(NamedTuple):
    """A log through features of its states.

    Attributes
    ----------
    here
        Features of each row's state, shape (n, k).
    action
        Codes, shape (n,), below A.
    reward
        Shape (n,).
    following
        Tests of the state that follows, shape (n, c): of a fresh start, or zeros, where a row
        terminated.
    starts
        Tests of each logged start, shape (M, c).
    at_points, tests
        Features and tests of the points at which the flow is balanced, shapes (P, k) and (P, c).
        The tests are orthonormal over the points, the first is 1.
    n_actions
        A.
    """

    here: Float[Any, "n k"]
    action: Int[Any, " n"]
    reward: Float[Any, " n"]
    following: Float[Any, "n c"]
    starts: Float[Any, "M c"]
    at_points: Float[Any, "P k"]
    tests: Float[Any, "P c"]
    n_actions: int


class FeatureBeliefs(NamedTuple):
    """The completed log: regressions, and what the variance of a prediction needs.

    Attributes
    ----------
    here, action
        Of the log.
    rest
        What the mean model does not explain of each row: the tests of the next state and the
        reward, shape (n, c + 1).
    at_points, tests
        Of the points at which the flow is balanced.
    moves
        Weights of the next state's tests, shape (A, k, c), beside their mean over the points.
    reward
        Weights of the reward, shape (A, k), beside `level`.
    level
        Mean reward of a pair of which nothing is known, scalar.
    root
        Root of the covariance of weights for noise of variance 1, shape (A, k, k).
    start, start_covariance
        Mean and covariance of the tests over logged starts, shapes (c,) and (c, c).
    n_starts
        Number of logged episodes, scalar.
    prior
        Range of the rewards, and weight w of the imaginary steps.
    """

    here: Float[Any, "n k"]
    action: Int[Any, " n"]
    rest: Float[Any, "n c1"]
    at_points: Float[Any, "P k"]
    tests: Float[Any, "P c"]
    moves: Float[Any, "A k c"]
    reward: Float[Any, "A k"]
    level: Float[Any, ""]
    root: Float[Any, "A k k"]
    start: Float[Any, " c"]
    start_covariance: Float[Any, "c c"]
    n_starts: Float[Any, ""]
    prior: PairPrior

    @property
    def logit_shape(self) -> tuple[int, int]:
        """Shape of the logits of a policy that is linear in the features, (k, A)."""
        return self.reward.shape[::-1]

    @property
    def size(self) -> Float[Any, ""]:
        """Steps of the completed log: w more for each feature and action."""
        return len(self.here) + self.prior.weight * self.reward.size

    @property
    def steps(self) -> float:
        """Steps of the log."""
        return float(len(self.here))

    def probabilities(self, logits: Float[Any, "*b k A"]) -> Float[Any, "*b P A"]:
        """The softmax of logits that are linear in the features, at the points."""
        from jax.nn import softmax

        return softmax(self.at_points @ logits, axis=-1)

    def flow_parts(self, policy: Float[Any, "P A"]) -> tuple[Float[Any, "c c"], Float[Any, " c"]]:
        """How the weights of a value follow from the next ones, and the reward's own weights.

        Parameters
        ----------
        policy
            Probabilities at the points, shape (P, A).

        Returns
        -------
        (array, array)
            T, shape (c, c), and r, shape (c,): the value is (1 - gamma T)^-1 r in the tests.
        """
        xp = library_of(self.moves, policy)
        visits = self._visits(policy)
        first = xp.eye(self.tests.shape[1])[0]
        moves = first[:, None] * first + xp.einsum("ack,akd->cd", visits, self.moves)
        reward = self.level * first + xp.einsum("ack,ak->c", visits, self.reward)
        return moves, reward

    def _visits(self, policy: Float[Any, "P A"]) -> Float[Any, "A c k"]:
        """Mean over the points of tests, times probability of an action, times features."""
        xp = library_of(self.tests, policy)
        parts = [(self.tests * column[:, None]).T @ self.at_points for column in policy.T]
        return xp.stack(parts) / len(self.tests)

    def expectations(
        self, policy: Float[Any, "P A"], states: Float[Any, " c"]
    ) -> Float[Any, "A k"]:
        """Mean features of the state, times the indicator of the action, under an occupancy.

        Parameters
        ----------
        policy
            Probabilities at the points, shape (P, A).
        states
            The occupancy of states, as weights of the tests, shape (c,).
        """
        return library_of(self.tests, policy).einsum("ack,c->ak", self._visits(policy), states)

    def noise(
        self, policy: Float[Any, "P A"], states: Float[Any, " c"], gamma: float
    ) -> Float[Any, "R R"]:
        """Covariance of the residual of flow and value, without that of the starts.

        Parameters
        ----------
        policy, states
            As for `expectations`.
        gamma
            Discount.
        """
        xp = library_of(self.rest, policy, states)
        unit = xp.append(gamma * xp.ones(self.tests.shape[1]), 1.0)
        loads = xp.einsum("akl,al->ak", self.root, self.expectations(policy, states))
        rows = (self.here * loads[self.action]).sum(axis=1)[:, None] * self.rest
        weights = xp.concatenate([self.moves, self.reward[..., None]], axis=-1)
        own = (loads[..., None] * weights).reshape(-1, len(unit))
        # An imaginary step is a draw of the base law, whose tests have covariance 1.
        base = xp.append(xp.append(0.0, xp.ones(self.tests.shape[1] - 1)), self.prior.variance)
        imaginary = (loads**2).sum() * xp.diag(base) + own.T @ own
        return unit[:, None] * (rows.T @ rows + self.prior.weight * imaginary) * unit

    def occupancy(self, states: Float[Any, " c"], policy: Float[Any, "P A"]) -> Float[Any, "P A"]:
        """Share of the discounted steps at each point and action; it may be negative."""
        return (self.tests @ states / len(self.tests))[:, None] * policy

    @property
    def share(self) -> Float[Any, "P A"]:
        """What a ratio of one is: all points and actions alike."""
        xp = library_of(self.tests)
        shape = (len(self.tests), len(self.reward))
        return xp.full(shape, 1.0 / (shape[0] * shape[1]))

    def start_noise(self, gamma: float) -> Float[Any, "c c"]:
        """Covariance of the flow that starts, given a finite number of them."""
        return (1.0 - gamma) ** 2 * self.start_covariance / (self.n_starts + 1.0)

    def moments(self, gamma: float) -> Moments:
        """Moments of flow and value over all points and actions; no policy enters.

        Parameters
        ----------
        gamma
            Discount.
        """
        xp = library_of(self.tests)
        n_tests = self.tests.shape[1]
        first = xp.eye(n_tests)[0]
        following = first + xp.einsum("pk,akc->pac", self.at_points, self.moves)
        reward = self.level + self.at_points @ self.reward.T
        rows = xp.concatenate([gamma * following - self.tests[:, None], reward[..., None]], axis=-1)
        by_ratio = (self.share[..., None] * rows).reshape(-1, n_tests + 1).T
        return Moments(
            by_ratio=by_ratio,
            offset=xp.append((1.0 - gamma) * self.start, 0.0),
            design=xp.zeros((0, n_tests + 1)),
            initial=xp.zeros((0, n_tests + 1)),
            active=xp.ones(by_ratio.shape[1]),
            reward_mean=self.level,
            reward_scale=xp.sqrt(xp.asarray(self.prior.variance)),
        )


class LinearPolicyBelief(NamedTuple):
    """The belief of one fixed policy's value, through features.

    Attributes
    ----------
    mean, variance
        Of the value, in reward per step (and its square), scalars.
    expectations
        Mean features under the policy's occupancy, by action, shape (A, k).
    state_value
        Weights of the value in the tests, shape (c,): the discounted sum of rewards.
    slope
        Half the derivative of the variance by `expectations`, shape (A, k).
    """

    mean: Float[Any, ""]
    variance: Float[Any, ""]
    expectations: Float[Any, "A k"]
    state_value: Float[Any, " c"]
    slope: Float[Any, "A k"]


def feature_beliefs(log: FeatureLog, prior: PairPrior) -> FeatureBeliefs:
    """Complete a log by the prior.

    Parameters
    ----------
    log
        At least one row and one start, as NumPy arrays.
    prior
        Range of the rewards, and number of imaginary steps for each feature and action.
    """
    n, k = log.here.shape
    level = (log.reward.sum() + prior.middle) / (n + 1.0)
    n_tests = log.tests.shape[1]
    base = np.append(np.eye(n_tests)[0], level)
    targets = np.concatenate([log.following, log.reward[:, None]], axis=1) - base
    weights, roots = np.zeros((log.n_actions, k, n_tests + 1)), np.zeros((log.n_actions, k, k))
    rest = targets.copy()
    for action in range(log.n_actions):
        rows = log.action == action
        here = log.here[rows]
        # The inverse, and the root of the covariance, share the precision's axes.
        sizes, axes = np.linalg.eigh(here.T @ here)
        sizes = np.maximum(sizes, 0.0) + prior.weight
        weights[action] = axes @ ((axes.T @ (here.T @ targets[rows])) / sizes[:, None])
        # As of a Dirichlet posterior, whose variance is over one step more.
        roots[action] = (axes / np.sqrt(sizes * (sizes + 1.0))) @ axes.T
        rest[rows] -= here @ weights[action]
    start = log.starts.mean(axis=0)
    off = log.starts - start
    return FeatureBeliefs(
        log.here,
        log.action,
        rest,
        log.at_points,
        log.tests,
        weights[..., :-1],
        weights[..., -1],
        np.asarray(level),
        roots,
        start,
        off.T @ off / len(off),
        np.asarray(float(len(off))),
        prior,
    )


def linear_policy_belief(
    beliefs: FeatureBeliefs, policy: Float[Any, "P A"], gamma: float
) -> LinearPolicyBelief:
    """Mean and variance of a fixed policy's value, to first order in what is not known.

    Parameters
    ----------
    beliefs
        The completed log.
    policy
        Probabilities at the points, shape (P, A).
    gamma
        Discount in [0, 1).
    """
    xp = library_of(beliefs.moves, policy)
    moves, reward = beliefs.flow_parts(policy)
    moves = without_growth(moves)
    system = xp.eye(len(moves)) - gamma * moves
    value = xp.linalg.solve(system, reward)
    states = (1.0 - gamma) * xp.linalg.solve(system.T, beliefs.start)
    expectations = beliefs.expectations(policy, states)
    squares, imaginary = _squares(beliefs, value, gamma)
    loads = xp.einsum("akl,al->ak", beliefs.root, expectations)
    rows = (beliefs.here * loads[beliefs.action]).sum(axis=1)
    variance = (rows**2 * squares).sum() + (loads**2 * imaginary).sum()
    variance = variance + value @ beliefs.start_noise(gamma) @ value
    pulls = xp.stack(
        [
            beliefs.here.T @ xp.where(beliefs.action == action, rows * squares, 0.0)
            for action in range(len(loads))
        ]
    )
    slope = xp.einsum("akl,al->ak", beliefs.root, pulls + imaginary * loads)
    return LinearPolicyBelief(states @ reward, variance, expectations, value, slope)


def without_growth(moves: Float[np.ndarray, "c c"]) -> Float[np.ndarray, "c c"]:
    """Moves in which nothing grows: eigenvalues outside the unit circle are put back on it.

    Probabilities cannot grow, but a linear model of them may, as a little beyond one is easily
    estimated where one is the truth. Of what does not grow nothing is changed.

    Parameters
    ----------
    moves
        T, from `FeatureBeliefs.flow_parts`, as NumPy's array.
    """
    sizes, axes = np.linalg.eig(moves)
    growth = np.abs(sizes)
    if growth.max() <= 1.0 + _GROWTH:
        return moves
    kept = np.where(growth > 1.0, sizes / np.maximum(growth, 1.0), sizes)
    found: Float[np.ndarray, "c c"] = np.linalg.solve(axes.T, (axes * kept).T).T.real
    return found


def prediction_covariance(
    beliefs: FeatureBeliefs, value: Float[Any, " c"], gamma: float
) -> Float[Any, "A k k"]:
    """Covariance of the weights of r + gamma V(s') for each action, shape (A, k, k).

    Parameters
    ----------
    beliefs
        The completed log.
    value
        Weights of V in the tests, shape (c,).
    gamma
        Discount.
    """
    xp = library_of(beliefs.here, value)
    squares, imaginary = _squares(beliefs, value, gamma)
    found = []
    for action, root in enumerate(beliefs.root):
        here = beliefs.here * xp.where(beliefs.action == action, xp.sqrt(squares), 0.0)[:, None]
        found.append(root @ (here.T @ here + xp.diag(imaginary[action])) @ root)
    return xp.stack(found)


def _squares(
    beliefs: FeatureBeliefs, value: Float[Any, " c"], gamma: float
) -> tuple[Float[Any, " n"], Float[Any, "A k"]]:
    """Squared distance of r + gamma V(s') to its mean, of each row and each imaginary step."""
    xp = library_of(beliefs.rest, value)
    rows = beliefs.rest @ xp.append(gamma * value, 1.0)
    weights = beliefs.reward + gamma * beliefs.moves @ value
    base = beliefs.prior.variance + gamma**2 * (value[1:] ** 2).sum()
    return rows**2, beliefs.prior.weight * (base + weights**2)
