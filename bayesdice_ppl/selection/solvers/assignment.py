"""The best ranking where each policy gains something at each place: a linear assignment.

SciPy's modified Jonker-Volgenant algorithm finds the best one (Crouse, On implementing 2D
rectangular assignment algorithms, 2016). Prices of the places then tell every other assignment
apart: which are as good, of which the preferred is taken, and which is the next best.
"""

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import csgraph_from_dense, floyd_warshall

from bayesdice_ppl.losses.structure import ROUNDING, Assignment
from bayesdice_ppl.selection.rules import Rules
from bayesdice_ppl.selection.solvers.budget import best_set, binds, certified, filled, preferred
from bayesdice_ppl.selection.solvers.comparing import first_of_lowest, loss_of
from bayesdice_ppl.selection.solvers.found import Found

# Places up to which the next best is proven: that takes their number cubed, a second for 1,000.
_MOST_PLACES = 1_000


def assign(structure: Assignment, rules: Rules, *, partial: bool) -> Found:
    """Find the prefix of lowest loss, and the next best.

    Policies are numbered in order of preference, 0 first: among prefixes of equal loss the one
    wins that is first in lexicographic order; under a budget that is tried for, not proven.

    Parameters
    ----------
    structure : Assignment
        Gains of N policies at each place, not negative.
    rules : Rules
        What may be launched: all policies listed are. They have to allow some launch.
    partial : bool
        Whether fewer policies than places may be listed, where too few are left or there is a
        budget: the answer has as many as gain anything, the runner-up may be shorter.

    Returns
    -------
    Found
        With method "assignment", or "branch and bound" where the budget matters; its bound is then
        below the loss if the search was cut short.
    """
    depth = structure.table.shape[1]
    if binds(rules, depth):
        return _under_budget(structure, rules, partial=partial)
    n_listed = min(depth, int((~rules.excluded).sum()))
    table = structure.table[:, :n_listed]
    rows = _rows_that_matter(table, rules)
    answer = _best_two(table[rows], rules.required[rows])
    prefix = tuple(rows[answer.best].tolist())
    others = [] if answer.second is None else [tuple(rows[answer.second].tolist())]
    others += _shorter(structure, rules, prefix, partial=partial)
    loss = loss_of(structure, prefix)
    second = first_of_lowest(structure, others)
    return Found(
        prefix=prefix,
        loss=loss,
        bound=loss,
        runner_up=second,
        runner_up_loss=None if second is None else loss_of(structure, second),
        runner_up_proven=answer.proven,
        evaluated=1,
        method="assignment",
    )


def _under_budget(structure: Assignment, rules: Rules, *, partial: bool) -> Found:
    """Choose the set by an integer program; its order, and the next best order, by assignment."""
    table = structure.table
    depth = table.shape[1]
    capacity = np.ones(depth, int)

    def arranged(members: list[int]) -> list[tuple[int, ...]]:
        rows = np.sort(members)
        answer = _best_two(table[rows, : len(rows)], np.ones(len(rows), bool))
        orders = [answer.best] if answer.second is None else [answer.best, answer.second]
        return [tuple(rows[order].tolist()) for order in orders]

    best = best_set(table, capacity, rules, partial=partial, contiguous=partial)
    if best is None:
        raise AssertionError("rules that no launch can meet are refused before")
    launch = list(arranged(filled(best.members, rules, depth))[0])
    prefix, *others = arranged(preferred(launch, table, rules, ROUNDING * float(table.max())))
    others += _shorter(structure, rules, prefix, partial=partial)
    second = best_set(
        table, capacity, rules, partial=partial, contiguous=partial, other_than=prefix
    )
    if second is not None and second.members:
        others += arranged(filled(second.members, rules, depth))[:1]
    return certified(structure, prefix, others, best, second)


def _shorter(
    structure: Assignment, rules: Rules, prefix: tuple[int, ...], *, partial: bool
) -> list[tuple[int, ...]]:
    """Give the best launch of a part of the policies, where one may be shorter for the budget."""
    rows = np.sort(prefix)
    required = rules.required[rows]
    if not partial or not np.isfinite(rules.budget) or len(rows) == 1 or required.all():
        return []
    order = _best(structure.table[rows, : len(rows) - 1], required)
    return [tuple(rows[order].tolist())]


