"""Logs x policy x kernels -> moments: all that a Gaussian process over the ratio needs to know.

The test features are those of a kernel, one function of the state-action pairs for every point,
so that the stationarity residual lives in the span of finitely many of them. Coordinates in that
span, from a pivoted Cholesky factor of the features' Gram matrix, hold the residual without loss:
lengths and inner products in them are the kernel's own.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Bool, Float, Int

from bayesdice_ppl.errors import LogsError, PoliciesError, SettingsError
from bayesdice_ppl.features.kernels import RELATIVE_TOLERANCE, Kernel, Linear
from bayesdice_ppl.features.low_rank import gram_root

BLOCK = 2**22
"""Kernel values that are in memory at once; three or four such arrays of 32 MB are."""
ROUNDING = 1e-6
"""How far from one a policy's weights may sum."""


class PolicyPoints(NamedTuple):
    """Where a policy goes from each of some states: a weighted set of state-action points.

    Attributes
    ----------
    points
        Shape (n, L, p): in each state all actions, or draws of the policy's.
    weights
        The actions' probabilities, or 1 / L for each draw, shape (n, L).
    """

    points: Float[np.ndarray, "n L p"]
    weights: Float[np.ndarray, "n L"]


class ProcessMoments(NamedTuple):
    """Residual of the constraints for one policy, affine in the ratio at n logged points.

    The R rows are coordinates of the stationarity constraint and, last, the normalization where it
    has a row of its own: residual = design' ratio / n + offset, beside which the value is
    mean_i ratio_i reward_i + floor. The arrays are NumPy's on the host and JAX's inside a compiled
    function.

    Attributes
    ----------
    design, offset
        D_i in coordinates, shape (n, R), and b, shape (R,).
    initial
        k(s0_e, pi) - k0bar in the same coordinates, 0 on the normalization, shape (m, R).
    stationary
        1 for the rows of the stationarity constraint, shape (R,).
    entry, fresh
        Mass that enters by the initial states per step is fresh + mean_i ratio_i entry_i; shape
        (n,) and scalar.
    reward, floor
        sigma(r), shape (n,), and 0; where terminations absorb, both counted from sigma(0).
    root
        A root of the ratio's prior covariance, shape (n, Q): ratio = 1 + root w, w ~ Normal(0, I).
    pivots
        Logged points at which the ratio determines w, shape (Q,); None where the kernel of the
        ratio is `Linear`, whose w are the weights of its features.
    value_mean, value_sd
        Of the value's prior, in reward per step; scalars.
    """

    design: Float[Any, "n R"]
    offset: Float[Any, " R"]
    initial: Float[Any, "m R"]
    stationary: Float[Any, " R"]
    entry: Float[Any, " n"]
    fresh: Float[Any, ""]
    reward: Float[Any, " n"]
    floor: Float[Any, ""]
    root: Float[Any, "n Q"]
    pivots: Int[Any, " Q"] | None
    value_mean: Float[Any, ""]
    value_sd: Float[Any, ""]

    @property
    def n_transitions(self) -> int:
        """The number n of transitions."""
        return self.design.shape[0]

    @property
    def gram(self) -> Float[Any, "n n"]:
        """<D_i, D_j>, the kernel of the paper's appendix without its linear terms."""
        return self.design @ self.design.T

    @property
    def cross(self) -> Float[Any, " n"]:
        """<D_i, b>."""
        return self.design @ self.offset

    @property
    def constant(self) -> Float[Any, ""]:
        """<b, b>."""
        return self.offset @ self.offset

    def residual(self, ratio: Float[Any, "*b n"]) -> Float[Any, "*b R"]:
        """Residual of stationarity and normalization at a ratio, shape (..., R)."""
        return ratio @ self.design / self.n_transitions + self.offset

    def implied_value(self, ratio: Float[Any, "*b n"]) -> Float[Any, "*b"]:
        """mean_i ratio_i sigma(r_i), in reward per step, shape (...)."""
        return ratio @ self.reward / self.n_transitions + self.floor


