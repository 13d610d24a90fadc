"""Linear clones on vector states: a softmax of linear scores, a Gaussian around a linear mean.

Both are fitted in float64 to their exact optimum. A policy of such a form is found as closely as
the log allows; a network starts from here and learns what is left.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

RIDGE = 1e-3
"""Precision of the prior on each weight of a standardized coordinate: it only settles what the log
leaves open, such as two coordinates that are one."""


@final
class Standard(NamedTuple):
    """Coordinates of states, shifted and scaled to mean 0 and variance 1 in the log.

    Attributes
    ----------
    center, scale
        Shape (p,). The scale of a coordinate that never changes is 1.
    """

    center: Float[np.ndarray, " p"]
    scale: Float[np.ndarray, " p"]

    @classmethod
    def of(cls, values: Float[np.ndarray, "n p"]) -> Standard:
        """Of the rows of a log."""
        scale = values.std(axis=0)
        varies = np.ptp(values, axis=0) > 0.0
        return cls(values.mean(axis=0), np.where(varies & (scale > 0.0), scale, 1.0))

    def __call__(self, values: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b p"]:
        """Bring states to these coordinates."""
        return (np.asarray(values, dtype=np.float64) - self.center) / self.scale


@final
class LinearGaussian(NamedTuple):
    """Independent normal actions of constant spread around a linear mean.

    Attributes
    ----------
    constant
        Shape (q,).
    weights
        Of standardized coordinates, shape (p, q).
    sd
        Shape (q,).
    """

    constant: Float[np.ndarray, " q"]
    weights: Float[np.ndarray, "p q"]
    sd: Float[np.ndarray, " q"]

    def mean(self, x: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b q"]:
        """Mean actions in states of standardized coordinates."""
        return self.constant + x @ self.weights


def fit_linear_gaussian(
    x: Float[np.ndarray, "n p"], action: Float[np.ndarray, "n q"], train: Bool[np.ndarray, " n"]
) -> LinearGaussian:
    """Least squares on some rows; the variance is that of the residuals per degree of freedom."""
    seen, y = x[train], action[train]
    center, level = seen.mean(axis=0), y.mean(axis=0)
    z = seen - center
    weights = np.linalg.solve(z.T @ z + RIDGE * np.eye(z.shape[1]), z.T @ (y - level))
    residual = y - level - z @ weights
    freedom = max(len(y) - 1 - int(np.sum(np.ptp(seen, axis=0) > 0.0)), 1)
    sd = np.sqrt(np.sum(residual**2, axis=0) / freedom)
    return LinearGaussian(level - center @ weights, weights, sd)


@final
class LinearSoftmax(NamedTuple):
    """Probabilities in proportion to the exponentials of linear scores.

    Attributes
    ----------
    constant
        Shape (A,).
    weights
        Of standardized coordinates, shape (p, A).
    """

    constant: Float[np.ndarray, " A"]
    weights: Float[np.ndarray, "p A"]

    def scores(self, x: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b A"]:
        """Scores in states of standardized coordinates; their softmax are the probabilities."""
        return self.constant + x @ self.weights


def fit_linear_softmax(
    x: Float[np.ndarray, "n p"],
    action: Int[np.ndarray, " n"],
    n_actions: int,
    train: Bool[np.ndarray, " n"],
    start: LinearSoftmax | None = None,
) -> LinearSoftmax:
    """Maximum likelihood on some rows, by L-BFGS on a convex objective."""
    seen, taken = x[train], action[train]
    n, p = seen.shape
    once = np.zeros((n, n_actions))
    once[np.arange(n), taken] = 1.0

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        theta = flat.reshape(p + 1, n_actions)
        scores = theta[0] + seen @ theta[1:]
        miss = (softmax(scores, axis=1) - once) / n
        loss = -np.mean(log_softmax(scores, axis=1)[np.arange(n), taken])
        loss += 0.5 * RIDGE / n * np.sum(theta**2)
        gradient = np.vstack([miss.sum(axis=0), seen.T @ miss]) + RIDGE / n * theta
        return float(loss), gradient.ravel()

    first = np.zeros((p + 1, n_actions)) if start is None else np.vstack(start)
    found = minimize(
        objective,
        first.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 1_000, "gtol": 1e-7, "ftol": 1e-13},
    )
    theta = found.x.reshape(p + 1, n_actions)
    return LinearSoftmax(theta[0], theta[1:])
