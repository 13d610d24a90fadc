"""The set of at most k policies of least mean regret, with a proof or a bound on what is left.

The best value among a set of policies, averaged over draws, is a facility location objective:
the more policies there are, the less another one helps. Greedy choices improved by exchanges give a
set that is hard to beat. Branch and bound proves that none beats it, or finds the one that does.
"""

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.scores.forms import ROUNDING, Coverage
from bayesdice_ppl.selection.rules import Rules
from bayesdice_ppl.selection.solvers.branch_and_bound import (
    Node,
    Searched,
    SetProblem,
    root,
    search,
)
from bayesdice_ppl.selection.solvers.coverage_bound import BLOCK, capped_means
from bayesdice_ppl.selection.solvers.every_set import try_every_set
from bayesdice_ppl.selection.solvers.found import Found
from bayesdice_ppl.selection.solvers.shares import relax

# Entries of tables to work on before a search is cut short: about fifteen seconds of one core. As
# many as one in so many are worked on before going through all sets is considered, which is faster
# per entry.
_MOST_WORK = 12_000_000_000
_FIRST_SHARE = 12
_EVERY_SET = 5
# How many steps a policy stays away that was exchanged; what a step takes, in passes of the table.
_AWAY = 20
_PASSES = 8


def cover(form: Coverage, k: int, rules: Rules, *, max_nodes: int = 10_000) -> Found:
    """Find the set of policies whose best is, on average, the least below the best of all.

    Parameters
    ----------
    form : Coverage
        Values of the policies. They are in order of preference: of sets that differ by one policy
        and are equally good the one with the preferred policy is taken.
    k : int
        Most policies to launch, at least 1.
    rules : Rules
        What may be launched: at least one set that is not empty. A policy that must not be
        launched still counts among the best that regret is measured against.
    max_nodes : int
        Nodes of the tree to look into, at most. With 0, the set is what exchanges find and the
        bound is 0.

    Returns
    -------
    Found
        The prefix is in increasing order, with as many policies as places and budget allow; the
        bound is the loss itself where it is proven. The runner-up is the best set that differs by
        one policy.

    Notes
    -----
    Losses that differ by less than 1e-12 of the range that regrets are made of
    (`Coverage.scale`) count as equal.
    """
    open_to = np.flatnonzero(~rules.excluded)
    problem = SetProblem(
        regret=form.values.max(axis=0) - form.values[open_to],
        cost=rules.cost[open_to],
        limit=rules.limit,
        places=min(k, len(open_to)),
    )
    required = tuple(np.flatnonzero(rules.required[open_to]).tolist())
    rounding = ROUNDING * form.scale
    chosen = _heuristic(problem, required, rounding)
    searched = _searched(problem, required, chosen, rounding, max_nodes)
    chosen, losses = _exchanged(problem, searched.chosen, required, rounding)
    loss = problem.loss(chosen)
    proven = searched.bound >= loss - rounding
    second = _neighbor(problem, chosen, losses, rounding)
    return Found(
        prefix=tuple(open_to[list(chosen)].tolist()),
        loss=loss,
        bound=loss if proven else min(max(searched.bound - rounding, 0.0), loss),
        evaluated=searched.nodes,
        method="branch and bound",
        runner_up=None if second is None else tuple(open_to[list(second)].tolist()),
        runner_up_loss=None if second is None else problem.loss(second),
    )


def _searched(
    problem: SetProblem,
    required: tuple[int, ...],
    chosen: tuple[int, ...],
    rounding: float,
    max_nodes: int,
) -> Searched:
    """Search a tree; where that takes long, go through all sets, or search with better prices."""

    def tree(start: Node, known: tuple[int, ...], nodes: int, work: int) -> Searched:
        return search(problem, start, known, rounding, max_nodes=nodes, max_work=work)

    some, most = _MOST_WORK // _FIRST_SHARE, _EVERY_SET * _MOST_WORK
    start = root(problem, required, chosen)
    first = tree(start, chosen, max_nodes, some)
    if first.bound >= first.loss - rounding or first.nodes >= max_nodes:
        return first
    chosen = _wandered(problem, first.chosen, required, rounding, some)
    every = try_every_set(problem, required, chosen, rounding, max_work=most)
    nodes = first.nodes
    if every is not None:
        chosen, nodes = every.chosen, nodes + every.nodes
        if every.bound >= every.loss - rounding:
            return every._replace(nodes=nodes)
    if not np.isfinite(problem.limit) and problem.places > len(required):
        relaxed = relax(problem, required)
        if relaxed.bound > first.bound:
            start = start._replace(prices=relaxed.prices)
    last = tree(start, chosen, max_nodes - first.nodes, _MOST_WORK)
    return last._replace(nodes=nodes + last.nodes, bound=max(first.bound, last.bound))


def _heuristic(problem: SetProblem, required: tuple[int, ...], rounding: float) -> tuple[int, ...]:
    """Find a good set: greedily, under a budget also by gain per cost, and then by exchanges."""
    starts = [_filled(problem, required, rounding)]
    if np.isfinite(problem.limit):
        starts.append(_filled(problem, required, rounding, per_cost=True))
    sets = [_exchanged(problem, start, required, rounding)[0] for start in starts]
    return min(sets, key=problem.loss)


