"""Scores of a ranking, turned into losses: lower is better everywhere past this module.

A score compares a ranking with the policies' values (Yang et al., Offline Policy Selection under
Uncertainty, section 2.2). Each states its `depth`, how far down the ranking it looks, so that a
search need not try orders that cannot matter, and each averages ties exactly: all orderings of
policies with equal values are equally likely.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, SupportsIndex, final

import numpy as np

from bayesdice_ppl import losses
from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.losses import Score

__all__ = ["Score", "accuracy", "correlation", "custom", "precision", "regret"]


@final
@dataclass(frozen=True, repr=False)
class Custom(Score):
    """A score that calls a function of the user's: see `custom`."""

    function: Callable[[np.ndarray, np.ndarray], Any]
    label: str
    looks_at: int | None
    higher_is_better: bool
    k: None = None
    max_evaluations = 50_000

    @property
    def name(self) -> str:
        return self.label

    def depth(self, n_policies: int) -> int:
        """Give the declared depth, or the whole ranking."""
        return n_policies if self.looks_at is None else self.looks_at

    def loss_scale(self, values: np.ndarray) -> float:
        """Give 0, as only the losses themselves can tell."""
        return 0.0

    def check(self, n_policies: int) -> None:
        """Refuse fewer candidates than the depth: a ScoreError."""
        if not 1 <= self.depth(n_policies) <= n_policies:
            raise ScoreError(
                f"{self.name} looks at the first {self.looks_at} places of a ranking, and there "
                f"are {n_policies} candidates: choose a depth of at most {n_policies}"
            )

    def check_depth(self, values: np.ndarray, ranking: np.ndarray) -> None:
        """Refuse a function that looks past its declared depth.

        Parameters
        ----------
        values : Float[ndarray, "M N"]
            Draws of the policy values.
        ranking : Int[ndarray, "N"]
            A ranking of all policies; the places past the depth are turned around.

        Raises
        ------
        ScoreError
            If that changes a loss.
        """
        depth = self.depth(values.shape[1])
        turned = np.concatenate([ranking[:depth], ranking[depth:][::-1]])
        before, after = self._loss(values, ranking), self._loss(values, turned)
        if np.abs(after - before).max() > 1e-9 * np.abs(before).max():
            raise ScoreError(
                f"{self.name} was declared to look at the first {depth} places of a ranking, and "
                "its loss changes with later ones: give it a larger depth, or none"
            )

    def _losses(self, values: np.ndarray, rankings: np.ndarray) -> np.ndarray:
        result = np.empty((len(rankings), len(values)))
        for row, ranking in enumerate(rankings):
            result[row] = self._loss(values, ranking)
        return result

    def _mean_loss(self, values: np.ndarray) -> losses.MeanLoss:
        # One ranking at a time: what the function returns for all of them may not fit in memory.
        return lambda rankings: np.array([self._loss(values, r).mean() for r in rankings])

    def _loss(self, values: np.ndarray, ranking: np.ndarray) -> np.ndarray:
        # The function always sees all N: by its own word what lies past its depth is no matter.
        if len(ranking) < values.shape[1]:
            rest = np.setdiff1d(np.arange(values.shape[1]), ranking)
            ranking = np.concatenate([ranking, rest])
        shown = values.view()
        shown.flags.writeable = False  # one call must not change the draws that the next one sees
        result = np.asarray(self.function(shown, ranking))
        if result.shape != (len(values),) or result.dtype.kind not in "biuf":
            raise ScoreError(
                f"{self.name} must return one number per draw, shape ({len(values)},): got "
                f"{result.dtype} of shape {result.shape}"
            )
        result = result.astype(np.float64)
        if not np.isfinite(result).all():
            bad = int(np.argmin(np.isfinite(result)))
            raise ScoreError(f"{self.name} returned {result[bad]} for draw {bad}: not finite")
        return -result if self.higher_is_better else result


