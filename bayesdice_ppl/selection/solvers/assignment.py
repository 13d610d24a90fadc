"""The best ranking where each policy gains something at each place: a linear assignment.

SciPy's modified Jonker-Volgenant algorithm finds the best one (Crouse, On implementing 2D
rectangular assignment algorithms, 2016). Prices of the places then tell which other assignments
are as good, of which the preferred is taken.
"""

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from bayesdice_ppl.scores.forms import ROUNDING, Assignment
from bayesdice_ppl.selection.rules import Rules
from bayesdice_ppl.selection.solvers.budget import best_set, certified, filled, preferred
from bayesdice_ppl.selection.solvers.found import Found, optimum
from bayesdice_ppl.selection.solvers.neighbors import best_neighbor


def assign(form: Assignment, rules: Rules, *, partial: bool) -> Found:
    """Find the prefix of lowest loss, and the best one next to it.

    Policies are numbered in order of preference, 0 first: among prefixes of equal loss the one
    wins that is first in lexicographic order. Under a budget that is attempted, not proven.

    Parameters
    ----------
    form : Assignment
        Gains of N policies at each place, not negative.
    rules : Rules
        What may be launched: all policies listed are. They have to allow some launch.
    partial : bool
        Whether fewer policies than places may be listed, where too few are left or there is a
        budget: the answer has as many as gain anything.

    Returns
    -------
    Found
        With method "assignment", or "branch and bound" where the budget matters; its bound is then
        below the loss if the search was cut short.
    """
    depth = form.table.shape[1]
    if rules.limits_cost(depth):
        return _under_budget(form, rules, partial=partial)
    table = form.table[:, : min(depth, int((~rules.excluded).sum()))]
    rows = _rows_that_matter(table, rules)
    prefix = tuple(rows[_first_best(table[rows], rules.required[rows])].tolist())
    return optimum(form, prefix, "assignment", best_neighbor(form, prefix, rules, ordered=True))


def _under_budget(form: Assignment, rules: Rules, *, partial: bool) -> Found:
    """Choose the set by an integer program, and its order by assignment."""
    table = form.table
    depth = table.shape[1]

    def arranged(members: list[int]) -> tuple[int, ...]:
        rows = np.sort(members)
        order = _first_best(table[rows, : len(rows)], np.ones(len(rows), bool))
        return tuple(rows[order].tolist())

    best = best_set(table, np.ones(depth, int), rules, partial=partial, contiguous=partial)
    launch = list(arranged(filled(best.members, rules, depth)))
    prefix = arranged(preferred(launch, table, rules, ROUNDING * float(table.max())))
    return certified(form, prefix, best_neighbor(form, prefix, rules, ordered=True), best)


def _rows_that_matter(table: np.ndarray, rules: Rules) -> Int[np.ndarray, " rows"]:
    """Leave out policies that are not needed, not even for an assignment that is as good.

    A policy that is not among the best L + 1 at a place can be exchanged there for one of those:
    at least two of them are not listed elsewhere.
    """
    needed = rules.required.copy()
    others = np.flatnonzero(~rules.required & ~rules.excluded)
    order = np.argsort(-table[others], axis=0, kind="stable")[: table.shape[1] + 1]
    needed[others[order]] = True
    return np.flatnonzero(needed)


def _first_best(
    table: Float[np.ndarray, "n L"], required: Bool[np.ndarray, " n"]
) -> Int[np.ndarray, " L"]:
    """Give the policies at places 0..L-1 that gain most together, of equals the first."""
    best = _best(table, required)
    slack = _slack(table, required, best)
    return _first_of_equals(slack, best, ROUNDING * float(table.max(initial=0.0)))


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

    For one place after the other, it is the first policy that can take it while the others can
    still be matched to the places behind it, or be left out, without slack.
    """
    tight = slack <= tolerance
    n, n_places = len(slack), len(best)
    columns = np.hstack([tight[:, :n_places], np.repeat(tight[:, n_places:], n - n_places, axis=1)])
    match = np.concatenate([best, np.setdiff1d(np.arange(n), best)])
    for place in range(n_places):
        earlier = np.flatnonzero(tight[: match[place], place])
        for policy in np.setdiff1d(earlier, match[:place]).tolist():
            rest = np.setdiff1d(match[place:], [policy])
            graph = csr_array(columns[rest, place + 1 :])
            row = maximum_bipartite_matching(graph, perm_type="row")
            if (row >= 0).all():
                match = np.concatenate([match[:place], [policy], rest[row]])
                break
    return match[:n_places]
