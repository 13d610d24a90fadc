"""The log's own Bellman equation, solved at any weights of its transitions and starts.

Least squares, minimax weights and empirical likelihood all lead to one linear system: on one-hot
features it is the model that counting gives, on others its projection. Beside the value the
solution holds what each transition and each start adds to it: the slope of the value in their
weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from jaxtyping import Float

from bayesdice_ppl.baselines.rows import FeatureRows, LabelRows, Rows

DENSE_STATES = 1200
"""Most states for which the system is solved as a dense one."""


@final
class Evaluation(NamedTuple):
    """A policy's value at given weights, and its slope in them.

    Attributes
    ----------
    value
        In reward per step.
    ratio
        d^pi / d^D of each row, shape (C,).
    error
        Temporal-difference error of each row, shape (C,). The value's slope in the weight of a row
        is ratio * error.
    start_value
        V(s0) of each start, shape (E,).
    entry
        Share of the steps that begin at a start; the value's slope in the weight of a start is
        entry * start_value.
    """

    value: float
    ratio: Float[np.ndarray, " C"]
    error: Float[np.ndarray, " C"]
    start_value: Float[np.ndarray, " E"]
    entry: float


class _System(NamedTuple):
    """A linear system, dense or sparse.

    The unknowns are values of states or weights of features, and last the mean value of a start.
    At gamma = 1 the last is the average reward, and the mean value of a start is held at 0.
    """

    matrix: Any
    right: Float[np.ndarray, " K"]


def solve_value(rows: Rows, ridge: float | None) -> float:
    """Value at the log's own weights.

    The ridge is the number of transitions that are made up for each feature, all with reward 0, in
    the unit of the rows, and an end; None: the rows' default.
    """
    step, ridge = rows.step, rows.default_ridge if ridge is None else ridge
    system = build_system(rows, step.weight, step.start_weight, ridge)
    if scipy.sparse.issparse(system.matrix):
        solution = scipy.sparse.linalg.spsolve(system.matrix, system.right)
    else:
        solution = np.linalg.solve(system.matrix, system.right)
    return float(step.scale * solution[-1])


def evaluate(
    rows: Rows,
    ridge: float | None,
    weight: Float[np.ndarray, " C"] | None = None,
    start_weight: Float[np.ndarray, " E"] | None = None,
) -> Evaluation:
    """Value and its slopes, at weights of rows and of starts of sum 1; None: the log's own."""
    step, ridge = rows.step, rows.default_ridge if ridge is None else ridge
    weight = step.weight if weight is None else weight
    start_weight = step.start_weight if start_weight is None else start_weight
    system = build_system(rows, weight, start_weight, ridge)
    last = np.zeros(len(system.right))
    last[-1] = step.scale
    if scipy.sparse.issparse(system.matrix):
        sparse = scipy.sparse.linalg.splu(system.matrix.tocsc())
        solution, adjoint = sparse.solve(system.right), sparse.solve(last, trans="T")
    else:
        factor = scipy.linalg.lu_factor(system.matrix, check_finite=False)
        solution = scipy.linalg.lu_solve(factor, system.right, check_finite=False)
        adjoint = scipy.linalg.lu_solve(factor, last, trans=1, check_finite=False)
    value, entry = float(step.scale * solution[-1]), float(adjoint[-1])
    solved, dual = solution[:-1], adjoint[:-1]
    at_start = 0.0 if step.average else float(solution[-1])
    average = value if step.average else 0.0
    at_state = solved if isinstance(rows, LabelRows) else rows.at_state @ solved
    backup = step.reward - average + step.gamma * step.next_value(at_state, at_start)
    if isinstance(rows, LabelRows):
        size = rows.n_states * rows.n_actions
        mass = np.bincount(step.pair, weight, size) + ridge / step.n
        total = np.bincount(step.pair, weight * backup, size)
        q = _divide(total, mass)
        ratio = dual[rows.state] * _divide(rows.probability, mass[step.pair])
    else:
        q = rows.at_pair @ solved
        ratio = (rows.at_pair @ dual)[step.pair]
    return Evaluation(value, ratio, backup - q[step.pair], at_state[step.start], entry)


