"""The closed form of the value alone: weights of thousands of pairs, eliminated and never drawn.

Under the identity link the residual is affine in Gaussian weights and the value. Conditioned on its
test rows, the value's row says one thing: an estimate of the value with a variance. That takes one
symmetric system in the test rows, with two right-hand sides. It is solved by conjugate gradients,
with the flow of the policy itself as the preconditioner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, final

import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from bayesdice_ppl.arrays import library_of
from bayesdice_ppl.constraint import QuadraticLoss, SparseCovariance
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.models.flow import PolicyFlow
from bayesdice_ppl.models.gaussian import GaussianPosterior, unit_solve
from bayesdice_ppl.moments import NEARLY_ONE, VALUE_ROW, Prior, SparseMoments

TOLERANCE = 1e-12
"""Size of the residual, over that of the right-hand side, at which conjugate gradients stop."""
_ENOUGH = 1e-7
"""Size that is small enough where rounding lets it get no smaller."""
_UNMET = 1e-7
"""Share of the residual that no weights take away, from which a test row is unmet."""
_MOST_FACTORED = 6000
"""Pairs of a policy that loses mass, past which its system is too large to be factored."""
_PATIENCE = 50
"""Steps without a smaller residual after which a column is as good as it gets."""
MOST_STEPS = 5000
"""Steps after which they have failed."""

_Operator = Callable[[Float[np.ndarray, "B k"]], Float[np.ndarray, "B k"]]


class Solve(Protocol):
    """Solves the system in the test rows; to a tolerance if it searches, else to rounding."""

    def __call__(
        self, right: Float[np.ndarray, "B k"], tolerance: float = TOLERANCE
    ) -> Float[np.ndarray, "B k"]:
        """The solution for each column."""
        ...


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
    unmet
        Whether some test row holds for no weights at all: mass is lost.
    """

    estimate: float
    variance: float
    tests: Float[np.ndarray, " B"]
    weights: Float[np.ndarray, " A"]
    value: float
    solve: Solve
    pull: Float[np.ndarray, " B1"]
    unmet: bool


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
    """Priors for one policy; see `Prior.of_pairs`.

    Parameters
    ----------
    moments
        The policy's.
    visits
        Transitions of each logged pair, shape (P,).
    n
        Transitions in all.
    prior
        The widths.
    """
    sd = np.asarray(prior.of_pairs(visits[moments.pairs], n))
    return WeightPrior(sd**2, moments.reward_mean, moments.reward_scale * prior.value_sd)