def process_moments(
    kernel_test: Kernel,
    kernel_ratio: Kernel,
    points: Float[np.ndarray, "n p"],
    next_points: PolicyPoints | None,
    initial_points: PolicyPoints,
    reward: Float[np.ndarray, " n"],
    terminated: Bool[np.ndarray, " n"],
    *,
    gamma: float,
    restart: bool = True,
    normalized: bool = True,
    value_prior_sd: float = 10.0,
    absorbed_reward: float = 0.0,
) -> ProcessMoments:
    """Moments of one policy under kernels.

    Parameters
    ----------
    kernel_test
        Whose functions test the stationarity. A `Linear` one costs n d^2, with d features, and
        any other n^3 in the worst case, and less the faster its eigenvalues fall.
    kernel_ratio
        Prior covariance of the ratio around 1.
    points
        The logged state-action points, shape (n, p), in units in which the kernels make sense.
    next_points
        Where the policy goes in each successor state; the rows of terminated transitions are not
        read. None at gamma = 0.
    initial_points
        Where it goes in each episode's first state.
    reward, terminated
        sigma(r) and the true terminations, shapes (n,).
    gamma
        Discount in [0, 1].
    restart
        True: a termination is followed by a fresh start; False: by sigma(0) for ever.
    normalized
        Add the row mean_i ratio_i = 1. Features that do not sum to a constant do not imply it,
        and at gamma = 1 none do. False: the residual of the paper's appendix.
    value_prior_sd
        Prior standard deviation of the value, in standard deviations of the logged reward.
    absorbed_reward
        sigma(0), the reward after an absorbing termination.

    Returns
    -------
    ProcessMoments
        In float64.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        Shapes disagree, a number is not finite, weights do not sum to 1, or a setting is out of
        its range.

    Notes
    -----
    With k(x) the test kernel's feature of a point, k(s, pi) its mean under the policy and k0bar
    the mean of k(s0_e, pi) over episodes::

        D_i = gamma [(1 - term_i) k(s'_i, pi) + restart term_i k0bar] - k(x_i)
        b   = (1 - gamma) k0bar

    (Yang et al., "Offline Policy Selection under Uncertainty", appendix A. Its kernel multiplies
    <D_i, b> and <b, b> by the ratio too, which is exact only where the mean ratio is 1.)
    """
    _check_settings(gamma, restart, value_prior_sd)
    at = _array("points", points, (None, None))
    n, p = at.shape
    earned = _array("reward", reward, (n,))
    ended = _array("terminated", terminated, (n,)) if gamma > 0.0 else np.zeros(n)
    initial = _policy_points("initial_points", initial_points, (None, None, p))
    following = None
    if gamma > 0.0:
        if next_points is None:
            raise LogsError("next_points: gamma > 0 needs where the policy goes in each successor.")
        following = _policy_points("next_points", next_points, (n, None, p), ended == 0.0)

    entry = gamma * ended if restart else np.zeros(n)
    places, sparse = _as_combinations(at, following, initial, gamma * (1.0 - ended))
    coordinates = _coordinates(kernel_test, places, sparse, entry, 1.0 - gamma)
    design, starts, offset = coordinates[:n], coordinates[n:-1], coordinates[-1]
    stationary = np.ones(len(offset))
    if normalized:
        # The mass that a visit stands for includes what is absorbed after it.
        mass = np.ones(n) if restart else 1.0 + gamma / (1.0 - gamma) * ended
        design = np.column_stack([design, mass])
        offset, stationary = np.append(offset, -1.0), np.append(stationary, 0.0)
        starts = np.column_stack([starts, np.zeros(len(starts))])

    floor = 0.0 if restart else float(absorbed_reward)
    root, pivots = _prior_root(kernel_ratio, at)
    size = abs(earned.mean()) or 1.0
    scale = float(earned.std()) or size
    if not restart:
        # The absorbed reward is one of the rewards, and may lie far from all that were logged.
        scale = float(np.hypot(scale, earned.mean() - floor))
    return ProcessMoments(
        design,
        offset,
        starts,
        stationary,
        entry,
        np.float64(1.0 - gamma),
        earned - floor,
        np.float64(floor),
        root,
        pivots,
        np.float64(earned.mean()),
        np.float64(scale * value_prior_sd),
    )


