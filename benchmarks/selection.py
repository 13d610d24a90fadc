"""How long selection takes where N! is out of reach, and what is proven of the answer.

Each case is timed in a process of its own, imports of the library aside, and as a whole: from
draws to certificate. The literal algorithm of the paper, loops over permutations and draws in
Python, is timed beside the exhaustive search at N = 7.
"""

import multiprocessing
import resource
import time
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import numpy as np

from benchmarks.tables import write_table

DRAWS = 4_000
COMMAND = "python -m benchmarks selection"
# Spread of the posterior means, in posterior standard deviations.
SPREADS = {"spread": 1.0, "near": 0.3, "flat": 0.0}
# Whose errors: half of a candidate's variance is of factors that all share, or none is.
SHARED, OWN = "shared", "own"
NOTES = (
    "A candidate's draws are its mean plus five common factors plus noise of its own (errors "
    "`shared`), or noise alone (`own`), of equal variance in all; means are normal with the spread "
    "given, in posterior standard deviations. `gap` is relative to E[max] - max E[value] for "
    "regret and absolute for the others; `gap_in_errors` is the gap over the Monte Carlo error of "
    "the expected loss; `seconds` "
    "is `select` on a belief in a fresh process, compiling included, imports not. The literal row "
    "is timed on 40 of the 4,000 draws and scaled by their number, as its loops take as long for "
    "every draw.",
)


def belief_draws(n_policies: int, spread: float, *, shared: bool = True) -> np.ndarray:
    """Draw values of policies whose errors move together, or do not."""
    rng = np.random.default_rng([n_policies, round(10 * spread)])
    loading = rng.normal(size=(5, n_policies))
    loading /= np.sqrt(2.0 * (loading**2).sum(axis=0))
    own = rng.normal(size=(DRAWS, n_policies)) / np.sqrt(2.0)
    if not shared:
        return np.sqrt(2.0) * own + spread * rng.normal(size=n_policies)
    values: np.ndarray = rng.normal(size=(DRAWS, 5)) @ loading + own
    return values + spread * rng.normal(size=n_policies)


def literal(values: np.ndarray, k: int) -> tuple[tuple[int, ...], float]:
    """Run algorithm OfflineSelect as it is written, for regret@k, with loops in Python."""
    rows = values.tolist()
    best, least = tuple(range(values.shape[1])), float("inf")
    for ranking in permutations(range(values.shape[1])):
        total = 0.0
        for row in rows:
            total += max(row) - max(row[i] for i in ranking[:k])
        if total < least:
            best, least = ranking, total
    return best, least / len(rows)


def _timed(task: tuple[str, int, int, float, str]) -> dict[str, object]:
    from bayesdice_ppl import risk, scores, select
    from bayesdice_ppl.belief import make_belief

    word, k, n_policies, spread, errors = task
    makers: dict[str, Callable[[], scores.Score]] = {
        "kendall": scores.kendall,
        "spearman": scores.spearman,
        "cvar(0.1) of regret": lambda: scores.regret(k, risk=risk.cvar(0.1)),
    }
    score = makers[word]() if word in makers else getattr(scores, word)(k)
    values = belief_draws(n_policies, spread, shared=errors == SHARED)
    names = [f"p{i:04d}" for i in range(n_policies)]
    belief = make_belief(values, names)
    start = time.perf_counter()
    choice = select(belief, score)
    seconds = time.perf_counter() - start
    certificate = choice.certificate
    gap = certificate.gap if certificate.relative_gap is None else certificate.relative_gap
    return {
        "score": score.name,
        "N": n_policies,
        "means": spread,
        "errors": errors,
        "method": certificate.method,
        "status": certificate.status,
        "gap": gap,
        "gap_in_errors": certificate.gap_in_errors,
        "expected_loss": choice.expected_loss,
        "evaluated": certificate.evaluated,
        "seconds": seconds,
        "peak_GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def _literal_row(_: None) -> dict[str, object]:
    values = belief_draws(7, 0.3)
    part = values[:40]
    start = time.perf_counter()
    best, loss = literal(part, 3)
    seconds = (time.perf_counter() - start) * len(values) / len(part)
    from bayesdice_ppl import scores
    from bayesdice_ppl.selection.problem import RankingProblem
    from bayesdice_ppl.selection.rules import no_rules
    from bayesdice_ppl.selection.solvers.exhaustive import search

    found = search(RankingProblem(part, scores.regret(3), no_rules(7)))
    if set(found.prefix) != set(best[:3]):
        raise AssertionError(f"the literal algorithm found {best}, the search {found.prefix}")
    return {
        "score": "regret@3",
        "N": 7,
        "means": 0.3,
        "errors": SHARED,
        "method": "the paper's algorithm in Python loops",
        "status": "optimal",
        "gap": 0.0,
        "gap_in_errors": 0.0,
        "expected_loss": loss,
        "evaluated": 5040,
        "seconds": seconds,
        "peak_GiB": None,
    }


def cases() -> list[tuple[str, int, int, float, str]]:
    """List what is timed: score, k, N, spread of the means, whose errors."""
    small = [("regret", 3, 7, 0.3), ("accuracy", 8, 8, 0.3), ("correlation", 8, 8, 0.3)]
    small += [("correlation", 4, 8, 0.3)]
    middle = [("regret", 5, 100, spread) for spread in SPREADS.values()]
    middle += [(word, 5, 100, 0.3) for word in ("accuracy", "correlation", "cvar(0.1) of regret")]
    middle += [(word, 0, 100, 0.3) for word in ("kendall", "spearman")]
    large = [(word, 10, 2_000, 0.3) for word in ("precision", "accuracy", "ndcg")]
    large += [("regret", 10, 2_000, spread) for spread in SPREADS.values()]
    large += [(word, 0, 2_000, 0.3) for word in ("spearman",)]
    listed = [(*case, SHARED) for case in (*small, *middle, *large)]
    # Where all are equally good.
    listed += [("regret", k, 100, 0.0, SHARED) for k in (3, 10)]
    listed += [("regret", k, 100, 0.0, OWN) for k in (3, 5, 10)]
    listed += [("regret", 3, 2_000, 0.0, SHARED), ("regret", 10, 2_000, 0.0, OWN)]
    listed += [(word, 10, 2_000, 0.0, OWN) for word in ("precision", "accuracy")]
    return listed


def main(folder: Path) -> None:
    """Time all cases and write the table."""
    rows = []
    fresh = multiprocessing.get_context("spawn")
    for task in cases():
        with fresh.Pool(1) as pool:
            rows.append(pool.apply(_timed, (task,)))
        print(rows[-1], flush=True)
    with fresh.Pool(1) as pool:
        rows.insert(1, pool.apply(_literal_row, (None,)))
    print(write_table("selection", rows, command=COMMAND, notes=NOTES, folder=folder))
