"""The Lagrangian of a policy's value, quadratic in a ratio and in a Q, and its saddle point.

Ratio and Q are linear in features: one-hot over the logged pairs for labels, the same features for
both otherwise. Without bounds the saddle point is one linear system. With a ratio held at or above
0 on what was logged, a primal-dual interior-point method finds it by a series of such systems.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from jaxtyping import Float

from bayesdice_ppl.baselines.dice.interior_point import interior_point
from bayesdice_ppl.baselines.rows import LabelRows, Rows

DENSE_SIZE = 1000
"""Most unknowns for which a system is solved as a dense one."""


@final
class Blocks(NamedTuple):
    """Means over the log of which the Lagrangian is made, for K features of ratio and Q.

    Attributes
    ----------
    gram
        E[phi phi'], shape (K, K).
    move
        E[phi (gamma onward phi' - phi)'], shape (K, K); phi' stands for phi(s', pi).
    ended
        gamma E[phi ended] where terminations restart, else 0, shape (K,).
    mass
        E[phi (1 + absorbed steps that a termination stands for)], shape (K,).
    reward
        E[phi r], shape (K,).
    start
        Mean of phi(s0, pi) over episodes, shape (K,).
    values
        phi at the logged pairs, shape (P, K).
    k
        Ridge on either side.
    gamma
        Discount.
    """

    gram: Any
    move: Any
    ended: Float[np.ndarray, " K"]
    mass: Float[np.ndarray, " K"]
    reward: Float[np.ndarray, " K"]
    start: Float[np.ndarray, " K"]
    values: Any
    k: float
    gamma: float


@final
class Switches(NamedTuple):
    """Which Lagrangian; see `bayesdice_ppl.baselines.dice.lagrangian_dice.LagrangianDice`."""

    primal_regularizer: float
    dual_regularizer: float
    zeta_positive: bool
    normalization: bool
    normalization_slack: float
    zero_reward: bool


@final
class Saddle(NamedTuple):
    """A saddle point.

    Attributes
    ----------
    zeta, q
        Weights of ratio and Q, shapes (K,).
    start_value
        Mean Q of a start.
    multiplier
        Of the normalization, 0 without one.
    """

    zeta: Float[np.ndarray, " K"]
    q: Float[np.ndarray, " K"]
    start_value: float
    multiplier: float


def make_blocks(rows: Rows, ridge: float | None) -> Blocks:
    """Means of a log, with a ridge in transitions on ratio and Q; None: the rows' default."""
    step = rows.step
    ridge = rows.default_ridge if ridge is None else ridge
    weight, gamma, mass = step.weight, step.gamma, step.mass
    ended = gamma * step.restart * step.ended
    start = step.start_weight
    if isinstance(rows, LabelRows):
        # Only the logged pairs have a weight.
        kept, pair = np.unique(step.pair, return_inverse=True)
        size, s = len(kept), rows.n_states
        probability = np.zeros(size)
        probability[pair] = rows.probability
        state = kept // rows.n_actions
        policy = scipy.sparse.csr_array((probability, (state, np.arange(size))), shape=(s, size))
        onward = weight * gamma * step.onward
        following = scipy.sparse.csr_array((onward, (pair, step.following)), shape=(size, s))
        visits = np.bincount(pair, weight, size)
        gram = scipy.sparse.diags_array(visits)
        return Blocks(
            gram=gram,
            move=following @ policy - gram,
            ended=np.bincount(pair, weight * ended, size),
            mass=np.bincount(pair, weight * mass, size),
            reward=np.bincount(pair, weight * step.reward, size),
            start=np.bincount(step.start, start, s)[state] * probability,
            values=scipy.sparse.eye_array(size, format="csr"),
            k=ridge / step.n,
            gamma=gamma,
        )
    at_row = rows.at_pair[step.pair]
    weighted = at_row * weight[:, None]
    following = rows.at_state[step.following] * (gamma * step.onward)[:, None]
    return Blocks(
        gram=weighted.T @ at_row,
        move=weighted.T @ (following - at_row),
        ended=ended @ weighted,
        mass=mass @ weighted,
        reward=step.reward @ weighted,
        start=start @ rows.at_state[step.start],
        values=rows.at_pair,
        k=ridge / step.n,
        gamma=gamma,
    )


def solve_saddle(blocks: Blocks, switches: Switches) -> Saddle:
    """Saddle point of the regularized Lagrangian.

    Notes
    -----
    With zeta = phi'w and Q = phi'theta, and with v0 = start'theta written as a constraint with a
    multiplier kappa of its own, which keeps the matrix sparse, it is::

        max_w min_{theta, lambda}
            (1 - gamma) v0 + lambda (1 - mass'w) + slack lambda^2 / 2
            + w'(alpha_R reward + move theta + ended v0)
            + alpha_Q theta' gram theta / 2 - alpha_zeta w' gram w / 2

    Raises
    ------
    LogsError
        A ratio of at least 0 was asked for, and none was found.
    """
    matrix, right = _kkt(blocks, switches)
    size = len(blocks.reward)
    if not switches.zeta_positive:
        return _read(solve_linear(matrix, -right), size, switches)
    return _read(interior_point(matrix, right, blocks.values), size, switches)


def solve_linear(matrix: Any, right: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """Solve a system that is sparse, densely where it is small."""
    if matrix.shape[0] <= DENSE_SIZE:
        dense = matrix.toarray() if scipy.sparse.issparse(matrix) else matrix
        return np.linalg.solve(dense, right)
    return scipy.sparse.linalg.splu(scipy.sparse.csc_array(matrix)).solve(right)


def sparse_blocks(grid: list[list[Any]]) -> Any:
    """Join blocks, dense or sparse or None for zeros, to one sparse matrix."""
    sparse = [[None if b is None else scipy.sparse.coo_array(b) for b in row] for row in grid]
    return scipy.sparse.block_array(sparse, format="csc")


def _kkt(blocks: Blocks, switches: Switches) -> tuple[Any, Float[np.ndarray, " M"]]:
    """Stationarity as matrix x + right = 0, x = (w, theta, v0, kappa[, lambda])."""
    size = len(blocks.reward)
    ridge = blocks.k * scipy.sparse.eye_array(size)
    dual = switches.dual_regularizer * blocks.gram + ridge
    primal = switches.primal_regularizer * blocks.gram + ridge
    ended, start = blocks.ended[:, None], blocks.start[:, None]
    one = scipy.sparse.coo_array([[1.0]])
    grid: list[list[Any]] = [
        [-dual, blocks.move, ended, None],
        [blocks.move.T, primal, None, start],
        [ended.T, None, None, -one],
        [None, start.T, -one, None],
    ]
    right = [
        np.zeros(size) if switches.zero_reward else blocks.reward,
        np.zeros(size),
        [1.0 - blocks.gamma, 0.0],
    ]
    if switches.normalization:
        mass = -blocks.mass[:, None]
        grid = [[*row, None] for row in grid]
        grid[0][4] = mass
        slack = scipy.sparse.coo_array([[switches.normalization_slack]])
        grid.append([mass.T, None, None, None, slack])
        right.append([1.0])
    matrix = sparse_blocks(grid)
    if matrix.shape[0] <= DENSE_SIZE:
        matrix = matrix.toarray()
    return matrix, np.concatenate(right)


def _read(solution: Float[np.ndarray, " M"], size: int, switches: Switches) -> Saddle:
    return Saddle(
        zeta=solution[:size],
        q=solution[size : 2 * size],
        start_value=float(solution[2 * size]),
        multiplier=float(solution[2 * size + 2]) if switches.normalization else 0.0,
    )