def _as_combinations(
    at: Float[np.ndarray, "n p"],
    following: PolicyPoints | None,
    initial: PolicyPoints,
    onward: Float[np.ndarray, " n"],
) -> tuple[Float[np.ndarray, "u p"], sp.csr_array]:
    """The features gamma (1 - term) k(x', pi) - k(x) and k(s0, pi) as combinations of points.

    Points that recur count once: where actions are few, most of the policy's points in a
    successor state are logged or shared with other transitions.
    """
    n, p = at.shape
    m = len(initial.points)
    sets = [at, initial.points.reshape(-1, p)]
    rows = [np.arange(n), n + np.repeat(np.arange(m), initial.points.shape[1])]
    weights = [np.full(n, -1.0), initial.weights.ravel()]
    if following is not None:
        live = (following.weights != 0.0) & (onward > 0.0)[:, None]
        sets.append(following.points[live])
        rows.append(np.nonzero(live)[0])
        weights.append((following.weights * onward[:, None])[live])
    places, index = np.unique(np.concatenate(sets), axis=0, return_inverse=True)
    entries = (np.concatenate(weights), (np.concatenate(rows), index.ravel()))
    return places, sp.csr_array(sp.coo_array(entries, shape=(n + m, len(places))))


def _coordinates(
    kernel: Kernel,
    places: Float[np.ndarray, "u p"],
    combinations: sp.csr_array,
    entry: Float[np.ndarray, " n"],
    fresh: float,
) -> Float[np.ndarray, "M R"]:
    """The vectors D_i, k(s0_e, pi) - k0bar and b, in orthonormal coordinates of their span.

    Directions outside of the span are left out: a row of rounding errors alone would count as a
    constraint that holds exactly.
    """
    n = len(entry)
    # How many times k0bar is added to each of the combinations.
    shift = np.append(entry, np.full(combinations.shape[0] - n, -1.0))
    if isinstance(kernel, Linear):
        vectors = _combined_features(kernel, places, combinations)
        start = vectors[n:].mean(axis=0)
        vectors = np.vstack([vectors + shift[:, None] * start, fresh * start])
        _, sizes, directions = np.linalg.svd(np.linalg.qr(vectors, mode="r"))
        return vectors @ directions[: (sizes > RELATIVE_TOLERANCE * sizes[0]).sum()].T
    gram = _combined_gram(kernel, places, combinations)
    start = gram[:, n:].mean(axis=1)
    square = start[n:].mean()
    crossed = np.outer(shift, start + 0.5 * square * shift)
    gram += crossed + crossed.T
    with_b = fresh * (start + square * shift)
    return gram_root(np.block([[gram, with_b[:, None]], [with_b, fresh**2 * square]]))[0]


