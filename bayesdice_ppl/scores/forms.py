"""Forms of an expected loss: what is left of a score once it is averaged over the draws.

Most scores become simple when they are averaged: a sum over places, a cover of the draws by a set,
or a sum over pairs. A form gives the expected loss of any ranking without going back to the draws,
and each form has a solver in `bayesdice_ppl.selection.solvers`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final, override

import numpy as np
from jaxtyping import Float, Int

# Floats in a temporary array: 2 MB.
CHUNK = 1 << 18
ROUNDING = 1e-12
"""Losses that differ by less than this share of their size differ by rounding alone."""


class Form(ABC):
    """An expected loss, as a function of the ranking."""

    @abstractmethod
    def losses(self, rankings: Int[np.ndarray, "R places"]) -> Float[np.ndarray, " R"]:
        """Give the expected losses of rankings.

        Parameters
        ----------
        rankings
            Indices of policies, best first. Fewer places than the score's depth list fewer
            policies.
        """

    def loss(self, ranking: tuple[int, ...]) -> float:
        """Give the expected loss of one ranking."""
        return float(self.losses(np.array([ranking]))[0])


@final
@dataclass(frozen=True, eq=False)
class Sorting(Form):
    """Expected loss = offset - sum_j weight_j merit[policy at place j]: sort by merit.

    Attributes
    ----------
    offset
        Loss of an empty ranking.
    merit
        Merit of each policy, shape (N,).
    weight
        Weight of each place, not negative and never increasing, shape (depth,).
    """

    offset: float
    merit: Float[np.ndarray, " N"]
    weight: Float[np.ndarray, " depth"]

    @override
    def losses(self, rankings: Int[np.ndarray, "R places"]) -> Float[np.ndarray, " R"]:
        weight = self.weight[: rankings.shape[1]]
        losses: Float[np.ndarray, " R"] = self.offset - self.merit[rankings] @ weight
        return losses


@final
@dataclass(frozen=True, eq=False)
class Assignment(Form):
    """Expected loss = offset - sum_j table[policy at place j, j]: a linear assignment.

    Attributes
    ----------
    offset
        Loss of an empty ranking.
    table
        Gain of a policy at a place, shape (N, depth).
    """

    offset: float
    table: Float[np.ndarray, "N depth"]

    @override
    def losses(self, rankings: Int[np.ndarray, "R places"]) -> Float[np.ndarray, " R"]:
        place = np.arange(rankings.shape[1])
        losses: Float[np.ndarray, " R"] = self.offset - self.table[rankings, place].sum(axis=1)
        return losses


@final
@dataclass(frozen=True, eq=False)
class Coverage(Form):
    """Expected loss = mean over draws of the best value of all minus the best of those listed.

    Attributes
    ----------
    values
        Value of each policy in each draw, in the units of the loss, shape (N, M).
    """

    values: Float[np.ndarray, "N M"]

    @override
    def losses(self, rankings: Int[np.ndarray, "R places"]) -> Float[np.ndarray, " R"]:
        best = self.values.max(axis=0)
        step = max(1, CHUNK // len(best))
        means = [
            # The difference is averaged, not the averages subtracted: so a set that holds the
            # best policy in every draw has a regret of exactly 0.
            (best - _best_of(self.values, rankings[start : start + step])).mean(axis=1)
            for start in range(0, len(rankings), step)
        ]
        return np.concatenate(means) if means else np.zeros(0)

    @property
    def scale(self) -> float:
        """Size of the values that the rounding of a regret is relative to, in their units.

        It is the range from the worst draw of the policy with the highest mean to the best draw of
        any. A constant added to all values does not change it, nor does a hopeless policy.
        """
        leading = self.values[int(np.argmax(self.values.mean(axis=1)))]
        return float(self.values.max() - leading.min())

    @property
    def single_regret(self) -> float:
        """Expected loss of the single policy of the highest mean: E[max] - max E[value]."""
        return float(self.values.max(axis=0).mean() - self.values.mean(axis=1).max())


@final
@dataclass(frozen=True, eq=False)
class Pairwise(Form):
    """Expected loss = offset + sum of table[i, j] over all pairs with i listed before j.

    Attributes
    ----------
    offset
        The loss before any pair.
    table
        Shape (N, N); the diagonal is not used.
    """

    offset: float
    table: Float[np.ndarray, "N N"]

    @override
    def losses(self, rankings: Int[np.ndarray, "R places"]) -> Float[np.ndarray, " R"]:
        losses = np.zeros(len(rankings))
        for place in range(rankings.shape[1] - 1):
            before, after = rankings[:, place : place + 1], rankings[:, place + 1 :]
            losses += self.table[before, after].sum(axis=1)
        return self.offset + losses


def _best_of(
    values: Float[np.ndarray, "N M"], rankings: Int[np.ndarray, "R places"]
) -> Float[np.ndarray, "R M"]:
    """Give the largest value among each ranking's policies, draw by draw.

    Neighbors in lexicographic order share all but their last policy, and so share the maximum
    over the others: about one pass over the draws per ranking instead of one per place.
    """
    last = values[rankings[:, -1]]
    if rankings.shape[1] == 1:
        return last
    heads = rankings[:, :-1]
    new = np.ones(len(heads), bool)
    new[1:] = (heads[1:] != heads[:-1]).any(axis=1)
    return np.maximum(_best_of(values, heads[new])[np.cumsum(new) - 1], last, out=last)
