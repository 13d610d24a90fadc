"""Fitted Q evaluation: regress the reward plus the next value of the last fit, again and again.

With a linear model the iteration is run until it converges, on labels to LSTDQ's answer; with a
network it is run a fixed number of times.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import final

import numpy as np
import scipy.sparse
from jaxtyping import Float

from bayesdice_ppl.baselines.interface import Estimate, Estimator, Needs, Query
from bayesdice_ppl.baselines.rows import FeatureRows, Rows
from bayesdice_ppl.baselines.settings import only_with, optional_ridge
from bayesdice_ppl.baselines.value.bellman import build_system, feature_gram
from bayesdice_ppl.baselines.value.q_training import Training, network_value
from bayesdice_ppl.checks import one_of
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.features.maps import FeatureChoice

MODELS = ("linear", "mlp")
TOLERANCE = 1e-12
"""Relative change of the value, times the effective horizon, at which an iteration ends."""
MOST_ITERATIONS = 200_000
GROWTH = 1e9
"""Size of the iterates, in sizes of what no convergent iteration exceeds, that is divergence."""
_LINEAR, _NETWORK = ("linear",), ("mlp",)


@final
@dataclass(frozen=True)
class FittedQ(Estimator):
    """Fitted Q evaluation.

    Parameters
    ----------
    model
        ``"linear"``, or ``"mlp"`` for a network of two hidden layers of ReLUs, which draws.
    ridge, features, renormalize
        Of the linear model, as for `lstdq`.
    refits, steps, batch, width, learning_rate, action_draws
        Of the network, as in `bayesdice_ppl.baselines.value.q_training.Training`.

    Notes
    -----
    Q_{k+1} = argmin_Q sum_i (r_i + gamma V_k(s'_i) - Q(s_i, a_i))^2, V_k(s) = E_{a ~ pi} Q_k(s, a),
    with the mean initial V_k past a termination under restart and 0 under absorb (Le, Voloshin and
    Yue, "Batch policy learning under constraints", 2019, algorithm 3). The linear iteration ends at
    LSTDQ's solution if it converges: on labels always below gamma = 1; on features it may diverge,
    which is an error. At gamma = 1 values are relative and the mean value of a start is taken off
    in each regression; what was taken off is the average reward.

    The network learns standardized rewards. Where terminations restart (or are absent) it learns
    relative values at any discount: the level of Q, which takes 1 / (1 - gamma) regressions to
    build up, is never part of a target, and the value is the mean of what is taken off, over the
    last quarter of the regressions. Where terminations absorb, Q itself is learned, and the refits
    must outnumber several mean lengths of an episode or effective horizons, whichever is less.
    Labels enter one-hot. In states and actions that were never logged the network extrapolates,
    without any sign of it.
    """

    model: str = "linear"
    _: KW_ONLY
    ridge: float | None = only_with(None, model=_LINEAR)
    features: FeatureChoice | None = only_with(None, model=_LINEAR)
    renormalize: bool = only_with(False, model=_LINEAR, features=(None,))
    refits: int = only_with(60, model=_NETWORK)
    steps: int = only_with(100, model=_NETWORK)
    batch: int = only_with(128, model=_NETWORK)
    width: int = only_with(64, model=_NETWORK)
    learning_rate: float = only_with(2e-3, model=_NETWORK)
    action_draws: int = only_with(8, model=_NETWORK)

    def __post_init__(self) -> None:
        one_of("model", self.model, MODELS)
        optional_ridge(self.ridge)
        Training.of(self)

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"fitted_q_{self.model}"

    @property
    def short(self) -> str:
        """Name for `make`."""
        return "fqe" if self.model == "linear" else "fqe_mlp"

    @property
    def standardized(self) -> bool:
        """Whether the model is linear; a network brings rewards into units of its own."""
        return self.model == "linear"

    @property
    def needs(self) -> Needs:
        """A key for the network; for a linear model of vectors one too."""
        return Needs(rng_key=self.model == "mlp")

    def answer(self, query: Query, level: float) -> Estimate:
        """Iterate the regression."""
        if self.model == "mlp":
            return Estimate(network_value(query, Training.of(self)))
        rows = query.rows(self.features, renormalize=self.renormalize)
        return Estimate(iterated_value(rows, self.ridge))


def iterated_value(rows: Rows, ridge: float | None) -> float:
    """Value to which iterated linear regression converges; a ridge of None is the rows' default.

    Raises
    ------
    LogsError
        The iteration diverges, or does not converge in `MOST_ITERATIONS` regressions.
    """
    step = rows.step
    ridge = rows.default_ridge if ridge is None else ridge
    system = build_system(rows, step.weight, step.start_weight, ridge)
    size = len(system.right) - 1
    matrix = system.matrix
    if scipy.sparse.issparse(matrix):
        matrix = matrix.tocsr()
        column = matrix[:, [size]].toarray()[:size, 0]
        start = -matrix[[size]].toarray()[0, :size]
        move = scipy.sparse.eye_array(size, format="csr") - matrix[:size, :size]
    else:
        column, start = matrix[:size, size], -matrix[size, :size]
        move = -matrix[:size, :size]
        move[np.arange(size), np.arange(size)] += 1.0
    reward = system.right[:size]
    if isinstance(rows, FeatureRows):
        # On features the system is the regression's, of which the Gram matrix is taken off.
        gram = feature_gram(rows, ridge)
        solved = np.linalg.solve(gram, np.column_stack([matrix[:size, :size], reward, column]))
        move = np.eye(size) - solved[:, :size]
        reward, column = solved[:, size], solved[:, size + 1]
    if step.average:
        return _relative_iteration(move, reward, column, start)
    return (1.0 - step.gamma) * _iteration(move, reward, column, start, step.gamma)


def _iteration(
    move: Float[np.ndarray, "K K"],
    reward: Float[np.ndarray, " K"],
    column: Float[np.ndarray, " K"],
    start: Float[np.ndarray, " K"],
    gamma: float,
) -> float:
    """Mean value of a start after V <- r + move V - column start'V has converged."""
    value, at_start = np.zeros(len(reward)), 0.0
    size = np.abs(reward).max()
    for _ in range(MOST_ITERATIONS):
        fitted = reward + move @ value - column * at_start
        change = np.abs(fitted - value).max()
        value, at_start = fitted, float(start @ fitted)
        if change <= TOLERANCE * size:
            return at_start
        _check_growth(change, size, 1.0 / (1.0 - gamma))
    raise _not_converged()


def _relative_iteration(
    move: Float[np.ndarray, "K K"],
    reward: Float[np.ndarray, " K"],
    kept: Float[np.ndarray, " K"],
    start: Float[np.ndarray, " K"],
) -> float:
    """Average reward: the mean value of a start is taken off after each regression.

    Only half of each step is taken, so that what alternates settles too.
    """
    value, at_start = np.zeros(len(reward)), float(start @ kept)
    size = np.abs(reward).max()
    if at_start <= 0.0:
        return 0.0
    for _ in range(MOST_ITERATIONS):
        fitted = reward + move @ value
        average = float(start @ fitted) / at_start
        change = fitted - average * kept - value
        value = value + 0.5 * change
        if np.abs(change).max() <= TOLERANCE * size:
            return average
        _check_growth(np.abs(change).max(), size, float(MOST_ITERATIONS))
    raise _not_converged()


def _check_growth(change: float, size: float, horizon: float) -> None:
    if not change <= GROWTH * horizon * size:
        raise LogsError(
            "fitted Q evaluation diverges on this log: the regression enlarges the next value more "
            "than the discount shrinks it. Use more ridge, other features, or lstdq."
        )


def _not_converged() -> LogsError:
    return LogsError(
        f"fitted Q evaluation has not converged after {MOST_ITERATIONS:,} regressions: the "
        "discount is near 1, or the world mixes slowly. Use lstdq, which solves for the same value."
    )


fitted_q = FittedQ