def _count(value: SupportsIndex, what: str, at_least: int = 1) -> int:
    """Read a whole number, or say what is wrong with it."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ScoreError(f"{what} must be a whole number, got {value!r}") from None
    if number < at_least:
        raise ScoreError(f"{what} must be at least {at_least}, got {number}")
    return number


def precision(k: SupportsIndex) -> Score:
    """Share of the truly best k policies that are among the ranking's first k.

    Loss: 1 - precision@k. The order within the first k does not matter. With tied values, a
    policy counts by its probability of being in the true top k: of two policies tied for one
    place, each counts one half. At k = 1 it equals accuracy@1; at k = N every ranking has loss 0;
    when all values are equal every ranking has loss 1 - k/N.

    Parameters
    ----------
    k : int
        1 <= k <= N.

    Raises
    ------
    ScoreError
        If k is not a whole number of at least 1; larger than N is refused by `Score.check`.
    """
    return losses.Precision(_count(k, "k of precision"))


def accuracy(k: SupportsIndex) -> Score:
    """Share of the places 1..k at which the ranking lists the policy truly of that place.

    Loss: 1 - accuracy@k. With tied values, a policy in a tie block of b places has each of them
    with probability 1/b. When all values are equal every ranking has loss 1 - 1/N.

    Parameters
    ----------
    k : int
        1 <= k <= N.

    Raises
    ------
    ScoreError
        If k is not a whole number of at least 1; larger than N is refused by `Score.check`.
    """
    return losses.Accuracy(_count(k, "k of accuracy"))


def regret(k: SupportsIndex) -> Score:
    """Best value of all policies minus the best value among the ranking's first k.

    The loss is the regret itself, in units of the values (reward per step), and never negative.
    The order within the first k does not matter, and ties need no care: tied policies are worth
    the same. At k = N, or when all values are equal, every ranking has loss 0.

    Parameters
    ----------
    k : int
        1 <= k <= N.

    Raises
    ------
    ScoreError
        If k is not a whole number of at least 1; larger than N is refused by `Score.check`.
    """
    return losses.Regret(_count(k, "k of regret"))


def correlation(k: SupportsIndex) -> Score:
    """Pearson correlation between 1..k and the listed places of the truly best k policies.

    Let o_1, ..., o_k be the truly best k, in order, and p_j in 1..N the place at which the ranking
    lists o_j: the score is the correlation of (1, ..., k) with (p_1, ..., p_k). The loss is 1 -
    correlation, between 0 and 2. It depends on the whole ranking. With tied values the correlation
    is averaged over all tie-breaks, exactly; when all values are equal every ranking has loss 1.
    At k = N it is Spearman's rank correlation when nothing is tied.

    Parameters
    ----------
    k : int
        2 <= k <= N: one point has no correlation.

    Raises
    ------
    ScoreError
        If k is not a whole number of at least 2; larger than N is refused by `Score.check`. When
        losses are computed: if so many policies are tied around place k that the possible sets
        of the top k cannot be listed.
    """
    return losses.Correlation(_count(k, "k of correlation", at_least=2))


def custom(
    function: Callable[[np.ndarray, np.ndarray], Any],
    *,
    name: str | None = None,
    depth: int | None = None,
    higher_is_better: bool = False,
) -> Score:
    """Judge rankings by a function of your own.

    Parameters
    ----------
    function : callable
        Takes `values`, Float (M, N), read-only, and `ranking`, Int (N,), all policies in the
        order of the values' columns as indices, best first; returns (M,) numbers, NumPy or JAX,
        one per draw. It is called once per ranking, and treats ties as it sees fit.
    name : str, optional
        Shown in tables and files; the function's own name if left out.
    depth : int, optional
        How far down the ranking the function looks; all the way if left out. A smaller depth
        makes the search shorter; selection checks it on the ranking that it returns.
    higher_is_better : bool
        If true the loss is minus what the function returns.

    Returns
    -------
    Score
        With `k` None.

    Raises
    ------
    ScoreError
        If the function cannot be called or depth is not a whole number of at least 1. When losses
        are computed: if the function returns something of another shape, or not finite.
    """
    if not callable(function):
        raise ScoreError(f"a custom score needs a function, got {function!r}")
    label = name or str(getattr(function, "__name__", type(function).__name__))
    looks_at = None if depth is None else _count(depth, f"depth of {label}")
    return Custom(function, label, looks_at, higher_is_better)
