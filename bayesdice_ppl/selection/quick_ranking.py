"""A good ranking for a few draws, found fast and without proof.

What one would choose if a policy's value were known is found on the draws where it is about that.
There are many such questions and few draws for each, so a good ranking is enough. How good it is,
is judged on other draws.
"""

import numpy as np

from bayesdice_ppl.scores import ties
from bayesdice_ppl.scores.forms import ROUNDING, Assignment, Coverage, Sorting
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.rules import Rules
from bayesdice_ppl.selection.solvers.assignment import assign
from bayesdice_ppl.selection.solvers.exhaustive import count_prefixes, search
from bayesdice_ppl.selection.solvers.local_search import improve
from bayesdice_ppl.selection.solvers.sorting import sort

# Up to this many rankings all are tried, beyond at most so many.
_FEW = 500


def quick_ranking(problem: RankingProblem, start: tuple[int, ...]) -> tuple[int, ...]:
    """Find a ranking of low mean loss over a few draws.

    Parameters
    ----------
    problem : RankingProblem
        At least one draw, a score judged by its mean, and rules, which are free unless the score
        is `partial`.
    start : tuple of int
        A ranking that is allowed, from which a search starts where there is no exact solver, or
        one that takes long.

    Returns
    -------
    tuple of int
        A prefix that is allowed, the same for the same inputs.
    """
    score, rules, form = problem.score, problem.rules, problem.form
    if isinstance(form, Sorting):
        return sort(form, rules, ordered=score.ordered, partial=score.partial).prefix
    if isinstance(form, Assignment):
        return assign(form, rules, partial=score.partial).prefix
    if count_prefixes(problem) <= _FEW:
        return search(problem).prefix
    if isinstance(form, Coverage):
        return _climb(form, rules, problem.depth, start)
    places = ties.expected_places(ties.places(problem.values)).mean(axis=0)
    return improve(
        problem.objective,
        problem.n_policies,
        problem.n_policies,
        rules,
        np.array([start, np.argsort(places, kind="stable")]),
        ordered=True,
        launches=problem.head(problem.n_policies),
        max_evaluations=_FEW,
        beam_width=0,
        kicks=0,
    ).prefix


def _climb(form: Coverage, rules: Rules, k: int, start: tuple[int, ...]) -> tuple[int, ...]:
    """Exchange or add the policy that covers most, for as long as one covers more."""
    values = form.values
    chosen = sorted(start)
    covered = values[chosen].max(axis=0).mean()
    tolerance = ROUNDING * form.scale
    while True:
        best, change = covered + tolerance, None
        for rest in _without_one(chosen, rules, k):
            gains = values.mean(axis=1)
            if rest:
                gains = np.maximum(values, values[rest].max(axis=0)).mean(axis=1)
            affordable = rules.cost + rules.cost[rest].sum() <= rules.limit
            gains[~affordable | rules.excluded] = -np.inf
            policy = int(np.argmax(gains))
            if gains[policy] > best:
                best, change = gains[policy], [*rest, policy]
        if change is None:
            return tuple(chosen)
        chosen, covered = sorted(change), best


def _without_one(chosen: list[int], rules: Rules, k: int) -> list[list[int]]:
    """List what may stay when a policy is exchanged, or all where there is room for one more."""
    rests = [[i for i in chosen if i != out] for out in chosen if not rules.required[out]]
    return [*rests, chosen] if len(chosen) < k else rests
