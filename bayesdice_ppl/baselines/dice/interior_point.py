"""The saddle point of a quadratic function under bounds: some combinations may not be negative.

It is a linear complementarity problem, solved by a primal-dual interior-point method. Each step is
a linear system with the matrix of the problem without bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from jaxtyping import Float

from bayesdice_ppl.errors import LogsError

MOST_STEPS = 100
GAP = 1e-10
"""Residuals and complementarity at which the interior-point method stops."""
_ENDLESS = 1e16
"""Multipliers that only contradictory constraints have."""
_MET = 1e-7
"""How well bound and normalization must hold then, for a ratio of about 1."""


def interior_point(
    matrix: Any, right: Float[np.ndarray, " M"], values: Any
) -> Float[np.ndarray, " M"]:
    """Saddle point at which some combinations of its first variables are at least 0.

    Parameters
    ----------
    matrix, right
        Stationarity without bounds, matrix x + right = 0, sparse or dense, shapes (M, M) and (M,):
        first K variables that maximize, then K that minimize, then multipliers.
    values
        The combinations of the first K variables, shape (P, K).

    Notes
    -----
    Mehrotra's predictor and corrector on values x = s >= 0 with multipliers y >= 0.

    Raises
    ------
    LogsError
        No such point is found.
    """
    size = values.shape[1]
    x = np.zeros(len(right))
    slack, price = np.ones(values.shape[0]), np.ones(values.shape[0])
    for _ in range(MOST_STEPS):
        stationary = matrix @ x + right
        stationary[:size] += values.T @ price
        primal = values @ x[:size] - slack
        gap = float(slack @ price) / len(slack)
        # Where constraints nearly contradict each other, multipliers grow, and rounding errors with
        # them. What the ratio itself has to satisfy is measured without them.
        scale = 1.0 + max(np.abs(x).max(), price.max())
        of_ratio = max(np.abs(primal).max(), np.abs(stationary[2 * size :]).max())
        met = of_ratio <= _MET * (1.0 + np.abs(x[:size]).max())
        if met and np.abs(stationary).max() <= GAP * scale and gap <= GAP * scale:
            return x
        if scale > _ENDLESS:
            break
        bent = _with_barrier(matrix, values, price / slack, size)
        # Mehrotra: first the step to the solution, then as much centering as that step needs.
        affine = _direction(bent, stationary, primal, slack, price, -slack * price, values, size)
        reach = _reach(slack, affine[1], price, affine[2], 1.0)
        ahead = (slack + reach * affine[1]) @ (price + reach * affine[2]) / len(slack)
        centering = (ahead / gap) ** 3 * gap
        target = centering - slack * price - affine[1] * affine[2]
        dx, ds, dy = _direction(bent, stationary, primal, slack, price, target, values, size)
        reach = _reach(slack, ds, price, dy, 0.995)
        x, slack, price = x + reach * dx, slack + reach * ds, price + reach * dy
    raise LogsError(
        "zeta_positive: no saddle point with a ratio of at least 0 was found on this log, as the "
        "features allow none or few. Use zeta_positive=False, more ridge, or other features."
    )


def _with_barrier(matrix: Any, values: Any, curvature: np.ndarray, size: int) -> Any:
    """A solver of the system with the bounds' curvature added to the ratio's block."""
    extra = values.T @ (
        scipy.sparse.diags_array(curvature) @ values
        if scipy.sparse.issparse(values)
        else curvature[:, None] * values
    )
    if scipy.sparse.issparse(matrix):
        grown = scipy.sparse.coo_array(extra)
        grown = scipy.sparse.coo_array((grown.data, (grown.row, grown.col)), shape=matrix.shape)
        return scipy.sparse.linalg.splu(scipy.sparse.csc_array(matrix - grown)).solve
    bent = matrix.copy()
    bent[:size, :size] -= extra.toarray() if scipy.sparse.issparse(extra) else extra
    factor = scipy.linalg.lu_factor(bent, check_finite=False)
    return lambda b: scipy.linalg.lu_solve(factor, b, check_finite=False)


def _direction(
    solve: Any,
    stationary: Float[np.ndarray, " M"],
    primal: Float[np.ndarray, " P"],
    slack: Float[np.ndarray, " P"],
    price: Float[np.ndarray, " P"],
    target: Float[np.ndarray, " P"],
    values: Any,
    size: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Newton's step toward slack * price = what is held now plus target."""
    right = -stationary
    right[:size] -= values.T @ ((target - price * primal) / slack)
    dx = solve(right)
    ds = values @ dx[:size] + primal
    return dx, ds, (target - price * ds) / slack


def _reach(
    slack: np.ndarray, ds: np.ndarray, price: np.ndarray, dy: np.ndarray, share: float
) -> float:
    """The longest step, at most 1, that keeps both positive."""
    ratios = np.concatenate([ds / slack, dy / price])
    worst = float(ratios.min())
    return 1.0 if worst >= -share else -share / worst
