"""Fitted Q evaluation: regress the reward and the last fit's next value on the logged pairs, again.

With a linear model the iteration is run until it stands still, which on labels is at LSTDQ's
answer; with a network it is run a fixed number of times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.sparse
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.baselines.bellman import build_system, default_ridge, feature_gram
from bayesdice_ppl.baselines.checks import even, one_of, optional_ridge, positive, whole
from bayesdice_ppl.baselines.interface import Asked, Checked, Estimate, Needs
from bayesdice_ppl.baselines.rows import FeatureRows, Rows, make_rows
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.features.maps import FeatureChoice
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import ContinuousPolicy, Policy

MODELS = ("linear", "mlp")
TOLERANCE = 1e-12
"""Relative change of the value, times the effective horizon, at which an iteration stands still."""
MOST_ITERATIONS = 200_000
GROWTH = 1e9
"""Size of the iterates, in sizes of what no convergent iteration exceeds, that is divergence."""


@final
@dataclass(frozen=True)
class NetworkSettings:
    """How the network of fitted Q evaluation is trained.

    Attributes
    ----------
    refits
        Number of regressions, each on the targets of the one before.
    steps
        Adam's steps in each.
    batch
        Transitions in each step.
    width
        Units of each of the two hidden layers.
    learning_rate
        Adam's at first; it falls to 0 along a cosine.
    action_draws
        Actions drawn in each state where actions are vectors, even.
    """

    refits: int
    steps: int
    batch: int
    width: int
    learning_rate: float
    action_draws: int


@final
@dataclass(frozen=True)
class FittedQ(Checked):
    """A choice of fitted Q evaluation; make one with `fitted_q`."""

    model: str
    ridge: float | None
    features: FeatureChoice | None
    renormalize: bool
    network: NetworkSettings

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"fitted_q_{self.model}"

    @property
    def short(self) -> str:
        """Name for the command line."""
        return "fqe" if self.model == "linear" else "fqe_mlp"

    @property
    def needs(self) -> Needs:
        """A key for the network; for a linear model of vectors one too."""
        return Needs(rng_key=self.model == "mlp")

    @property
    def gives(self) -> str:
        """An estimate alone."""
        return "estimate"

    def answer(
        self,
        logs: Logs,
        policy: Policy | ContinuousPolicy,
        asked: Asked,
        rng_key: PRNGKeyArray | None,
    ) -> Estimate:
        """Iterate the regression."""
        if self.model == "mlp" and rng_key is not None:
            from bayesdice_ppl.baselines.fitted_q_network import network_value

            return Estimate(network_value(logs, policy, asked, self.network, rng_key))
        rows = make_rows(
            logs,
            policy,
            asked,
            features=self.features,
            rng_key=rng_key,
            renormalize=self.renormalize,
        )
        return Estimate(iterated_value(rows, self.ridge))


def iterated_value(rows: Rows, ridge: float | None) -> float:
    """Value at which iterated linear regression stands still.

    Parameters
    ----------
    rows
        The log and the policy.
    ridge
        Transitions with target 0 that are made up for each feature; None: `default_ridge`.

    Raises
    ------
    LogsError
        The iteration diverges, or has not come to rest.
    """
    step = rows.step
    ridge = default_ridge(rows) if ridge is None else ridge
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
    """Mean value of a start after V <- r + move V - column start'V has come to rest."""
    value, at_start = np.zeros(len(reward)), 0.0
    size = np.abs(reward).max()
    for _ in range(MOST_ITERATIONS):
        fitted = reward + move @ value - column * at_start
        change = np.abs(fitted - value).max()
        value, at_start = fitted, float(start @ fitted)
        if change <= TOLERANCE * size:
            return at_start
        _check_growth(change, size, 1.0 / (1.0 - gamma))
    raise _not_at_rest()


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
    raise _not_at_rest()


def _check_growth(change: float, size: float, horizon: float) -> None:
    if not change <= GROWTH * horizon * size:
        raise LogsError(
            "fitted Q evaluation diverges on this log: the regression makes more of the next value "
            "than the discount takes off. Use more ridge, other features, or lstdq."
        )


def _not_at_rest() -> LogsError:
    return LogsError(
        f"fitted Q evaluation has not come to rest after {MOST_ITERATIONS:,} regressions, with a "
        "discount near 1 or a world that mixes slowly; use lstdq, which solves for the same point."
    )


def fitted_q(
    model: str = "linear",
    *,
    ridge: float | None = None,
    features: FeatureChoice | None = None,
    renormalize: bool = False,
    refits: int = 60,
    steps: int = 100,
    batch: int = 128,
    width: int = 64,
    learning_rate: float = 2e-3,
    action_draws: int = 8,
) -> FittedQ:
    """Fitted Q evaluation.

    Parameters
    ----------
    model
        ``"linear"``, or ``"mlp"`` for a network of two hidden layers of ReLUs, which draws.
    ridge, features, renormalize
        Of the linear model, as for `lstdq`.
    refits, steps, batch, width, learning_rate, action_draws
        Of the network, as in `NetworkSettings`.

    Notes
    -----
    Q_{k+1} = argmin_Q sum_i (r_i + gamma V_k(s'_i) - Q(s_i, a_i))^2, V_k(s) = E_{a ~ pi} Q_k(s, a),
    with the mean initial V_k past a termination under restart and 0 under absorb (Le, Voloshin and
    Yue, "Batch policy learning under constraints", 2019, algorithm 3). The linear iteration ends at
    LSTDQ's solution if it converges: on labels always below gamma = 1; on features it may diverge,
    which is an error. At gamma = 1 values are relative and the mean value of a start is taken off
    in each regression; what was taken off is the average reward.

    The network learns standardized rewards. Where terminations restart (or are absent) it learns
    relative values at any discount, so that the level of Q, which takes 1 / (1 - gamma)
    regressions to build up, is never part of a target; the value is the mean over the last quarter
    of the regressions of what is taken off. Where terminations absorb, Q itself is learned, and
    the refits must outnumber several mean lengths of an episode or effective horizons, whichever is
    less. Labels enter one-hot. In states and actions that were never logged the network
    extrapolates, without any sign of it.

    Raises
    ------
    SettingsError
        A number is out of range, or the model is another one.
    """
    network = NetworkSettings(
        refits=whole("fitted_q", "refits", refits, 4),
        steps=whole("fitted_q", "steps", steps),
        batch=whole("fitted_q", "batch", batch),
        width=whole("fitted_q", "width", width),
        learning_rate=positive("fitted_q", "learning_rate", learning_rate),
        action_draws=even("fitted_q", "action_draws", action_draws),
    )
    return FittedQ(
        one_of("fitted_q", "model", model, MODELS),
        optional_ridge("fitted_q", ridge),
        features,
        bool(renormalize),
        network,
    )


__all__ = ["FittedQ", "NetworkSettings", "fitted_q"]
