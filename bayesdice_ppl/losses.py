"""What scores have in common, and the losses of the four that are built in.

A loss is lower-is-better. Each built-in score has structure that lets the average over draws be
taken before the search over rankings: precision and accuracy are sums over the places listed,
correlation is linear once the true top k is known, and regret depends on a set alone.
Notation: M draws of the values of N policies; R rankings, rows of indices, best first.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl import ties
from bayesdice_ppl.errors import ScoreError

MeanLoss = Callable[[np.ndarray], np.ndarray]

# Floats in a temporary array: 2 MB, and less for the small matrix products of correlation.
_CHUNK = 1 << 18


class Score(ABC):
    """What a ranking is judged by: made by `precision`, `accuracy`, `regret` and so on.

    Attributes
    ----------
    k : int or None
        How many of the best policies the score is about; None for a callable.
    ordered : bool
        Whether the order of the first `depth` policies matters, or only which ones they are.
    max_evaluations : int
        How many rankings an exhaustive search may try, unless it is told otherwise.
    """

    k: int | None
    ordered: bool = True
    max_evaluations: int = 2_000_000

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in tables and files, for example "regret@2"."""

    @abstractmethod
    def depth(self, n_policies: int) -> int:
        """Tell how many leading places of a ranking of `n_policies` the loss depends on."""

    @abstractmethod
    def _losses(
        self, values: Float[np.ndarray, "M N"], rankings: Int[np.ndarray, "R depth"]
    ) -> Float[np.ndarray, "R M"]:
        """Give `losses` of inputs that have been checked."""

    def check(self, n_policies: int) -> None:
        """Refuse a number of candidates that is too small for the score.

        Raises
        ------
        ScoreError
            Unless 1 <= k <= `n_policies`, and 2 <= k for correlation.
        """
        needed = 1 if self.k is None else self.k
        if n_policies < needed:
            raise ScoreError(
                f"{self.name} needs at least {needed} candidates, got {n_policies}: "
                "choose a smaller k or add candidates"
            )

    def losses(
        self, values: Float[np.ndarray, "M N"], rankings: Int[np.ndarray, "R depth"]
    ) -> Float[np.ndarray, "R M"]:
        """Give the loss of each ranking in each draw, averaged over tie-breaks.

        Parameters
        ----------
        values : Float[ndarray, "M N"]
            Policy values, reward per step, finite.
        rankings : Int[ndarray, "R depth"]
            Indices of policies, best first; columns past the depth are ignored.

        Returns
        -------
        Float[ndarray, "R M"]
            Losses, lower is better: in units of the values for regret, unitless for others.

        Raises
        ------
        ScoreError
            If k does not fit, a value is not finite, or a ranking is not one.
        """
        values = np.asarray(values, dtype=np.float64)
        if values.ndim != 2:
            raise ScoreError(f"values must have shape (draws, policies), got {values.shape}")
        n_policies = values.shape[1]
        self.check(n_policies)
        bad = ~np.isfinite(values).all(axis=0)
        if bad.any():
            raise ScoreError(f"policy {int(np.argmax(bad))} has values that are not finite")
        depth, rankings = self.depth(n_policies), np.asarray(rankings)
        if rankings.ndim != 2 or rankings.shape[1] < depth or rankings.dtype.kind not in "iu":
            raise ScoreError(
                f"{self.name} takes rankings as integers of shape (R, {depth}), got "
                f"{rankings.dtype} of shape {rankings.shape}"
            )
        rankings = rankings[:, :depth].astype(np.intp)
        in_order = np.sort(rankings, axis=1)
        out_of_range = (rankings < 0) | (rankings >= n_policies)
        if out_of_range.any() or (in_order[:, 1:] == in_order[:, :-1]).any():
            raise ScoreError(f"a ranking lists policies 0..{n_policies - 1}, each at most once")
        return self._losses(values, rankings)

    def mean_loss(self, values: Float[np.ndarray, "M N"]) -> MeanLoss:
        """Digest the draws once, and return a function from rankings to their mean losses.

        Parameters
        ----------
        values : Float[ndarray, "M N"]
            Policy values, reward per step, finite; not checked again.

        Returns
        -------
        callable
            Takes rankings, Int (R, depth), and gives Float (R,): `losses(...).mean(axis=1)`.
        """
        return self._mean_loss(np.asarray(values, dtype=np.float64))

    @abstractmethod
    def _mean_loss(self, values: np.ndarray) -> MeanLoss:
        """Give `mean_loss`, with sums over draws taken first wherever the structure allows."""

    def loss_scale(self, values: Float[np.ndarray, "M N"]) -> float:
        """Give the size that losses are rounded at: differences far below it are no differences."""
        return 1.0

    def __repr__(self) -> str:
        return f"Score({self.name!r})"


@dataclass(frozen=True, repr=False)
class _TopK(Score):
    """A built-in score of the first k places."""

    k: int
    word: ClassVar[str]

    @property
    def name(self) -> str:
        return f"{self.word}@{self.k}"

    def depth(self, n_policies: int) -> int:
        return self.k


