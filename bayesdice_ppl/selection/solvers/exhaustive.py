"""Try every ranking that can make a difference, and keep the two best.

This is algorithm OfflineSelect of Yang et al., Offline Policy Selection under Uncertainty, section
2.3, with two savings that leave it exact: only the first `depth` places of a ranking are varied,
as sets where their order does not matter, and the loss is averaged over draws beforehand wherever
the score's structure allows it. Trying everything is also the proof that the answer is optimal
over these draws.
"""

from collections.abc import Iterator
from itertools import chain, combinations, islice, permutations
from math import comb, perm

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.losses import Score
from bayesdice_ppl.losses.structure import ROUNDING
from bayesdice_ppl.selection.rules import Rules, no_rules
from bayesdice_ppl.selection.solvers.found import Found
from bayesdice_ppl.selection.solvers.objective import fast_objective

_CHUNK = 1 << 16


def prefix_sizes(score: Score, rules: Rules) -> list[int]:
    """Tell how many places a prefix may have: the depth, or fewer where the rules leave no choice.

    Fewer than the depth are launched only by scores that allow it, and only where a budget or a
    lack of policies that may go live asks for it; the longest come first.
    """
    n_policies = len(rules.excluded)
    depth = score.depth(n_policies)
    if not score.partial:
        return [depth]
    most = min(depth, int((~rules.excluded).sum()))
    least = max(int(rules.required.sum()), 1) if np.isfinite(rules.budget) else most
    return list(range(most, least - 1, -1))


def count_prefixes(score: Score, n_policies: int, rules: Rules | None = None) -> int:
    """Count the prefixes that an exhaustive search tries: N!/(N - depth)!, or C(N, depth) sets.

    Parameters
    ----------
    score : Score
        What is to be minimized.
    n_policies : int
        N.
    rules : Rules, optional
        Of policies that may not go live none is tried; a budget is not counted in.
    """
    rules = no_rules(n_policies) if rules is None else rules
    ways = perm if score.ordered else comb
    return sum(ways(len(_varied(score, rules)), size) for size in prefix_sizes(score, rules))


def search(
    values: Float[np.ndarray, "M N"],
    score: Score,
    preference: Int[np.ndarray, " N"],
    *,
    rules: Rules | None = None,
    max_evaluations: int | None = None,
) -> Found:
    """Find the prefix with the lowest expected loss, and the next best, by trying all of them.

    Parameters
    ----------
    values : Float[ndarray, "M N"]
        Draws of the policy values, reward per step, finite.
    score : Score
        What to minimize the loss of.
    preference : Int[ndarray, "N"]
        All policies, the preferred first: among prefixes of equal loss the one wins that is first
        in lexicographic order when the policies are numbered so.
    rules : Rules, optional
        Which launches are allowed; all if left out.
    max_evaluations : int, optional
        Largest number of prefixes to try; the score's own limit if left out.

    Returns
    -------
    Found
        The same for the same inputs, always.

    Raises
    ------
    ScoreError
        If there are more prefixes than that, none is allowed, or the score does not fit the
        candidates.
    """
    n_policies = values.shape[1]
    score.check(n_policies)
    rules = no_rules(n_policies) if rules is None else rules
    total = _check_effort(score, n_policies, rules, max_evaluations)
    scale = score.loss_scale(values)
    rank_of = np.argsort(preference)
    varied = sorted(_varied(score, rules), key=lambda i: rank_of[i])
    best: list[tuple[int, ...]] = []
    best_losses = np.empty(0)
    evaluated = 0
    for size in prefix_sizes(score, rules):
        launched = score.launches(n_policies)
        head = size if launched is None else min(size, launched)
        objective = fast_objective(score, values, size, total)
        for prefixes in _prefixes(np.array(varied, np.intp), size, ordered=score.ordered):
            if not rules.free:
                prefixes = prefixes[rules.allow(prefixes[:, :head])]
            if not len(prefixes):
                continue
            evaluated += len(prefixes)
            found = objective(prefixes)
            if not np.isfinite(found).all():
                bad = int(np.argmin(np.isfinite(found)))
                raise ScoreError(
                    f"{score.name} is {found[bad]} for the ranking that begins with policies "
                    f"{prefixes[bad].tolist()} (counted from 0): not finite"
                )
            losses = np.concatenate([best_losses, found])
            kept = _two_lowest(losses, ROUNDING * max(scale, float(np.abs(losses).max())))
            known = len(best)
            best = [
                best[row] if row < known else tuple(prefixes[row - known].tolist()) for row in kept
            ]
            best_losses = losses[kept]
    if not best:
        raise ScoreError(f"no set of policies that {score.name} could launch is allowed")
    alone = len(best) == 1
    return Found(
        prefix=best[0],
        loss=float(best_losses[0]),
        bound=float(best_losses[0]),
        runner_up=None if alone else best[1],
        runner_up_loss=None if alone else float(best_losses[1]),
        runner_up_proven=True,
        evaluated=evaluated,
        method="exhaustive",
    )


def _varied(score: Score, rules: Rules) -> list[int]:
    """List the policies that a prefix is made of."""
    n_policies = len(rules.excluded)
    if score.launches(n_policies) != score.depth(n_policies):
        return list(range(n_policies))  # what lies past the launch is listed too
    return np.flatnonzero(~rules.excluded).tolist()


def _check_effort(score: Score, n_policies: int, rules: Rules, max_evaluations: int | None) -> int:
    """Count the prefixes that a search has to try, and refuse too many."""
    total = count_prefixes(score, n_policies, rules)
    limit = score.max_evaluations if max_evaluations is None else max_evaluations
    if total > limit:
        what = "rankings" if score.ordered else "sets"
        raise ScoreError(
            f"{score.name} of {n_policies} candidates means trying {total:,} {what}, and "
            f"max_evaluations is {limit:,}: leave out candidates that have no chance, choose a "
            "smaller k, or raise max_evaluations"
        )
    return total


def _prefixes(
    policies: Int[np.ndarray, " n"], size: int, *, ordered: bool
) -> Iterator[Int[np.ndarray, "chunk size"]]:
    """List all prefixes in lexicographic order, a bounded number at a time."""
    rows = (permutations if ordered else combinations)(range(len(policies)), size)
    while True:
        flat = np.fromiter(chain.from_iterable(islice(rows, _CHUNK)), np.intp)
        if not flat.size:
            return
        yield policies[flat.reshape(-1, size)]


def _two_lowest(losses: Float[np.ndarray, " R"], tolerance: float) -> list[int]:
    """Give the first index among the lowest losses, and the first among the lowest of the rest."""
    first = int(np.argmax(losses <= losses.min() + tolerance))
    if len(losses) == 1:
        return [first]
    others = losses.copy()
    others[first] = np.inf
    return [first, int(np.argmax(others <= others.min() + tolerance))]
