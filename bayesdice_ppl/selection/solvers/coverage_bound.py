"""Lower bounds on the mean regret of any set of at most k policies, by Lagrangian duality.

A set is charged, in each draw, the least regret among its policies. Paying a price u_m for each
draw instead splits the problem into one number for each policy, what it saves,
rho_i = mean_m max(u_m - regret_im, 0), and a choice of the k that save most: mean u minus what
these save is below the mean regret of every set, whatever the prices. Subgradient steps raise it,
and how far a policy falls short of the k-th best tells whether a better set can hold it at all.

Sources: Cornuejols, Fisher and Nemhauser, Location of bank accounts to optimize float, Management
Science 23 (1977); Beasley, Lagrangean heuristics for location problems, European Journal of
Operational Research 65 (1993).
"""

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

# Entries of the table that are worked on at a time: half a megabyte, which stays in the cache.
BLOCK = 1 << 16
# What a step costs besides its table, in entries.
_OVERHEAD = 50_000
# Steps that are taken on the policies that save most alone, before all are looked at again; how
# many policies these are, at least, for each place, and as one in so many of all.
_ROUND = 20
_CORE, _CORE_PER_PLACE, _CORE_SHARE = 60, 4, 20
# Weight of the last direction; how often the bound may fail to rise before steps are shortened.
_MOMENTUM = 0.7
_PATIENCE = 8
_SHORTER = 0.6
# Most prices of cost that are tried, and how near the best of them is near enough.
_TRIES = 50
_LEVEL = 1e-14


@final
class Part(NamedTuple):
    """What is left to choose when some policies are launched already and others are ruled out.

    Attributes
    ----------
    policies
        Those that may still be added, as rows of the table of regrets.
    cap
        Regret, in each draw, of what is launched already; where nothing is, the largest of all.
    places
        How many may still be added, at most.
    cost
        Cost of adding each, none above `money`.
    money
        What is left to spend; infinite where there is no budget.
    """

    policies: Int[np.ndarray, " n"]
    cap: Float[np.ndarray, " M"]
    places: int
    cost: Float[np.ndarray, " n"]
    money: float

    @property
    def decided(self) -> bool:
        """Whether nothing is left to choose."""
        return not self.places or not len(self.policies)

    def left(self, chosen: Int[np.ndarray, " j"] | Bool[np.ndarray, " n"]) -> float:
        """Tell what a choice of positions leaves of the money, negative where it is too dear."""
        return self.money - float(self.cost[chosen].sum())

    def keep(self, kept: Bool[np.ndarray, " n"]) -> "Part":
        """Rule out the policies that are not kept."""
        return self._replace(policies=self.policies[kept], cost=self.cost[kept])

    def affordable(self) -> "Part":
        """Rule out the policies that cost more than is left."""
        return self.keep(self.cost <= self.money)


@final
class Dual(NamedTuple):
    """A bound, and the prices that prove it.

    Attributes
    ----------
    value
        No choice that the part allows has a lower mean regret.
    prices
        u, one for each draw.
    saved
        What each policy saves, less the price of what it costs.
    share
        How much of each policy the relaxed choice takes, 0 to 1.
    chosen
        A choice that the part allows: those of the policies that save most.
    """

    value: float
    prices: Float[np.ndarray, " M"]
    saved: Float[np.ndarray, " n"]
    share: Float[np.ndarray, " n"]
    chosen: Bool[np.ndarray, " n"]

    def keep(self, kept: Bool[np.ndarray, " n"]) -> "Dual":
        """Leave out policies that were not taken, which does not change the value."""
        return self._replace(
            saved=self.saved[kept], share=self.share[kept], chosen=self.chosen[kept]
        )

    def with_each(self, places: int) -> Float[np.ndarray, " n"]:
        """Bound the choices that take a given policy, for each: `places` is the part's."""
        return self.value + np.maximum(_largest(self.saved, places) - self.saved, 0.0)

    def without_each(self, places: int) -> Float[np.ndarray, " n"]:
        """Bound the choices that leave out a given policy, for each: `places` is the part's."""
        return self.value + np.maximum(self.saved - _largest(self.saved, places + 1), 0.0)


def _largest(saved: Float[np.ndarray, " n"], nth: int) -> float:
    """Give the n-th largest number, or 0 where there are fewer, or it is negative."""
    if nth > len(saved):
        return 0.0
    return max(float(np.partition(saved, len(saved) - nth)[len(saved) - nth]), 0.0)


