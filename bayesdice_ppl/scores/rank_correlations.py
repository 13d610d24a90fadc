"""Scores of the whole ranking: correlation@k, Spearman's and Kendall's rank correlations.

All are averaged over tie-breaks in closed form. On average Spearman's is linear in the expected
places and Kendall's is a sum over pairs. Correlation@k is linear once the true top k is known.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import Any, SupportsIndex, final, override

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.checks import whole
from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.risk import Risk, check_risk
from bayesdice_ppl.scores import ties
from bayesdice_ppl.scores.forms import CHUNK, Form, Pairwise, Sorting
from bayesdice_ppl.scores.score import Score, over


@dataclass(frozen=True, repr=False)
class _WholeRanking(Score):
    """A score of all N places."""

    @override
    def depth(self, n_policies: int) -> int:
        return n_policies


@final
@dataclass(frozen=True, repr=False)
class Correlation(_WholeRanking):
    """Loss 1 - correlation@k: see `correlation`."""

    k: int
    risk: Risk

    @property
    @override
    def label(self) -> str:
        return f"correlation@{self.k}"

    @override
    def digest(self, values: Float[np.ndarray, "M N"]) -> tuple[np.ndarray, ...]:
        """Give every possible true top k: places, centered; members, weight and draw."""
        top = ties.top_sets(ties.places(values), self.k)
        covariates = (top.place - (self.k + 1) / 2) * top.member
        parts = covariates.T, top.member.T * 1.0, top.weight, top.draw
        return *parts, np.arange(len(values))

    @override
    def of_digest(self, xp: ModuleType, digest: Any, rankings: Any) -> Any:
        covariates, members, weight, draw, draws = digest
        correlation = weight * _correlations(xp, self.k, rankings, covariates, members)
        if len(draw) == len(draws):
            return 1.0 - correlation
        if xp is np:
            total = np.empty((len(rankings), len(draws)))
            for row, one in zip(total, correlation, strict=True):
                row[:] = np.bincount(draw, one, len(draws))
        else:
            total = xp.zeros((len(rankings), len(draws))).at[:, draw].add(correlation)
        return 1.0 - total

    @override
    def form(self, digest: Any) -> Form:
        """Sort, as for Spearman's, over the whole ranking; else add up draws of one top k."""
        covariates, members, weight, _, draws = digest
        if self.k == len(members):
            return _by_expected_place(covariates)
        # Which policies are the true top k decides how far apart they are listed, and given those
        # the correlation is linear in their true places: so draws with the same top k are added.
        sets, which = np.unique(members.T, axis=0, return_inverse=True)
        total = np.zeros(sets.shape)
        np.add.at(total, which, (weight * covariates / len(draws)).T)
        return TopSetCorrelations(self.k, total.T, sets.T)

    @override
    def check_own_order(self, values: Float[np.ndarray, "M N"], names: tuple[str, ...]) -> None:
        """Refuse draws with ties in the top k: spreading tied policies out may then be better."""
        block = ties.places(values)
        tied = (block.size > 1) & (block.first < self.k)
        if self.k in (2, len(names)) or not tied.any():
            return
        draw = int(np.argmax(tied.any(axis=1)))
        one = int(np.argmax(tied[draw]))
        other = int(np.flatnonzero(block.first[draw] == block.first[draw, one])[1])
        raise ScoreError(
            f"{names[one]!r} and {names[other]!r} have equal values in draw {draw}: the best "
            f"ranking of such a draw by {self.name} is not known. Leave one of the two out, or use "
            "spearman."
        )


