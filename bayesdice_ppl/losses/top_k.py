"""Losses of the first k places: precision, accuracy, regret, and discounted cumulative gain.

Each has the same k as its depth, and each is simple on average: a sum over the places listed, or
the cover of every draw by the set. Fewer than k policies can be judged too, where a budget does
not afford k.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, ClassVar, final, override

import numpy as np
from jaxtyping import Bool, Float

from bayesdice_ppl import ties
from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.losses.score import Score, over
from bayesdice_ppl.losses.structure import Assignment, Coverage, Sorting, cover_scale
from bayesdice_ppl.risk import Mean, Risk


@dataclass(frozen=True, repr=False)
class _TopK(Score):
    """A score of the first k places."""

    k: int
    risk: Risk = field(default_factory=Mean)
    word: ClassVar[str]
    partial = True

    @property
    @override
    def label(self) -> str:
        return f"{self.word}@{self.k}"

    def depth(self, n_policies: int) -> int:
        return self.k


@final
@dataclass(frozen=True, repr=False)
class Precision(_TopK):
    """Loss 1 - precision@k: see `bayesdice_ppl.scores.precision`."""

    word = "precision"
    ordered = False

    def digest(self, values: np.ndarray) -> tuple[np.ndarray]:
        """Give each policy's chance of being in the true top k, shape (N, M)."""
        return (np.ascontiguousarray(ties.inclusion(ties.places(values), self.k).T),)

    @override
    def of_digest(self, xp: ModuleType, digest: Any, rankings: Any) -> Any:
        (included,) = digest
        right = over(xp, rankings.shape[1], lambda place: included[rankings[:, place]])
        return 1.0 - right / self.k

    def structure(self, values: Float[np.ndarray, "M N"]) -> Sorting:
        """Sort by the probability of being among the true best k."""
        included = ties.inclusion(ties.places(values), self.k).mean(axis=0)
        return Sorting(1.0, included / self.k, np.ones(self.k))


