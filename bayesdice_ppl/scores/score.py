"""What a score is: a loss for every ranking in every draw, lower is better.

A score is written once, for NumPy and JAX alike. First it takes from the draws what it needs (its
digest), then it gives the losses of any rankings. If its expected loss has a simple form, it gives
that too, and an exact solver finds the best ranking. Ties are averaged: every order of policies
with equal values is equally likely. Notation: M draws of the values of N policies; R rankings,
rows of indices, best first.
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
from bayesdice_ppl.risk import Mean, Risk
from bayesdice_ppl.scores.forms import CHUNK, Form

type Objective = Callable[[np.ndarray], np.ndarray]
"""Takes rankings, Int (R, places), and gives what is to be minimized, Float (R,)."""

# JAX takes longer to compile more terms than this, written out, than a loop takes longer to run.
_UNROLLED = 16


class Score(ABC):
    """What a ranking is judged by. Made by `regret`, `precision` and the like.

    A new score is a frozen dataclass that derives from this class. It has to define `label`,
    `depth`, `digest` and `of_digest`, and it may define a `form`. Its function goes into
    `bayesdice_ppl.scores.catalog`.

    Attributes
    ----------
    k : int or None
        How many of the best policies the score is about; None for the whole ranking.
    risk : Risk
        Functional of the losses over draws: their mean, unless another is given.
    ordered : bool
        Whether the order of the first `depth` policies matters, or only which ones they are.
    partial : bool
        Whether fewer than `depth` policies may be launched, where a budget affords no more.
    per_step : bool
        Whether the loss is in units of the values, reward per step, or has no unit.
    own_order_is_best : bool
        Whether in a single draw, without ties, no ranking beats the order of the values.
    baseline : str or None
        The policy that the launch is compared with, if the score names one.
    max_evaluations : int
        How many rankings an exhaustive search may try by default.
    """

    k: int | None
    risk: Risk
    ordered: bool = True
    partial: bool = False
    per_step: bool = False
    own_order_is_best: bool = True
    baseline: str | None = None
    max_evaluations: int = 2_000_000

    @property
    @abstractmethod
    def label(self) -> str:
        """Name of the loss, whatever the risk: for example "regret@2"."""

    @property
    def name(self) -> str:
        """Name in tables and files, for example "regret@2" or "cvar(0.1) of regret@2"."""
        return self.label if self.averaged else f"{self.risk.name} of {self.label}"

    @property
    def averaged(self) -> bool:
        """Whether a ranking is judged by the mean of its losses."""
        return isinstance(self.risk, Mean)

    @abstractmethod
    def depth(self, n_policies: int) -> int:
        """Tell on how many leading places of a ranking of `n_policies` the loss depends."""

    def launches(self, n_policies: int) -> int | None:
        """Tell how many leading places go live; None if the score has no such number."""
        return self.k

    def bind(self, names: tuple[str, ...]) -> "Score":
        """Look up the policies that the score names.

        Raises
        ------
        ScoreError
            One is missing.
        """
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

    def form(self, digest: Any) -> Form | None:
        """Give the form of the *mean* loss, if it has one."""
        return None

    def loss_scale(self, digest: Any) -> float:
        """Give the size that losses are rounded at: differences far below it do not count."""
        return 1.0

    def normalized(self) -> "Score | None":
        """Give the same score without a unit, to be shown beside it, if there is one."""
        return None

    def notes(
        self, values: Float[np.ndarray, "M N"], names: tuple[str, ...], launch: list[int]
    ) -> list[str]:
        """Say what a user should know of a launch under this score besides its loss."""
        return []

    def check(self, n_policies: int) -> None:
        """Refuse a number of candidates that is too small for the score.

        Raises
        ------
        ScoreError
            There are fewer than k.
        """
        needed = 1 if self.k is None else self.k
        if n_policies < needed:
            raise ScoreError(
                f"{self.name}: expected at least {needed} candidates, found {n_policies}. Choose a "
                "smaller k or add candidates."
            )

    def check_depth(  # noqa: B027  for scores whose depth is declared
        self, values: Float[np.ndarray, "M N"], ranking: list[int]
    ) -> None:
        """Refuse a score that looks past its depth, tried on one ranking of all policies."""

    def check_own_order(  # noqa: B027  for scores that ties can mislead
        self, values: Float[np.ndarray, "M N"], names: tuple[str, ...]
    ) -> None:
        """Refuse draws whose own order may not be the best ranking, because of ties."""

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
            Whether a row shorter than the depth is a launch of fewer policies, where the score is
            `partial`.

        Returns
        -------
        Float[ndarray, "R M"]
            Losses, lower is better: in units of the values for regret, without a unit for others.

        Raises
        ------
        ScoreError
            k does not fit, a value is not finite, or a ranking is not one.
        """
        values = np.asarray(values, dtype=np.float64)
        if values.ndim != 2:
            raise ScoreError(f"values: expected shape (draws, policies), found {values.shape}.")
        n_policies = values.shape[1]
        self.check(n_policies)
        bad = ~np.isfinite(values).all(axis=0)
        if bad.any():
            raise ScoreError(f"policy {int(np.argmax(bad))} has values that are not finite.")
        depth, rankings = self.depth(n_policies), np.asarray(rankings)
        least = 1 if fewer and self.partial else depth
        if rankings.ndim != 2 or rankings.shape[1] < least or rankings.dtype.kind not in "iu":
            raise ScoreError(
                f"{self.name}: expected rankings as integers of shape (R, {depth}), found "
                f"{rankings.dtype} of shape {rankings.shape}."
            )
        rankings = rankings[:, :depth].astype(np.intp)
        in_order = np.sort(rankings, axis=1)
        out_of_range = (rankings < 0) | (rankings >= n_policies)
        if out_of_range.any() or (in_order[:, 1:] == in_order[:, :-1]).any():
            raise ScoreError(
                f"expected a ranking of policies 0..{n_policies - 1}, each at most once."
            )
        return np.asarray(self.of_digest(np, self.digest(values), rankings))

    def risk_of_losses(self, digest: Any, n_draws: int) -> Objective:
        """Give the function that takes the risk of rankings' losses, draw by draw."""
        step = max(1, CHUNK // n_draws)

        def risks(rankings: np.ndarray) -> np.ndarray:
            parts = [
                self.risk.of(self.of_digest(np, digest, rankings[start : start + step]))
                for start in range(0, len(rankings), step)
            ]
            return np.concatenate(parts) if parts else np.zeros(0)

        return risks

    def __repr__(self) -> str:
        return f"Score({self.name!r})"


def over(
    xp: ModuleType, count: int, term: Callable[[Any], Any], join: Callable[..., Any] = operator.add
) -> Any:
    """Join term(0), ..., term(count - 1); under JAX in a loop, once there are many of them.

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
