"""Scores of the first k places: precision, accuracy and discounted cumulative gain.

Each is a sum over the places on average, and each can judge a launch of fewer than k policies,
where a budget does not afford k.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, SupportsIndex, final, override

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.checks import whole
from bayesdice_ppl.risk import Risk, check_risk
from bayesdice_ppl.scores import ties
from bayesdice_ppl.scores.forms import Assignment, Sorting
from bayesdice_ppl.scores.score import Score, over


@dataclass(frozen=True, repr=False)
class TopK(Score):
    """A score of the first k places."""

    k: int
    risk: Risk
    word: ClassVar[str]
    partial = True

    @property
    @override
    def label(self) -> str:
        return f"{self.word}@{self.k}"

    @override
    def depth(self, n_policies: int) -> int:
        return self.k


@final
@dataclass(frozen=True, repr=False)
class Precision(TopK):
    """Loss 1 - precision@k: see `precision`."""

    word = "precision"
    ordered = False

    @override
    def digest(self, values: Float[np.ndarray, "M N"]) -> tuple[np.ndarray]:
        """Give each policy's chance of being in the true top k, shape (N, M)."""
        return (np.ascontiguousarray(ties.inclusion(ties.places(values), self.k).T),)

    @override
    def of_digest(self, xp: ModuleType, digest: Any, rankings: Any) -> Any:
        (included,) = digest
        right = over(xp, rankings.shape[1], lambda place: included[rankings[:, place]])
        return 1.0 - right / self.k

    @override
    def form(self, digest: Any) -> Sorting:
        """Sort by the probability of being among the true best k."""
        return Sorting(1.0, digest[0].mean(axis=1) / self.k, np.ones(self.k))


@final
@dataclass(frozen=True, repr=False)
class Accuracy(TopK):
    """Loss 1 - accuracy@k: see `accuracy`."""

    word = "accuracy"

    @override
    def digest(self, values: Float[np.ndarray, "M N"]) -> tuple[np.ndarray, np.ndarray]:
        """Give the block of true places of each policy, two arrays of shape (N, M)."""
        block = ties.places(values)
        return np.ascontiguousarray(block.first.T), np.ascontiguousarray(block.size.T)

    @override
    def of_digest(self, xp: ModuleType, digest: Any, rankings: Any) -> Any:
        def right_at(place: Any) -> Any:
            first, size = (part[rankings[:, place]] for part in digest)
            inside = (first <= place) & (place < first + size)
            return xp.where(inside, 1.0 / size, 0.0)

        return 1.0 - over(xp, rankings.shape[1], right_at) / self.k

    @override
    def form(self, digest: Any) -> Assignment:
        """Assign policies to places by the probability that each truly has it."""
        shares = ties.place_shares(ties.Places(*(part.T for part in digest)))
        return Assignment(1.0, shares[:, : self.k] / self.k)


@final
@dataclass(frozen=True, repr=False)
class Ndcg(TopK):
    """Loss 1 - nDCG@k: see `ndcg`."""

    word = "ndcg"

    @override
    def digest(self, values: Float[np.ndarray, "M N"]) -> tuple[np.ndarray, np.ndarray]:
        """Give each policy's gain by draw, shape (N, M), and the discounts, shape (k,).

        A gain is the policy's value above the draw's worst, over the discounted sum of the best.
        """
        discount = 1.0 / np.log2(np.arange(2, self.k + 2))
        above = unit_range(values)
        ideal = -np.sort(-above, axis=1)[:, : self.k] @ discount
        # Where all are equal every order is ideal: any listing of k then gains 1 in all.
        flat = ideal == 0.0
        gain = above / np.where(flat, 1.0, ideal)[:, None]
        gain[flat] = 1.0 / discount.sum()
        return np.ascontiguousarray(gain.T), discount

    @override
    def of_digest(self, xp: ModuleType, digest: Any, rankings: Any) -> Any:
        gain, discount = digest
        places = rankings.shape[1]
        return 1.0 - over(xp, places, lambda place: discount[place] * gain[rankings[:, place]])

    @override
    def form(self, digest: Any) -> Sorting:
        """Sort by the expected gain."""
        gain, discount = digest
        return Sorting(1.0, gain.mean(axis=1), discount)


def unit_range(values: Float[np.ndarray, "M N"]) -> Float[np.ndarray, "M N"]:
    """Bring each draw to the range from 0, its worst value, to 1, its best; all 0 if all equal."""
    above = values - values.min(axis=1, keepdims=True)
    top = above.max(axis=1, keepdims=True)
    scaled: Float[np.ndarray, "M N"] = above / np.where(top > 0.0, top, 1.0)
    return scaled


def precision(k: SupportsIndex, *, risk: Risk | None = None) -> Score:
    """Share of the truly best k policies that are among the ranking's first k.

    Loss: 1 - precision@k. The order within the first k does not matter. With tied values, a
    policy counts by its probability of being in the true top k: of two policies tied for one
    place, each counts one half. At k = 1 it equals accuracy@1. At k = N every ranking has loss 0.
    When all values are equal every ranking has loss 1 - k/N. A launch of fewer than k policies,
    under a budget, counts the empty places as wrong.

    Parameters
    ----------
    k : int
        1 <= k <= N.
    risk : Risk, optional
        Functional of the losses over draws; their mean if left out.

    Raises
    ------
    SettingsError
        k is not a whole number of at least 1, or risk is none of `bayesdice_ppl.risk`. A k larger
        than N is refused later, by `Score.check`.
    """
    return Precision(whole("k", k), check_risk(risk))


def accuracy(k: SupportsIndex, *, risk: Risk | None = None) -> Score:
    """Share of the places 1..k at which the ranking lists the policy truly of that place.

    Loss: 1 - accuracy@k. With tied values, a policy in a tie block of b places has each of them
    with probability 1/b. At k = 1 it equals precision@1. At k = N all places count. When all
    values are equal every ranking has loss 1 - 1/N. A launch of fewer than k policies, under a
    budget, counts the empty places as wrong.

    Parameters
    ----------
    k : int
        1 <= k <= N.
    risk : Risk, optional
        Functional of the losses over draws; their mean if left out.

    Raises
    ------
    SettingsError
        As for `precision`.
    """
    return Accuracy(whole("k", k), check_risk(risk))


def ndcg(k: SupportsIndex, *, risk: Risk | None = None) -> Score:
    """Normalized discounted cumulative gain of the ranking's first k.

    The gain of a policy is its value above the worst policy's of the same draw, discounted by
    log2(1 + place). The sum over the first k is divided by that of the best possible order. Loss:
    1 - nDCG@k, between 0 and 1. Adding a constant to all values, or scaling them, changes nothing.
    Tied policies gain the same. At k = 1 the gain is that of the first policy over that of the
    best. At k = N the whole order counts. When all values are equal every ranking has loss 0. A
    launch of fewer than k policies, under a budget, gains nothing at the empty places.

    Parameters
    ----------
    k : int
        1 <= k <= N.
    risk : Risk, optional
        Functional of the losses over draws; their mean if left out.

    Raises
    ------
    SettingsError
        As for `precision`.

    References
    ----------
    Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002, with
    log2(1 + place) as the discount.
    """
    return Ndcg(whole("k", k), check_risk(risk))
