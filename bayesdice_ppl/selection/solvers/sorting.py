"""The best ranking where each place has a weight and each policy a merit: sort by merit.

That the largest merit belongs to the largest weight is the rearrangement inequality (Hardy,
Littlewood and Pólya, Inequalities, section 10.2). With policies that must or must not be launched
it is still a sort. With a budget it is an integer program.
"""

import numpy as np
from jaxtyping import Int

from bayesdice_ppl.scores.forms import ROUNDING, Sorting
from bayesdice_ppl.selection.rules import Rules
from bayesdice_ppl.selection.solvers.budget import best_set, certified, filled, preferred
from bayesdice_ppl.selection.solvers.found import Found, optimum
from bayesdice_ppl.selection.solvers.neighbors import best_neighbor

# Up to so many places are told apart in the integer program even where they are alike. It is larger
# so, and HiGHS 1.12 does not print to standard output what it does to rounded solutions of the
# smaller one.
_FEW_PLACES = 30


def sort(form: Sorting, rules: Rules, *, ordered: bool, partial: bool) -> Found:
    """Find the prefix of lowest loss, and the next best.

    Policies are numbered in order of preference, 0 first: of policies of equal merit the preferred
    is listed, and listed first. Under a budget that is attempted, not proven.

    Parameters
    ----------
    form : Sorting
        Merits of N policies and weights of the places. Under a budget, or where fewer policies
        than places may be listed, merits must not be negative.
    rules : Rules
        What may be launched: all policies listed are. They have to allow some launch.
    ordered : bool
        Whether the order of the places matters. Where not, all weights must be equal, and the
        prefix is in increasing order.
    partial : bool
        Whether fewer policies than places may be listed, where too few are left or there is a
        budget: the answer has as many as gain anything.

    Returns
    -------
    Found
        With method "sorting", or "branch and bound" where the budget matters; its bound is then
        below the loss if the search was cut short. The runner-up is proven unless there is a
        budget.

    Notes
    -----
    *Best.* Among sets of a given size that hold the required policies R, let S be R and the best
    of the rest. Sort the merits of S and of any other such set T: S's are nowhere below T's, place
    by place, as exchanging a policy for one of higher merit lowers none of them. Weights are not
    negative and never increase, so S in order of merit gains no less than T in any order.

    *Runner-up, another set.* A set other than S lacks one of S's free policies: the sorted merits
    of its free policies are nowhere above those of S's with the last exchanged for the best that S
    leaves out. So that set is the second best, by the same argument.

    *Runner-up, the same set.* Sorting any other order of S by exchanging neighbors that are in
    the wrong order never raises the loss, and the last step but one is S in order of merit with
    two neighbors exchanged. So the least of these exchanges is the second best order.
    """
    depth = len(form.weight)
    rank = _ranks(form)
    if rules.limits_cost(depth):
        return _under_budget(form, rules, rank, ordered=ordered, partial=partial)
    open_to = np.flatnonzero(~rules.excluded)
    required = np.flatnonzero(rules.required)
    free = open_to[~rules.required[open_to]]
    free = free[np.argsort(rank[free])]
    n_free = min(depth, len(open_to)) - len(required)
    prefix = _arranged(np.concatenate([required, free[:n_free]]), rank, ordered=ordered)
    others = []
    if 0 < n_free < len(free):
        exchanged = np.concatenate([required, free[: n_free - 1], free[[n_free]]])
        others.append(_arranged(exchanged, rank, ordered=ordered))
    if ordered and len(prefix) > 1:
        others.append(_neighbors_exchanged(form, prefix))
    return optimum(form, prefix, "sorting", others, proven=not rules.has_budget)


def _under_budget(
    form: Sorting, rules: Rules, rank: Int[np.ndarray, " N"], *, ordered: bool, partial: bool
) -> Found:
    """Choose the set by an integer program, and its order by sorting."""
    merit, weight = form.merit, form.weight
    depth = len(weight)
    if ordered or depth <= _FEW_PLACES:
        table, capacity = np.outer(merit, weight), np.ones(depth, int)
    else:
        table, capacity = merit[:, None] * weight[0], np.array([depth])
    best = best_set(table, capacity, rules, partial=partial)
    launch = filled(best.members, rules, depth)
    tolerance = ROUNDING * float(np.abs(merit).max())
    alike = np.broadcast_to(merit[:, None], (len(merit), depth))
    launch = preferred(launch, alike, rules, tolerance)
    prefix = _arranged(np.array(launch), rank, ordered=ordered)
    others = best_neighbor(form, prefix, rules, ordered=ordered)
    return certified(form, prefix, others, best)


def _ranks(form: Sorting) -> Int[np.ndarray, " N"]:
    """Rank policies by merit, the highest first, and those of equal merit by preference."""
    merit = form.merit
    order = np.argsort(-merit, kind="stable")
    tolerance = ROUNDING * float(np.abs(merit).max())
    level, highest, levels = 0, np.inf, np.empty(len(merit), int)
    for i in order.tolist():
        if merit[i] < highest - tolerance:
            level, highest = level + 1, merit[i]
        levels[i] = level
    return np.argsort(np.argsort(levels, kind="stable"))


def _arranged(
    members: Int[np.ndarray, " j"], rank: Int[np.ndarray, " N"], *, ordered: bool
) -> tuple[int, ...]:
    """Put policies in order of merit, or of preference where order does not matter."""
    order = members[np.argsort(rank[members])] if ordered else np.sort(members)
    return tuple(order.tolist())


def _neighbors_exchanged(form: Sorting, prefix: tuple[int, ...]) -> tuple[int, ...]:
    """Exchange the two neighbors that this costs least for, lexicographically first if tied."""
    listed = np.array(prefix)
    weight, merit = form.weight[: len(listed)], form.merit[listed]
    lost = (weight[:-1] - weight[1:]) * (merit[:-1] - merit[1:])
    tied = np.flatnonzero(lost <= lost.min() + ROUNDING * max(1.0, abs(form.loss(prefix))))
    lower = listed[tied + 1] < listed[tied]
    place = tied[np.argmax(lower)] if lower.any() else tied[-1]
    listed[[place, place + 1]] = listed[[place + 1, place]]
    return tuple(listed.tolist())
