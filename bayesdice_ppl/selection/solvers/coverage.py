"""The set of at most k policies of least mean regret, with a proof or a bound on what is left.

The best value among a set of policies, averaged over draws, is a facility location objective:
adding a policy helps less the more are there. Greedy choices improved by exchanges give a set that
is hard to beat; branch and bound proves that none beats it, or finds the one that does.
"""

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.losses.structure import ROUNDING, cover_scale
from bayesdice_ppl.selection.rules import Rules
from bayesdice_ppl.selection.solvers.branch_and_bound import Node, Problem, Searched, search
from bayesdice_ppl.selection.solvers.coverage_bound import BLOCK, Part, ascend, capped_means
from bayesdice_ppl.selection.solvers.found import Found

# Steps of the first node, and of those that begin the proof of the runner-up.
_FIRST_STEPS = 200
_OTHER_STEPS = 50
# Entries of tables to work on before a search is cut short: about fifteen seconds of one core.
_MOST_WORK = 12_000_000_000


def cover(
    values: Float[np.ndarray, "M N"], k: int, rules: Rules, *, max_nodes: int = 10_000
) -> Found:
    """Find the set of policies whose best is, on average, the least below the best of all.

    Parameters
    ----------
    values : Float[ndarray, "M N"]
        Draws of the policy values, finite. The policies are in order of preference: of sets that
        differ by one policy and are equally good the one with the preferred policy is taken.
    k : int
        Most policies to launch, at least 1.
    rules : Rules
        What may be launched: at least one set that is not empty. A policy that must not be
        launched still counts among the best that regret is measured against.
    max_nodes : int
        Nodes of the tree to look into, at most; none leaves what exchanges find, and bound 0.

    Returns
    -------
    Found
        The prefix is in increasing order, with as many policies as places and budget allow; the
        bound is the loss itself where it is proven. The runner-up is the best set that differs by
        one policy, or under a budget lacks one, unless the attempt to prove it finds a better.

    Notes
    -----
    Losses that differ by less than 1e-12 of the range that regrets are made of (`cover_scale`)
    count as equal.

    A set other than the answer lacks one of its policies, as no other can be added to the answer.
    So the runner-up is the best of the sets without the first policy of the answer, of those with
    the first and without the second, and so on: a search of its own.
    """
    open_to = np.flatnonzero(~rules.excluded)
    problem = Problem(
        regret=_regrets(values, open_to),
        cost=rules.cost[open_to],
        limit=rules.limit,
        places=min(k, len(open_to)),
    )
    required = tuple(np.flatnonzero(rules.required[open_to]).tolist())
    rounding = ROUNDING * cover_scale(values)
    chosen = _heuristic(problem, required, rounding)
    searched = search(
        problem,
        [_root(problem, required, chosen)],
        chosen,
        rounding,
        max_nodes=max_nodes,
        max_work=_MOST_WORK,
    )
    chosen, losses = _exchanged(problem, searched.chosen, required, rounding)
    loss = problem.loss(chosen)
    proven = searched.bound >= loss - rounding
    runner_up = _neighbor(problem, chosen, losses, required, rounding)
    nodes = searched.nodes
    runner_up_proven = runner_up is None
    if runner_up is not None and proven:
        others = _others(problem, chosen, runner_up, required, searched, rounding, max_nodes)
        runner_up, nodes = others.chosen, nodes + others.nodes
        runner_up_proven = others.bound >= others.loss - rounding
    return Found(
        prefix=tuple(open_to[list(chosen)].tolist()),
        loss=loss,
        bound=loss if proven else min(max(searched.bound - rounding, 0.0), loss),
        runner_up=None if runner_up is None else tuple(open_to[list(runner_up)].tolist()),
        runner_up_loss=None if runner_up is None else problem.loss(runner_up),
        runner_up_proven=runner_up_proven,
        evaluated=nodes,
        method="branch and bound",
    )


