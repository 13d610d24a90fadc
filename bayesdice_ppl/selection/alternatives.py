"""Good rankings for some of the draws, found fast and without proof.

What one would choose if a policy's value were known is found on the draws where it is about that.
There are many such questions and few draws for each, so a ranking that is good is enough: how good
it is gets judged on other draws.
"""

import numpy as np
from jaxtyping import Float

from bayesdice_ppl import ties
from bayesdice_ppl.losses import Score
from bayesdice_ppl.losses.structure import ROUNDING, Assignment, Coverage, Sorting, cover_scale
from bayesdice_ppl.selection.rules import Rules
from bayesdice_ppl.selection.solvers.assignment import assign
from bayesdice_ppl.selection.solvers.exhaustive import count_prefixes, search
from bayesdice_ppl.selection.solvers.local_search import improve
from bayesdice_ppl.selection.solvers.sorting import sort

# Up to this many rankings all are tried, beyond at most so many.
_FEW = 500


def good_prefix(
    values: Float[np.ndarray, "M N"], score: Score, rules: Rules, start: tuple[int, ...]
) -> tuple[int, ...]:
    """Find a ranking of low mean loss over a few draws.

    Parameters
    ----------
    values : Float[ndarray, "M N"]
        The draws that it is for, at least one.
    score : Score
        Judged by the mean of its losses.
    rules : Rules
        Which launches are allowed: any unless the score is `partial`.
    start : tuple of int
        A ranking that is allowed, from which a search starts where there is no exact solver, or
        one that takes long.

    Returns
    -------
    tuple of int
        A prefix that is allowed, the same for the same inputs.
    """
    n_policies = values.shape[1]
    structure = score.structure(values)
    if isinstance(structure, Sorting):
        return sort(structure, rules, ordered=score.ordered, partial=score.partial).prefix
    if isinstance(structure, Assignment):
        return assign(structure, rules, partial=score.partial).prefix
    if count_prefixes(score, n_policies, rules) <= _FEW:
        return search(values, score, np.arange(n_policies), rules=rules).prefix
    if isinstance(structure, Coverage):
        return _climb(structure.values, rules, score.depth(n_policies), start)
    by_place = np.argsort(ties.expected_places(ties.places(values)).mean(axis=0), kind="stable")
    launched = score.launches(n_policies)
    return improve(
        score.objective(values),
        n_policies,
        n_policies,
        rules,
        np.array([start, by_place]),
        ordered=True,
        launches=n_policies if launched is None else launched,
        max_evaluations=_FEW,
        beam_width=0,
        kicks=0,
    ).prefix


def _climb(
    values: Float[np.ndarray, "M N"], rules: Rules, k: int, start: tuple[int, ...]
) -> tuple[int, ...]:
    """Exchange or add the policy that covers most, for as long as one covers more."""
    by_policy = np.ascontiguousarray(values.T)
    chosen = sorted(start)
    covered = by_policy[chosen].max(axis=0).mean()
    tolerance = ROUNDING * cover_scale(values)
    while True:
        best, change = covered + tolerance, None
        for rest in _without_one(chosen, rules, k):
            gains = by_policy.mean(axis=1)
            if rest:
                gains = np.maximum(by_policy, by_policy[rest].max(axis=0)).mean(axis=1)
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
