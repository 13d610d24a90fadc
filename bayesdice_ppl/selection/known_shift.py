"""What a choice that knows one cause of the values' errors would save, draw by draw.

The cause is a standard normal number x that moves the values along a direction: v = mean + x c +
rest. Its part is taken out of the draws, which leaves the rest, and put back at every x. So each
choice is made for a known x, over all draws of what stays unknown.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from bayesdice_ppl.scores.forms import ROUNDING
from bayesdice_ppl.selection.partial_information import Prefix, in_turn, losses_of
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.quick_ranking import quick_ranking

# Strata of the standard normal; each is stood for by its mean.
_EDGES = np.concatenate([[-np.inf], np.linspace(-4.0, 4.0, 33), [np.inf]])


class Shift(NamedTuple):
    """Draws, split into a known cause and the rest.

    Attributes
    ----------
    rest
        Draws of the values where the cause is 0, shape (M, N).
    direction
        What the cause moves the values by, shape (N,).
    """

    rest: Float[np.ndarray, "M N"]
    direction: Float[np.ndarray, " N"]

    def at(self, x: float) -> Float[np.ndarray, "M N"]:
        """Draws of the values given the cause."""
        moved: np.ndarray = self.rest + x * self.direction
        return moved


def split_off(values: Float[np.ndarray, "M N"], direction: Float[np.ndarray, " N"]) -> Shift:
    """Take a cause out of draws, by a linear map of each draw.

    Parameters
    ----------
    values
        Draws, shape (M, N), of covariance S.
    direction
        c: the covariance of the values with the cause, which has variance 1; shape (N,).

    Notes
    -----
    With b = S^+ c and r = c' b, the share of the cause that the values show, the rest is
    (I - (1 - sqrt(1 - r)) / r c b') (v - mean). Its covariance is S - c c'. If r > 1, so much is
    not in the draws, and c is shortened until r = 1.
    """
    center = values.mean(axis=0)
    off = values - center
    variance, axes = np.linalg.eigh(off.T @ off / len(off))
    kept = variance > ROUNDING * max(variance[-1], 0.0)
    axes, variance = axes[:, kept], variance[kept]
    along = axes.T @ direction
    shown = float((along**2 / variance).sum())
    if shown == 0.0:
        return Shift(values, np.zeros_like(direction))
    if shown > 1.0:
        along, shown = along / np.sqrt(shown), 1.0
    cause = off @ (axes @ (along / variance))
    inside = axes @ along
    rest = off - (1.0 - np.sqrt(1.0 - shown)) / shown * np.outer(cause, inside)
    return Shift(center + rest, inside)


def saved_by_shift(
    problem: RankingProblem, present: Prefix, direction: Float[np.ndarray, " N"]
) -> Float[np.ndarray, " M"]:
    """Give by how much a choice that knows the cause lowers the loss.

    Parameters
    ----------
    problem
        Draws, a score judged by its mean, and rules.
    present
        What is selected without knowing more: a prefix that is allowed.
    direction
        What the cause moves the values by, in sds of it, reward per step, shape (N,).

    Returns
    -------
    Float[ndarray, "M"]
        For every draw of the rest, averaged over the cause, in the units of the loss; negative
        where knowing misled. All 0 where the cause moves all values alike.

    Notes
    -----
    The loss at the mean of a stratum stands for its mean over the stratum, which takes a hundredth
    of the gain or less. The present choice and the best one in each stratum are compared on three
    quarters of the draws, and the loss of the choice is taken from the fourth, each quarter in
    turn.
    """
    saved = np.zeros(len(problem.values))
    shift = split_off(problem.values, direction)
    if np.ptp(shift.direction) <= ROUNDING * np.abs(direction).max():
        return saved
    weight = np.diff(ndtr(_EDGES))
    density = np.exp(-(_EDGES**2) / 2.0) / np.sqrt(2.0 * np.pi)
    nodes = -np.diff(density) / weight
    known = [RankingProblem(shift.at(x), problem.score, problem.rules) for x in nodes]
    # The present choice is the first alternative, and is kept where none is better.
    found = [present]
    for at_x in known:
        prefix = quick_ranking(at_x, present)
        if prefix not in found:
            found.append(prefix)
    for share, at_x in zip(weight, known, strict=True):
        losses = losses_of(at_x, found)
        for judged, learned in in_turn(len(saved)):
            best = int(np.argmin(losses[:, learned].mean(axis=1)))
            saved[judged] += share * (losses[0, judged] - losses[best, judged])
    return saved
