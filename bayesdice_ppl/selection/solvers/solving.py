"""Which solver answers: all rankings where they can be tried, an exact one, or a search.

Where there are few rankings all of them are tried. Beyond, the mean losses of most scores have a
form that is solved exactly or bounded; risks other than the mean break those forms, and they, like
functions of the user's, are searched, which proves nothing.
"""

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl import ties
from bayesdice_ppl.losses import Assignment, Coverage, Pairwise, Score, Sorting, Structure
from bayesdice_ppl.selection.rules import Rules, fill
from bayesdice_ppl.selection.solvers.assignment import assign
from bayesdice_ppl.selection.solvers.coverage import cover
from bayesdice_ppl.selection.solvers.exhaustive import count_prefixes, prefix_sizes, search
from bayesdice_ppl.selection.solvers.found import Found
from bayesdice_ppl.selection.solvers.local_search import improve
from bayesdice_ppl.selection.solvers.objective import fast_objective
from bayesdice_ppl.selection.solvers.pairwise import order_pairs
from bayesdice_ppl.selection.solvers.sorting import sort

# Past this, trying all rankings takes longer than an exact solver, or than a user may wait.
_FEW = 50_000


def solve(
    values: Float[np.ndarray, "M N"],
    score: Score,
    rules: Rules,
    *,
    max_evaluations: int | None = None,
) -> Found:
    """Find the prefix with the lowest loss that is allowed, and say how that is known.

    Parameters
    ----------
    values : Float[ndarray, "M N"]
        Draws of the policy values, finite, the policies in order of preference: among prefixes of
        equal loss the one is taken that is first in lexicographic order, where that is known.
    score : Score
        What to minimize the loss of, bound to the names.
    rules : Rules
        Which launches are allowed, at least one.
    max_evaluations : int, optional
        Most rankings that are tried one by one, by trying all or by searching.

    Returns
    -------
    Found
        The same for the same inputs, always.
    """
    n_policies = values.shape[1]
    structure = _structure(score, values, rules)
    limit = max_evaluations
    if limit is None:
        cheap = structure is None and score.averaged
        limit = score.max_evaluations if cheap else min(score.max_evaluations, _FEW)
    if count_prefixes(score, n_policies, rules) <= limit:
        return search(values, score, np.arange(n_policies), rules=rules, max_evaluations=limit)
    if isinstance(structure, Sorting):
        return sort(structure, rules, ordered=score.ordered, partial=score.partial)
    if isinstance(structure, Assignment):
        return assign(structure, rules, partial=score.partial)
    if isinstance(structure, Coverage):
        return cover(structure.values, score.depth(n_policies), rules)
    if isinstance(structure, Pairwise):
        return order_pairs(structure)
    return _searched(values, score, rules, limit if max_evaluations else min(limit, _FEW))


def _structure(score: Score, values: np.ndarray, rules: Rules) -> Structure | None:
    """Give the form of the loss, if it has one that holds here."""
    if not score.averaged:
        return None
    if not rules.free and not score.partial:
        return None  # an order of all, of which only the first k are bound by the rules
    return score.structure(values)


def _searched(values: np.ndarray, score: Score, rules: Rules, limit: int) -> Found:
    """Search by beam and by local moves, for every number of places that a prefix may have."""
    n_policies = values.shape[1]
    sizes = prefix_sizes(score, rules)
    best: Found | None = None
    evaluated = 0
    for size in sizes:
        launched = score.launches(n_policies)
        head = size if launched is None else min(size, launched)
        starts = _starts(values, rules, size, head)
        if not len(starts):
            continue
        found = improve(
            fast_objective(score, values, size, limit),
            n_policies,
            size,
            rules,
            starts,
            ordered=score.ordered,
            launches=head,
            max_evaluations=max(1, limit // len(sizes)),
            scale=score.loss_scale(values),
        )
        evaluated += found.evaluated
        best = found if best is None else _better(best, found)
    if best is None:
        raise AssertionError("rules that no launch can meet are refused before")
    return best._replace(evaluated=evaluated)


def _better(one: Found, other: Found) -> Found:
    """Give the better of two, with the best of the rest as its runner-up; of equals the first."""
    first, second = (other, one) if other.loss < one.loss else (one, other)
    if first.runner_up_loss is not None and first.runner_up_loss <= second.loss:
        return first
    return first._replace(runner_up=second.prefix, runner_up_loss=second.loss)


def _starts(
    values: Float[np.ndarray, "M N"], rules: Rules, size: int, head: int
) -> Int[np.ndarray, "S size"]:
    """Give the rankings that a search begins with: by each number that one could sort by."""
    block = ties.places(values)
    low, high = np.quantile(values, [0.05, 0.95], axis=0)
    numbers = [
        values.mean(axis=0),
        ties.inclusion(block, head).mean(axis=0),
        ties.inclusion(block, 1).mean(axis=0),
        -ties.expected_places(block).mean(axis=0),
        low,
        high,
    ]
    starts = []
    for number in numbers:
        order = np.argsort(-number, kind="stable")
        launch = fill(order, rules, head)
        if launch is not None:
            rest = [int(i) for i in order if i not in launch]
            starts.append([*launch, *rest][:size])
    if not starts:
        return np.empty((0, size), np.intp)
    return np.unique(np.array(starts, np.intp), axis=0)