@final
@dataclass(frozen=True, eq=False)
class TopSetCorrelations(Form):
    """Expected loss = 1 - sum over the possible true top k of a correlation; it has no solver.

    Attributes
    ----------
    k
        Size of a top k.
    covariates
        Centered true places of the members, summed over the share of draws, shape (N, sets).
    members
        1 for the policies of a set, else 0, shape (N, sets).
    """

    k: int
    covariates: Float[np.ndarray, "N sets"]
    members: Float[np.ndarray, "N sets"]

    @override
    def losses(self, rankings: Int[np.ndarray, "R places"]) -> Float[np.ndarray, " R"]:
        losses = np.empty(len(rankings))
        step = max(1, CHUNK // (4 * self.members.shape[1]))
        for start in range(0, len(rankings), step):
            part = slice(start, start + step)
            found = _correlations(np, self.k, rankings[part], self.covariates, self.members)
            losses[part] = 1.0 - found.sum(axis=1)
        return losses


def _correlations(xp: ModuleType, k: int, rankings: Any, covariates: Any, members: Any) -> Any:
    """Correlate listed with true places, the latter centered and 0 outside the set.

    Takes rankings (R, N), covariates and members (N, E), and gives (R, E).
    """
    listed = xp.argsort(rankings, axis=1) + 1.0
    squares = listed**2 @ members - (listed @ members) ** 2 / k
    true_squares = k * (k**2 - 1) / 12
    return (listed @ covariates) / xp.sqrt(true_squares * squares)


@dataclass(frozen=True, repr=False)
class _WithoutK(_WholeRanking):
    """A score without a k, of at least two candidates."""

    risk: Risk
    k = None

    @override
    def check(self, n_policies: int) -> None:
        """Refuse a single candidate."""
        if n_policies < 2:
            raise ScoreError(f"{self.name}: expected at least 2 candidates, found {n_policies}.")


@final
@dataclass(frozen=True, repr=False)
class Spearman(_WithoutK):
    """Loss 1 - Spearman's correlation: see `spearman`."""

    label = "spearman"

    @override
    def digest(self, values: Float[np.ndarray, "M N"]) -> tuple[np.ndarray]:
        """Give each policy's expected place, centered, shape (N, M)."""
        places = ties.expected_places(ties.places(values))
        return (np.ascontiguousarray((places - (values.shape[1] + 1) / 2).T),)

    @override
    def of_digest(self, xp: ModuleType, digest: Any, rankings: Any) -> Any:
        (place,) = digest
        n_policies = rankings.shape[1]
        listed = xp.argsort(rankings, axis=1) - (n_policies - 1) / 2
        # Sums of quarters are exact: a loss does not depend on which rankings are its neighbors.
        return 1.0 - (listed @ place) / (n_policies * (n_policies**2 - 1) / 12)

    @override
    def form(self, digest: Any) -> Sorting:
        return _by_expected_place(digest[0])


def _by_expected_place(place: Float[np.ndarray, "N M"]) -> Sorting:
    """Sort by the expected place, centered (the rearrangement inequality)."""
    n_policies = len(place)
    middle = (n_policies + 1) / 2
    weight = (middle - np.arange(1, n_policies + 1)) / (n_policies * (n_policies**2 - 1) / 12)
    # Weights may not be negative. What is added to all of them cancels: the centered places of all
    # policies sum to 0.
    return Sorting(1.0, -place.mean(axis=1), weight - weight[-1])


@final
@dataclass(frozen=True, repr=False)
class Kendall(_WithoutK):
    """Loss 1 - Kendall's tau: see `kendall`."""

    label = "kendall"

    @override
    def digest(self, values: Float[np.ndarray, "M N"]) -> tuple[np.ndarray]:
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

    @override
    def form(self, digest: Any) -> Pairwise:
        """Order the policies so that few pairs are listed against the draws."""
        (by_policy,) = digest
        n_policies, n_draws = by_policy.shape
        table = np.zeros((n_policies, n_policies))
        for i, own in enumerate(by_policy):
            table[i, i + 1 :] = np.sign(by_policy[i + 1 :] - own).sum(axis=1)
        n_pairs = n_policies * (n_policies - 1) / 2
        return Pairwise(1.0, (table - table.T) / (n_draws * n_pairs))


def correlation(k: SupportsIndex, *, risk: Risk | None = None) -> Score:
    """Pearson correlation between 1..k and the listed places of the truly best k policies.

    Let o_1, ..., o_k be the truly best k, in order, and p_j in 1..N the place at which the ranking
    lists o_j: the score is the correlation of (1, ..., k) with (p_1, ..., p_k). The loss is 1 -
    correlation, between 0 and 2. It depends on the whole ranking. With tied values the correlation
    is averaged over all tie-breaks, exactly; when all values are equal every ranking has loss 1.
    At k = N it is Spearman's rank correlation. The distance between places counts, not only their
    order, so what lies past the first k matters too.

    Parameters
    ----------
    k : int
        2 <= k <= N: one point has no correlation.
    risk : Risk, optional
        Functional of the losses over draws; their mean if left out.

    Raises
    ------
    SettingsError
        k is not a whole number of at least 2, or risk is none of `bayesdice_ppl.risk`. A k larger
        than N is refused later, by `Score.check`, and so are draws in which so many policies are
        tied around place k that the possible sets of the top k cannot be listed.
    """
    return Correlation(whole("k", k, least=2), check_risk(risk))


def spearman(*, risk: Risk | None = None) -> Score:
    """Spearman's rank correlation between the ranking and the true order of all policies.

    The loss is 1 - correlation, between 0 and 2: the same as `correlation` at k = N, without
    having to say how many policies there are. With tied values the correlation is averaged over
    all tie-breaks, so that when all values are equal every ranking has loss 1. It takes N >= 2.

    Parameters
    ----------
    risk : Risk, optional
        Functional of the losses over draws; their mean if left out.

    Raises
    ------
    SettingsError
        risk is none of `bayesdice_ppl.risk`. A single candidate is refused later, by `Score.check`.
    """
    return Spearman(check_risk(risk))


def kendall(*, risk: Risk | None = None) -> Score:
    """Kendall's tau between the ranking and the true order of all policies.

    The loss is 1 - tau, between 0 and 2, with tau the share of the N (N - 1) / 2 pairs that are
    listed in their true order minus the share listed against it. A pair of tied values counts as
    neither (tau-a, which is also the average over tie-breaks); when all values are equal every
    ranking has loss 1. It takes N >= 2.

    Parameters
    ----------
    risk : Risk, optional
        Functional of the losses over draws; their mean if left out.

    Raises
    ------
    SettingsError
        As for `spearman`.
    """
    return Kendall(check_risk(risk))
