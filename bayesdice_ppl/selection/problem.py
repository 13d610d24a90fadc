"""What a solver is given: draws, a score, and rules on the launch."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.scores import Score
from bayesdice_ppl.scores.forms import Form
from bayesdice_ppl.scores.score import Objective
from bayesdice_ppl.selection.rules import Rules


@final
@dataclass(frozen=True, eq=False)
class RankingProblem:
    """Find the ranking of lowest loss that the rules allow.

    Solvers number the policies by preference, 0 first: among rankings of equal loss the one wins
    that is first in lexicographic order, wherever all are tried or sorted.

    Attributes
    ----------
    values
        Draws of the policy values, finite, shape (M, N).
    score
        What to minimize the loss of, bound to the names.
    rules
        Which launches are allowed.
    """

    values: Float[np.ndarray, "M N"]
    score: Score
    rules: Rules

    def permuted(self, order: list[int]) -> "RankingProblem":
        """Give the same problem for policies listed in another order."""
        columns = np.array(order)
        values = np.ascontiguousarray(self.values[:, columns])
        return RankingProblem(values, self.score.permuted(order), self.rules.permuted(columns))

    @property
    def n_policies(self) -> int:
        """N."""
        return self.values.shape[1]

    @property
    def depth(self) -> int:
        """How many leading places the loss depends on."""
        return self.score.depth(self.n_policies)

    @cached_property
    def digest(self) -> Any:
        """What the losses of all rankings need of the draws."""
        return self.score.digest(self.values)

    @cached_property
    def form(self) -> Form | None:
        """Form of the loss, if it is a mean that has one."""
        return self.score.form(self.digest) if self.score.averaged else None

    @cached_property
    def objective(self) -> Objective:
        """The function to be minimized: it takes rankings, (R, places), and gives risks, (R,)."""
        if self.form is not None:
            return self.form.losses
        return self.score.risk_of_losses(self.digest, len(self.values))

    @cached_property
    def scale(self) -> float:
        """Size that losses are rounded at, if it is larger than they are."""
        return self.score.loss_scale(self.digest)

    @property
    def sizes(self) -> range:
        """How many places a prefix may have, the most first.

        It is the depth. Some scores allow fewer, where a budget or a lack of policies asks for it.
        """
        if not self.score.partial:
            return range(self.depth, self.depth - 1, -1)
        most = min(self.depth, int((~self.rules.excluded).sum()))
        least = max(int(self.rules.required.sum()), 1) if self.rules.has_budget else most
        return range(most, least - 1, -1)

    def head(self, size: int) -> int:
        """Tell how many of the first `size` places are launched."""
        launched = self.score.launches(self.n_policies)
        return size if launched is None else min(size, launched)

    @property
    def listable(self) -> list[int]:
        """The policies that a prefix may list."""
        if self.score.launches(self.n_policies) != self.depth:
            return list(range(self.n_policies))  # what lies past the launch is listed too
        return np.flatnonzero(~self.rules.excluded).tolist()