@final
@dataclass(frozen=True, repr=False)
class Precision(_TopK):
    """Loss 1 - precision@k: see `bayesdice_ppl.scores.precision`."""

    word = "precision"
    ordered = False

    def _losses(self, values: np.ndarray, rankings: np.ndarray) -> np.ndarray:
        included = ties.inclusion(ties.places(values), self.k)
        found = np.zeros((len(rankings), len(values)))
        for listed in rankings.T:
            found += included[:, listed].T
        return 1.0 - found / self.k

    def _mean_loss(self, values: np.ndarray) -> MeanLoss:
        # A sum over the set: only each policy's chance of being in the true top k is needed.
        included = ties.inclusion(ties.places(values), self.k).mean(axis=0)
        return lambda rankings: 1.0 - included[rankings].sum(axis=1) / self.k


@final
@dataclass(frozen=True, repr=False)
class Accuracy(_TopK):
    """Loss 1 - accuracy@k: see `bayesdice_ppl.scores.accuracy`."""

    word = "accuracy"

    def _losses(self, values: np.ndarray, rankings: np.ndarray) -> np.ndarray:
        block = ties.places(values)
        right = np.zeros((len(rankings), len(values)))
        for place, listed in enumerate(rankings.T):
            right += ties.holds_place(block, listed, place)
        return 1.0 - right / self.k

    def _mean_loss(self, values: np.ndarray) -> MeanLoss:
        # A sum over places: only P(policy i has true place j), an (N, N) table, is needed.
        shares, listed_place = ties.place_shares(ties.places(values)), np.arange(self.k)
        return lambda rankings: 1.0 - shares[rankings, listed_place].sum(axis=1) / self.k


@final
@dataclass(frozen=True, repr=False)
class Regret(_TopK):
    """Loss regret@k: see `bayesdice_ppl.scores.regret`."""

    word = "regret"
    ordered = False

    def loss_scale(self, values: Float[np.ndarray, "M N"]) -> float:
        """Give the range of the values, in their units."""
        return float(np.ptp(values))

    def _losses(self, values: np.ndarray, rankings: np.ndarray) -> np.ndarray:
        return values.max(axis=1) - _best_of(np.ascontiguousarray(values.T), rankings)

    def _mean_loss(self, values: np.ndarray) -> MeanLoss:
        by_policy = np.ascontiguousarray(values.T)
        best = by_policy.max(axis=0)
        step = max(1, _CHUNK // len(values))

        def mean_regret(rankings: np.ndarray) -> np.ndarray:
            means = [
                # The difference is averaged, not the averages subtracted, so that a set that
                # holds the best policy in every draw has a regret of exactly 0.
                (best - _best_of(by_policy, rankings[start : start + step])).mean(axis=1)
                for start in range(0, len(rankings), step)
            ]
            return np.concatenate(means) if means else np.zeros(0)

        return mean_regret


def _best_of(
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
    return np.maximum(_best_of(by_policy, heads[new])[np.cumsum(new) - 1], last, out=last)


@final
@dataclass(frozen=True, repr=False)
class Correlation(_TopK):
    """Loss 1 - correlation@k: see `bayesdice_ppl.scores.correlation`."""

    word = "correlation"

    def depth(self, n_policies: int) -> int:
        """Tell that the whole ranking matters."""
        return n_policies

    def _losses(self, values: np.ndarray, rankings: np.ndarray) -> np.ndarray:
        top = ties.top_sets(ties.places(values), self.k)
        covariates = (top.place - (self.k + 1) / 2) * top.member
        losses = np.empty((len(rankings), len(values)))
        for row, ranking in enumerate(rankings):
            correlation = self._correlations(ranking[None], covariates, top.member)[0]
            mean = np.bincount(top.draw, top.weight * correlation, minlength=len(values))
            losses[row] = 1.0 - mean
        return losses

    def _mean_loss(self, values: np.ndarray) -> MeanLoss:
        # The spread of the listed places depends on the draw only through *which* policies are
        # the true top k, and given those the correlation is linear in their true places: so draws
        # with the same top k are added up first.
        top = ties.top_sets(ties.places(values), self.k)
        sets, which = np.unique(top.member, axis=0, return_inverse=True)
        covariates = np.zeros(sets.shape)
        centered = (top.place - (self.k + 1) / 2) * top.member
        np.add.at(covariates, which, top.weight[:, None] * centered / len(values))
        step = max(1, _CHUNK // (4 * len(sets)))

        def mean_correlation_loss(rankings: np.ndarray) -> np.ndarray:
            losses = np.empty(len(rankings))
            for start in range(0, len(rankings), step):
                part = slice(start, start + step)
                losses[part] = 1.0 - self._correlations(rankings[part], covariates, sets).sum(1)
            return losses

        return mean_correlation_loss

    def _correlations(
        self,
        rankings: Int[np.ndarray, "R N"],
        covariates: Float[np.ndarray, "E N"],
        members: Bool[np.ndarray, "E N"],
    ) -> Float[np.ndarray, "R E"]:
        """Correlate listed with true places, the latter centered and 0 outside the set."""
        listed = np.argsort(rankings, axis=1) + 1.0
        inside = members.T.astype(np.float64)
        squares = listed**2 @ inside - (listed @ inside) ** 2 / self.k
        true_squares = self.k * (self.k**2 - 1) / 12
        return (listed @ covariates.T) / np.sqrt(true_squares * squares)
