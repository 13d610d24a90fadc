"""The closed-form value of many pairs, with the moments kept sparse.

A transition touches one pair and the few actions of one successor, so that the rows of the design
are nearly empty, and products of dense matrices, nine tenths of a belief's time for thousands of
pairs, can be had for almost nothing. What is left is one dense Cholesky of the innovation. It is
the arithmetic of `build_moments`, `run_pilot` and `exact_value` in another order, and the tests
hold the two against each other.
"""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve, cholesky
from scipy.sparse import csr_array, diags_array, hstack, vstack

from bayesdice_ppl.constraint import small_sample_rule
from bayesdice_ppl.inference import FitForm
from bayesdice_ppl.models.gaussian import JITTER
from bayesdice_ppl.moments import Cells

# A pair with more successors has a column that is cheaper to treat as dense.
_HEAVY = 100

_rule = jax.jit(small_sample_rule)


class SparseMoments(NamedTuple):
    """`Moments` of the logged pairs, and the rows from which Sigma is made.

    Attributes
    ----------
    matrix, offset
        G, shape (R, K), and c, shape (R,).
    rows, visits
        The design with each cell's mean reward in it, shape (C, R), and the cell's number of
        transitions, shape (C,).
    spread
        Sum over a cell's transitions of (reward - mean)^2, shape (C,).
    starts, start_share
        phi(s0, pi) on the R rows, shape (E, R), and the share of each first state, shape (E,).
    prior_mean, prior_variance
        Of (weights, value), shape (K,).
    """

    matrix: csr_array
    offset: Float[np.ndarray, " R"]
    rows: csr_array
    visits: Float[np.ndarray, " C"]
    spread: Float[np.ndarray, " C"]
    starts: csr_array
    start_share: Float[np.ndarray, " E"]
    prior_mean: Float[np.ndarray, " K"]
    prior_variance: Float[np.ndarray, " K"]


class Noise(NamedTuple):
    """Covariance of the residual, as the factors that it is a sum of.

    V = rows' diag(square) rows + starts' diag(start) starts - m m' - b b', + extra on the value.

    Attributes
    ----------
    square, start
        Shapes (C,) and (E,).
    mean, base
        m and b, shape (R,).
    extra
        What is added to the value's entry.
    """

    square: Float[np.ndarray, " C"]
    start: Float[np.ndarray, " E"]
    mean: Float[np.ndarray, " R"]
    base: Float[np.ndarray, " R"]
    extra: float


class SparseBelief(NamedTuple):
    """What one log says of one policy.

    Attributes
    ----------
    mean, sd, df
        Location, scale and degrees of freedom of the value's Student t.
    pilot
        The pilot's ratio of each pair, shape (P,), 0 where it was not logged.
    """

    mean: float
    sd: float
    df: float
    pilot: Float[np.ndarray, " P"]


def believe_sparse(
    cells: Cells,
    target: Float[np.ndarray, " P"],
    active: Float[np.ndarray, " P"],
    n_states: int,
    form: FitForm,
) -> SparseBelief:
    """Belief about one policy's value, by the library's defaults.

    Parameters
    ----------
    cells
        The log, as NumPy arrays in float64; pairs and cells may have a count of 0.
    target, active
        The renormalized policy, and 1 for the pairs it visits, shape (P,).
    n_states
        S.
    form
        With one-hot features and no row of its own for the normalization.

    Raises
    ------
    ValueError
        The log has terminations or the discount is near 1, for which there is no code here.
    """
    if (
        np.any(cells.terminated * cells.count)
        or form.moments.normalized
        or form.moments.gamma == 0.0
    ):
        raise ValueError("believe_sparse: expected no termination, and 0 < gamma < 0.9999")
    n, m = float(cells.n_transitions), float(cells.n_episodes)
    seen = np.flatnonzero(cells.count > 0.0)
    logged = np.unique(cells.pair[seen])
    place = np.full(len(target), -1)
    place[logged] = np.arange(len(logged))
    moments = _moments(cells, target, active, n_states, form, (seen, logged, place))
    pair, live = place[cells.pair[seen]], active[logged]
    entry = 1.0 - form.moments.gamma

    first, gain, _ = _condition(moments, _noise(moments, live[pair], entry, n, m))
    weights = first[:-1] * live
    slope = gain / gain[-1]
    error = np.zeros(len(cells.pair))
    mean_reward = cells.reward_sum[seen] / cells.count[seen]
    error[seen] = moments.rows @ slope - mean_reward
    ratio = np.zeros(len(target))
    ratio[logged] = weights
    with jax.enable_x64(True):
        extra, df = (float(number) for number in _rule(cells, ratio, error))
    noise = _noise(moments, weights[pair], entry, n, m)
    noise = noise._replace(extra=noise.extra + extra)
    mean, _, variance = _condition(moments, noise)
    return SparseBelief(float(mean[-1]), float(np.sqrt(variance)), df, ratio)