def _filled(
    problem: SetProblem,
    chosen: tuple[int, ...],
    rounding: float,
    *,
    per_cost: bool = False,
) -> tuple[int, ...]:
    """Add the policy that helps most, while there are places and money.

    Where none helps, policies are added that leave room for most others, the preferred first.
    """
    while len(chosen) < problem.places:
        left = problem.limit - problem.spent(chosen)
        open_to = problem.cost <= left
        open_to[list(chosen)] = False
        if not open_to.any():
            break
        cap = problem.regret[list(chosen)].min(axis=0) if chosen else problem.regret.max(axis=0)
        gain = cap.mean() - capped_means(problem.regret, cap)
        saved = np.where(open_to, gain, -1.0)
        if saved.max() > rounding:
            if per_cost:
                useful, dear = saved > rounding, problem.cost > 0.0
                saved = np.where(useful, np.inf, -1.0)  # what is free comes first
                np.divide(gain, problem.cost, out=saved, where=useful & dear)
            added = int(np.argmax(saved >= saved.max() - rounding))
        else:
            costs = np.sort(problem.cost[open_to])[: problem.places - len(chosen)]
            sums = np.cumsum(costs)
            last = int((sums <= left).sum()) - 1
            # Beside a policy that fits there is room for as many others as there can be.
            fits = problem.cost <= left - (sums[last] - costs[last])
            added = int(np.argmax(open_to & fits))
        chosen = (*chosen, added)
    return tuple(sorted(chosen))


def _exchanged(
    problem: SetProblem, chosen: tuple[int, ...], required: tuple[int, ...], rounding: float
) -> tuple[tuple[int, ...], Float[np.ndarray, "n j"]]:
    """Exchange single policies until that helps no more, and then for preferred ones.

    Returns
    -------
    chosen, losses
        The set, in increasing order, and the losses of its neighbors: see `_exchanges`.
    """
    chosen = _filled(problem, chosen, rounding)
    least = problem.loss(chosen)
    while True:
        losses = _exchanges(problem, chosen, required)
        lowest = float(losses.min())
        if lowest < least - rounding:
            i, j = np.argwhere(losses <= lowest + rounding)[0]
        else:
            tied = np.argwhere(losses <= least + rounding)
            tied = tied[tied[:, 0] < np.array(chosen)[tied[:, 1]]]
            if not len(tied):
                return chosen, losses
            i, j = min(tied.tolist(), key=lambda pair: (pair[0], -pair[1]))
        chosen = _filled(problem, (*chosen[:j], *chosen[j + 1 :], int(i)), rounding)
        least = min(least, problem.loss(chosen))


def _wandered(
    problem: SetProblem,
    chosen: tuple[int, ...],
    required: tuple[int, ...],
    rounding: float,
    max_work: int,
) -> tuple[int, ...]:
    """Make the best exchange over and over, even if it helps nothing, and keep the best set.

    What was exchanged stays so for a while, so that the way does not lead back (tabu search; Glover
    1989).
    """
    best, least, here = chosen, problem.loss(chosen), chosen
    n = len(problem.cost)
    stay = max(1, len(chosen) // 2)
    away = min(_AWAY, (n - len(chosen)) // 2)
    free_again, movable_again = np.zeros(n, int), np.zeros(n, int)
    for step in range(max_work // (_PASSES * problem.regret.size)):
        losses = _exchanges(problem, here, required)
        losses[free_again > step] = np.inf
        losses[:, movable_again[list(here)] > step] = np.inf
        i, j = np.unravel_index(int(np.argmin(losses)), losses.shape)
        if not np.isfinite(losses[i, j]):
            break
        free_again[here[j]], movable_again[i] = step + 1 + away, step + 1 + stay
        here = _filled(problem, (*here[:j], *here[j + 1 :], int(i)), rounding)
        loss = problem.loss(here)
        if loss < least - rounding:
            best, least = here, loss
    return best


def _exchanges(
    problem: SetProblem, chosen: tuple[int, ...], required: tuple[int, ...]
) -> Float[np.ndarray, "n j"]:
    """Give the mean regret with the j-th policy exchanged for policy i; inf if not allowed."""
    listed = problem.regret[list(chosen)]
    n_draws = listed.shape[1]
    serves = listed.argmin(axis=0)
    cap = listed.min(axis=0)
    listed[serves, np.arange(n_draws)] = np.inf
    second = listed.min(axis=0)
    mean = np.full(n_draws, 1.0 / n_draws)
    parts = (serves[:, None] == np.arange(len(chosen))) / n_draws
    losses = np.empty((len(problem.cost), len(chosen)))
    rows = max(1, BLOCK // n_draws)
    for start in range(0, len(losses), rows):
        block = problem.regret[start : start + rows]
        added = np.minimum(block, cap)
        # Where the policy that leaves was the best, the second best of the set steps in.
        more = np.minimum(block, second) - added
        losses[start : start + rows] = (added @ mean)[:, None] + more @ parts
    spent = problem.spent(chosen) - problem.cost[list(chosen)] + problem.cost[:, None]
    losses[spent > problem.limit] = np.inf
    losses[list(chosen)] = np.inf
    losses[:, np.isin(chosen, required)] = np.inf
    return losses


def _neighbor(
    problem: SetProblem, chosen: tuple[int, ...], losses: Float[np.ndarray, "n j"], rounding: float
) -> tuple[int, ...] | None:
    """Give the best of the sets that differ by one policy, the first of equals; None without one.

    Parameters
    ----------
    losses
        From `_exchanges`.
    """
    lowest = float(losses.min())
    if not np.isfinite(lowest):
        return None
    pairs = np.argwhere(losses <= lowest + rounding).tolist()
    other = min(tuple(sorted((*chosen[:j], *chosen[j + 1 :], i))) for i, j in pairs)
    return _filled(problem, other, rounding)
