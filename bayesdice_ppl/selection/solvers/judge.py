"""Losses of rankings, judged in batches, within a budget, and none judged in vain.

A search comes back to the same rankings over and over. Their losses are remembered in a table,
held in arrays so that many are looked up at once, and what the budget counts is new rankings.
"""

from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.losses import Objective
from bayesdice_ppl.losses.structure import ROUNDING
from bayesdice_ppl.selection.rules import Rules

# Slots of the table: 64 MB. It holds half as many losses; those that come later are not kept.
_MOST_SLOTS = 1 << 22
# Odd and without structure: what makes the keys of rankings, and what makes slots of keys, the
# latter 2^64 over the golden ratio (Knuth, The Art of Computer Programming, section 6.4).
_KEY = np.uint64(0xD1342543DE82EF95)
_SLOT = np.uint64(0x9E3779B97F4A7C15)


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
        Whether the order of the places matters; where not, the objective sees sorted rows.
    max_evaluations : int
        Most rankings to hand to the objective.
    scale : float
        Size that losses are rounded at, if it is larger than they are.
    batch : int
        Most rows in a call of the objective.

    Attributes
    ----------
    evaluated, left : int
        How many rankings were judged, and how many more may be.
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
        self.evaluated, self.left = 0, max_evaluations
        self.best, self.best_losses = np.empty((0, depth), np.intp), np.empty(0)
        self._objective, self._scale = objective, scale
        self._weights = np.cumprod(np.full(depth, _KEY))
        bits = min(2 * max_evaluations, _MOST_SLOTS - 1).bit_length()
        self._shift, self._last_slot = np.uint64(64 - bits), np.uint64((1 << bits) - 1)
        self._known, self._remembered = np.zeros(1 << bits, np.uint64), np.empty(1 << bits)

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

    def keys(self, rows: Int[np.ndarray, "R depth"]) -> np.ndarray:
        """Give a number to each ranking, or set: R of 64 bits, never 0.

        Two rankings have the same one by a rare accident only (a chance of 1e-7 or so in a search
        of a million); the later would then be passed over.
        """
        return self.canonical(rows).astype(np.uint64) @ self._weights | np.uint64(1)

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
            If the objective returns something of another shape, or a loss that is not finite.
        """
        losses = np.full(len(rows), np.inf)
        rows = self.canonical(rows)
        allowed = np.flatnonzero(self.allowed(rows))
        keys, first, which = np.unique(
            self.keys(rows[allowed]), return_index=True, return_inverse=True
        )
        slots = self._slots(keys)
        known = self._known[slots] == keys
        distinct = np.where(known, self._remembered[slots], np.inf)
        new = np.flatnonzero(~known)
        new = new[np.argsort(first[new])][: self.left]
        if len(new):
            judged = rows[allowed[first[new]]]
            distinct[new] = self._judge(judged)
            self._remember(keys[new], distinct[new])
            self._keep_best(judged, distinct[new])
        losses[allowed] = distinct[which]
        return losses

    def _slots(self, keys: np.ndarray) -> np.ndarray:
        """Give the slot of the table in which each key stands, or else a free one (Knuth, 6.4)."""
        slots = keys * _SLOT >> self._shift
        while True:
            held = self._known[slots]
            others = (held != keys) & (held != 0)
            if not others.any():
                return slots
            slots[others] = (slots[others] + np.uint64(1)) & self._last_slot

    def _remember(self, keys: np.ndarray, losses: Float[np.ndarray, " R"]) -> None:
        """Put losses into the table; no two keys are the same, and none is there already."""
        if 2 * self.evaluated > len(self._known):
            return
        while len(keys):
            slots = self._slots(keys)
            self._known[slots], self._remembered[slots] = keys, losses
            # Of several keys that found the same free slot the last has it.
            lost = self._known[slots] != keys
            keys, losses = keys[lost], losses[lost]

    def _judge(self, rows: Int[np.ndarray, "R depth"]) -> Float[np.ndarray, " R"]:
        """Call the objective on rankings that are new."""
        losses = np.empty(len(rows))
        for start in range(0, len(rows), self.batch):
            part = rows[start : start + self.batch]
            got = np.asarray(self._objective(part), np.float64)
            if got.shape != (len(part),):
                raise ScoreError(
                    f"a loss must be one number per ranking, shape ({len(part)},): got {got.shape}"
                )
            if not np.isfinite(got).all():
                bad = int(np.argmin(np.isfinite(got)))
                raise ScoreError(f"the loss of ranking {part[bad].tolist()} is {got[bad]}")
            losses[start : start + len(part)] = got
        self.left -= len(rows)
        self.evaluated += len(rows)
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


def first_lowest(
    rows: Int[np.ndarray, "R depth"], losses: Float[np.ndarray, " R"], tolerance: float
) -> int:
    """Give the index of the lowest loss, and of the lexicographically first row among equals."""
    lowest = np.flatnonzero(losses <= losses.min() + tolerance)
    return int(lowest[0] if len(lowest) == 1 else lowest[np.lexsort(rows[lowest].T[::-1])[0]])