def _moments(
    cells: Cells,
    target: Float[np.ndarray, " P"],
    active: Float[np.ndarray, " P"],
    n_states: int,
    form: FitForm,
    found: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> SparseMoments:
    """As `build_moments`, on the logged pairs alone."""
    seen, logged, place = found
    gamma, n, n_pairs = form.moments.gamma, float(cells.n_transitions), len(logged)
    live = active[logged]
    phi = csr_array(
        (target[logged] * live, (cells.pair_state[logged], np.arange(n_pairs))),
        shape=(n_states, n_pairs),
    )
    pair, count = place[cells.pair[seen]], cells.count[seen]
    chosen = csr_array(
        (np.ones(len(seen)), (np.arange(len(seen)), pair)), shape=(len(seen), n_pairs)
    )
    stationary = gamma * phi[cells.successor[seen]] - chosen @ diags_array(live)

    reward_mean = cells.reward_sum.sum() / n
    reward_sd = np.sqrt(max(cells.reward_square_sum.sum() / n - reward_mean**2, 0.0))
    size = abs(reward_mean) or 1.0
    base = reward_mean if form.moments.centered else 0.0
    mean_reward = cells.reward_sum[seen] / count
    rows = csr_array(hstack([stationary, csr_array((mean_reward - base)[:, None])]))
    by_pair = (chosen.T @ diags_array(count / n) @ rows).T @ diags_array(live)
    value = csr_array(([-1.0], ([n_pairs], [0])), shape=(n_pairs + 1, 1))
    phi0 = phi[cells.initial_state]
    nothing = csr_array((phi0.shape[0], 1))
    scale = np.append(
        form.prior.of_pairs(np.bincount(pair, count, n_pairs), n),
        (reward_sd if reward_sd > 0.0 else size) * form.prior.value_sd,
    )
    square_sum = cells.reward_square_sum[seen]
    return SparseMoments(
        matrix=csr_array(hstack([by_pair, value])),
        offset=np.append((1.0 - gamma) * (cells.initial_weight @ phi0), base),
        rows=rows,
        visits=count,
        spread=np.maximum(square_sum - cells.reward_sum[seen] * mean_reward, 0.0),
        starts=csr_array(hstack([phi0, nothing])),
        start_share=cells.initial_weight,
        prior_mean=np.append(np.ones(n_pairs), reward_mean),
        prior_variance=scale**2,
    )


def _noise(
    moments: SparseMoments, ratio: Float[np.ndarray, " C"], entry: float, n: float, m: float
) -> Noise:
    """Sigma / n at a ratio, as `residual_covariance` has it."""
    weight = ratio**2 * moments.visits
    by_start = entry**2 / m
    return Noise(
        square=weight / n**2,
        start=by_start * moments.start_share,
        mean=moments.rows.T @ (ratio * moments.visits) / n**1.5,
        base=np.sqrt(by_start) * (moments.start_share @ moments.starts),
        extra=float(np.sum(ratio**2 * moments.spread)) / n**2,
    )


def _condition(
    moments: SparseMoments, noise: Noise
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " R"], float]:
    """Means, last row of the gain and last variance, as `condition_value` for many rows."""
    matrix, variance = moments.matrix, moments.prior_variance
    # Rows whose weighted outer products make up the innovation.
    columns = csr_array(matrix.T)
    heavy = np.diff(columns.indptr) > _HEAVY
    stack = vstack(
        [
            diags_array(np.sqrt(variance[~heavy])) @ columns[~heavy],
            diags_array(np.sqrt(noise.square)) @ moments.rows,
            diags_array(np.sqrt(noise.start)) @ moments.starts,
        ]
    )
    innovation = (stack.T @ stack).toarray()
    dense = columns[heavy].toarray() * np.sqrt(variance[heavy])[:, None]
    innovation += dense.T @ dense
    innovation -= np.outer(noise.mean, noise.mean)
    innovation -= np.outer(noise.base, noise.base)
    innovation[-1, -1] += noise.extra

    diagonal = innovation.diagonal()
    live = diagonal > 0.0
    scale = np.where(live, 1.0 / np.sqrt(np.where(live, diagonal, 1.0)), 0.0)
    innovation *= scale[:, None]
    innovation *= scale
    innovation[np.diag_indices_from(innovation)] += np.where(live, JITTER, 1.0)
    factor = cholesky(innovation, lower=True, overwrite_a=True, check_finite=False)
    last = variance[-1] * matrix[:, [-1]].toarray().ravel()
    residual = matrix @ moments.prior_mean + moments.offset
    right = np.stack([last, residual], axis=1) * scale[:, None]
    gain, pull = (cho_solve((factor, True), right, check_finite=False) * scale[:, None]).T
    left = -(gain @ matrix)
    left[-1] += 1.0
    spread = (
        np.sum(noise.square * (moments.rows @ gain) ** 2)
        + np.sum(noise.start * (moments.starts @ gain) ** 2)
        - (noise.mean @ gain) ** 2
        - (noise.base @ gain) ** 2
        + noise.extra * gain[-1] ** 2
    )
    mean = moments.prior_mean - variance * (matrix.T @ pull)
    return mean, gain, float(np.sum(left**2 * variance) + spread)
