"""Which solver answers: all rankings where they can be tried, an exact one, or a search.

Where there are few rankings all of them are tried. Beyond, the mean losses of most scores have a
form that is solved exactly or bounded. Other risks have no such form. They, and the user's own
functions, are searched, which proves nothing.
"""

import numpy as np
from jaxtyping import Int

from bayesdice_ppl.scores import ties
from bayesdice_ppl.scores.forms import Assignment, Coverage, Pairwise, Sorting
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.solvers.assignment import assign
from bayesdice_ppl.selection.solvers.coverage import cover
from bayesdice_ppl.selection.solvers.exhaustive import count_prefixes, search
from bayesdice_ppl.selection.solvers.found import Found
from bayesdice_ppl.selection.solvers.local_search import improve
from bayesdice_ppl.selection.solvers.objective import fast_objective
from bayesdice_ppl.selection.solvers.pairwise import order_pairs
from bayesdice_ppl.selection.solvers.sorting import sort

# For more rankings than this, trying all takes longer than an exact solver, or than a user may
# wait.
_FEW = 50_000


def solve(problem: RankingProblem, max_evaluations: int | None = None) -> Found:
    """Find the prefix with the lowest loss that is allowed, and say how that is known.

    Parameters
    ----------
    problem : RankingProblem
        Draws, score and rules, which allow at least one launch.
    max_evaluations : int, optional
        Most rankings that are tried one by one, by trying all or by searching.

    Returns
    -------
    Found
        The same for the same inputs, always.
    """
    score, rules = problem.score, problem.rules
    # The solvers launch all that they list, and so order no policies past the launch.
    form = problem.form if rules.free or score.partial else None
    solvable = isinstance(form, Sorting | Assignment | Coverage | Pairwise)
    limit = max_evaluations
    if limit is None:
        cheap = score.averaged and not solvable
        limit = score.max_evaluations if cheap else min(score.max_evaluations, _FEW)
    if count_prefixes(problem) <= limit:
        return search(problem, limit)
    match form:
        case Sorting():
            return sort(form, rules, ordered=score.ordered, partial=score.partial)
        case Assignment():
            return assign(form, rules, partial=score.partial)
        case Coverage():
            return cover(form, problem.depth, rules)
        case Pairwise():
            return order_pairs(form)
        case _:
            return _searched(problem, limit if max_evaluations else min(limit, _FEW))


def _searched(problem: RankingProblem, limit: int) -> Found:
    """Search by beam and by local moves, for every number of places that a prefix may have."""
    best: Found | None = None
    evaluated = 0
    for size in problem.sizes:
        head = problem.head(size)
        starts = _starts(problem, size, head)
        if not len(starts):
            continue
        found = improve(
            fast_objective(problem, size, limit),
            problem.n_policies,
            size,
            problem.rules,
            starts,
            ordered=problem.score.ordered,
            launches=head,
            max_evaluations=max(1, limit // len(problem.sizes)),
            scale=problem.scale,
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


def _starts(problem: RankingProblem, size: int, head: int) -> Int[np.ndarray, "S size"]:
    """Give the rankings that a search begins with: by each number that one could sort by."""
    values = problem.values
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
        launch = problem.rules.fill(order, head)
        if launch is not None:
            rest = [int(i) for i in order if i not in launch]
            starts.append([*launch, *rest][:size])
    if not starts:
        return np.empty((0, size), np.intp)
    return np.unique(np.array(starts, np.intp), axis=0)
