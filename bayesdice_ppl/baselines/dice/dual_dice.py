"""DualDICE: the stationary ratio as the Bellman error of a function nu, in closed form.

The ratio is nu minus its Bellman backup without reward, and nu minimizes a chi-square objective
that needs no propensities.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import final

import numpy as np
import scipy.sparse
from jaxtyping import Float

from bayesdice_ppl.baselines.dice.saddle import Blocks, make_blocks, solve_linear, sparse_blocks
from bayesdice_ppl.baselines.interface import Estimate, Estimator, Query
from bayesdice_ppl.baselines.settings import only_with, optional_ridge
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.maps import FeatureChoice


@final
@dataclass(frozen=True)
class DualDice(Estimator):
    """DualDICE with linear functions and f(x) = x^2 / 2.

    Parameters
    ----------
    ridge, features, renormalize
        As for `lstdq`; the ridge is on the weights of nu and of the ratio.

    Notes
    -----
    ::

        min_nu max_zeta E[(nu(s, a) - gamma nu(s', pi)) zeta(s, a) - zeta(s, a)^2 / 2]
            - (1 - gamma) E[nu(s0, pi)]                 value = E[zeta r]

    (Nachum, Chow, Dai and Li, "DualDICE: behavior-agnostic estimation of discounted stationary
    distribution corrections", 2019, section 3). nu and zeta are linear on the same features,
    one-hot for labels, so that zeta can be eliminated and nu solved for. zeta stands for the
    conditional mean of the Bellman error given the pair; with the error of single transitions in
    its place, two of which are never seen from one pair of vectors, the noise would be squared too.

    On labels zeta is the exact ratio of the model that counting gives, and the value LSTDQ's; on
    features it is LSTDQ's too as long as the ridge is small, for then both solve the same projected
    equations. It needs no propensities and gamma < 1. Pairs that were never logged have Q = 0: the
    mass that flows to them is lost, and counts as the log's mean reward, since the ratio weighs
    what rewards differ from it (as 0 where absorbed episodes earn 0 for ever).
    """

    _: KW_ONLY
    ridge: float | None = None
    features: FeatureChoice | None = None
    renormalize: bool = only_with(False, features=(None,))
    name = "dual_dice"
    standardized = True

    def __post_init__(self) -> None:
        optional_ridge(self.ridge)

    def answer(self, query: Query, level: float) -> Estimate:
        """Weight the rewards by the ratio."""
        if query.gamma == 1.0:
            raise SettingsError(
                "gamma: dual_dice would find a ratio of 0, expected a discount below 1, found 1. "
                "Lower it, or use gen_dice, which normalizes the ratio."
            )
        rows = query.rows(self.features, renormalize=self.renormalize)
        blocks = make_blocks(rows, self.ridge)
        return Estimate(float(solve_ratio(blocks) @ blocks.reward))


def solve_ratio(blocks: Blocks) -> Float[np.ndarray, " K"]:
    """Weights of the ratio at the least of DualDICE's objective.

    Notes
    -----
    With nu = phi'theta and the ratio's weights w = -(gram)^-1 (move theta + ended v0), v0 =
    start'theta, the objective w'gram w / 2 - (1 - gamma) v0 is a quadratic function of theta alone.
    The equation of v0 is kept apart by a multiplier, so that on labels the system is as sparse as
    the log's transitions.
    """
    size = len(blocks.reward)
    ended, start = blocks.ended[:, None], blocks.start[:, None]
    if scipy.sparse.issparse(blocks.gram):
        inverse = scipy.sparse.diags_array(1.0 / (blocks.gram.diagonal() + blocks.k))
        move, plain = inverse @ blocks.move, inverse @ ended
    else:
        gram = blocks.gram + blocks.k * np.eye(size)
        solved = np.linalg.solve(gram, np.column_stack([blocks.move, ended]))
        move, plain = solved[:, :-1], solved[:, -1:]
    ridge = blocks.k * scipy.sparse.eye_array(size)
    grid = [
        [blocks.move.T @ move + ridge, blocks.move.T @ plain, start],
        [ended.T @ move, ended.T @ plain, [[-1.0]]],
        [start.T, [[-1.0]], None],
    ]
    right = np.zeros(size + 2)
    right[size] = 1.0 - blocks.gamma
    solution = solve_linear(sparse_blocks(grid), right)
    return -(move @ solution[:size] + plain[:, 0] * solution[size])


dual_dice = DualDice
