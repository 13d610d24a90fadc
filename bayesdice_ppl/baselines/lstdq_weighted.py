"""LSTDQ's value at many weightings of the independent parts of a log, all at once.

The equation is linear in the weights, so that sums over the rows of each part, or over rows that
agree, are made once and every weighting is one product with them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import NamedTuple, final

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from jaxtyping import Float, Int

from bayesdice_ppl.baselines.bellman import DENSE_STATES, build_system, default_ridge
from bayesdice_ppl.baselines.rows import FeatureRows, LabelRows, Rows
from bayesdice_ppl.errors import LogsError

ENTRIES = 1 << 23
"""Numbers in the largest array of one batch."""
_SINGULAR = (
    "lstdq_bootstrap: at some weights of the log the equation has no single solution. Use a larger "
    "ridge, or gamma < 1."
)


@final
class Units(NamedTuple):
    """The independent parts of a log, U of them.

    Attributes
    ----------
    of_row
        Unit of each row of the Bellman equation, shape (n,), ascending.
    of_start
        Unit of each episode's start, shape (m,).
    start
        State in which each episode starts, shape (m,).
    size
        U.
    """

    of_row: Int[np.ndarray, " n"]
    of_start: Int[np.ndarray, " m"]
    start: Int[np.ndarray, " m"]
    size: int


def solve_weighted(
    rows: Rows, units: Units, weights: Float[np.ndarray, "R U"], ridge: float | None
) -> Float[np.ndarray, " R"]:
    """LSTDQ's value at each of R weightings of the units.

    Parameters
    ----------
    rows
        The log and the policy, one row for each transition.
    units
        The units.
    weights
        Shape (R, U), of mean one in each row.
    ridge
        As for `bayesdice_ppl.baselines.bellman.solve_value`.

    Raises
    ------
    LogsError
        At some weighting the equation has no single solution.
    """
    ridge = default_ridge(rows) if ridge is None else ridge
    if isinstance(rows, LabelRows) and rows.n_states > DENSE_STATES:
        return np.array([_sparse_value(rows, units, one, ridge) for one in weights])
    width = rows.n_states if isinstance(rows, LabelRows) else rows.at_pair.shape[1]
    size = max(1, ENTRIES // (width + 1) ** 2)
    draws = []
    for begin in range(0, len(weights), size):
        batch = weights[begin : begin + size]
        if isinstance(rows, LabelRows):
            blocks = _label_blocks(rows, units, batch, ridge)
        else:
            blocks = _feature_blocks(rows, units, batch, ridge)
        draws.append(_solve(rows, blocks, _start_weights(rows, units, batch)))
    return np.concatenate(draws)


@final
class _Blocks(NamedTuple):
    """Parts of the bordered equation of `build_system`, for each weighting."""

    inner: Float[np.ndarray, "R k k"]
    column: Float[np.ndarray, "R k"]
    right: Float[np.ndarray, "R k"]


def _label_blocks(
    rows: LabelRows, units: Units, weights: Float[np.ndarray, "R U"], ridge: float
) -> _Blocks:
    """From sums over rows that agree in pair, successor and termination."""
    step, s = rows.step, rows.n_states
    key = (step.pair * s + step.following) * 2 + (step.ended > 0.0)
    _, at, cell = np.unique(key, return_index=True, return_inverse=True)
    n_cells, pair = len(at), step.pair[at]
    mass = _sum(weights, units.of_row, cell, n_cells)
    earned = _sum(weights, units.of_row, cell, n_cells, step.reward)
    pairs, which = np.unique(pair, return_inverse=True)
    per_pair = _sum(mass, np.arange(n_cells), which, len(pairs)) + ridge
    factor = rows.probability[at] / per_pair[:, which]
    share = mass * factor
    border = np.ones(n_cells) if step.average else -step.gamma * step.restart * step.ended[at]
    state, every = rows.state[at], np.arange(n_cells)
    moves = -step.gamma * step.onward[at]
    inner = _sum(share, every, state * s + step.following[at], s * s, moves)
    inner = inner.reshape(len(weights), s, s)
    inner[:, np.arange(s), np.arange(s)] += 1.0
    return _Blocks(
        inner,
        _sum(share, every, state, s, border),
        _sum(earned * factor, every, state, s),
    )


def _feature_blocks(
    rows: FeatureRows, units: Units, weights: Float[np.ndarray, "R U"], ridge: float
) -> _Blocks:
    """From the sums of each unit's own rows, a chunk of rows at a time."""
    step, d = rows.step, rows.at_pair.shape[1]
    border = np.ones(len(step.pair)) if step.average else -step.gamma * step.restart * step.ended
    total = np.zeros((len(weights), d * (d + 2)))
    for rows_of, units_of in _chunks(units.of_row, max(1, ENTRIES // (d * (d + 2)))):
        here = rows.at_pair[step.pair[rows_of]]
        after = rows.at_state[step.following[rows_of]] * step.onward[rows_of, None]
        beside = np.stack([border[rows_of], step.reward[rows_of]], axis=1)
        outer = here[:, :, None] * np.c_[here - step.gamma * after, beside][:, None, :]
        begins = np.flatnonzero(np.r_[True, units_of[1:] != units_of[:-1]])
        sums = np.add.reduceat(outer.reshape(len(here), -1), begins, axis=0)
        total += weights[:, units_of[begins]] @ sums
    total = total.reshape(-1, d, d + 2)
    total[:, np.arange(d), np.arange(d)] += ridge
    return _Blocks(total[:, :, :d], total[:, :, d], total[:, :, d + 1])


def _chunks(
    of_row: Int[np.ndarray, " n"], size: int
) -> Iterator[tuple[slice, Int[np.ndarray, " c"]]]:
    for begin in range(0, len(of_row), size):
        here = slice(begin, begin + size)
        yield here, of_row[here]


def _start_weights(
    rows: Rows, units: Units, weights: Float[np.ndarray, "R U"]
) -> Float[np.ndarray, "R E"]:
    """Weights of the distinct starts, of sum 1."""
    start = rows.step.start
    found = _sum(weights, units.of_start, np.searchsorted(start, units.start), len(start))
    return found / found.sum(axis=1, keepdims=True)


def _solve(
    rows: Rows, blocks: _Blocks, start_weight: Float[np.ndarray, "R E"]
) -> Float[np.ndarray, " R"]:
    step, k = rows.step, blocks.inner.shape[1]
    matrix = np.zeros((len(start_weight), k + 1, k + 1))
    matrix[:, :k, :k], matrix[:, :k, k] = blocks.inner, blocks.column
    if isinstance(rows, LabelRows):
        matrix[:, k, step.start] = -start_weight
    else:
        matrix[:, k, :k] = -start_weight @ rows.at_state[step.start]
    matrix[:, k, k] = 0.0 if step.average else 1.0
    right = np.zeros((len(start_weight), k + 1, 1))
    right[:, :k, 0] = blocks.right
    scale = 1.0 if step.average else 1.0 - step.gamma
    try:
        return scale * np.linalg.solve(matrix, right)[:, k, 0]
    except np.linalg.LinAlgError as cause:
        raise LogsError(_SINGULAR) from cause


def _sparse_value(
    rows: LabelRows, units: Units, weights: Float[np.ndarray, " U"], ridge: float
) -> float:
    start_weight = _start_weights(rows, units, weights[None])[0]
    system = build_system(rows, weights[units.of_row] / rows.step.n, start_weight, ridge)
    with warnings.catch_warnings():
        # SciPy warns, and gives what is not a number.
        warnings.simplefilter("error", scipy.sparse.linalg.MatrixRankWarning)
        try:
            solution = scipy.sparse.linalg.spsolve(system.matrix, system.right)
        except scipy.sparse.linalg.MatrixRankWarning as cause:
            raise LogsError(_SINGULAR) from cause
    return float(system.scale * solution[-1])


def _sum(
    values: Float[np.ndarray, "R c"],
    source: Int[np.ndarray, " j"],
    place: Int[np.ndarray, " j"],
    size: int,
    factor: Float[np.ndarray, " j"] | None = None,
) -> Float[np.ndarray, "R size"]:
    """Sum values[:, source] * factor at their places."""
    factor = np.ones(len(place)) if factor is None else factor
    shape = (size, values.shape[1])
    gather = scipy.sparse.csr_array((factor, (place, source)), shape=shape)
    return (gather @ values.T).T
