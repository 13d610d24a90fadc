"""Sigma of one policy on one-hot features, as a sparse matrix and a few rank-one terms.

It is `bayesdice_ppl.constraint.residual_covariance` with transitions as the unit. Its entries are
only where two pairs share a transition, but for the means that are taken off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_array

from bayesdice_ppl.constraint.covariance import start_weight
from bayesdice_ppl.moments import Cells, MomentSettings, SparseMoments, row_scaled


class SparseCovariance(NamedTuple):
    """Sigma = core + left mixed left' in the test rows, with the value's row and entry beside it.

    Attributes
    ----------
    core
        Sparse part, shape (B, B).
    left
        Few columns, shape (B, 3).
    mixed
        Shape (3, 3), symmetric.
    cross
        Covariance of the test rows with the value's row, shape (B,).
    value
        Variance of the value's row, scalar.
    entering
        Mass that enters by the initial states per step, c0, scalar.
    """

    core: csr_array
    left: Float[np.ndarray, "B 3"]
    mixed: Float[np.ndarray, "3 3"]
    cross: Float[np.ndarray, " B"]
    value: float
    entering: float

    def times(self, x: Float[np.ndarray, "B *k"]) -> Float[np.ndarray, "B *k"]:
        """Sigma x in the test rows."""
        found: np.ndarray = self.core @ x + self.left @ (self.mixed @ (self.left.T @ x))
        return found

    def dense(self) -> Float[np.ndarray, "B B"]:
        """Sigma of the test rows."""
        found: np.ndarray = self.core.toarray() + self.left @ self.mixed @ self.left.T
        return found

    def variance(self, tests: Float[np.ndarray, " B"]) -> float:
        """Variance of the value's row plus a combination of the test rows."""
        both = float(tests @ self.times(tests)) + 2.0 * float(tests @ self.cross)
        return max(both + self.value, 0.0)

    @property
    def diagonal(self) -> Float[np.ndarray, " B"]:
        """Variance of each test row."""
        found: np.ndarray = self.core.diagonal() + np.einsum(
            "bi,ij,bj->b", self.left, self.mixed, self.left
        )
        return found


def sparse_covariance(
    cells: Cells,
    moments: SparseMoments,
    ratio: Float[np.ndarray, " P"],
    settings: MomentSettings,
) -> SparseCovariance:
    """Sigma of sqrt(n) times the residual, at a given ratio.

    Parameters
    ----------
    cells, moments
        The log, and one policy's moments.
    ratio
        The ratio of each logged pair, 0 where the policy does not go, shape (P,).
    settings
        Discount and meaning of a termination.
    """
    n, m = float(cells.n_transitions), float(cells.n_episodes)
    z, rows, fresh = ratio[cells.pair], moments.rows, moments.fresh
    count, paid = np.asarray(cells.count), np.asarray(cells.reward_sum)
    mean = paid / np.where(count > 0.0, count, 1.0)
    entering = float(start_weight(cells, z, settings))
    weight, share = moments.share * z**2, moments.share * z
    reward = moments.value + mean
    scaled = row_scaled(rows, np.sqrt(weight))
    start, factor = moments.start, (n / m) * entering**2
    entries = row_scaled(moments.initial, np.sqrt(factor * np.asarray(cells.initial_weight)))
    average = rows.T @ share + start * (share @ fresh)
    average_value = float(share @ reward)
    mixed = np.zeros((3, 3))
    mixed[0, 0] = float(weight @ fresh**2) - factor
    mixed[0, 1] = mixed[1, 0] = 1.0
    mixed[2, 2] = -1.0
    spread = np.maximum(np.asarray(cells.reward_square_sum) - paid * mean, 0.0)
    both = rows.T @ (weight * reward) + start * float((weight * fresh) @ reward)
    return SparseCovariance(
        core=csr_array(scaled.T @ scaled + entries.T @ entries),
        left=np.stack([start, rows.T @ (weight * fresh), average], axis=1),
        mixed=mixed,
        cross=both - average * average_value,
        value=float(weight @ reward**2 + (z**2) @ spread / n - average_value**2),
        entering=entering,
    )
