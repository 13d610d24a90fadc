"""Forms that an expected loss can take, each with a solver that is exact where N! is out of reach.

Most scores are simple once they are averaged over draws: a sum over places, the cover of each draw
by a set, or a sum over pairs. A score that says so need not be searched ranking by ranking.
"""

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

# Floats in a temporary array: 2 MB.
CHUNK = 1 << 18
ROUNDING = 1e-12
"""Losses that differ by less than this share of their size differ by rounding alone."""


@final
class Sorting(NamedTuple):
    """Expected loss = offset - sum_j weight_j merit[policy at place j]: sort by merit.

    Attributes
    ----------
    offset
        Loss of nothing listed.
    merit
        Of each policy, shape (N,).
    weight
        Of each place, not negative and never increasing, shape (depth,).
    """

    offset: float
    merit: Float[np.ndarray, " N"]
    weight: Float[np.ndarray, " depth"]


@final
class Assignment(NamedTuple):
    """Expected loss = offset - sum_j table[policy at place j, j]: a linear assignment.

    Attributes
    ----------
    offset
        Loss of nothing listed.
    table
        What a policy gains at a place, shape (N, depth).
    """

    offset: float
    table: Float[np.ndarray, "N depth"]


@final
class Coverage(NamedTuple):
    """Expected loss = mean over draws of the best value of all minus the best of those listed.

    Attributes
    ----------
    values
        Shape (M, N), in the units of the loss.
    """

    values: Float[np.ndarray, "M N"]


@final
class Pairwise(NamedTuple):
    """Expected loss = offset + sum of table[i, j] over all pairs with i listed before j.

    Attributes
    ----------
    offset
        The loss before any pair.
    table
        Shape (N, N), the diagonal is not used.
    """

    offset: float
    table: Float[np.ndarray, "N N"]


Structure = Sorting | Assignment | Coverage | Pairwise


def evaluate(structure: Structure, rankings: Int[np.ndarray, "R depth"]) -> Float[np.ndarray, " R"]:
    """Give the expected loss of rankings.

    Parameters
    ----------
    structure : Structure
        Of a score and the draws.
    rankings : Int[ndarray, "R depth"]
        Indices of policies, best first; fewer places than the depth list fewer policies.

    Returns
    -------
    Float[ndarray, "R"]
        Expected losses.
    """
    if isinstance(structure, Sorting):
        weight = structure.weight[: rankings.shape[1]]
        return structure.offset - structure.merit[rankings] @ weight
    if isinstance(structure, Assignment):
        place = np.arange(rankings.shape[1])
        return structure.offset - structure.table[rankings, place].sum(axis=1)
    if isinstance(structure, Coverage):
        return _cover(structure.values, rankings)
    return structure.offset + _pairs(structure.table, rankings)


def _cover(values: np.ndarray, rankings: np.ndarray) -> Float[np.ndarray, " R"]:
    by_policy = np.ascontiguousarray(values.T)
    best = by_policy.max(axis=0)
    step = max(1, CHUNK // len(values))
    means = [
        # The difference is averaged, not the averages subtracted, so that a set that holds the
        # best policy in every draw has a regret of exactly 0.
        (best - best_of(by_policy, rankings[start : start + step])).mean(axis=1)
        for start in range(0, len(rankings), step)
    ]
    return np.concatenate(means) if means else np.zeros(0)


def cover_scale(values: Float[np.ndarray, "M N"]) -> float:
    """Give the size of a regret's values that rounding is relative to, in their units.

    It is the range from the worst draw of the policy with the highest mean to the best draw of any:
    a constant added to all values does not change it, nor does a policy that nobody would choose.
    """
    leading = values[:, int(np.argmax(values.mean(axis=0)))]
    return float(values.max() - leading.min())


def best_of(
    by_policy: Float[np.ndarray, "N M"], rankings: Int[np.ndarray, "R depth"]
) -> Float[np.ndarray, "R M"]:
    """Give the largest value among each ranking's policies, draw by draw.

    Neighbors in lexicographic order share all but their last policy, and so share the maximum
    over the others: about one pass over the draws per ranking instead of `depth`.
    """
    last = by_policy[rankings[:, -1]]
    if rankings.shape[1] == 1:
        return last
    heads = rankings[:, :-1]
    new = np.ones(len(heads), bool)
    new[1:] = (heads[1:] != heads[:-1]).any(axis=1)
    return np.maximum(best_of(by_policy, heads[new])[np.cumsum(new) - 1], last, out=last)


def _pairs(table: np.ndarray, rankings: np.ndarray) -> Float[np.ndarray, " R"]:
    total = np.zeros(len(rankings))
    for place in range(rankings.shape[1] - 1):
        before, after = rankings[:, place : place + 1], rankings[:, place + 1 :]
        total += table[before, after].sum(axis=1)
    return total