def _rows_that_matter(table: np.ndarray, rules: Rules) -> Int[np.ndarray, " rows"]:
    """Leave out policies that are not needed, not even for the second best.

    A policy that is not among the best L + 1 at a place can be exchanged there for one of those:
    at least two of them are not listed elsewhere.
    """
    needed = rules.required.copy()
    others = np.flatnonzero(~rules.required & ~rules.excluded)
    order = np.argsort(-table[others], axis=0, kind="stable")[: table.shape[1] + 1]
    needed[others[order]] = True
    return np.flatnonzero(needed)


@final
class _BestTwo(NamedTuple):
    best: Int[np.ndarray, " L"]
    second: Int[np.ndarray, " L"] | None
    # Whether none lies between the two.
    proven: bool


def _best_two(table: Float[np.ndarray, "n L"], required: Bool[np.ndarray, " n"]) -> _BestTwo:
    """Find the best assignment of policies to all L places, and the second best."""
    best = _best(table, required)
    slack = _slack(table, required, best)
    best = _first_of_equals(slack, best, ROUNDING * float(table.max(initial=0.0)))
    if len(best) > _MOST_PLACES:
        return _BestTwo(best, _after_shortest_exchange(slack, best), False)
    return _BestTwo(best, _after_cheapest_cycle(slack, best), True)


def _best(table: Float[np.ndarray, "n L"], required: Bool[np.ndarray, " n"]) -> np.ndarray:
    """Give the policies at places 0..L-1 that gain most together, all required ones among them."""
    n, n_places = table.shape
    if not required.any():
        place, policy = linear_sum_assignment(table.T, maximize=True)
        return np.asarray(policy[np.argsort(place)])
    # Those that are not listed have a place too, which required ones may not take.
    beside = np.where(required, -np.inf, 0.0)[:, None]
    whole = np.hstack([table, np.broadcast_to(beside, (n, n - n_places))])
    policy, place = linear_sum_assignment(whole, maximize=True)
    return np.asarray(policy[np.argsort(place)][:n_places])


def _slack(
    table: Float[np.ndarray, "n L"], required: Bool[np.ndarray, " n"], best: Int[np.ndarray, " L"]
) -> Float[np.ndarray, "n nodes"]:
    """Tell how far each policy is from being worth each place, at prices that the best one sets.

    Nodes are the L places and, last, being left out. An assignment gains less than the best by
    the sum of its slacks, none of which is negative. (Prices are the dual variables of the linear
    program: shortest distances in the graph in which a policy may move from node to node.)
    """
    gain = np.hstack([table, np.where(required, -np.inf, 0.0)[:, None]])
    n, n_nodes = gain.shape
    unlisted = np.ones(n, bool)
    unlisted[best] = False
    arcs = np.full((n_nodes, n_nodes), np.inf)
    arcs[:-1] = gain[best, np.arange(n_nodes - 1)][:, None] - gain[best]
    if unlisted.any():
        arcs[-1, :-1] = -gain[unlisted, :-1].max(axis=0)
    price = np.zeros(n_nodes)
    for _ in range(n_nodes):
        cheaper = np.minimum(price, (price[:, None] + arcs).min(axis=0))
        if (cheaper == price).all():
            break
        price = cheaper
    worth = np.full(n, price[-1])
    worth[best] = gain[best, np.arange(n_nodes - 1)] + price[:-1]
    # Negative by rounding alone.
    return np.maximum(worth[:, None] - gain - price, 0.0)


