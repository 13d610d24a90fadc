"""Regret and its relatives: the best value of all minus the best among the first k.

On average the draws are covered by the set of the first k policies. Fewer than k can be judged
too, where a budget does not afford k.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, SupportsIndex, final, override

import numpy as np
from jaxtyping import Bool, Float

from bayesdice_ppl.checks import listed, share, whole
from bayesdice_ppl.errors import ScoreError, SettingsError
from bayesdice_ppl.risk import Risk, check_risk
from bayesdice_ppl.scores.forms import Coverage
from bayesdice_ppl.scores.score import Score, over
from bayesdice_ppl.scores.top_k import TopK, unit_range


@dataclass(frozen=True, repr=False)
class _Cover(TopK):
    """Best of all minus the best of those listed."""

    ordered = False

    @override
    def digest(self, values: Float[np.ndarray, "M N"]) -> tuple[np.ndarray, np.ndarray]:
        """Give the values by policy, shape (N, M), and the best of all in each draw."""
        by_policy = np.ascontiguousarray(values.T)
        return by_policy, by_policy.max(axis=0)

    @override
    def of_digest(self, xp: ModuleType, digest: Any, rankings: Any) -> Any:
        by_policy, best = digest
        places = rankings.shape[1]
        return best - over(xp, places, lambda place: by_policy[rankings[:, place]], xp.maximum)

    @override
    def form(self, digest: Any) -> Coverage:
        """Cover the draws by k policies."""
        return Coverage(digest[0])

    @override
    def loss_scale(self, digest: Any) -> float:
        """Give the range of the values that make a regret, in the units of the loss."""
        return self.form(digest).scale


@final
@dataclass(frozen=True, repr=False)
class Regret(_Cover):
    """Loss regret@k: see `regret`."""

    word = "regret"
    per_step = True

    @override
    def normalized(self) -> "NormalizedRegret":
        return NormalizedRegret(self.k, self.risk)


@final
@dataclass(frozen=True, repr=False)
class NormalizedRegret(_Cover):
    """Loss regret@k over the range of the draw: see `normalized_regret`."""

    word = "normalized regret"

    @override
    def digest(self, values: Float[np.ndarray, "M N"]) -> tuple[np.ndarray, np.ndarray]:
        """Give the values between 0, the draw's worst, and 1, its best; all 0 if all are equal."""
        return super().digest(unit_range(values))


@final
@dataclass(frozen=True, repr=False)
class SafeImprovement(_Cover):
    """Loss regret@k among safe launches: see `safe_improvement`."""

    baseline: str = ""
    xi: float = 0.05
    place_of_baseline: int | None = None
    per_step = True
    # Which policies are safe would itself depend on what is known.
    own_order_is_best = False

    @property
    @override
    def label(self) -> str:
        return f"safe improvement on {self.baseline}, xi = {self.xi:g}" + (
            f", @{self.k}" if self.k > 1 else ""
        )

    @override
    def bind(self, names: tuple[str, ...]) -> "SafeImprovement":
        """Look up the baseline."""
        if self.baseline in names:
            return replace(self, place_of_baseline=names.index(self.baseline))
        hint = " Fit the belief with include_logged=True." if self.baseline == "logged" else ""
        raise ScoreError(
            f"baseline: expected one of the belief's policies, {listed(names)}, found "
            f"{self.baseline!r}.{hint}"
        )

    @override
    def permuted(self, order: Sequence[int]) -> "SafeImprovement":
        """Give the score for policies listed in another order, the baseline among them."""
        if self.place_of_baseline is None:
            return self
        return replace(self, place_of_baseline=list(order).index(self.place_of_baseline))

    @override
    def admissible(self, values: Float[np.ndarray, "M N"]) -> Bool[np.ndarray, " N"] | None:
        """Tell which policies are worse than the baseline with a probability below xi."""
        if self.place_of_baseline is None:
            return None
        baseline = values[:, [self.place_of_baseline]]
        # The baseline is never worse than itself, and so is safe at any xi.
        safe: Bool[np.ndarray, " N"] = (values < baseline).mean(axis=0) < self.xi
        return safe

    @override
    def normalized(self) -> NormalizedRegret:
        return NormalizedRegret(self.k, self.risk)

    @override
    def notes(
        self, values: Float[np.ndarray, "M N"], names: tuple[str, ...], launch: list[int]
    ) -> list[str]:
        """Say how many policies are safe, and how those that go live compare with the baseline."""
        safe = self.admissible(values)
        if self.place_of_baseline is None or safe is None:
            return []
        baseline = values[:, self.place_of_baseline]
        notes = [
            f"{int(safe.sum()) - 1} of {len(names) - 1} other policies are worse than "
            f"{self.baseline} with a probability below {self.xi:g}"
        ]
        for i in launch:
            if i != self.place_of_baseline:
                gain, worse = (values[:, i] - baseline).mean(), (values[:, i] < baseline).mean()
                notes.append(
                    f"{names[i]} is worth {gain:.4g} more than {self.baseline} on average and is "
                    f"worse with a probability of {worse:.3g}"
                )
        return notes