def eliminate(
    flow: PolicyFlow,
    covariance: SparseCovariance,
    n: float,
    prior: WeightPrior,
    *,
    shift: float = 0.0,
) -> Eliminated:
    """Condition on the test rows, with noise Sigma / n.

    Parameters
    ----------
    flow
        The test rows of one policy's moments.
    covariance
        Sigma at a ratio.
    n
        Price of the constraint: the number of transitions, for a calibrated belief.
    prior
        Priors of the weights and the value.
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
    moments, variance = flow.moments, prior.variance
    b = moments.value_mass
    tests, at_one = moments.residual(np.ones(len(b)))
    right = np.stack([flow.times(variance * b) + covariance.cross / n, tests], axis=1)
    searched = len(tests) == len(b) or flow.redundant
    if not searched and len(b) > _MOST_FACTORED:
        raise SettingsError(
            f"gamma: expected at most {NEARLY_ONE}, found one above it, for a candidate that gets "
            f"to states in which none of its actions were logged, and {len(b):,} pairs. Leave the "
            "candidate out, or use a smaller gamma."
        )
    solve = (_searched if searched else _factored)(flow, covariance, n, variance)
    y, x = solve(right).T
    left = b - flow.transposed(y)
    noise = float(left @ (variance * left)) + covariance.variance(-y) / n
    estimate = at_one + shift - float(y @ tests)
    pull = (estimate - prior.mean) / (noise + prior.sd**2)
    rows = x - y * pull
    weights = 1.0 - variance * (flow.transposed(rows) + b * pull)
    value = prior.mean + prior.sd**2 * pull
    unmet = False
    if not searched:
        left_over = flow.times(variance * flow.transposed(x)) + covariance.times(x) / n - tests
        unmet = bool(np.abs(left_over).max() > _UNMET * np.abs(tests).max())
    return Eliminated(estimate, noise, y, weights, value, solve, np.append(rows, pull), unmet)


def _factored(
    flow: PolicyFlow,
    covariance: SparseCovariance,
    n: float,
    variance: Float[np.ndarray, " A"],
) -> Solve:
    """Solve by factors of the system on a unit diagonal, where the flow loses mass at gamma = 1."""
    matrix = flow.dense()
    system = matrix @ (variance[:, None] * matrix.T) + covariance.dense() / n
    diagonal = np.diagonal(system)
    scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    unit = system * scale[:, None] * scale

    def solve(
        right: Float[np.ndarray, "B k"], tolerance: float = TOLERANCE
    ) -> Float[np.ndarray, "B k"]:
        found: np.ndarray = unit_solve(unit, right * scale[:, None]) * scale[:, None]
        return found

    return solve


def _searched(
    flow: PolicyFlow,
    covariance: SparseCovariance,
    n: float,
    variance: Float[np.ndarray, " A"],
) -> Solve:
    """Solve by conjugate gradients; with G^-1' P0^-1 G^-1 for A^-1, a few steps are enough.

    A is G P0 G' but for the noise, which is much smaller where the log says more than the prior.
    """
    precision, size = (1.0 / variance)[:, None], len(variance)
    # The normalization, where it has a row of its own, is the last.
    others = flow.dense(slice(size, None))
    of_others = (others**2 @ variance + covariance.diagonal[size:] / n)[:, None]

    def told_apart(x: Float[np.ndarray, "B k"]) -> Float[np.ndarray, "B k"]:
        """Leave out the sum of the rows of the pairs, where the normalization says it again."""
        if not flow.redundant:
            return x
        return np.concatenate([x[:size] - x[:size].mean(axis=0), x[size:]])

    def times(x: Float[np.ndarray, "B k"]) -> Float[np.ndarray, "B k"]:
        found: np.ndarray = flow.times(variance[:, None] * flow.transposed(x))
        return told_apart(found + covariance.times(x) / n)

    def precondition(x: Float[np.ndarray, "B k"]) -> Float[np.ndarray, "B k"]:
        inside = flow.solve(precision * flow.solve(x[:size]), transposed=True)
        return told_apart(np.concatenate([inside, x[size:] / of_others]))

    def solve(
        right: Float[np.ndarray, "B k"], tolerance: float = TOLERANCE
    ) -> Float[np.ndarray, "B k"]:
        return conjugate_gradients(times, precondition, told_apart(right), tolerance)

    return solve


def conjugate_gradients(
    times: _Operator,
    precondition: _Operator,
    right: Float[np.ndarray, "B k"],
    tolerance: float = TOLERANCE,
) -> Float[np.ndarray, "B k"]:
    """Solve A x = right for each column, A symmetric and positive semidefinite.

    Parameters
    ----------
    times, precondition
        A, and an approximation of its inverse that is symmetric and positive definite.
    right
        The right-hand sides, in the range of A.
    tolerance
        Size of the residual, over that of the right-hand side, at which a column is done.

    Raises
    ------
    SettingsError
        A column stops far from its tolerance.
    """
    x = closest = np.zeros_like(right)
    left = right.copy()
    moved = precondition(left)
    direction = moved.copy()
    energy = (left * moved).sum(axis=0)
    first, best, since = energy, energy, np.zeros(len(energy))
    for _ in range(MOST_STEPS):
        # Rounding may hold a column just above the tolerance.
        going = (energy > tolerance**2 * first) & (since < _PATIENCE)
        if not going.any():
            break
        image = times(direction)
        curvature = (direction * image).sum(axis=0)
        step = np.where(going, energy / np.where(curvature > 0.0, curvature, 1.0), 0.0)
        x = x + direction * step
        left -= image * step
        moved = precondition(left)
        again = (left * moved).sum(axis=0)
        direction = moved + direction * np.where(going, again / np.where(going, energy, 1.0), 0.0)
        energy = np.where(going, again, energy)
        better = energy < best
        since = np.where(better, 0.0, since + 1.0)
        best, closest = np.minimum(energy, best), np.where(better, x, closest)
    if not np.all(best <= max(_ENOUGH, tolerance) ** 2 * first):
        raise SettingsError(
            "gamma, prior: expected values that conjugate gradients find, found some that they do "
            "not. Use numerics=bd.Numerics(weights=True), which factors the whole system, or a "
            "smaller gamma or a wider prior."
        )
    return closest


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
    free, scale
        The loss under the posterior is a chi-square of so many degrees of freedom, times a scale,
        in units of 1 / (2 price).
    pulled
        How far the prior pulls the residual from zero: its squared length in units of Sigma / n.
    """

    estimate: Float[Any, ""]
    variance: Float[Any, ""]
    base: Float[Any, ""]
    prior_mean: Float[Any, ""]
    prior_sd: Float[Any, ""]
    rank: Float[Any, ""]
    free: Float[Any, ""]
    scale: Float[Any, ""]
    pulled: Float[Any, ""]

    def loss(self, price: float) -> QuadraticLoss:
        """The loss under the posterior, by the first two moments of its weights.

        Parameters
        ----------
        price
            lambda / epsilon.
        """
        shifts = np.zeros(max(round(float(self.free)), 1))
        scale = float(self.scale)
        shifts[0] = np.sqrt(float(self.pulled) / scale)
        return QuadraticLoss(np.full(len(shifts), scale / price), shifts, 0.0)

    def value_prior(self) -> dist.Distribution:
        """A normal around the mean reward of the log."""
        return dist.Normal(self.prior_mean, self.prior_sd)

    def posterior(
        self,
        covariance: Float[Any, "1 1"],
        price: Float[Any, ""],
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