def _first_of_equals(
    slack: Float[np.ndarray, "n nodes"], best: Int[np.ndarray, " L"], tolerance: float
) -> Int[np.ndarray, " L"]:
    """Give the lexicographically first of the assignments that are as good: without any slack.

    For one place after the other, the first policy is looked for that can take it while all that
    have to make room move on without slack, in a circle that ends where it came from.
    """
    tight = slack <= tolerance
    n_places = len(best)
    node = np.full(len(slack), n_places)
    node[best] = np.arange(n_places)
    for place in range(n_places):
        now = int(np.flatnonzero(node == place)[0])
        earlier = np.flatnonzero(tight[:now, place] & (node[:now] > place))
        if not len(earlier):
            continue
        came_from, mover = _reachable(tight, node, place)
        for policy in earlier.tolist():
            if came_from[node[policy]] < 0:
                continue
            at = int(node[policy])
            while at != place:
                node[mover[at]], at = at, int(came_from[at])
            node[policy] = place
            break
    first = np.empty(n_places, int)
    first[node[node < n_places]] = np.flatnonzero(node < n_places)
    return first


def _reachable(
    tight: Bool[np.ndarray, "n nodes"], node: Int[np.ndarray, " n"], place: int
) -> tuple[np.ndarray, np.ndarray]:
    """Search, breadth first, where the policy at a place could go if others moved on in turn.

    Gives for each node the node before it on the way, -1 where it cannot be reached, and the
    policy that moves there. Places before this one stay as they are.
    """
    n_nodes = tight.shape[1]
    came_from, mover = np.full(n_nodes, -1), np.full(n_nodes, -1)
    closed = np.arange(n_nodes) <= place
    front = [place]
    while front:
        at = front.pop(0)
        movers = np.flatnonzero(node == at)
        for target in np.flatnonzero(
            tight[movers].any(axis=0) & ~closed & (came_from < 0)
        ).tolist():
            came_from[target] = at
            mover[target] = movers[np.argmax(tight[movers, target])]
            front.append(target)
    return came_from, mover


def _arcs(
    slack: Float[np.ndarray, "n nodes"], best: Int[np.ndarray, " L"]
) -> tuple[Float[np.ndarray, "nodes nodes"], Int[np.ndarray, "nodes nodes"]]:
    """Give what it costs to move a policy from node to node, infinite for none, and which one."""
    n, n_nodes = slack.shape
    mover = np.empty((n_nodes, n_nodes), int)
    mover[:-1] = best[:, None]
    unlisted = np.setdiff1d(np.arange(n), best)
    arcs = np.full((n_nodes, n_nodes), np.inf)
    arcs[:-1] = slack[best]
    if len(unlisted):
        mover[-1] = unlisted[np.argmin(slack[unlisted], axis=0)]
        arcs[-1] = slack[unlisted].min(axis=0)
    np.fill_diagonal(arcs, np.inf)
    return arcs, mover


def _after_cheapest_cycle(
    slack: Float[np.ndarray, "n nodes"], best: Int[np.ndarray, " L"]
) -> Int[np.ndarray, " L"] | None:
    """Give the second best assignment: the best one after moves in the cheapest circle.

    What distinguishes another assignment from the best is a set of such circles, through places
    and perhaps through being left out. Each of them alone makes an assignment, and as none costs
    less than nothing the cheapest alone is the second best.
    """
    arcs, mover = _arcs(slack, best)
    graph = csgraph_from_dense(arcs, null_value=np.inf)
    distance, before = floyd_warshall(graph, return_predecessors=True)
    cycle = arcs + distance.T
    start, end = np.unravel_index(np.argmin(cycle), cycle.shape)
    if not np.isfinite(cycle[start, end]):
        return None
    # From `start` to `end` by the arc, and from there back along the shortest path.
    moves, at = [(start, end)], start
    while at != end:
        moves.append((before[end, at], at))
        at = before[end, at]
    second = best.copy()
    for origin, target in moves:
        if target < len(best):
            second[target] = mover[origin, target]
    return second


def _after_shortest_exchange(
    slack: Float[np.ndarray, "n nodes"], best: Int[np.ndarray, " L"]
) -> Int[np.ndarray, " L"]:
    """Give the best assignment after the cheapest exchange of two policies."""
    arcs, mover = _arcs(slack, best)
    first, other = np.unravel_index(np.argmin(arcs + arcs.T), arcs.shape)
    second = best.copy()
    for origin, target in ((first, other), (other, first)):
        if target < len(best):
            second[target] = mover[origin, target]
    return second
