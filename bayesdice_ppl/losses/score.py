"""What all scores have in common: a loss a draw, lower is better, averaged over tie-breaks.

A score is one definition, written once for NumPy and JAX alike: what it needs of the draws is
digested first, then the losses of any rankings follow. Those whose expected loss has a simple form
give that too, and so have an exact solver. Notation: M draws of the values of N policies; R
rankings, rows of indices, best first.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.losses.structure import CHUNK, Structure, evaluate
from bayesdice_ppl.risk import Mean, Risk

Objective = Callable[[np.ndarray], np.ndarray]

# Written out, more terms than this take JAX longer to compile than a loop takes longer to run.
_UNROLLED = 16


class Score(ABC):
    """What a ranking is judged by: made by `precision`, `accuracy`, `regret` and so on.

    Attributes
    ----------
    k : int or None
        How many of the best policies the score is about; None for the whole ranking.
    risk : Risk
        What is made of the losses over draws: their mean, unless it is told otherwise.
    ordered : bool
        Whether the order of the first `depth` policies matters, or only which ones they are.
    partial : bool
        Whether fewer than `depth` policies may be launched, where a budget affords no more.
    max_evaluations : int
        How many rankings an exhaustive search may try, unless it is told otherwise.
    """

    k: int | None
    risk: Risk
    ordered: bool = True
    partial: bool = False
    max_evaluations: int = 2_000_000

    @property
    @abstractmethod
    def label(self) -> str:
        """Name of the loss, whatever is made of it over draws: for example "regret@2"."""

    @property
    def name(self) -> str:
        """Name in tables and files, for example "regret@2" or "cvar(0.1) of regret@2"."""
        return self.label if self.averaged else f"{self.risk.name} of {self.label}"

    @property
    def averaged(self) -> bool:
        """Whether a ranking is judged by the mean of its losses."""
        return isinstance(self.risk, Mean)

    @property
    def per_step(self) -> bool:
        """Whether the loss is in units of the values, reward per step, or has no unit."""
        return False

    @abstractmethod
    def depth(self, n_policies: int) -> int:
        """Tell how many leading places of a ranking of `n_policies` the loss depends on."""

    def launches(self, n_policies: int) -> int | None:
        """Tell how many leading places go live; None if the score has no such number."""
        return self.k

    def bind(self, names: tuple[str, ...]) -> "Score":
        """Look up policies that the score names: a ScoreError if one is missing."""
        return self

    def permuted(self, order: Sequence[int]) -> "Score":
        """Give the score for policies listed in another order: policy i is then order[i]."""
        return self

    def admissible(self, values: Float[np.ndarray, "M N"]) -> Bool[np.ndarray, " N"] | None:
        """Tell which policies the score lets go live under these draws; None for all."""
        return None

    @abstractmethod
    def digest(self, values: Float[np.ndarray, "M N"]) -> Any:
        """Take from the draws what the losses of all rankings need, as a tuple of arrays."""

    @abstractmethod
    def of_digest(self, xp: ModuleType, digest: Any, rankings: Any) -> Any:
        """Give the losses of rankings that have been checked.

        Parameters
        ----------
        xp : module
            `numpy` or `jax.numpy`.
        digest : tuple of arrays
            From `digest`.
        rankings : Int[Array, "R places"]
            As many places as the depth, or fewer where the score is `partial`.

        Returns
        -------
        Float[Array, "R M"]
            One loss per ranking and draw.
        """

    def structure(self, values: Float[np.ndarray, "M N"]) -> Structure | None:
        """Give the form of the *mean* loss, if it has one of `bayesdice_ppl.losses.structure`."""
        return None

    def loss_scale(self, values: Float[np.ndarray, "M N"]) -> float:
        """Give the size that losses are rounded at: differences far below it are no differences."""
        return 1.0

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
        self,
        values: Float[np.ndarray, "M N"],
        rankings: Int[np.ndarray, "R depth"],
        *,
        fewer: bool = False,
    ) -> Float[np.ndarray, "R M"]:
        """Give the loss of each ranking in each draw, averaged over tie-breaks.

        Parameters
        ----------
        values : Float[ndarray, "M N"]
            Policy values, reward per step, finite.
        rankings : Int[ndarray, "R depth"]
            Indices of policies, best first; columns past the depth are ignored.
        fewer : bool
            Whether rows shorter than the depth are taken as launches of fewer policies, where
            the score is `partial`.

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
        least = 1 if fewer and self.partial else depth
        if rankings.ndim != 2 or rankings.shape[1] < least or rankings.dtype.kind not in "iu":
            raise ScoreError(
                f"{self.name} takes rankings as integers of shape (R, {depth}), got "
                f"{rankings.dtype} of shape {rankings.shape}"
            )
        rankings = rankings[:, :depth].astype(np.intp)
        in_order = np.sort(rankings, axis=1)
        out_of_range = (rankings < 0) | (rankings >= n_policies)
        if out_of_range.any() or (in_order[:, 1:] == in_order[:, :-1]).any():
            raise ScoreError(f"a ranking lists policies 0..{n_policies - 1}, each at most once")
        return np.asarray(self.of_digest(np, self.digest(values), rankings))

    def objective(self, values: Float[np.ndarray, "M N"]) -> Objective:
        """Digest the draws once, and return what is to be minimized.

        Parameters
        ----------
        values : Float[ndarray, "M N"]
            Policy values, reward per step, finite; not checked again.

        Returns
        -------
        callable
            Takes rankings, Int (R, depth), and gives Float (R,): the risk of their losses, with
            the sum over draws taken beforehand wherever the structure allows it.
        """
        values = np.asarray(values, dtype=np.float64)
        return self._mean_loss(values) if self.averaged else self._risk_of_loss(values)

    def _mean_loss(self, values: np.ndarray) -> Objective:
        structure = self.structure(values)
        if structure is None:
            return self._risk_of_loss(values)
        return lambda rankings: evaluate(structure, rankings)

    def _risk_of_loss(self, values: np.ndarray) -> Objective:
        digest, step = self.digest(values), max(1, CHUNK // len(values))

        def risk_of_loss(rankings: np.ndarray) -> np.ndarray:
            parts = [
                self.risk.of(self.of_digest(np, digest, rankings[start : start + step]))
                for start in range(0, len(rankings), step)
            ]
            return np.concatenate(parts) if parts else np.zeros(0)

        return risk_of_loss

    def __repr__(self) -> str:
        return f"Score({self.name!r})"


def over(
    xp: ModuleType, count: int, term: Callable[[Any], Any], join: Callable[..., Any] = operator.add
) -> Any:
    """Join term(0), ..., term(count - 1), under JAX by a loop once there are many of them.

    Parameters
    ----------
    xp : module
        `numpy` or `jax.numpy`.
    count : int
        At least 1.
    term : callable
        Takes an index, traced under JAX, and gives an array.
    join : callable
        Of two arrays; their sum if left out.

    Returns
    -------
    Array
        Of the shape of one term.
    """
    if xp is np or count <= _UNROLLED:
        return reduce(join, map(term, range(count)))
    import jax

    return jax.lax.fori_loop(1, count, lambda i, total: join(total, term(i)), term(0))