def build_system(
    rows: Rows,
    weight: Float[np.ndarray, " C"],
    start_weight: Float[np.ndarray, " E"],
    ridge: float,
) -> _System:
    """The bordered Bellman equation at given weights.

    Notes
    -----
    On labels, with P the model that the weights give over the logged pairs, ended the probability
    of a termination and kept the policy's probability on logged pairs, all under the policy::

        [I - gamma P, -gamma restart ended] [V ]   [r]
        [-mu0',        1                  ] [v0] = [0]           value = (1 - gamma) v0
        [I - P,        kept               ] [V ]   [r]
        [-mu0',        0                  ] [rho] = [0]          at gamma = 1, value = rho

    On features the first rows are the means of phi(s, a) times the Bellman error instead.
    """
    step = rows.step
    gamma, k = step.gamma, ridge / step.n
    if isinstance(rows, LabelRows):
        s = rows.n_states
        mass = np.bincount(step.pair, weight, s * rows.n_actions) + k
        share = weight * _divide(rows.probability, mass[step.pair])
        reward = np.bincount(rows.state, share * step.reward, s)
        border = share if step.average else -gamma * step.restart * share * step.ended
        column = np.bincount(rows.state, border, s)
        start = np.bincount(step.start, start_weight, s)
        moves = gamma * share * step.onward
        if s > DENSE_STATES:
            return _sparse_system(rows, moves, column, start, reward)
        inner = -np.bincount(rows.state * s + step.following, moves, s * s).reshape(s, s)
        inner[np.arange(s), np.arange(s)] += 1.0
    else:
        at_row = rows.at_pair[step.pair]
        weighted = at_row * weight[:, None]
        following = rows.at_state[step.following] * (gamma * step.onward)[:, None]
        inner = weighted.T @ (at_row - following)
        inner[np.arange(len(inner)), np.arange(len(inner))] += k
        reward = step.reward @ weighted
        border = np.ones(len(at_row)) if step.average else -gamma * step.restart * step.ended
        column = border @ weighted
        start = start_weight @ rows.at_state[step.start]
    size = len(reward) + 1
    matrix = np.empty((size, size))
    matrix[:-1, :-1], matrix[:-1, -1], matrix[-1, :-1] = inner, column, -start
    matrix[-1, -1] = 0.0 if step.average else 1.0
    return _System(matrix, np.append(reward, 0.0))


def feature_gram(rows: FeatureRows, ridge: float) -> Float[np.ndarray, "d d"]:
    """Mean outer product of the features with themselves, over the rows, and the ridge."""
    at_row = rows.at_pair[rows.step.pair]
    gram = (at_row * rows.step.weight[:, None]).T @ at_row
    gram[np.arange(len(gram)), np.arange(len(gram))] += ridge / rows.step.n
    return gram


def _sparse_system(
    rows: LabelRows,
    moves: Float[np.ndarray, " C"],
    column: Float[np.ndarray, " S"],
    start: Float[np.ndarray, " S"],
    reward: Float[np.ndarray, " S"],
) -> _System:
    step, s = rows.step, rows.n_states
    places = (rows.state, step.following)
    inner = scipy.sparse.eye_array(s) - scipy.sparse.coo_array((moves, places), shape=(s, s))
    corner = scipy.sparse.coo_array([[0.0 if step.average else 1.0]])
    blocks = [
        [inner, scipy.sparse.coo_array(column[:, None])],
        [scipy.sparse.coo_array(-start[None, :]), corner],
    ]
    matrix = scipy.sparse.block_array(blocks, format="csc")
    return _System(matrix, np.append(reward, 0.0))


def _divide(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Quotient, 0 where the denominator is."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0.0)
