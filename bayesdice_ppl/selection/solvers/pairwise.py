"""The best order where the loss is a sum over pairs: the linear ordering problem.

If "better listed before" never runs in a circle, an order that agrees with it on every pair meets
the lower bound that takes the lesser loss of each pair, and is the best there is. Circles stay
within the strongly connected groups of that relation, which can be ordered one by one (Condorcet's
principle, extended: Truchon, 1998): small groups exactly by dynamic programming over sets, large
ones by local search and a bound from circles of three.
"""

import heapq
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from bayesdice_ppl.scores.forms import ROUNDING, Pairwise
from bayesdice_ppl.selection.solvers.found import Found, optimum

# Policies in a group up to which it is ordered exactly, over its 2^16 sets.
_MOST_EXACT = 16
# Insertions that are judged, and circles in a bound, after which a large group is left as it is.
_MOST_INSERTIONS = 400_000_000
_MOST_CIRCLES = 50_000


def order_pairs(form: Pairwise) -> Found:
    """Find the order of lowest loss, and the best one with two neighbors exchanged.

    Policies are numbered in order of preference, 0 first: among orders of equal loss the one wins
    that is first in lexicographic order, unless the better-before relation has circles.

    Parameters
    ----------
    form : Pairwise
        Loss of each pair of N policies in each of its two orders.

    Returns
    -------
    Found
        With method "pairwise ordering". Its bound is the loss, unless more than 16 policies are in
        circles with each other.

    Notes
    -----
    *Runner-up.* Without circles it is proven: any other order has two policies reversed that are
    neighbors in the best one, and loses as much as exchanging them alone, or more.
    """
    table = form.table
    n = len(table)
    # What listing i (row) before j gains over the reverse.
    gain = table.T - table
    np.fill_diagonal(gain, 0.0)
    tolerance = ROUNDING * float(np.abs(gain).max())
    better_before = gain > tolerance
    _, label = connected_components(csr_array(better_before), connection="strong")
    apart = better_before & (label[:, None] != label)
    members = np.split(np.argsort(label, kind="stable"), np.cumsum(np.bincount(label))[:-1])
    groups = [_order_group(gain, group, tolerance) for group in members if len(group) > 1]
    order = _merged(apart, [group.order for group in groups])
    others = [_neighbors_exchanged(gain, order, tolerance)] if n > 1 else []
    prefix = tuple(order.tolist())
    found = optimum(form, prefix, "pairwise ordering", others, proven=not groups)
    bound = found.loss
    if any(group.bound < group.loss for group in groups):
        pairs = np.minimum(table, table.T)[np.triu_indices(n, 1)].sum()
        bound = min(bound, form.offset + pairs + sum(group.bound for group in groups))
    evaluated = 1 + sum(group.evaluated for group in groups)
    return found._replace(bound=bound, evaluated=evaluated)


@final
class _Group(NamedTuple):
    """A group in order, and its losses above that of the lesser loss for every pair."""

    order: Int[np.ndarray, " n"]
    loss: float
    bound: float
    evaluated: int


def _order_group(gain: np.ndarray, group: np.ndarray, tolerance: float) -> _Group:
    within = gain[np.ix_(group, group)]
    if len(group) <= _MOST_EXACT:
        return _by_sets(within, group, tolerance)
    order, evaluated = _by_insertion(within, tolerance)
    loss = float(np.maximum(-np.triu(within[np.ix_(order, order)]), 0.0).sum())
    bound = min(loss, _circles(within[np.ix_(order, order)], tolerance))
    if loss - bound <= len(group) * tolerance:
        bound = loss
    return _Group(group[order], loss, bound, evaluated)


def _by_sets(
    gain: Float[np.ndarray, "n n"], group: Int[np.ndarray, " n"], tolerance: float
) -> _Group:
    """Find the best order of every set, from those of sets with one policy less.

    (Held and Karp, A dynamic programming approach to sequencing problems, 1962.)
    """
    n = len(group)
    excess = np.maximum(-gain, 0.0)
    sets = np.arange(1 << n)
    member = (sets[:, None] >> np.arange(n) & 1).astype(bool)
    size = member.sum(axis=1)
    # Of each set, the loss of its best order, and the policy listed first in it.
    losses, choice = np.zeros(1 << n), np.zeros(1 << n, int)
    for count in range(1, n + 1):
        layer = sets[size == count]
        rest = layer[:, None] ^ (1 << np.arange(n))
        rest[~member[layer]] = 0
        tried = losses[rest] + member[layer] @ excess.T
        tried[~member[layer]] = np.inf
        chosen = np.argmax(tried <= tried.min(axis=1, keepdims=True) + tolerance, axis=1)
        losses[layer], choice[layer] = tried[np.arange(len(layer)), chosen], chosen
    left, order = (1 << n) - 1, list[int]()
    while left:
        order.append(int(choice[left]))
        left ^= 1 << order[-1]
    loss = float(losses[-1])
    return _Group(group[order], loss, loss, 1 << n)


