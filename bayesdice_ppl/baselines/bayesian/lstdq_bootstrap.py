"""Bayesian bootstrap of LSTDQ: the value at random weights of the log's episodes.

Episodes, and of a bandit's log rows, are the independent units; their weights are uniform over all
weights of sum 1. Each draw of the weights makes one log, and LSTDQ's value of that log is one draw
of the posterior. The equation is linear in the weights: sums over the rows of each unit, or over
rows that agree, are made once, and every weighting is one product with them.
"""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple, final

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from jaxtyping import Float, Int

from bayesdice_ppl.baselines.interface import Estimate, Estimator, Needs, Query, central
from bayesdice_ppl.baselines.rows import FeatureRows, LabelRows, Rows
from bayesdice_ppl.baselines.settings import only_with, optional_ridge
from bayesdice_ppl.baselines.value.bellman import DENSE_STATES, build_system
from bayesdice_ppl.checks import whole
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.features.maps import FeatureChoice
from bayesdice_ppl.keys import seed_sequence
from bayesdice_ppl.logs import Logs, usable_rows

ENTRIES = 1 << 23
"""Numbers in the largest array of one batch."""
_SINGULAR = (
    "lstdq_bootstrap: at some weights of the log the equation has no single solution. Use a larger "
    "ridge, or gamma < 1."
)


@final
@dataclass(frozen=True)
class LstdqBootstrap(Estimator):
    """Bayesian bootstrap of least-squares temporal differences.

    Parameters
    ----------
    draws
        Number of posterior draws.
    ridge, features, renormalize
        As for `bayesdice_ppl.baselines.lstdq`.

    Notes
    -----
    The posterior of the distribution of episodes puts Dirichlet(1, ..., 1) weights on those that
    were logged (Rubin, "The Bayesian bootstrap", 1981), and the value is a functional of that
    distribution: the solution of the equation of `bayesdice_ppl.baselines.lstdq` in which each
    transition, and each start, has the weight of its episode. At gamma = 0 the unit is the row;
    an episode's start there has the weight of its first row. Weights average one, so that equal
    weights are LSTDQ itself and the ridge is worth as many transitions as there.

    `value` is the mean of the draws, and the interval is central. Weights come from the key alone:
    draws of policies with the same key are joint. It needs a key and no propensities, and takes
    labels or features. Like LSTDQ it knows nothing of pairs that were never logged, whatever the
    weights. So its draws are too narrow where a policy leaves the log, and with few episodes: an
    outcome that was not seen never gets a weight.
    """

    draws: int = 200
    ridge: float | None = None
    _: KW_ONLY
    features: FeatureChoice | None = None
    renormalize: bool = only_with(False, features=(None,))
    name = "lstdq_bootstrap"
    needs = Needs(rng_key=True)
    gives = "draws"
    standardized = True

    def __post_init__(self) -> None:
        whole("draws", self.draws)
        optional_ridge(self.ridge)

    def answer(self, query: Query, level: float) -> Estimate:
        """Draw the posterior of a policy's value."""
        units = find_units(query.logs, query.gamma)
        rows = query.rows(self.features, renormalize=self.renormalize)
        rng = np.random.default_rng(seed_sequence(query.key))
        weights = rng.standard_exponential((self.draws, units.size))
        weights /= weights.mean(axis=1, keepdims=True)
        draws = solve_weighted(rows, units, weights, self.ridge)
        return Estimate(float(draws.mean()), *central(draws, level), draws)


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


def find_units(logs: Logs, gamma: float) -> Units:
    """Independent parts of a log: episodes, or rows at gamma = 0.

    Raises
    ------
    LogsError
        There is only one.
    """
    used = np.flatnonzero(usable_rows(logs, gamma).mask)
    if gamma == 0.0:
        first = logs.first_rows
        units = Units(used, first, logs.initial_state, logs.n_transitions)
    else:
        every = np.arange(logs.n_episodes)
        units = Units(logs.episode[used], every, logs.initial_state, logs.n_episodes)
    if units.size < 2:
        what = "row" if gamma == 0.0 else "episode"
        raise LogsError(
            f"lstdq_bootstrap weights the log's {what}s, and there is only one. Use a longer log, "
            "or a method that does not resample."
        )
    return units


def solve_weighted(
    rows: Rows, units: Units, weights: Float[np.ndarray, "R U"], ridge: float | None
) -> Float[np.ndarray, " R"]:
    """LSTDQ's value at each of R weightings of the units, of mean one each.

    Raises
    ------
    LogsError
        At some weighting the equation has no single solution.
    """
    ridge = rows.default_ridge if ridge is None else ridge
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
    size = max(1, ENTRIES // (d * (d + 2)))
    for begin in range(0, len(units.of_row), size):
        rows_of = slice(begin, begin + size)
        units_of = units.of_row[rows_of]
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
    try:
        return step.scale * np.linalg.solve(matrix, right)[:, k, 0]
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
    return float(rows.step.scale * solution[-1])


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


lstdq_bootstrap = LstdqBootstrap
