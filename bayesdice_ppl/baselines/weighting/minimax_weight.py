"""Minimax weight learning: a ratio under which no critic sees the policy's flow unbalanced.

With linear ratios and critics it is a linear system. With the unit ball of a kernel's space as the
critics the worst one is known in closed form, and what it sees is quadratic in the ratio.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple, final

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.baselines.interface import Estimate, Estimator, Needs, Query
from bayesdice_ppl.baselines.rows import FeatureRows
from bayesdice_ppl.baselines.settings import only_with, optional_ridge
from bayesdice_ppl.baselines.value.bellman import evaluate
from bayesdice_ppl.checks import one_of, positive, whole
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.features import gaussian_process, one_hot, product
from bayesdice_ppl.features.fourier import median_distance
from bayesdice_ppl.features.kernels import squared_exponential
from bayesdice_ppl.features.maps import FeatureChoice, FeatureMap, Space, numbers, scale_of
from bayesdice_ppl.logs import Logs

CRITICS = ("linear", "kernel")
HORIZONS = 3.0
"""Default size of the functions that a ratio may add to 1, in effective horizons."""
NEARLY_ONE = 0.01
"""Least 1 - gamma of which that size is taken."""
_LINEAR, _KERNEL = ("linear",), ("kernel",)


@final
class MedianKernel(NamedTuple):
    """Features of the squared-exponential kernel with the median rule's length scale.

    Between the inducing points they are exact: a linear function of them is a function in the
    kernel's space, with the norm that it has there.

    Attributes
    ----------
    n_inducing
        The most inducing points.
    of
        ``"state"``, ``"action"`` or ``"both"``: the vectors that are looked at.
    """

    n_inducing: int
    of: str

    @property
    def sees(self) -> frozenset[str]:
        """Which parts it looks at."""
        return frozenset(("state", "action") if self.of == "both" else (self.of,))

    def build(self, space: Space, rng_key: PRNGKeyArray | None) -> FeatureMap:
        """Take the length scale from the log, then choose the inducing points."""
        values = numbers(space.points, self.of, "minimax_weight")
        if rng_key is None:
            raise LogsError("minimax_weight: its inducing points are drawn; give rng_key.")
        key_length, key_points = jax.random.split(rng_key)
        length = median_distance(scale_of(values)(values), key_length)
        kernel = squared_exponential(length)
        process = gaussian_process(kernel, n_inducing=self.n_inducing, of=self.of)
        return process.build(space, key_points)

    def __str__(self) -> str:
        return f"squared_exponential(median, n_inducing={self.n_inducing}, of={self.of!r})"


@final
@dataclass(frozen=True)
class MinimaxWeight(Estimator):
    """Minimax weight learning.

    Parameters
    ----------
    critics
        ``"linear"`` in the features, as the ratio is; or ``"kernel"``, for logs of vectors: the
        unit ball of the space of a squared-exponential kernel with the median rule's length scale.
    ridge, features, renormalize
        Of linear critics, as for `lstdq`.
    n_inducing
        Of kernel critics: the most logged points between which functions are spanned, those that
        say most about all others.
    prior_sd
        Of kernel critics: size of the functions, in the same kernel's space, that the ratio may add
        to 1. Smaller is smoother. None: 3 / (1 - gamma), at most 300, as the critics see a ratio
        that changes slowly along an episode only 1 - gamma of its size.

    Notes
    -----
    min_w max_f (E[w (gamma f(s', pi) - f(s, a))] + (1 - gamma) E[f(s0, pi)])^2, value = E[w r]
    (Uehara, Huang and Jiang, "Minimax weight and Q-function learning for off-policy evaluation",
    2020, section 4). With linear functions on the same features the minimum is 0, and the value is
    LSTDQ's seen from the ratio's side; on one-hot features the ratio is the exact one of the model
    that counting gives. At gamma = 1 the ratio is normalized.

    With a kernel the maximum over f is the norm of a mean embedding, quadratic in the ratio; f
    and what the ratio adds to 1 are sums of the functions k(x, .) of the inducing points x. A
    penalty on the ratio's own norm, of the weight of one transition, makes it unique. A constant
    joins the critics, which holds the mean of the ratio near 1.

    It needs no propensities. It fails where the ratio is not among the functions, and where the
    critics do not see the direction in which that matters. Pairs of labels that were never logged
    have Q = 0: the mass that flows to them is lost, and counts as the log's mean reward, since the
    ratio weighs what rewards differ from it (as 0 where absorbed episodes earn 0 for ever).
    """

    critics: str = "linear"
    _: KW_ONLY
    ridge: float | None = only_with(None, critics=_LINEAR)
    features: FeatureChoice | None = only_with(None, critics=_LINEAR)
    renormalize: bool = only_with(False, critics=_LINEAR, features=(None,))
    n_inducing: int = only_with(200, critics=_KERNEL)
    prior_sd: float | None = only_with(None, critics=_KERNEL)
    standardized = True

    def __post_init__(self) -> None:
        one_of("critics", self.critics, CRITICS)
        optional_ridge(self.ridge)
        whole("n_inducing", self.n_inducing)
        if self.prior_sd is not None:
            positive("prior_sd", self.prior_sd)

    @property
    def kernel(self) -> bool:
        """Whether the critics are those of a kernel."""
        return self.critics == "kernel"

    @property
    def name(self) -> str:
        """Name in tables."""
        return "minimax_weight_kernel" if self.kernel else "minimax_weight"

    @property
    def short(self) -> str:
        """Name for `make`."""
        return "mwl_kernel" if self.kernel else "mwl"

    @property
    def needs(self) -> Needs:
        """A key for kernel critics, and for the features of vectors."""
        return Needs(rng_key=self.kernel)

    def answer(self, query: Query, level: float) -> Estimate:
        """Weight the rewards by the ratio."""
        features = self.features
        if self.kernel:
            features = _kernel_features(query.logs, self.n_inducing)
        rows = query.rows(features, renormalize=self.renormalize)
        if self.kernel and isinstance(rows, FeatureRows):
            sd = self.prior_sd
            if sd is None:
                sd = HORIZONS / max(1.0 - query.gamma, NEARLY_ONE)
            ratio = kernel_ratio(rows, sd)
        else:
            ratio = evaluate(rows, self.ridge).ratio
        return Estimate(float(rows.step.weight @ (ratio * rows.step.reward)))


def _kernel_features(logs: Logs, n_inducing: int) -> FeatureChoice:
    """The kernel over the vectors of a log, times equality of labels."""
    if not (logs.vector_states or logs.vector_actions):
        raise LogsError(
            "critics: 'kernel' needs states or actions that are vectors, and the log's are labels. "
            "Use mwl (critics='linear'), which is exact there."
        )
    if logs.vector_states and logs.vector_actions:
        return MedianKernel(n_inducing, "both")
    vector, label = ("state", "action") if logs.vector_states else ("action", "state")
    return product(MedianKernel(n_inducing, vector), one_hot(of=label))


def kernel_ratio(rows: FeatureRows, prior_sd: float) -> Float[np.ndarray, " C"]:
    """Ratio of each row that no critic of the kernel's space finds unbalanced.

    The rows are on features whose linear functions are the kernel's.

    Notes
    -----
    The worst critic of norm 1 sees |c| with c = E[zeta D] + (1 - gamma) phi0, D the residual of
    single transitions on the features. A constant critic, which the kernel's space lacks, sees
    E[zeta mass] - 1. With zeta = 1 + phi'w the squares of both, times n, and |w|^2 / prior_sd^2
    are least at the solution of a linear system.
    """
    step = rows.step
    at_row, weight = rows.at_pair[step.pair], step.weight
    start = step.start_weight @ rows.at_state[step.start]
    following = step.onward[:, None] * rows.at_state[step.following]
    if step.restart:
        following = following + np.outer(step.ended, start)
    # What each transition shows each critic, the constant one last.
    shown = np.column_stack([step.gamma * following - at_row, step.mass])
    shown *= weight[:, None]
    offset = shown.sum(axis=0) + np.append((1.0 - step.gamma) * start, -1.0)
    seen = shown.T @ at_row
    penalty = np.eye(seen.shape[1]) / (prior_sd**2 * step.n)
    weights = np.linalg.solve(seen.T @ seen + penalty, -seen.T @ offset)
    return 1.0 + at_row @ weights


minimax_weight = MinimaxWeight