def _combined_features(
    kernel: Linear, places: Float[np.ndarray, "u p"], combinations: sp.csr_array
) -> Float[np.ndarray, "N d"]:
    """W phi(U), without ever holding phi(U)."""
    by_place = combinations.tocsc()
    with jax.enable_x64(True):
        width = jax.eval_shape(kernel.root, jnp.asarray(places[:1])).shape[1]
        step = max(1, BLOCK // width)
        total = np.zeros((combinations.shape[0], width))
        for low in range(0, len(places), step):
            block = slice(low, low + step)
            features = np.asarray(kernel.root(jnp.asarray(places[block])), dtype=np.float64)
            _check_finite(features)
            total += by_place[:, block] @ features
    return total


def _combined_gram(
    kernel: Kernel, places: Float[np.ndarray, "u p"], combinations: sp.csr_array
) -> Float[np.ndarray, "N N"]:
    """W k(U, U) W' for combinations W of the points U, without ever holding k(U, U)."""
    total = np.empty((combinations.shape[0],) * 2)
    per_row = max(1, int(np.diff(combinations.indptr).max()))
    step = max(1, BLOCK // (len(places) * per_row))
    blocks = [combinations[low : low + step] for low in range(0, combinations.shape[0], step)]
    used = [np.unique(block.indices) for block in blocks]
    # One shape for all blocks, so that the kernel is compiled once for them.
    width = max(map(len, used))
    with jax.enable_x64(True):
        everywhere = jnp.asarray(places)
        for i, (block, columns) in enumerate(zip(blocks, used, strict=True)):
            padded = np.zeros(width, dtype=np.int64)
            padded[: len(columns)] = columns
            values = np.asarray(_matrix(kernel, everywhere[padded], everywhere), dtype=np.float64)
            _check_finite(values)
            left = block[:, columns] @ values[: len(columns)]
            total[i * step : i * step + block.shape[0]] = (combinations @ left.T).T
    return 0.5 * (total + total.T)


def _prior_root(
    kernel: Kernel, at: Float[np.ndarray, "n p"]
) -> tuple[Float[np.ndarray, "n Q"], Int[np.ndarray, " Q"] | None]:
    with jax.enable_x64(True):
        here = jnp.asarray(at)
        if isinstance(kernel, Linear):
            root = np.asarray(kernel.root(here), dtype=np.float64)
            _check_finite(root)
            return root, None
        covariance = np.asarray(_matrix(kernel, here, here), dtype=np.float64)
    _check_finite(covariance)
    return gram_root(covariance)


def _matrix(kernel: Kernel, x: Float[Array, "n p"], y: Float[Array, "m p"]) -> Float[Array, "n m"]:
    """The kernel's matrix in float64, compiled once for all logs and policies."""
    try:
        hash(kernel)
    except TypeError:
        return kernel(x, y)
    return _matrix_of(kernel, x, y)


@partial(jax.jit, static_argnums=0)
def _matrix_of(
    kernel: Kernel, x: Float[Array, "n p"], y: Float[Array, "m p"]
) -> Float[Array, "n m"]:
    return kernel(x, y)


def _check_settings(gamma: float, restart: bool, value_prior_sd: float) -> None:
    if not 0.0 <= gamma <= 1.0:
        raise SettingsError(f"gamma: expected a discount in [0, 1], found {gamma!r}.")
    if gamma == 1.0 and not restart:
        raise SettingsError("restart=False has no average reward: use restart=True, or gamma < 1.")
    if not (np.isfinite(value_prior_sd) and value_prior_sd > 0.0):
        raise SettingsError(
            f"value_prior_sd: expected a positive number, found {value_prior_sd!r}."
        )


def _array(
    name: str,
    given: object,
    shape: tuple[int | None, ...],
    live: Bool[np.ndarray, " n"] | slice = slice(None),
) -> Float[np.ndarray, "..."]:
    array = np.asarray(given, dtype=np.float64)
    fits = array.ndim == len(shape) and all(
        size in (None, found) for size, found in zip(shape, array.shape, strict=True)
    )
    if not fits or array.size == 0:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise LogsError(f"{name}: expected numbers of shape ({wanted}), found {array.shape}.")
    if not np.isfinite(array[live]).all():
        raise LogsError(f"{name}: expected finite numbers, found NaN or infinity.")
    return array


def _policy_points(
    name: str,
    given: PolicyPoints,
    shape: tuple[int | None, ...],
    live: Bool[np.ndarray, " n"] | slice = slice(None),
) -> PolicyPoints:
    points = _array(name, given[0], shape, live)
    weights = _array(f"{name}.weights", given[1], points.shape[:2], live)
    error = np.abs(weights[live].sum(axis=1) - 1.0)
    if (error > ROUNDING).any():
        raise PoliciesError(
            f"{name}: the policy's weights must sum to 1 in each state; in "
            f"{int((error > ROUNDING).sum())} of them they do not, by up to {error.max():g}."
        )
    return PolicyPoints(points, weights)


def _check_finite(values: Float[np.ndarray, "..."]) -> None:
    if not np.isfinite(values).all():
        raise SettingsError("kernel: gives NaN or infinity between some of the points.")
