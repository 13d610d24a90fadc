"""Prove how low the mean regret of a set can be, by splitting the choice in two until it is clear.

Each node of the tree has some policies launched and some ruled out. Its bound starts from the
prices of its parent, and most nodes end as soon as that bound reaches the regret of the best set
known; the others are split into the sets with the policy that saves most and those without. The
node of the lowest bound goes first, so that wherever the search is cut short its bound holds.
"""

import heapq
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.selection.solvers.coverage_bound import (
    Part,
    ascend,
    bound,
    capped_means,
)

# Steps of the first node, and those that a node takes from its parent's prices.
_FIRST_STEPS = 200
_STEPS = 20
# Policies up to which it pays to look for those that others dominate.
_FEW = 500
# Draws that are compared first, to tell policies apart.
_GLANCE = 64


@final
class SetProblem(NamedTuple):
    """Choose at most `places` policies, within the budget, of least mean regret.

    Attributes
    ----------
    regret
        Regret of each policy in each draw, not negative.
    cost
        Cost of each.
    limit
        The budget, infinite where there is none.
    places
        Most that may be launched, at least 1.
    """

    regret: Float[np.ndarray, "n M"]
    cost: Float[np.ndarray, " n"]
    limit: float
    places: int

    def loss(self, chosen: tuple[int, ...]) -> float:
        """Give the mean regret of a set that is not empty."""
        return float(self.regret[list(chosen)].min(axis=0).mean())

    def spent(self, chosen: tuple[int, ...]) -> float:
        """Give what a set costs."""
        return float(self.cost[list(chosen)].sum())


@final
class Node(NamedTuple):
    """All sets that hold the policies launched, and others only of those listed.

    Attributes
    ----------
    bound
        None of the sets has a lower mean regret.
    launched
        Policies that all of them hold.
    policies
        Those that they may hold besides.
    prices
        Where to start raising the bound from.
    steps
        How many steps to take.
    """

    bound: float
    launched: tuple[int, ...]
    policies: Int[np.ndarray, " n"]
    prices: Float[np.ndarray, " M"]
    steps: int


@final
class Searched(NamedTuple):
    """What a search came to.

    Attributes
    ----------
    chosen
        The best set found; it may have fewer policies than there are places.
    loss
        Its mean regret.
    bound
        No set has a lower mean regret: the loss itself, if that is proven.
    nodes
        How many nodes were looked into.
    """

    chosen: tuple[int, ...]
    loss: float
    bound: float
    nodes: int


def root(problem: SetProblem, required: tuple[int, ...], chosen: tuple[int, ...]) -> Node:
    """Give the node that allows everything, with prices that suit a good set."""
    free = np.setdiff1d(np.arange(len(problem.cost)), required)
    # Prices for which the policies of the set save something, and hardly twice in the same draw.
    prices = np.sort(problem.regret[list(chosen)], axis=0)[:2].mean(axis=0)
    return Node(0.0, required, free, prices, _FIRST_STEPS)


def search(
    problem: SetProblem,
    start: Node,
    chosen: tuple[int, ...],
    rounding: float,
    *,
    max_nodes: int,
    max_work: int,
) -> Searched:
    """Look for a set of lower mean regret than a known one, or prove that there is none.

    Parameters
    ----------
    problem : SetProblem
        What to choose from.
    start : Node
        It allows all sets that are in question.
    chosen : tuple of int
        A good set.
    rounding : float
        How much lower a mean regret has to be to be lower.
    max_nodes, max_work : int
        Nodes to look into and entries of tables to work on before the search is cut short.
    """
    loss = problem.loss(chosen)
    heap = [(start.bound, 0, start)]
    pushed, done, work = 1, 0, 0
    while heap and heap[0][0] < loss - rounding and done < max_nodes and work < max_work:
        node = heapq.heappop(heap)[2]
        seen = _look_into(problem, node, loss - rounding)
        done, work = done + 1, work + seen.work
        for candidate in filter(None, seen.found):
            candidate_loss = problem.loss(candidate)
            if candidate_loss < loss - rounding:
                chosen, loss = candidate, candidate_loss
        for child in seen.children:
            if child.bound < loss - rounding:
                heapq.heappush(heap, (child.bound, pushed, child))
                pushed += 1
    proven = not heap or heap[0][0] >= loss - rounding
    return Searched(chosen, loss, loss if proven else heap[0][0], done)


def _part(problem: SetProblem, node: Node) -> Part:
    """Tell what a node leaves to choose."""
    launched = list(node.launched)
    regret = problem.regret
    return Part(
        policies=node.policies,
        cap=regret[launched].min(axis=0) if launched else regret.max(axis=0),
        places=problem.places - len(launched),
        cost=problem.cost[node.policies],
        money=problem.limit - problem.spent(node.launched),
    ).affordable()


@final
class _Seen(NamedTuple):
    """What came of a node: sets worth a look, its children, and the work."""

    found: list[tuple[int, ...]]
    children: list[Node]
    work: int


def _look_into(problem: SetProblem, node: Node, target: float) -> _Seen:
    """Bound a node, and split it into the sets with the policy that saves most and those without.

    There are no children where nothing below the target is left.
    """
    regret, part = problem.regret, _part(problem, node)
    steps = node.steps if part.places > 1 else 0
    run = ascend(regret, part, node.prices.astype(np.float64), target, steps)
    seen = _Seen([node.launched + choice for choice in run.seen], [], run.work)
    launched, part, dual = node.launched + run.added, run.part, run.dual
    if dual.value >= target:
        return seen
    if len(part.policies) <= _FEW:
        kept = _undominated(np.minimum(regret[part.policies], part.cap), part.cost)
        if not kept.all():
            part = part.keep(kept)
            dual = bound(regret, part, dual.prices)
    if part.decided:
        return seen._replace(found=[*seen.found, launched])
    if part.places == 1:
        last = int(np.argmin(capped_means(regret, part.cap, part.policies)))
        return seen._replace(found=[*seen.found, (*launched, int(part.policies[last]))])
    i = int(np.argmax(dual.saved))
    rest, prices = np.delete(part.policies, i), dual.prices.astype(np.float32)
    without = max(node.bound, float(dual.without_each(part.places)[i]))
    with_it = max(node.bound, float(dual.with_each(part.places)[i]))
    children = [
        Node(without, launched, rest, prices, _STEPS),
        Node(with_it, (*launched, int(part.policies[i])), rest, prices, _STEPS),
    ]
    return seen._replace(children=children)


def _undominated(
    regret: Float[np.ndarray, "n M"], cost: Float[np.ndarray, " n"]
) -> Bool[np.ndarray, " n"]:
    """Mark the policies that no other, no dearer one beats or equals in every draw.

    Of policies that are the same in all, the first is marked.
    """
    few = np.ascontiguousarray(regret[:, :: -(-regret.shape[1] // _GLANCE)])
    kept = np.ones(len(regret), bool)
    for i in range(len(regret) - 1, -1, -1):
        others = kept & (cost <= cost[i])
        others[i] = False
        rivals = np.flatnonzero(others)
        rivals = rivals[(few[rivals] <= few[i]).all(axis=1)]
        kept[i] = not any((regret[j] <= regret[i]).all() for j in rivals)
    return kept