def _by_insertion(
    gain: Float[np.ndarray, "n n"], tolerance: float
) -> tuple[Int[np.ndarray, " n"], int]:
    """Improve an order by putting policies elsewhere, for as long as that helps.

    It starts from the order of the summed gains (Borda's). All insertions are judged at once: what
    a policy at place p loses by going before the one at place t is a difference of running sums.
    Insertions over stretches that do not overlap add up, so many are made in a round.
    """
    n = len(gain)
    order = np.argsort(-gain.sum(axis=1), kind="stable")
    gain = gain[np.ix_(order, order)]
    running, places = np.zeros((n, n + 1)), np.arange(n)
    evaluated = 0
    while evaluated < _MOST_INSERTIONS:
        np.cumsum(gain, axis=1, out=running[:, 1:])
        slot = np.argmin(running, axis=1)
        change = running[places, slot] - running[places, places]
        evaluated += n * (n - 1)
        moved, taken = places.copy(), np.zeros(n, bool)
        for p in np.argsort(change, kind="stable").tolist():
            if change[p] >= -tolerance:
                break
            low, high = min(p, slot[p]), max(p + 1, slot[p])
            if not taken[low:high].any():
                taken[low:high] = True
                moved[low:high] = np.roll(moved[low:high], 1 if slot[p] < p else -1)
        if not taken.any():
            break
        order, gain = order[moved], gain[np.ix_(moved, moved)]
    return order, evaluated


def _circles(gain: Float[np.ndarray, "n n"], tolerance: float) -> float:
    """Bound the loss of any order, above that of the lesser loss for every pair, from below.

    In a circle of three one pair is listed the wrong way around in any order. Each circle that is
    found takes the least of its three gains off all three, so that none is counted twice. Policies
    are numbered by a good order: only circles over pairs that it has the wrong way are looked for.
    """
    left = np.maximum(gain, 0.0)
    back, front = np.nonzero(np.tril(left))
    dearest = np.argsort(-left[back, front], kind="stable")
    back, front = back[dearest], front[dearest]
    bound, n_circles = 0.0, 0
    for i, j in zip(back.tolist(), front.tolist(), strict=True):
        # i is better before j and listed behind: j before x, and x before i, close a circle.
        while left[i, j] > tolerance and n_circles < _MOST_CIRCLES:
            n_circles += 1
            others = np.minimum(left[j], left[:, i])
            x = int(np.argmax(others))
            if others[x] <= tolerance:
                break
            least = min(float(others[x]), float(left[i, j]))
            for a, b in ((i, j), (j, x), (x, i)):
                left[a, b] -= least
            bound += least
    return bound


def _merged(
    apart: Bool[np.ndarray, "N N"], orders: list[Int[np.ndarray, " n"]]
) -> Int[np.ndarray, " N"]:
    """Order all policies: groups in their own order, pairs apart by the relation, then by number.

    (Kahn, Topological sorting of large networks, 1962, the lowest number first.)
    """
    before = apart.copy()
    for order in orders:
        before[order[:-1], order[1:]] = True
    waits_for = before.sum(axis=0)
    ready = np.flatnonzero(waits_for == 0).tolist()
    merged = []
    while ready:
        policy = heapq.heappop(ready)
        merged.append(policy)
        after = np.flatnonzero(before[policy])
        waits_for[after] -= 1
        for other in after[waits_for[after] == 0].tolist():
            heapq.heappush(ready, other)
    return np.array(merged)


def _neighbors_exchanged(
    gain: Float[np.ndarray, "N N"], order: Int[np.ndarray, " N"], tolerance: float
) -> tuple[int, ...]:
    """Exchange the two neighbors that this costs least for, the last of equals."""
    lost = gain[order[:-1], order[1:]]
    place = int(np.flatnonzero(lost <= lost.min() + tolerance)[-1])
    other = order.copy()
    other[[place, place + 1]] = order[[place + 1, place]]
    return tuple(other.tolist())
