"""A loss that is the user's own function, NumPy or JAX, called once a ranking."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, final, override

import numpy as np

from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.losses.score import Score
from bayesdice_ppl.risk import Mean, Risk


@final
@dataclass(frozen=True, repr=False)
class Custom(Score):
    """A score that calls a function of the user's: see `bayesdice_ppl.scores.custom`."""

    function: Callable[[Any, Any], Any]
    own_name: str
    looks_at: int | None
    higher_is_better: bool
    risk: Risk = field(default_factory=Mean)
    columns: tuple[int, ...] | None = None
    k = None
    max_evaluations = 50_000

    @property
    @override
    def label(self) -> str:
        return self.own_name

    def depth(self, n_policies: int) -> int:
        """Give the declared depth, or the whole ranking."""
        return n_policies if self.looks_at is None else self.looks_at

    def launches(self, n_policies: int) -> int | None:
        """Tell that what the function looks at goes live, if that was declared."""
        return self.looks_at

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
        size = max(float(np.abs(before).max()), float(np.abs(values).max()))
        if np.abs(after - before).max() > 1e-9 * size:
            raise ScoreError(
                f"{self.name} was declared to look at the first {depth} places of a ranking, and "
                "its loss changes with later ones: give it a larger depth, or none"
            )

    def permuted(self, order: Sequence[int]) -> "Custom":
        """Give the score for policies listed in another order, which the function does not see."""
        return replace(self, columns=tuple(order))

    def digest(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give the draws, and which of their columns each index of a ranking means."""
        columns = np.arange(values.shape[1])
        if self.columns is None:
            return values, columns
        columns = np.array(self.columns)
        return np.ascontiguousarray(values[:, np.argsort(columns)]), columns

    @override
    def of_digest(self, xp: ModuleType, digest: Any, rankings: Any) -> Any:
        """Call the function for each ranking; under JAX, traced once for all of them."""
        values, columns = digest
        listed = columns[rankings]
        if xp is np:
            found = [self._loss(values, ranking) for ranking in listed]
            return np.array(found).reshape(len(rankings), len(values))
        import jax

        def loss(ranking: Any) -> Any:
            found = self.function(values, _completed(xp, ranking, values.shape[1]))
            return (-1.0 if self.higher_is_better else 1.0) * found

        return jax.vmap(loss)(listed)

    def _loss(self, values: np.ndarray, ranking: np.ndarray) -> np.ndarray:
        # The function always sees all N: by its own word what lies past its depth is no matter.
        ranking = _completed(np, ranking, values.shape[1])
        shown = values.view()
        shown.flags.writeable = False  # one call must not change the draws that the next one sees
        with _double_precision():
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


def _double_precision() -> AbstractContextManager[Any]:
    """Let a function that JAX runs see the draws as they are, if JAX is in use at all."""
    jax = sys.modules.get("jax")
    return nullcontext() if jax is None else jax.enable_x64(True)


def _completed(xp: ModuleType, ranking: Any, n_policies: int) -> Any:
    """Append the policies that a prefix leaves out, in the order of their indices."""
    if ranking.shape[0] == n_policies:
        return ranking
    everyone = xp.arange(n_policies)
    listed = (everyone[:, None] == ranking[None, :]).any(axis=1)
    rest = xp.argsort(listed, stable=True)[: n_policies - ranking.shape[0]]
    return xp.concatenate([ranking, rest])
