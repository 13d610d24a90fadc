"""The closed form of the value alone: weights of thousands of pairs, eliminated and never drawn.

Under the identity link the residual is affine in Gaussian weights and the value. Conditioned on its
test rows, the value's row says one thing: an estimate of the value with a variance. That takes one
symmetric system in the test rows, with two right-hand sides. Small systems are factored. Large ones
are solved by conjugate gradients, with the flow of the policy itself as the preconditioner.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, final

import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from scipy.sparse import csc_array, csr_array, diags_array, eye_array
from scipy.sparse.linalg import splu

from bayesdice_ppl.arrays import cholesky, library_of, solve_lower
from bayesdice_ppl.constraint import QuadraticLoss, SparseCovariance
from bayesdice_ppl.models.gaussian import JITTER, GaussianPosterior
from bayesdice_ppl.moments import VALUE_ROW, Prior, SparseMoments

LARGE = 100
"""Test rows from which a system is solved by conjugate gradients, and not factored."""
_RETURN = 0.999
"""Discount of the flow in the preconditioner, at most: at 1 its inverse does not exist."""
_DENSE_STATES = 3000
"""States up to which the preconditioner is factored as a dense matrix."""
_TOLERANCE = 1e-13
"""Size of the residual, over that of the right-hand side, at which conjugate gradients stop."""
_MOST_STEPS = 1000

Solve = Callable[[Float[np.ndarray, "B k"]], Float[np.ndarray, "B k"]]


class Eliminated(NamedTuple):
    """What is left of a residual when its test rows are conditioned on.

    Attributes
    ----------
    estimate, variance
        What the value's row says of the value, and how well: estimate = value + noise. Scalars.
    tests
        The combination of the test rows that the value's row is compared with, shape (B,): the
        action values of the policy, seen through the tests.
    weights
        Posterior means of the weights, shape (A,).
    value
        Posterior mean of the value.
    solve
        Solves the system in the test rows.
    pull
        The solution for the residual at the prior's mean, all rows, shape (B + 1,).
    """

    estimate: float
    variance: float
    tests: Float[np.ndarray, " B"]
    weights: Float[np.ndarray, " A"]
    value: float
    solve: Solve
    pull: Float[np.ndarray, " B1"]


class WeightPrior(NamedTuple):
    """Priors of one policy's weights, around one, and of its value.

    Attributes
    ----------
    variance
        Of each weight, shape (A,).
    mean, sd
        Of the value.
    """

    variance: Float[np.ndarray, " A"]
    mean: float
    sd: float


def weight_prior(
    moments: SparseMoments, visits: Float[np.ndarray, " P"], n: float, prior: Prior
) -> WeightPrior:
    """Priors for one policy; see `Prior.of_pairs`."""
    sd = np.asarray(prior.of_pairs(visits[moments.pairs], n))
    return WeightPrior(sd**2, moments.reward_mean, moments.reward_scale * prior.value_sd)


def eliminate(
    moments: SparseMoments,
    covariance: SparseCovariance,
    n: float,
    prior: WeightPrior,
    *,
    gamma: float,
    shift: float = 0.0,
) -> Eliminated:
    """Condition on the test rows, with noise Sigma / n.

    Parameters
    ----------
    moments, covariance
        One policy's moments, and Sigma at a ratio.
    n
        Price of the constraint: the number of transitions, for a calibrated belief.
    prior
        Priors of the weights and the value.
    gamma
        Discount.
    shift
        What is added to the value's row.

    Notes
    -----
    With P0 the prior covariance of the weights, G the test rows of the matrix and b the value's::

        A = G P0 G' + Sigma / n
        y = A^-1 (G P0 b + Sigma_v / n)
        estimate = b'1 + c_v - y'(G 1 + c)
        variance = (b - G'y)' P0 (b - G'y) + Var(value's row - y'tests) / n

    The variance is least at this y, so that an error in y counts squared.
    """
    variance, flow, fresh = prior.variance, moments.flow, moments.fresh_mass
    start, b = moments.start, moments.value_mass

    def forward(x: Float[np.ndarray, "A *k"]) -> Float[np.ndarray, "B *k"]:
        found: np.ndarray = flow.T @ x
        return found + _outer(start, fresh @ x)

    def backward(y: Float[np.ndarray, "B *k"]) -> Float[np.ndarray, "A *k"]:
        found: np.ndarray = flow @ y
        return found + _outer(fresh, start @ y)

    tests, own = moments.residual(np.ones(len(b)))
    own += shift
    right = np.stack([forward(variance * b) + covariance.cross / n, tests], axis=1)
    solve: Solve
    if len(b) > LARGE:
        inverse = _flow_inverse(moments, gamma)
        precision = (1.0 / variance)[:, None]
        # The normalization, where it has a row of its own, is the last.
        last = moments.flow[:, [len(b)]].toarray()[:, 0] if len(start) > len(b) else None

        def times(x: Float[np.ndarray, "B k"]) -> Float[np.ndarray, "B k"]:
            return forward(variance[:, None] * backward(x)) + covariance.times(x) / n

        def precondition(x: Float[np.ndarray, "B k"]) -> Float[np.ndarray, "B k"]:
            found = inverse(precision * inverse(x[: len(b)], False), True)
            if last is None:
                return found
            own = float(last @ (variance * last)) + covariance.diagonal[-1] / n
            return np.concatenate([found, x[len(b) :] / own])

        solve = partial(conjugate_gradients, times, precondition)
    else:
        solve = _factored(moments, covariance, n, variance)
    solved = solve(right)
    y, x = solved[:, 0], solved[:, 1]
    if moments.conserved:
        # Action values are known up to a constant, and those with a mean of zero are taken.
        y[: len(b)] -= y[: len(b)].mean()
    left = b - backward(y)
    noise = float(left @ (variance * left)) + covariance.variance(-y) / n
    estimate = own - float(y @ tests)
    pull = (estimate - prior.mean) / (noise + prior.sd**2)
    rows = x - y * pull
    weights = 1.0 - variance * (backward(rows) + b * pull)
    value = prior.mean + prior.sd**2 * pull
    return Eliminated(estimate, noise, y, weights, value, solve, np.append(rows, pull))


def _outer(x: Float[np.ndarray, " B"], y: Float[np.ndarray, "*k"]) -> Float[np.ndarray, "B *k"]:
    found: np.ndarray = np.multiply.outer(x, y)
    return found


def _factored(
    moments: SparseMoments,
    covariance: SparseCovariance,
    n: float,
    variance: Float[np.ndarray, " A"],
) -> Solve:
    """Solve by a Cholesky factor of the system on a unit diagonal."""
    flow, fresh, start = moments.flow, moments.fresh_mass, moments.start
    if flow.nnz > 0.1 * flow.shape[0] * flow.shape[1]:
        matrix = flow.toarray() + np.multiply.outer(fresh, start)
        spread = matrix.T @ (variance[:, None] * matrix)
    else:
        spread = (flow.T @ (diags_array(variance) @ flow)).toarray()
        side = np.asarray(flow.T @ (variance * fresh))
        spread += np.multiply.outer(side, start) + np.multiply.outer(start, side)
        spread += float(fresh @ (variance * fresh)) * np.multiply.outer(start, start)
    system = spread + covariance.dense() / n
    diagonal = np.diagonal(system)
    scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    system = system * scale[:, None] * scale
    system[np.diag_indices(len(scale))] = np.where(scale > 0.0, 1.0 + JITTER, 1.0)
    factor = cholesky(system)

    def solve(right: Float[np.ndarray, "B k"]) -> Float[np.ndarray, "B k"]:
        half = solve_lower(factor, right * scale[:, None])
        found: np.ndarray = solve_lower(factor, half, transposed=True) * scale[:, None]
        return found

    return solve


def _flow_inverse(moments: SparseMoments, gamma: float) -> Callable[..., Float[np.ndarray, "B k"]]:
    """A function that solves G x = b, or G'x = b, for the test rows G of the matrix.

    Notes
    -----
    G = Phi'H - N. N has the share of each pair in the log, H the flow from each pair into each
    state, and Phi the policy's probability of each pair in its state. With T = H N^-1 Phi' the
    solution takes one system in the states, I - T.
    """
    n_pairs, n_states = len(moments.pairs), int(moments.state.max()) + 1
    mass, place = moments.mass[:, None], np.arange(len(moments.pairs))
    phi = csr_array((moments.target, (moments.state, place)), shape=(n_states, n_pairs))
    if gamma == 0.0:
        return lambda right, transposed: -right / mass
    # The flow of a pair, less its own entry, is spread over the actions of each state; its sum over
    # them is the flow into the state.
    damp = min(1.0, _RETURN / gamma)
    out = moments.flow[:, :n_pairs] + diags_array(mass[:, 0])
    member = csr_array((np.ones(n_pairs), (place, moments.state)), shape=(n_pairs, n_states))
    into = csr_array((out @ member).T) * damp
    states = moments.start[:n_pairs] @ member
    step = csc_array(into @ diags_array(1.0 / mass[:, 0]) @ phi.T)
    fresh = moments.fresh_mass * damp
    again = np.asarray(phi @ (fresh / mass[:, 0]))
    if n_states <= _DENSE_STATES:
        from scipy.linalg import lu_factor, lu_solve

        whole = np.eye(n_states) - step.toarray() - np.multiply.outer(states, again)
        parts = lu_factor(whole, check_finite=False)

        def inner(right: np.ndarray, transposed: bool) -> np.ndarray:
            return np.asarray(lu_solve(parts, right, trans=int(transposed), check_finite=False))

    else:
        sparse = splu(csc_array(eye_array(n_states) - step))
        side = {False: sparse.solve(states), True: sparse.solve(again, trans="T")}
        gain = 1.0 - float(again @ side[False])

        def inner(right: np.ndarray, transposed: bool) -> np.ndarray:
            found = sparse.solve(right, trans="T" if transposed else "N")
            row = states if transposed else again
            return found + np.multiply.outer(side[transposed], (row @ found) / gain)

    def flows(x: np.ndarray) -> np.ndarray:
        return into @ x + np.multiply.outer(states, fresh @ x)

    def back(x: np.ndarray) -> np.ndarray:
        return into.T @ x + np.multiply.outer(fresh, states @ x)

    def solve(right: Float[np.ndarray, "B k"], transposed: bool) -> Float[np.ndarray, "B k"]:
        if not transposed:
            # x = N^-1 (Phi'h - b) with (I - T) h = -H N^-1 b.
            h = inner(-flows(right / mass), False)
            found: np.ndarray = (phi.T @ h - right) / mass
            return found
        # G'x = H'Phi x - N x = b: x = N^-1 (H'g - b) with (I - T') g = -Phi N^-1 b.
        g = inner(-(phi @ (right / mass)), True)
        found = (back(g) - right) / mass
        return found

    return solve


def conjugate_gradients(
    times: Solve, precondition: Solve, right: Float[np.ndarray, "B k"]
) -> Float[np.ndarray, "B k"]:
    """Solve A x = right for each column, A symmetric and positive semidefinite.

    Parameters
    ----------
    times, precondition
        A, and an approximation of its inverse that is symmetric and positive definite.
    right
        The right-hand sides, in the range of A.
    """
    x = np.zeros_like(right)
    left = right.copy()
    moved = precondition(left)
    direction = moved.copy()
    energy = (left * moved).sum(axis=0)
    least = _TOLERANCE**2 * energy
    for _ in range(_MOST_STEPS):
        going = energy > least
        if not going.any():
            break
        image = times(direction)
        curvature = (direction * image).sum(axis=0)
        step = np.where(going, energy / np.where(curvature > 0.0, curvature, 1.0), 0.0)
        x += direction * step
        left -= image * step
        moved = precondition(left)
        again = (left * moved).sum(axis=0)
        direction = moved + direction * np.where(going, again / np.where(going, energy, 1.0), 0.0)
        energy = np.where(going, again, energy)
    return x


@final
class ValueAlone(NamedTuple):
    """A linear ratio of which only the value is left; its residual has the value's row alone.

    Attributes
    ----------
    estimate, variance
        From `eliminate`, at the covariance that was frozen.
    base
        The entry of Sigma, seen along the action values, that belongs to ``variance``. What is
        added to it later adds to the variance.
    prior_mean, prior_sd
        Prior of the value.
    rank
        Rows of the residual that vary.
    free
        Rows whose posterior the log decides, rather than the prior: the degrees of freedom of the
        loss under the posterior.
    pulled
        How far the prior pulls the residual from zero: its squared length in units of Sigma / n.
    """

    estimate: Float[np.ndarray, ""]
    variance: Float[np.ndarray, ""]
    base: Float[np.ndarray, ""]
    prior_mean: Float[np.ndarray, ""]
    prior_sd: Float[np.ndarray, ""]
    rank: Float[np.ndarray, ""]
    free: Float[np.ndarray, ""]
    pulled: Float[np.ndarray, ""]

    def loss(self, price: float) -> QuadraticLoss:
        """The loss under the posterior, near enough for hundreds of rows.

        Parameters
        ----------
        price
            lambda / epsilon.
        """
        shifts = np.zeros(max(round(float(self.free)), 1))
        shifts[0] = np.sqrt(float(self.pulled))
        return QuadraticLoss(np.full(len(shifts), 1.0 / price), shifts, 0.0)

    def value_prior(self) -> dist.Distribution:
        """A normal around the mean reward of the log."""
        return dist.Normal(self.prior_mean, self.prior_sd)

    def posterior(
        self,
        covariance: Float[np.ndarray, "1 1"],
        price: Float[np.ndarray, ""],
        *,
        value_constraint: bool = True,
    ) -> GaussianPosterior:
        """Closed form of the posterior of the value, with the value constraint."""
        xp = library_of(covariance)
        more = (covariance[VALUE_ROW, VALUE_ROW] - self.base) / price
        noise = xp.maximum(self.variance + more, 0.0)
        prior = self.prior_sd**2
        share = prior / (prior + noise)
        mean = self.prior_mean + share * (self.estimate - self.prior_mean)
        return GaussianPosterior(mean[None], xp.sqrt(noise * share)[None, None])