@final
@dataclass(frozen=True, repr=False)
class Accuracy(_TopK):
    """Loss 1 - accuracy@k: see `bayesdice_ppl.scores.accuracy`."""

    word = "accuracy"

    def digest(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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

    def structure(self, values: Float[np.ndarray, "M N"]) -> Assignment:
        """Assign policies to places by the probability that each truly has it."""
        shares = ties.place_shares(ties.places(values))[:, : self.k]
        return Assignment(1.0, shares / self.k)


@dataclass(frozen=True, repr=False)
class _Cover(_TopK):
    """Best of all minus the best of those listed."""

    ordered = False

    def seen(self, values: Float[np.ndarray, "M N"]) -> Float[np.ndarray, "M N"]:
        """Give the values in the units of the loss."""
        return values

    def loss_scale(self, values: Float[np.ndarray, "M N"]) -> float:
        """Give the range that regrets are made of, in the units of the loss."""
        return cover_scale(self.seen(values))

    def digest(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give the values by policy, shape (N, M), and the best of all in each draw."""
        by_policy = np.ascontiguousarray(self.seen(values).T)
        return by_policy, by_policy.max(axis=0)

    @override
    def of_digest(self, xp: ModuleType, digest: Any, rankings: Any) -> Any:
        by_policy, best = digest
        places = rankings.shape[1]
        return best - over(xp, places, lambda place: by_policy[rankings[:, place]], xp.maximum)

    def structure(self, values: Float[np.ndarray, "M N"]) -> Coverage:
        """Cover the draws by k policies."""
        return Coverage(self.seen(values))


@final
@dataclass(frozen=True, repr=False)
class Regret(_Cover):
    """Loss regret@k: see `bayesdice_ppl.scores.regret`."""

    word = "regret"
    per_step = True


@final
@dataclass(frozen=True, repr=False)
class NormalizedRegret(_Cover):
    """Loss regret@k over the range of the draw: see `bayesdice_ppl.scores.normalized_regret`."""

    word = "normalized regret"

    def seen(self, values: Float[np.ndarray, "M N"]) -> Float[np.ndarray, "M N"]:
        """Give each draw's values between 0, its worst, and 1, its best; all 0 if all are equal."""
        return unit_range(values)


@final
@dataclass(frozen=True, repr=False)
class SafeImprovement(_Cover):
    """Loss regret@k among safe launches: see `bayesdice_ppl.scores.safe_improvement`."""

    baseline: str = ""
    xi: float = 0.05
    place_of_baseline: int | None = None
    word = "safe improvement"
    per_step = True

    @property
    @override
    def label(self) -> str:
        return f"safe improvement on {self.baseline}, xi = {self.xi:g}" + (
            f", @{self.k}" if self.k > 1 else ""
        )

    def bind(self, names: tuple[str, ...]) -> "SafeImprovement":
        """Look up the baseline: a ScoreError if the belief does not have it."""
        if self.baseline in names:
            place = names.index(self.baseline)
            return SafeImprovement(self.k, self.risk, self.baseline, self.xi, place)
        raise ScoreError(
            f"the baseline {self.baseline!r} is not in the belief, which has {', '.join(names)}"
            + (": fit it with include_logged=True" if self.baseline == "logged" else "")
        )

    def permuted(self, order: Sequence[int]) -> "SafeImprovement":
        """Give the score for policies listed in another order, the baseline among them."""
        if self.place_of_baseline is None:
            return self
        return replace(self, place_of_baseline=list(order).index(self.place_of_baseline))

    def admissible(self, values: Float[np.ndarray, "M N"]) -> Bool[np.ndarray, " N"] | None:
        """Tell which policies are worse than the baseline with a probability below xi."""
        if self.place_of_baseline is None:
            return None
        baseline = values[:, [self.place_of_baseline]]
        # The baseline is never worse than itself, and so is safe at any xi.
        safe: Bool[np.ndarray, " N"] = (values < baseline).mean(axis=0) < self.xi
        return safe


@final
@dataclass(frozen=True, repr=False)
class Ndcg(_TopK):
    """Loss 1 - nDCG@k: see `bayesdice_ppl.scores.ndcg`."""

    word = "ndcg"

    @property
    def _discount(self) -> Float[np.ndarray, " k"]:
        return 1.0 / np.log2(np.arange(2, self.k + 2))

    def _gain(self, values: np.ndarray) -> Float[np.ndarray, "M N"]:
        """Give each policy's value above the draw's worst, over the discounted sum of the best."""
        above = unit_range(values)
        ideal = -np.sort(-above, axis=1)[:, : self.k] @ self._discount
        # Where all are equal every order is ideal: any listing of k then gains 1 in all.
        flat = ideal == 0.0
        gain = above / np.where(flat, 1.0, ideal)[:, None]
        gain[flat] = 1.0 / self._discount.sum()
        return gain

    def digest(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give each policy's gain by draw, shape (N, M), and the discounts, shape (k,)."""
        return np.ascontiguousarray(self._gain(values).T), self._discount

    @override
    def of_digest(self, xp: ModuleType, digest: Any, rankings: Any) -> Any:
        gain, discount = digest
        places = rankings.shape[1]
        return 1.0 - over(xp, places, lambda place: discount[place] * gain[rankings[:, place]])

    def structure(self, values: Float[np.ndarray, "M N"]) -> Sorting:
        """Sort by the expected gain."""
        return Sorting(1.0, self._gain(values).mean(axis=0), self._discount)


def unit_range(values: Float[np.ndarray, "M N"]) -> Float[np.ndarray, "M N"]:
    """Bring each draw to the range from 0, its worst value, to 1, its best; all 0 if all equal."""
    above = values - values.min(axis=1, keepdims=True)
    top = above.max(axis=1, keepdims=True)
    scaled: Float[np.ndarray, "M N"] = above / np.where(top > 0.0, top, 1.0)
    return scaled
