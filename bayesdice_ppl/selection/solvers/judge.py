"""Losses of rankings, judged in batches, within a budget, each ranking only once.

A search comes back to the same rankings over and over. Their losses are remembered, so that the
budget counts new rankings alone.
"""

from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.scores.forms import ROUNDING
from bayesdice_ppl.scores.score import Objective
from bayesdice_ppl.selection.rules import Rules
from bayesdice_ppl.selection.solvers.neighbors import first_lowest


@final
class Judge:
    """Gives losses of rankings, and keeps the best two of all that it was shown.

    Parameters
    ----------
    objective : callable
        Takes rankings, Int (R, depth), and gives their losses, Float (R,).
    rules : Rules
        What the policies in the first `launches` places have to meet.
    depth : int
        How many places a ranking has.
    launches : int
        How many of the first places are launched.
    ordered : bool
        Whether the order of the places matters; where not, the objective gets sorted rows.
    max_evaluations : int
        Most rankings to hand to the objective.
    scale : float
        Size that losses are rounded at, if it is larger than they are.
    batch : int
        Most rows in a call of the objective.

    Attributes
    ----------
    left : int
        How many more rankings may be judged.
    best : Int[ndarray, "B depth"]
        The best ranking seen and the best other one: B is 0, 1 or 2. The lexicographically first
        of those of equal loss.
    best_losses : Float[ndarray, "B"]
        Their losses.
    """

    def __init__(
        self,
        objective: Objective,
        rules: Rules,
        depth: int,
        launches: int,
        ordered: bool,
        max_evaluations: int,
        scale: float,
        batch: int,
    ) -> None:
        self.rules, self.launches, self.ordered, self.batch = rules, launches, ordered, batch
        self.left = max_evaluations
        self.best, self.best_losses = np.empty((0, depth), np.intp), np.empty(0)
        self._objective, self._scale = objective, scale
        self._key_type = np.min_scalar_type(len(rules.cost))
        self._known: dict[bytes, float] = {}

    @property
    def evaluated(self) -> int:
        """How many rankings were judged."""
        return len(self._known)

    @property
    def spent(self) -> bool:
        """Whether no more rankings may be judged."""
        return self.left == 0

    @property
    def tolerance(self) -> float:
        """How far apart losses may be that count as equal."""
        return ROUNDING * self._scale

    def canonical(self, rows: Int[np.ndarray, "R depth"]) -> Int[np.ndarray, "R depth"]:
        """Sort the rows if their order does not matter."""
        return rows if self.ordered else np.sort(rows, axis=1)

    def allowed(self, rows: Int[np.ndarray, "R depth"]) -> Bool[np.ndarray, " R"]:
        """Tell which rankings the rules allow."""
        if self.rules.free:
            return np.ones(len(rows), bool)
        return self.rules.allow(rows[:, : self.launches])

    def keys(self, rows: Int[np.ndarray, "R depth"]) -> list[bytes]:
        """Give a key to each ranking, or set."""
        flat = self.canonical(rows).astype(self._key_type).tobytes()
        size = rows.shape[1] * self._key_type.itemsize
        return [flat[start : start + size] for start in range(0, len(flat), size)]

    def losses(self, rows: Int[np.ndarray, "R depth"]) -> Float[np.ndarray, " R"]:
        """Give the losses of rankings.

        Parameters
        ----------
        rows : Int[ndarray, "R depth"]
            Indices of distinct policies; rankings may be repeated.

        Returns
        -------
        Float[ndarray, "R"]
            Infinite for rankings that the rules do not allow, and for those that there was no
            budget left to judge, the later ones.

        Raises
        ------
        ScoreError
            The objective returns something of another shape, or a loss that is not finite.
        """
        losses = np.full(len(rows), np.inf)
        rows = self.canonical(rows)
        allowed = np.flatnonzero(self.allowed(rows))
        keys = self.keys(rows[allowed])
        new: dict[bytes, int] = {}
        for key, row in zip(keys, allowed.tolist(), strict=True):
            if key not in self._known:
                new.setdefault(key, row)
        judged = rows[list(new.values())[: self.left]]
        if len(judged):
            found = self._judge(judged)
            self._known.update(zip(new, found.tolist(), strict=False))
            self._keep_best(judged, found)
        losses[allowed] = [self._known.get(key, np.inf) for key in keys]
        return losses

    def _judge(self, rows: Int[np.ndarray, "R depth"]) -> Float[np.ndarray, " R"]:
        """Call the objective on rankings that are new."""
        losses = np.empty(len(rows))
        for start in range(0, len(rows), self.batch):
            part = rows[start : start + self.batch]
            got = np.asarray(self._objective(part), np.float64)
            if got.shape != (len(part),):
                raise ScoreError(
                    f"a loss: expected one number per ranking, shape ({len(part)},), found shape "
                    f"{got.shape}."
                )
            if not np.isfinite(got).all():
                bad = int(np.argmin(np.isfinite(got)))
                raise ScoreError(f"the loss of ranking {part[bad].tolist()} is {got[bad]}.")
            losses[start : start + len(part)] = got
        self.left -= len(rows)
        return losses

    def _keep_best(self, rows: np.ndarray, losses: np.ndarray) -> None:
        self._scale = max(self._scale, float(np.abs(losses).max()))
        rows = np.concatenate([self.best, rows])
        losses = np.concatenate([self.best_losses, losses])
        kept = [first_lowest(rows, losses, self.tolerance)]
        others = np.flatnonzero((rows != rows[kept]).any(axis=1))
        if len(others):
            kept.append(others[first_lowest(rows[others], losses[others], self.tolerance)])
        self.best, self.best_losses = rows[kept], losses[kept]
