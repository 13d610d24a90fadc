"""Prove the best set of policies by going through all of them, most of them by the dozen.

Where no policy is better than another, the bounds of a tree's first nodes say little: only sets
that lack two policies can be told from better ones. So sets are built up in order, without a search
for prices at each node. A regret counts up to a price, and what a policy then saves falls as the
set grows. What the policies that save most would save together bounds all that are added. Only
pairs that pass that bound as the last two are looked at one by one.
"""

from itertools import combinations, islice
from math import comb
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.selection.solvers.branch_and_bound import Searched, SetProblem

# What a node costs besides its table, in entries.
_OVERHEAD = 50_000
# For the last two policies: at the price of a draw this share of all has a lower regret. Were all
# taken in equal parts, as the linear relaxation takes equals, half would have to serve a draw.
_SHARES = (0.2, 0.3, 0.4, 0.5, 0.7)
# Sets that lack two policies that the shares are tried on.
_TRIED = 100
_UNIT = 2.0**-24
"""Relative rounding error of a number of 32 bits."""


@final
class _Table(NamedTuple):
    """Regrets in 32 bits, in a unit of their size, cut off at the prices of the last two places.

    Attributes
    ----------
    regret
        One row per policy that is free to choose.
    prices
        For p places left, the prices are at `prices[p - 2]`; those of more places are lower.
    mean
        Weights that make a mean over draws.
    error
        No mean is off by more, by rounding.
    unit
        What the regrets were divided by, so that none is above 1.
    """

    regret: Float[np.ndarray, "n M"]
    prices: Float[np.ndarray, "places M"]
    mean: Float[np.ndarray, " M"]
    error: float
    unit: float

    def slack(self, places: int) -> float:
        """Tell by how much rounding may lift a bound for so many places."""
        return (2 * places - 1) * self.error


