"""DualDICE: the stationary ratio as the Bellman error of a function nu, in closed form.

The ratio is what remains of nu after a Bellman backup without reward, and nu minimizes a chi-square
objective that asks for no propensities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.sparse

from bayesdice_ppl.baselines.checks import optional_ridge
from bayesdice_ppl.baselines.interface import Asked, Estimate
from bayesdice_ppl.baselines.on_rows import OnRows
from bayesdice_ppl.baselines.rows import Rows
from bayesdice_ppl.baselines.saddle import Blocks, make_blocks, solve_linear
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.maps import FeatureChoice


@final
@dataclass(frozen=True)
class DualDice(OnRows):
    """A choice of DualDICE; make one with `dual_dice`."""

    @property
    def name(self) -> str:
        """Name in tables."""
        return "dual_dice"

    def answer_rows(self, rows: Rows, asked: Asked) -> Estimate:
        """Weigh the rewards by the ratio."""
        if asked.gamma == 1.0:
            raise SettingsError(
                "dual_dice: at gamma = 1 its objective is least at a ratio of 0; use gamma < 1, or "
                "gen_dice (lagrangian_dice('gen_dice')), which normalizes the ratio."
            )
        blocks = make_blocks(rows, self.ridge)
        return Estimate(float(solve_ratio(blocks) @ blocks.reward))


def solve_ratio(blocks: Blocks) -> np.ndarray:
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
    sparse = [[None if b is None else scipy.sparse.coo_array(b) for b in row] for row in grid]
    right = np.zeros(size + 2)
    right[size] = 1.0 - blocks.gamma
    solution = solve_linear(scipy.sparse.block_array(sparse, format="csc"), right)
    return -(move @ solution[:size] + plain[:, 0] * solution[size])


def dual_dice(
    *,
    ridge: float | None = None,
    features: FeatureChoice | None = None,
    renormalize: bool = False,
) -> DualDice:
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
    equations. It needs no propensities and gamma < 1. Pairs that were never logged take mass that
    is lost, which is Q = 0 there.

    Raises
    ------
    SettingsError
        The ridge is negative or not finite.
    """
    return DualDice(optional_ridge("dual_dice", ridge), features, bool(renormalize))


__all__ = ["DualDice", "dual_dice"]
