"""Try every ranking that can make a difference, and keep the two best.

This is algorithm OfflineSelect of Yang et al., Offline Policy Selection under Uncertainty, section
2.3, with two savings that leave it exact. Only the first `depth` places of a ranking are varied,
as sets where their order does not matter. And the loss is averaged over draws beforehand wherever
it has a form. Trying everything is also the proof that the answer is optimal over these draws.
"""

from collections.abc import Iterator
from itertools import chain, combinations, islice, permutations
from math import comb, perm

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.scores.forms import ROUNDING
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.solvers.found import Found
from bayesdice_ppl.selection.solvers.objective import fast_objective

_CHUNK = 1 << 16


def count_prefixes(problem: RankingProblem) -> int:
    """Count the prefixes that a search tries: N!/(N - depth)!, or C(N, depth) sets.

    Policies that may not go live are left out; a budget is not considered.
    """
    ways = perm if problem.score.ordered else comb
    return sum(ways(len(problem.listable), size) for size in problem.sizes)


def search(problem: RankingProblem, max_evaluations: int | None = None) -> Found:
    """Find the prefix with the lowest loss, and the next best, by trying all of them.

    Parameters
    ----------
    problem : RankingProblem
        Draws, score and rules.
    max_evaluations : int, optional
        Largest number of prefixes to try; the score's own limit if left out.

    Returns
    -------
    Found
        The same for the same inputs, always.

    Raises
    ------
    ScoreError
        There are more prefixes than that, none is allowed, or the score does not fit the
        candidates.
    """
    score, rules = problem.score, problem.rules
    score.check(problem.n_policies)
    limit = score.max_evaluations if max_evaluations is None else max_evaluations
    total = count_prefixes(problem)
    if total > limit:
        raise ScoreError(
            f"{score.name} of {problem.n_policies} candidates: expected at most "
            f"max_evaluations = {limit:,} {'rankings' if score.ordered else 'sets'} to try, found "
            f"{total:,}. Leave out candidates that have no chance, choose a smaller k, or raise "
            "max_evaluations."
        )
    policies = np.array(problem.listable, np.intp)
    best: list[tuple[int, ...]] = []
    best_losses = np.empty(0)
    evaluated = 0
    for size in problem.sizes:
        objective = fast_objective(problem, size, total)
        for prefixes in _prefixes(policies, size, ordered=score.ordered):
            if not rules.free:
                prefixes = prefixes[rules.allow(prefixes[:, : problem.head(size)])]
            if not len(prefixes):
                continue
            evaluated += len(prefixes)
            found = objective(prefixes)
            if not np.isfinite(found).all():
                bad = int(np.argmin(np.isfinite(found)))
                raise ScoreError(
                    f"{score.name} is {found[bad]} for the ranking that begins with policies "
                    f"{prefixes[bad].tolist()} (counted from 0): not finite."
                )
            losses = np.concatenate([best_losses, found])
            rounding = ROUNDING * max(problem.scale, float(np.abs(losses).max()))
            kept = _two_lowest(losses, rounding)
            known = len(best)
            best = [
                best[row] if row < known else tuple(prefixes[row - known].tolist()) for row in kept
            ]
            best_losses = losses[kept]
    if not best:
        raise ScoreError(f"no set of policies that {score.name} could launch is allowed.")
    loss, *other_losses = best_losses.tolist()
    return Found(
        best[0],
        loss,
        bound=loss,
        evaluated=evaluated,
        method="exhaustive",
        runner_up=best[1] if other_losses else None,
        runner_up_loss=other_losses[0] if other_losses else None,
        runner_up_proven=True,
    )


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