def try_every_set(
    problem: SetProblem,
    required: tuple[int, ...],
    chosen: tuple[int, ...],
    rounding: float,
    *,
    max_work: int,
) -> Searched | None:
    """Find the set of least mean regret, where going through all sets is affordable.

    Parameters
    ----------
    problem : SetProblem
        What to choose from. With a budget nothing is tried.
    required : tuple of int
        Policies that all sets hold.
    chosen : tuple of int
        A good set.
    rounding : float
        How much lower a mean regret has to be to be lower.
    max_work : int
        Entries of tables to work on. If a trial on some sets says that more would be needed,
        nothing is tried.

    Returns
    -------
    Searched or None
        None if nothing was tried. The bound is 0 where the work was cut short after all.
    """
    places = problem.places - len(required)
    free = np.setdiff1d(np.arange(len(problem.cost)), required)
    n, n_draws = len(free), problem.regret.shape[1]
    if places < 2 or np.isfinite(problem.limit) or comb(n, places - 1) * n_draws > max_work:
        return None
    launched = problem.regret[list(required)]
    cap = launched.min(axis=0) if required else problem.regret.max(axis=0)
    # A policy that saves much comes first: those that save little are left with few others.
    level = _at_ranks(problem.regret[free], [n // places])[0]
    free = free[np.argsort(np.minimum(problem.regret[free], level).mean(axis=1), kind="stable")]
    target = problem.loss(chosen) - rounding
    table, work = _best_table(problem.regret[free], cap, places, target)
    if work > max_work:
        return None
    walk = _Walk(problem, required, free, table, chosen, rounding, max_work)
    walk.visit((), np.arange(n), table.prices[0], places)
    return Searched(walk.chosen, walk.loss, 0.0 if walk.spent else walk.loss, walk.nodes)


def _at_ranks(regret: Float[np.ndarray, "n M"], ranks: list[int]) -> Float[np.ndarray, "ranks M"]:
    """Give the regrets of some ranks in each draw, 0 the lowest."""
    ranks = [min(rank, len(regret) - 1) for rank in ranks]
    return np.partition(regret, sorted(set(ranks)), axis=0)[ranks]


def _best_table(
    regret: Float[np.ndarray, "n M"], cap: Float[np.ndarray, " M"], places: int, target: float
) -> tuple[_Table, float]:
    """Choose the share that leaves fewest pairs to look at, and estimate the work with it."""
    n, n_draws = regret.shape
    sets, n_sets = combinations(range(n - 2), places - 2), comb(n - 2, places - 2)
    tried = list(islice(sets, n_sets // (2 * _TRIED), None, max(1, n_sets // _TRIED)))
    best: tuple[float, _Table] | None = None
    for share in _SHARES:
        table = _table(regret, cap, places, share)
        pairs = sum(_pairs_left(table, list(one), target) for one in tried)
        if best is None or pairs < best[0]:
            best = pairs, table
    if best is None:
        raise AssertionError("there are shares to try")
    looked_at = comb(n, places - 1) + n_sets * best[0] / len(tried)
    return best[1], looked_at * n_draws + comb(n, places - 2) * _OVERHEAD


def _table(
    regret: Float[np.ndarray, "n M"], cap: Float[np.ndarray, " M"], places: int, share: float
) -> _Table:
    n, n_draws = regret.shape
    ranks = [round(2.0 * share * n / left) for left in range(2, places + 1)]
    prices = np.minimum(_at_ranks(regret, ranks), cap)
    unit = float(prices[0].max()) or 1.0
    # The sum of M products, each rounded with its two factors.
    error = (n_draws + 4) * _UNIT * float(prices[0].mean()) / unit
    return _Table(
        (np.minimum(regret, prices[0]) / unit).astype(np.float32),
        (prices / unit).astype(np.float32),
        np.full(n_draws, 1.0 / n_draws, np.float32),
        error,
        unit,
    )


def _pairs_left(table: _Table, launched: list[int], target: float) -> float:
    """Count the pairs of policies after a set that may bring it below the target."""
    rest = table.regret[launched[-1] + 1 if launched else 0 :]
    cap = table.regret[launched].min(axis=0) if launched else table.prices[0]
    level = float(cap @ table.mean)
    saved = np.sort(level - np.minimum(rest, cap) @ table.mean)
    needed = level - target / table.unit - table.slack(2)
    # Each policy with those that save enough beside it; each pair is so counted twice.
    enough = len(saved) - np.searchsorted(saved, needed - saved, side="right")
    return float(enough.sum() - (2.0 * saved > needed).sum()) / 2.0


@final
class _Walk:
    """Goes through sets in lexicographic order, and keeps the best."""

    def __init__(
        self,
        problem: SetProblem,
        required: tuple[int, ...],
        free: Int[np.ndarray, " n"],
        table: _Table,
        chosen: tuple[int, ...],
        rounding: float,
        max_work: int,
    ) -> None:
        self.chosen, self.loss, self.nodes = chosen, problem.loss(chosen), 0
        self._problem, self._required, self._free = problem, required, free
        self._table, self._rounding, self._left = table, rounding, float(max_work)
        shape = (len(table.prices), *table.regret.shape)
        self._room = np.empty(shape, np.float32)

    @property
    def spent(self) -> bool:
        """Whether the work was cut short."""
        return self._left < 0.0

    @property
    def _target(self) -> float:
        """What a mean has to be below, in units of the table."""
        return (self.loss - self._rounding) / self._table.unit

    def visit(
        self,
        launched: tuple[int, ...],
        rest: Int[np.ndarray, " r"],
        cap: Float[np.ndarray, " M"],
        places: int,
    ) -> None:
        """Look into all sets that hold those launched and others of the rest, by row of the table.

        Parameters
        ----------
        launched
            Rows of policies that the sets hold besides the required ones.
        rest
            Rows of those that may be added, in increasing order.
        cap
            Regret of what is launched, cut off at the prices of two places.
        places
            How many are to be added, at least 2.
        """
        if len(rest) < places or self.spent:
            return
        table = self._table
        self.nodes += 1
        self._left -= len(rest) * len(cap) + _OVERHEAD
        level = np.minimum(cap, table.prices[places - 2])
        regret = self._room[places - 2, : len(rest)]
        if rest[-1] - rest[0] == len(rest) - 1:
            np.minimum(table.regret[rest[0] : rest[-1] + 1], level, out=regret)
        else:
            np.minimum(table.regret[rest], level, out=regret)
        mean = float(level @ table.mean)
        saved = mean - (regret @ table.mean).astype(np.float64)
        if places == 2:
            self._pairs(launched, rest, regret, saved, mean)
            return
        needed = mean - self._target - table.slack(places)
        others = _largest_sum(saved, places - 1)
        # With itself among the others a policy only seems to save more.
        kept = np.flatnonzero(saved + others > needed)
        for place, i in enumerate(kept[: len(kept) - places + 1].tolist()):
            after = kept[place + 1 :]
            needed = mean - self._target - table.slack(places)
            if saved[i] + _largest_sum(saved[after], places - 1) <= needed:
                continue
            row = int(rest[i])
            self.visit(
                (*launched, row), rest[after], np.minimum(cap, table.regret[row]), places - 1
            )

    def _pairs(
        self,
        launched: tuple[int, ...],
        rest: Int[np.ndarray, " r"],
        regret: Float[np.ndarray, "r M"],
        saved: Float[np.ndarray, " r"],
        mean: float,
    ) -> None:
        """Look at the pairs of the rest that save enough, those that save most first."""
        table, order = self._table, np.argsort(-saved, kind="stable")
        most = saved[order]
        for place, i in enumerate(order[:-1].tolist()):
            needed = mean - self._target - table.slack(2)
            after = most[place + 1 :]
            several = int(np.searchsorted(-after, most[place] - needed, side="left"))
            if not several:
                return
            partners = order[place + 1 : place + 1 + several]
            self._left -= several * regret.shape[1]
            both = np.minimum(regret[partners], regret[i]) @ table.mean
            passing = partners[both < self._target + table.error]
            if len(passing):
                self._judge((*launched, int(rest[i])), rest[passing])

    def _judge(self, launched: tuple[int, ...], last: Int[np.ndarray, " l"]) -> None:
        """Take the mean regrets of sets as they are, and keep the lowest if it is lower."""
        regret = self._problem.regret
        held = (*self._required, *self._free[list(launched)].tolist())
        cap = regret[list(held)].min(axis=0)
        means = np.array([np.minimum(regret[i], cap).mean() for i in self._free[last]])
        self._left -= 2 * len(last) * len(cap)
        lowest = int(np.argmin(means))
        if means[lowest] < self.loss - self._rounding:
            self.chosen = (*held, int(self._free[last[lowest]]))
            self.loss = self._problem.loss(self.chosen)


def _largest_sum(saved: Float[np.ndarray, " n"], several: int) -> float:
    """Add up the several largest, none of which is negative."""
    if several >= len(saved):
        return float(saved.sum())
    return float(np.partition(saved, len(saved) - several)[len(saved) - several :].sum())
