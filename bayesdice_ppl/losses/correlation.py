"""Losses of a whole ranking: correlation@k, Spearman's and Kendall's rank correlations.

All are averaged over tie-breaks in closed form. Spearman's is linear in the expected places and
Kendall's a sum over pairs; correlation@k is linear once the true top k is known.
"""

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, final, override

import numpy as np

from bayesdice_ppl import ties
from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.losses.score import Objective, Score, over
from bayesdice_ppl.losses.structure import CHUNK, Pairwise, Sorting
from bayesdice_ppl.risk import Mean, Risk


@final
@dataclass(frozen=True, repr=False)
class Correlation(Score):
    """Loss 1 - correlation@k: see `bayesdice_ppl.scores.correlation`."""

    k: int
    risk: Risk = field(default_factory=Mean)

    @property
    @override
    def label(self) -> str:
        return f"correlation@{self.k}"

    def depth(self, n_policies: int) -> int:
        """Tell that the whole ranking matters."""
        return n_policies

    def structure(self, values: np.ndarray) -> Sorting | None:
        """Over the whole ranking it is Spearman's."""
        return Spearman().structure(values) if self.k == values.shape[1] else None

    def digest(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Give every possible true top k: places, centered; members, weight and draw."""
        top = ties.top_sets(ties.places(values), self.k)
        covariates = (top.place - (self.k + 1) / 2) * top.member
        # By draw, so that those without ties need no adding up.
        order = np.argsort(top.draw, kind="stable")
        parts = covariates[order].T, top.member[order].T * 1.0, top.weight[order], top.draw[order]
        return *parts, np.arange(len(values))

    @override
    def of_digest(self, xp: ModuleType, digest: Any, rankings: Any) -> Any:
        covariates, members, weight, draw, draws = digest
        correlation = weight * self._correlations(xp, rankings, covariates, members)
        if len(draw) == len(draws):
            return 1.0 - correlation
        if xp is np:
            total = np.empty((len(rankings), len(draws)))
            for row, one in zip(total, correlation, strict=True):
                row[:] = np.bincount(draw, one, len(draws))
        else:
            total = xp.zeros((len(rankings), len(draws))).at[:, draw].add(correlation)
        return 1.0 - total

    def _mean_loss(self, values: np.ndarray) -> Objective:
        if self.k == values.shape[1]:
            return super()._mean_loss(values)
        # The spread of the listed places depends on the draw only through *which* policies are
        # the true top k, and given those the correlation is linear in their true places: so draws
        # with the same top k are added up first.
        top = ties.top_sets(ties.places(values), self.k)
        sets, which = np.unique(top.member, axis=0, return_inverse=True)
        covariates = np.zeros(sets.shape)
        centered = (top.place - (self.k + 1) / 2) * top.member
        np.add.at(covariates, which, top.weight[:, None] * centered / len(values))
        step = max(1, CHUNK // (4 * len(sets)))
        members, covariates = sets.T * 1.0, covariates.T

        def mean_correlation_loss(rankings: np.ndarray) -> np.ndarray:
            losses = np.empty(len(rankings))
            for start in range(0, len(rankings), step):
                part = slice(start, start + step)
                found = self._correlations(np, rankings[part], covariates, members)
                losses[part] = 1.0 - found.sum(axis=1)
            return losses

        return mean_correlation_loss

    def _correlations(self, xp: ModuleType, rankings: Any, covariates: Any, members: Any) -> Any:
        """Correlate listed with true places, the latter centered and 0 outside the set.

        Takes rankings (R, N), covariates and members (N, E), and gives (R, E).
        """
        listed = xp.argsort(rankings, axis=1) + 1.0
        squares = listed**2 @ members - (listed @ members) ** 2 / self.k
        true_squares = self.k * (self.k**2 - 1) / 12
        return (listed @ covariates) / xp.sqrt(true_squares * squares)


@dataclass(frozen=True, repr=False)
class _WholeRanking(Score):
    """A score of all N places, without a k."""

    risk: Risk = field(default_factory=Mean)
    k = None

    def depth(self, n_policies: int) -> int:
        """Tell that the whole ranking matters."""
        return n_policies

    def check(self, n_policies: int) -> None:
        """Refuse a single candidate: a ScoreError."""
        if n_policies < 2:
            raise ScoreError(f"{self.name} needs at least 2 candidates, got {n_policies}")


@final
@dataclass(frozen=True, repr=False)
class Spearman(_WholeRanking):
    """Loss 1 - Spearman's correlation: see `bayesdice_ppl.scores.spearman`."""

    label = "spearman"

    def digest(self, values: np.ndarray) -> tuple[np.ndarray]:
        """Give each policy's expected place, centered, shape (N, M)."""
        block = ties.places(values)
        return (np.ascontiguousarray((ties.expected_places(block) - _middle(values)).T),)

    @override
    def of_digest(self, xp: ModuleType, digest: Any, rankings: Any) -> Any:
        (place,) = digest
        n_policies = rankings.shape[1]
        listed = xp.argsort(rankings, axis=1) - (n_policies - 1) / 2
        # Sums of quarters are exact: a loss does not depend on which rankings are its neighbors.
        return 1.0 - (listed @ place) / (n_policies * (n_policies**2 - 1) / 12)

    def structure(self, values: np.ndarray) -> Sorting:
        """Sort by the expected place (the rearrangement inequality)."""
        place = ties.expected_places(ties.places(values)).mean(axis=0) - _middle(values)
        weight = -_centered_places(values.shape[1])
        # Weights may not be negative: what is added to them all comes off again, as the places
        # sum to the same in every ranking, 0.
        return Sorting(1.0, -place, weight - weight[-1])


@final
@dataclass(frozen=True, repr=False)
class Kendall(_WholeRanking):
    """Loss 1 - Kendall's tau: see `bayesdice_ppl.scores.kendall`."""

    label = "kendall"

    def digest(self, values: np.ndarray) -> tuple[np.ndarray]:
        """Give the values by policy, shape (N, M)."""
        return (np.ascontiguousarray(values.T),)

    @override
    def of_digest(self, xp: ModuleType, digest: Any, rankings: Any) -> Any:
        (by_policy,) = digest
        n_policies = rankings.shape[1]
        listed = xp.argsort(rankings, axis=1) + 0.0

        def agreement(policy: Any) -> Any:
            """Count the policies on the right side of one, less those on the wrong side."""
            ahead = xp.sign(listed - listed[:, policy][:, None])
            return ahead @ xp.sign(by_policy[policy] - by_policy)

        # Every pair is counted twice. Sums of whole numbers are exact.
        return 1.0 - over(xp, n_policies, agreement) / (n_policies * (n_policies - 1))

    def structure(self, values: np.ndarray) -> Pairwise:
        """Order the policies so that few pairs are listed against the draws."""
        n_draws, n_policies = values.shape
        n_pairs = n_policies * (n_policies - 1) / 2
        table = np.zeros((n_policies, n_policies))
        by_policy = np.ascontiguousarray(values.T)
        for i, own in enumerate(by_policy):
            table[i, i + 1 :] = np.sign(by_policy[i + 1 :] - own).sum(axis=1)
        table = (table - table.T) / (n_draws * n_pairs)
        return Pairwise(1.0, table)


def _middle(values: np.ndarray) -> float:
    return (values.shape[1] + 1) / 2


def _centered_places(n_policies: int) -> np.ndarray:
    """Weights of the places 1..N, so that their sum with the true places is the correlation."""
    places = np.arange(1, n_policies + 1) - (n_policies + 1) / 2
    return places / (n_policies * (n_policies**2 - 1) / 12)
