"""The best ranking where each place has a weight and each policy a merit: sort by merit.

That the largest merit belongs to the largest weight is the rearrangement inequality (Hardy,
Littlewood and Pólya, Inequalities, section 10.2). Policies that must or must not be launched leave
it a sort; a budget makes it an integer program.
"""

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.losses.structure import ROUNDING, Sorting
from bayesdice_ppl.selection.rules import Rules
from bayesdice_ppl.selection.solvers.budget import (
    Launch,
    best_set,
    binds,
    certified,
    filled,
    preferred,
)
from bayesdice_ppl.selection.solvers.comparing import first_of_lowest, loss_of, rounding_of
from bayesdice_ppl.selection.solvers.found import Found

# Places that are told apart in the integer program even where they are alike. It is larger so, and
# HiGHS 1.12 does not print to standard output what it does about rounded solutions of the smaller.
_FEW_PLACES = 30


def sort(structure: Sorting, rules: Rules, *, ordered: bool, partial: bool) -> Found:
    """Find the prefix of lowest loss, and the next best.

    Policies are numbered in order of preference, 0 first: of policies of equal merit the preferred
    is listed, and listed first. Under a budget that is tried for, not proven.

    Parameters
    ----------
    structure : Sorting
        Merits of N policies and weights of the places. Under a budget, or where fewer policies
        than places may be listed, merits must not be negative.
    rules : Rules
        What may be launched: all policies listed are. They have to allow some launch.
    ordered : bool
        Whether the order of the places matters. Where not, all weights must be equal, and the
        prefix is in increasing order.
    partial : bool
        Whether fewer policies than places may be listed, where too few are left or there is a
        budget: the answer has as many as gain anything, the runner-up may be shorter.

    Returns
    -------
    Found
        With method "sorting", or "branch and bound" where the budget matters; its bound is then
        below the loss if the search was cut short.

    Notes
    -----
    *Best.* Among sets of a given size that hold the required policies R, let S be R and the best
    of the rest. Sort the merits of S and of any other such set T: S's are nowhere below T's, place
    by place, as exchanging a policy for one of higher merit lowers none of them. Weights are not
    negative and never increase, so S in order of merit gains no less than T in any order.

    *Runner-up, another set.* A set other than S lacks one of S's free policies: the sorted merits
    of its free policies are nowhere above those of S's with the last exchanged for the best that S
    leaves out. So that set is the second best, by the same argument. Where a launch may be shorter
    for the budget's sake a part of S comes into question too, by the same argument all of S but
    its last free policy.

    *Runner-up, the same set.* Sorting any other order of S by exchanging neighbors that are in
    the wrong order never raises the loss, and the last step but one is S in order of merit with
    two neighbors exchanged. So the least of these N - 1 exchanges is the second best order.
    """
    depth = len(structure.weight)
    rank = _ranks(structure.merit)
    if binds(rules, depth):
        return _under_budget(structure, rules, rank, ordered=ordered, partial=partial)
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
    others += _near(structure, rules, prefix, rank, ordered=ordered, partial=partial)
    loss = loss_of(structure, prefix)
    second = first_of_lowest(structure, others)
    return Found(
        prefix,
        loss,
        loss,
        second,
        None if second is None else loss_of(structure, second),
        True,
        1,
        "sorting",
    )


def _under_budget(
    structure: Sorting, rules: Rules, rank: np.ndarray, *, ordered: bool, partial: bool
) -> Found:
    """Choose the set by an integer program; its order, and the next best order, by sorting."""
    merit, weight = structure.merit, structure.weight
    depth = len(weight)
    if ordered or depth <= _FEW_PLACES:
        table, capacity = np.outer(merit, weight), np.ones(depth, int)
    else:
        table, capacity = merit[:, None] * weight[0], np.array([depth])

    def other(than: tuple[int, ...] | None) -> Launch | None:
        return best_set(table, capacity, rules, partial=partial, other_than=than)

    best = other(None)
    if best is None:
        raise AssertionError("rules that no launch can meet are refused before")
    launch = filled(best.members, rules, depth)
    tolerance = ROUNDING * float(np.abs(merit).max())
    launch = preferred(
        launch, np.broadcast_to(merit[:, None], (len(merit), depth)), rules, tolerance
    )
    prefix = _arranged(np.array(launch), rank, ordered=ordered)
    second = other(prefix)
    others = _near(structure, rules, prefix, rank, ordered=ordered, partial=partial)
    if second is not None and second.members:
        members = np.array(filled(second.members, rules, depth))
        others.append(_arranged(members, rank, ordered=ordered))
    return certified(structure, prefix, others, best, second)


def _ranks(merit: Float[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """Rank policies by merit, the highest first, and those of equal merit by preference."""
    tolerance = ROUNDING * float(np.abs(merit).max())
    level, highest, levels = 0, np.inf, np.empty(len(merit), int)
    for i in np.argsort(-merit, kind="stable").tolist():
        if merit[i] < highest - tolerance:
            level, highest = level + 1, merit[i]
        levels[i] = level
    rank = np.empty(len(merit), int)
    rank[np.argsort(levels, kind="stable")] = np.arange(len(merit))
    return rank


def _arranged(members: np.ndarray, rank: np.ndarray, *, ordered: bool) -> tuple[int, ...]:
    """Put policies in order of merit, or of preference where order does not matter."""
    order = members[np.argsort(rank[members])] if ordered else np.sort(members)
    return tuple(order.tolist())


def _near(
    structure: Sorting,
    rules: Rules,
    prefix: tuple[int, ...],
    rank: np.ndarray,
    *,
    ordered: bool,
    partial: bool,
) -> list[tuple[int, ...]]:
    """Give the best other order of the same set, and the best launch of a part of it."""
    others = []
    if ordered and len(prefix) > 1:
        others.append(_neighbors_exchanged(structure, prefix))
    free = [i for i in prefix if not rules.required[i]]
    if partial and np.isfinite(rules.budget) and len(prefix) > 1 and free:
        last = max(free, key=lambda i: rank[i])
        others.append(tuple(i for i in prefix if i != last))
    return others


def _neighbors_exchanged(structure: Sorting, prefix: tuple[int, ...]) -> tuple[int, ...]:
    """Exchange the two neighbors that this costs least for, lexicographically first if tied."""
    listed = np.array(prefix)
    weight, merit = structure.weight[: len(listed)], structure.merit[listed]
    lost = (weight[:-1] - weight[1:]) * (merit[:-1] - merit[1:])
    tied = np.flatnonzero(lost <= lost.min() + rounding_of(structure, loss_of(structure, prefix)))
    lower = listed[tied + 1] < listed[tied]
    place = tied[np.argmax(lower)] if lower.any() else tied[-1]
    listed[[place, place + 1]] = listed[[place + 1, place]]
    return tuple(listed.tolist())