def regret(k: SupportsIndex, *, risk: Risk | None = None) -> Score:
    """Best value of all policies minus the best value among the ranking's first k.

    The loss is the regret itself, in units of the values (reward per step), and never negative.
    The order within the first k does not matter, and ties need no care: tied policies are worth
    the same. At k = 1 it is the regret of a single choice. At k = N, or when all values are equal,
    every ranking has loss 0.

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
    return Regret(whole("k", k), check_risk(risk))


def normalized_regret(k: SupportsIndex, *, risk: Risk | None = None) -> Score:
    """Regret@k over the range of the values, draw by draw: a number between 0 and 1.

    The loss is (best of all - best of the first k) / (best of all - worst of all), without a unit.
    Where all values of a draw are equal it is 0. A draw in which the candidates are nearly alike
    counts as much as one in which they are far apart; for regret, in reward per step, it does not.
    Ties and the edges k = 1 and k = N are as for `regret`.

    Parameters
    ----------
    k : int
        1 <= k <= N.
    risk : Risk, optional
        Functional of the losses over draws; their mean if left out.

    Raises
    ------
    SettingsError
        As for `regret`.
    """
    return NormalizedRegret(whole("k", k), check_risk(risk))


def safe_improvement(
    baseline: str, *, xi: float = 0.05, k: SupportsIndex = 1, risk: Risk | None = None
) -> Score:
    """Regret@k among launches that are hardly ever worse than a baseline.

    A policy may go live only if P(value < value of the baseline) < xi under the belief, or if it
    is the baseline itself. Among those the loss is that of `regret`, measured against the best of
    *all* policies, safe or not. So at k = 1 the answer is the candidate with the highest mean among
    the safe ones that are better than the baseline on average; if there is none, the baseline
    stays. Values equal to the baseline's are not below it. Other edges are as for `regret`; where
    fewer than k policies are safe, fewer go live.

    Parameters
    ----------
    baseline : str
        Name of a policy of the belief: a candidate, or ``"logged"``, the logging policy, of
        a belief that was fitted with ``include_logged=True``.
    xi : float
        In (0, 1]: the probability of being worse has to be below it.
    k : int
        How many go live; 1 <= k <= N.
    risk : Risk, optional
        Functional of the losses over draws; their mean if left out.

    Raises
    ------
    SettingsError
        An argument is none of these. A baseline that the belief does not have is refused when a
        ranking is selected.

    References
    ----------
    Yang et al., "Offline Policy Selection under Uncertainty", figure 1: a user may prefer a policy
    only if p(rho_2 < rho_1) < xi.
    """
    if not isinstance(baseline, str) or not baseline:
        raise SettingsError(f"baseline: expected the name of a policy, found {baseline!r}.")
    return SafeImprovement(whole("k", k), check_risk(risk), baseline, share("xi", xi))