def _regrets(
    values: Float[np.ndarray, "M N"], open_to: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n M"]:
    """Give how far each policy is below the best of all, draw by draw, in a single copy."""
    best = values.max(axis=1)
    table = np.empty((len(open_to), len(values)))
    rows = max(1, BLOCK // len(values))
    for start in range(0, len(table), rows):
        listed = open_to[start : start + rows]
        np.subtract(best, values[:, listed].T, out=table[start : start + rows])
    return table


def _root(problem: Problem, required: tuple[int, ...], chosen: tuple[int, ...]) -> Node:
    """Give the node that allows everything, with prices that suit a good set."""
    free = np.setdiff1d(np.arange(len(problem.cost)), required)
    # Prices for which the policies of the set save something, and hardly twice in the same draw.
    prices = np.sort(problem.regret[list(chosen)], axis=0)[:2].mean(axis=0)
    return Node(0.0, required, free, prices, _FIRST_STEPS)


def _heuristic(problem: Problem, required: tuple[int, ...], rounding: float) -> tuple[int, ...]:
    """Find a good set: greedily, under a budget also by gain per cost, and then by exchanges."""
    starts = [_filled(problem, required, rounding)]
    if np.isfinite(problem.limit):
        starts.append(_filled(problem, required, rounding, per_cost=True))
    sets = [_exchanged(problem, start, required, rounding)[0] for start in starts]
    return min(sets, key=problem.loss)


def _filled(
    problem: Problem,
    chosen: tuple[int, ...],
    rounding: float,
    *,
    banned: tuple[int, ...] = (),
    per_cost: bool = False,
) -> tuple[int, ...]:
    """Add the policy that helps most for as long as there are places and money.

    Where none helps, those are added that leave room for most others, the preferred first.
    """
    while len(chosen) < problem.places:
        left = problem.limit - problem.spent(chosen)
        open_to = problem.cost <= left
        open_to[[*chosen, *banned]] = False
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
    problem: Problem, chosen: tuple[int, ...], required: tuple[int, ...], rounding: float
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


def _exchanges(
    problem: Problem, chosen: tuple[int, ...], required: tuple[int, ...]
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
    problem: Problem,
    chosen: tuple[int, ...],
    losses: Float[np.ndarray, "n j"],
    required: tuple[int, ...],
    rounding: float,
) -> tuple[int, ...] | None:
    """Give the best of the sets next to one that nothing can be added to, None if there is none."""
    lowest = float(losses.min())
    sets = []
    if np.isfinite(lowest):
        for i, j in np.argwhere(losses <= lowest + rounding).tolist():
            other = tuple(sorted((*chosen[:j], *chosen[j + 1 :], i)))
            sets.append(other)
        sets = [_filled(problem, min(sets), rounding)]
    if np.isfinite(problem.limit) and len(chosen) > 1:
        fewer = [tuple(c for c in chosen if c != i) for i in chosen if i not in required]
        sets += fewer
    if not sets:
        return None
    found = [problem.loss(other) for other in sets]
    tied = [other for other, loss in zip(sets, found, strict=True) if loss <= min(found) + rounding]
    return min(tied, key=lambda other: (-len(other), other))


def _others(
    problem: Problem,
    chosen: tuple[int, ...],
    runner_up: tuple[int, ...],
    required: tuple[int, ...],
    searched: Searched,
    rounding: float,
    max_nodes: int,
) -> Searched:
    """Look for a set that is better than the runner-up, and is not the answer."""
    everyone, target = np.arange(len(problem.cost)), problem.loss(runner_up) - rounding
    worst = problem.regret.max(axis=0)
    whole = Part(everyone, worst, problem.places, problem.cost, problem.limit).affordable()
    run = ascend(problem.regret, whole, searched.prices, target, _OTHER_STEPS)
    kept = np.isin(everyone, [*run.part.policies, *run.added])
    kept[list(required)] = False
    nodes, launched = [], required
    for policy in (i for i in chosen if i not in required):
        kept[policy] = False
        nodes.append(Node(run.dual.value, launched, everyone[kept], run.prices, _OTHER_STEPS))
        launched = (*launched, policy)
    found = search(
        problem, nodes, runner_up, rounding, max_nodes=max_nodes, max_work=_MOST_WORK // 4
    )
    if found.chosen == runner_up:
        return found
    missing = next(i for i in chosen if i not in found.chosen)
    other = _filled(problem, found.chosen, rounding, banned=(missing,))
    return found._replace(chosen=other, loss=problem.loss(other))
