"""A score that is the user's own function, NumPy or JAX."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, final, override

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.checks import whole
from bayesdice_ppl.errors import ScoreError, SettingsError
from bayesdice_ppl.risk import Risk, check_risk
from bayesdice_ppl.scores.score import Score


@final
@dataclass(frozen=True, repr=False)
class Custom(Score):
    """A score that calls a function of the user's: see `custom`."""

    function: Callable[[Any, Any], Any]
    own_name: str
    looks_at: int | None
    higher_is_better: bool
    risk: Risk
    columns: tuple[int, ...] | None = None
    k = None
    own_order_is_best = False
    max_evaluations = 50_000

    @property
    @override
    def label(self) -> str:
        return self.own_name

    @override
    def depth(self, n_policies: int) -> int:
        """Give the declared depth, or the whole ranking."""
        return n_policies if self.looks_at is None else self.looks_at

    @override
    def launches(self, n_policies: int) -> int | None:
        """Give the declared depth: these policies go live. None if it was not declared."""
        return self.looks_at

    @override
    def loss_scale(self, digest: Any) -> float:
        """Give 0, as only the losses themselves can tell."""
        return 0.0

    @override
    def check(self, n_policies: int) -> None:
        """Refuse fewer candidates than the depth."""
        if not 1 <= self.depth(n_policies) <= n_policies:
            raise ScoreError(
                f"{self.name}: expected at least {self.looks_at} candidates, its depth, found "
                f"{n_policies}. Choose a depth of at most {n_policies}."
            )

    @override
    def check_depth(self, values: Float[np.ndarray, "M N"], ranking: list[int]) -> None:
        """Refuse a function whose loss changes when the places past its depth are reversed."""
        depth = self.depth(values.shape[1])
        reverse = [*ranking[:depth], *ranking[depth:][::-1]]
        before, after = self._loss(values, np.array(ranking)), self._loss(values, np.array(reverse))
        size = max(float(np.abs(before).max()), float(np.abs(values).max()))
        if np.abs(after - before).max() > 1e-9 * size:
            raise ScoreError(
                f"{self.name}: expected a loss of the first {depth} places, its depth, found one "
                "that changes with later places. Give it a larger depth, or none."
            )

    @override
    def permuted(self, order: Sequence[int]) -> "Custom":
        """Give the score for policies listed in another order, which the function does not see."""
        return replace(self, columns=tuple(order))

    @override
    def digest(self, values: Float[np.ndarray, "M N"]) -> tuple[np.ndarray, np.ndarray]:
        """Give the draws, and which of their columns each index of a ranking means."""
        if self.columns is None:
            return values, np.arange(values.shape[1])
        columns = np.array(self.columns)
        return np.ascontiguousarray(values[:, np.argsort(columns)]), columns

    @override
    def of_digest(self, xp: ModuleType, digest: Any, rankings: Any) -> Any:
        """Call the function for each ranking; under JAX, traced once for all of them."""
        values, columns = digest
        ours = columns[rankings]
        if xp is np:
            found = [self._loss(values, ranking) for ranking in ours]
            return np.array(found).reshape(len(rankings), len(values))
        import jax

        def loss(ranking: Any) -> Any:
            found = self.function(values, _completed(xp, ranking, values.shape[1]))
            return (-1.0 if self.higher_is_better else 1.0) * found

        return jax.vmap(loss)(ours)

    def _loss(
        self, values: Float[np.ndarray, "M N"], ranking: np.ndarray
    ) -> Float[np.ndarray, " M"]:
        # The function always gets all N policies: those past its depth do not matter to it.
        ranking = _completed(np, ranking, values.shape[1])
        shown = values.view()
        shown.flags.writeable = False  # one call must not change the draws that the next one sees
        with _double_precision():
            result = np.asarray(self.function(shown, ranking))
        if result.shape != (len(values),) or result.dtype.kind not in "biuf":
            raise ScoreError(
                f"{self.name}: expected one number per draw, shape ({len(values)},), found "
                f"{result.dtype} of shape {result.shape}."
            )
        result = result.astype(np.float64)
        if not np.isfinite(result).all():
            bad = int(np.argmin(np.isfinite(result)))
            raise ScoreError(f"{self.name} returned {result[bad]} for draw {bad}: not finite.")
        return -result if self.higher_is_better else result


def custom(
    function: Callable[[Any, Any], Any],
    *,
    name: str | None = None,
    depth: int | None = None,
    higher_is_better: bool = False,
    risk: Risk | None = None,
) -> Score:
    """Judge rankings by a function of your own.

    Parameters
    ----------
    function : callable
        Takes `values`, Float (M, N), read-only, and `ranking`, Int (N,), all policies as indices
        of the values' columns, best first; returns (M,) numbers, NumPy or JAX, one per draw. How
        it treats ties is up to you. A function that JAX can trace is compiled and called for many
        rankings at once where there are many to try; others are called once per ranking.
    name : str, optional
        Shown in tables and files; the function's own name if left out.
    depth : int, optional
        How far down the ranking the function looks, which is also how many policies go live; all
        the way if left out. A smaller depth makes the search shorter. Selection checks it on the
        ranking that it returns.
    higher_is_better : bool
        If true the loss is minus what the function returns.
    risk : Risk, optional
        Functional of the losses over draws; their mean if left out.

    Returns
    -------
    Score
        With `k` None.

    Raises
    ------
    SettingsError
        The function cannot be called, depth is not a whole number of at least 1, or risk is none
        of `bayesdice_ppl.risk`. A function that returns something of another shape, or not finite,
        is refused when losses are computed.
    """
    if not callable(function):
        raise SettingsError(f"custom: expected a function, found {function!r}.")
    label = name or str(getattr(function, "__name__", type(function).__name__))
    looks_at = None if depth is None else whole("depth", depth)
    return Custom(function, label, looks_at, higher_is_better, check_risk(risk))


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