def capped_means(
    regret: Float[np.ndarray, "N M"],
    cap: Float[np.ndarray, " M"],
    policies: Int[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, " n"]:
    """Give the mean of min(regret, cap) of some policies, or all, without a second table."""
    n_all, n_draws = regret.shape
    n = n_all if policies is None else len(policies)
    means, weight = np.empty(n), np.full(n_draws, 1.0 / n_draws)
    rows = max(1, min(n, BLOCK // n_draws))
    scratch = np.empty((rows, n_draws))
    for start in range(0, n, rows):
        stop = min(start + rows, n)
        capped = scratch[: stop - start]
        if policies is None:
            np.minimum(regret[start:stop], cap, out=capped)
        else:
            regret.take(policies[start:stop], axis=0, out=capped, mode="clip")
            np.minimum(capped, cap, out=capped)
        means[start:stop] = capped @ weight
    return means


def bound(regret: Float[np.ndarray, "N M"], part: Part, prices: Float[np.ndarray, " M"]) -> Dual:
    """Bound the mean regret of whatever the part allows, at given prices."""
    everyone = len(part.policies) == len(regret)
    level = float(prices.mean())
    rho = level - capped_means(regret, prices, None if everyone else part.policies)
    taken = _top(rho, part.places)
    if part.left(taken) >= 0.0:
        return Dual(level - float(rho[taken].sum()), prices, rho, taken.astype(np.float64), taken)
    # With a price on cost too, what can be saved is a convex function of that price, made of
    # straight lines. It is lowest where the line of a choice over the budget, which falls, meets
    # that of a choice within it, which rises; each try gives a line nearer to that point.
    dear = part.cost > 0.0
    highest = 2.0 * float((rho[dear] / part.cost[dear]).max())
    over, within = taken, _top(rho - highest * part.cost, part.places)
    price = worth = 0.0
    for _ in range(_TRIES):
        falling, rising = part.left(over), part.left(within)
        most, least = float(rho[over].sum()), float(rho[within].sum())
        price = max((most - least) / (rising - falling), 0.0)
        taken = _top(rho - price * part.cost, part.places)
        left = part.left(taken)
        worth = float(rho[taken].sum()) + price * left
        if worth <= least + price * rising + _LEVEL * abs(level):
            break
        over, within = (taken, within) if left < 0.0 else (over, taken)
    falling, rising = part.left(over), part.left(within)
    share = (rising * over - falling * within) / (rising - falling)
    return Dual(level - worth, prices, rho - price * part.cost, share, within)


def _top(saved: Float[np.ndarray, " n"], places: int) -> Bool[np.ndarray, " n"]:
    """Mark the policies that save most, as many as there are places, and that save anything."""
    top = saved > 0.0
    if places < len(saved):
        top[np.argpartition(-saved, places)[places:]] = False
    return top


@final
class Ascent(NamedTuple):
    """Where subgradient steps led.

    Attributes
    ----------
    part
        The part, without the policies that no better choice holds, and with those launched that
        every better choice holds.
    added
        The latter.
    dual
        The highest bound on what is left, infinite where nothing better can be left.
    seen
        Choices of the relaxation on the way, each of which the part allows.
    work
        How many entries of tables were worked on.
    """

    part: Part
    added: tuple[int, ...]
    dual: Dual
    seen: list[tuple[int, ...]]
    work: int


def ascend(
    regret: Float[np.ndarray, "N M"],
    part: Part,
    prices: Float[np.ndarray, " M"],
    target: float,
    steps: int,
) -> Ascent:
    """Raise the bound on a part until it reaches the target or the steps are used up.

    Parameters
    ----------
    regret : Float[ndarray, "N M"]
        Regret of each policy in each draw.
    part : Part
        What is left to choose.
    prices : Float[ndarray, "M"]
        Where to start.
    target : float
        Only choices of a lower mean regret are of interest. It also sets the length of steps, by
        Polyak's rule.
    steps : int
        Most steps to take.
    """
    # A price above the cap does no good: lowering it takes as much off what is saved.
    here = best = bound(regret, part, np.minimum(prices, part.cap))
    n_draws, work = len(part.cap), _work(part, 1)
    added = tuple[int, ...]()
    seen: dict[tuple[int, ...], None] = {}
    pace = _Pace(np.zeros(n_draws), 1.0, 0)
    for start in range(0, steps, _ROUND):
        seen[(*added, *part.policies[best.chosen].tolist())] = None
        part, best, here, new = _reduced(regret, part, best, here, target)
        added += new
        if best.value >= target or part.decided:
            break
        table, core, at = _core(regret, part, here)
        climbed, pace, taken = _climb(table, core, at, pace, target, min(_ROUND, steps - start))
        work += _work(core, taken)
        if climbed.prices is not here.prices:
            here = bound(regret, part, climbed.prices)
            work += _work(part, 1)
        best = here if here.value > best.value else best
    seen[(*added, *part.policies[best.chosen].tolist())] = None
    part, best, here, new = _reduced(regret, part, best, here, target)
    return Ascent(part, added + new, best, list(seen), work)


def _work(part: Part, times: int) -> int:
    """Tell how many entries of the table it takes to bound a part, some for all else included."""
    return times * (len(part.policies) * len(part.cap) + _OVERHEAD)


@final
class _Pace(NamedTuple):
    """The last direction, the length of steps, and how often in a row the bound did not rise."""

    direction: Float[np.ndarray, " M"]
    length: float
    failures: int


def _core(
    regret: Float[np.ndarray, "N M"], part: Part, here: Dual
) -> tuple[Float[np.ndarray, "n M"], Part, Dual]:
    """Single out the policies that save most, with a table of their own."""
    n = len(part.policies)
    size = max(_CORE, _CORE_PER_PLACE * part.places, n // _CORE_SHARE)
    kept = np.ones(n, bool)
    if size < n:
        kept[np.argpartition(-here.saved, size)[size:]] = False
    elif n == len(regret):
        return regret, part, here
    core = part.keep(kept)
    table = regret.take(core.policies, axis=0)
    return table, core._replace(policies=np.arange(len(table))), here.keep(kept)


def _climb(
    table: Float[np.ndarray, "n M"], core: Part, start: Dual, pace: _Pace, target: float, steps: int
) -> tuple[Dual, _Pace, int]:
    """Take subgradient steps, with momentum: give the highest point, the pace, and how many."""
    best = now = start
    direction, length, failures = pace
    for taken in range(steps):
        direction = _MOMENTUM * direction + _slope(table, now)
        # What would lift a price above the cap is no direction.
        direction[(direction > 0.0) & (now.prices >= core.cap)] = 0.0
        square = float(direction @ direction)
        if square == 0.0 or best.value >= target:
            return best, _Pace(direction, length, failures), taken
        move = length * max(target - now.value, 0.0) * len(direction) / square
        now = bound(table, core, np.minimum(now.prices + move * direction, core.cap))
        if now.value > best.value:
            best, failures = now, 0
            continue
        failures += 1
        if failures == _PATIENCE:
            direction, length, failures = np.zeros_like(direction), _SHORTER * length, 0
            now = best
    return best, _Pace(direction, length, failures), steps


def _slope(table: Float[np.ndarray, "n M"], dual: Dual) -> Float[np.ndarray, " M"]:
    """Give a subgradient of the bound in the prices, times the number of draws."""
    taken = np.flatnonzero(dual.share)
    return 1.0 - dual.share[taken] @ (table[taken] < dual.prices)


def _reduced(
    regret: Float[np.ndarray, "N M"], part: Part, best: Dual, here: Dual, target: float
) -> tuple[Part, Dual, Dual, tuple[int, ...]]:
    """Rule out the policies that no choice below the target holds, and add those that all hold."""
    if best.value >= target or part.decided:
        return part, best, here, ()
    kept = best.with_each(part.places) < target
    needed = best.without_each(part.places) >= target
    if not needed.any():
        if kept.all():
            return part, best, here, ()
        return part.keep(kept), best.keep(kept), here.keep(kept), ()
    if (needed & ~kept).any() or needed.sum() > part.places or part.left(needed) < 0.0:
        return part, best._replace(value=np.inf), here, ()
    added = part.policies[needed]
    cap = np.minimum(part.cap, regret[added].min(axis=0))
    rest = part.keep(kept & ~needed)._replace(
        cap=cap, places=part.places - len(added), money=part.left(needed)
    )
    rest = rest.affordable()
    now = bound(regret, rest, np.minimum(best.prices, cap))
    return rest, now, now, tuple(added.tolist())
