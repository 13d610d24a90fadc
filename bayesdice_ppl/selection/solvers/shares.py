"""Prices for a bound on mean regret, from the shares that a relaxed choice takes of each policy.

Let a choice take parts of policies that add up to the number of places, and serve each draw by
those of least regret until they add up to one. The regret of the last one is the price of that
draw. Where a policy saves more at these prices than the others taken, it gets a larger share.
There are as many shares as policies, however many draws there are, and averages over draws change
slowly with them, so that some twenty steps come to within a thousandth of the best prices. Where
all policies are alike, equal shares are the best already, and steps from draw to draw get lost.

Source: multiplicative weights, Arora, Hazan and Kale, The multiplicative weights update method,
Theory of Computing 8 (2012).
"""

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.selection.solvers.branch_and_bound import SetProblem
from bayesdice_ppl.selection.solvers.coverage_bound import BLOCK, Part, bound

# Steps with all policies, and then with those alone that kept a fair part of an equal share.
_STEPS, _MORE_STEPS = 15, 25
_FAIR = 0.02
# How much a share grows where its policy saves more than the average, at first and at most.
_RATE, _FASTEST = 3.0, 2.0


@final
class Relaxed(NamedTuple):
    """The relaxed choice between two bounds.

    Attributes
    ----------
    prices
        Of each draw.
    bound
        No set has a lower mean regret: what the prices prove.
    limit
        No prices prove more.
    """

    prices: Float[np.ndarray, " M"]
    bound: float
    limit: float


def relax(problem: SetProblem, required: tuple[int, ...]) -> Relaxed:
    """Look for the prices that prove most, from equal shares of all policies.

    Parameters
    ----------
    problem : SetProblem
        What to choose from, without a budget; at least one place is not required.
    required : tuple of int
        Policies that all sets hold.
    """
    regret, places = problem.regret, problem.places - len(required)
    free = np.setdiff1d(np.arange(len(regret)), required)
    cap = regret[list(required)].min(axis=0) if required else regret.max(axis=0)
    whole = Part(free, cap, places, problem.cost[free], problem.limit)
    shares = np.full(len(free), places / len(free))
    first, shares = _stepped(regret, whole, shares, _STEPS)
    fair = shares >= _FAIR * places / len(free)
    second, _ = _stepped(regret, whole.keep(fair), _filled_up(shares[fair], places), _MORE_STEPS)
    # What these prices prove of all, those left out included.
    second = second._replace(bound=bound(regret, whole, second.prices).value)
    # A relaxed choice of some is one of all: the lower of two limits holds.
    limit = min(first.limit, second.limit)
    return (second if second.bound > first.bound else first)._replace(limit=limit)


def _stepped(
    regret: Float[np.ndarray, "N M"], part: Part, shares: Float[np.ndarray, " n"], steps: int
) -> tuple[Relaxed, Float[np.ndarray, " n"]]:
    """Take steps, slower ones where they lead down, and give the best prices and shares."""
    places, rate = part.places, _RATE
    order = _orders(regret, part.policies)
    best: Relaxed | None = None
    at = saved = shares
    limit = np.inf
    for _ in range(steps):
        prices = np.minimum(_crossings(regret, part.policies, order, shares), part.cap)
        dual = bound(regret, part, prices)
        limit = min(limit, float(prices.mean() - dual.saved @ shares))
        if best is None or dual.value > best.bound:
            best, at, saved = Relaxed(prices, dual.value, limit), shares, dual.saved
        else:
            rate *= 0.5
        level = float(saved @ at) / places
        if level <= 0.0:  # nothing is saved by anything
            break
        growth = np.minimum(rate * (saved / level - 1.0), _FASTEST)
        shares = _filled_up(at * np.exp(growth), places)
    if best is None:
        raise AssertionError("a step is taken")
    return best._replace(limit=limit), at


def _orders(
    regret: Float[np.ndarray, "N M"], policies: Int[np.ndarray, " n"]
) -> Int[np.ndarray, "M n"]:
    """Sort the policies by regret in each draw, in small numbers."""
    n_draws = regret.shape[1]
    order = np.empty((n_draws, len(policies)), np.min_scalar_type(len(policies)))
    for draws in _blocks(n_draws, len(policies)):
        order[draws] = np.argsort(regret[policies, draws].T, axis=1, kind="stable")
    return order


def _crossings(
    regret: Float[np.ndarray, "N M"],
    policies: Int[np.ndarray, " n"],
    order: Int[np.ndarray, "M n"],
    shares: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " M"]:
    """Give the regret, in each draw, at which the shares of all with a lower one come to 1."""
    prices = np.empty(len(order))
    for draws in _blocks(*order.shape):
        sums = np.cumsum(shares[order[draws]], axis=1)
        last = np.minimum((sums < 1.0).sum(axis=1), len(policies) - 1)
        at = order[draws][np.arange(len(last)), last]
        prices[draws] = regret[policies[at], np.arange(draws.start, draws.stop)]
    return prices


def _blocks(n_draws: int, n: int) -> list[slice]:
    """Cut the draws so that tables of them stay small."""
    size = max(1, BLOCK // n)
    return [slice(start, min(start + size, n_draws)) for start in range(0, n_draws, size)]


def _filled_up(shares: Float[np.ndarray, " n"], places: int) -> Float[np.ndarray, " n"]:
    """Scale shares to add up to the places, none above 1."""
    if len(shares) <= places:
        return np.ones(len(shares))
    order = np.argsort(-shares, kind="stable")
    sorted_shares = shares[order]
    left = np.cumsum(sorted_shares[::-1])[::-1]
    # The first few are full where the next, scaled to what is left, would be too.
    full = np.arange(places)
    scaled = sorted_shares[:places] * (places - full) / left[:places]
    first = int(np.argmax(scaled <= 1.0)) if (scaled <= 1.0).any() else places
    filled = np.ones(len(shares))
    filled[order[first:]] = sorted_shares[first:] * (places - first) / left[min(first, places - 1)]
    if first == places:
        filled[order[places:]] = 0.0
    return filled
