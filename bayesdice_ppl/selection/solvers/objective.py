"""What a search minimizes, as fast as the score allows.

Where the mean loss has a form, the draws are summed over once and each ranking costs next to
nothing. Otherwise every ranking is judged on every draw: by JAX, compiled once for batches of one
size. All rankings are judged on the same draws, so that nothing else makes them differ.
"""

import numpy as np

from bayesdice_ppl.scores.score import Objective
from bayesdice_ppl.selection.problem import RankingProblem

# Losses of one batch, in numbers: 16 MB.
_BATCH = 1 << 21
# For fewer rankings than this, compiling takes longer than it saves.
_WORTH_COMPILING = 2_000


def fast_objective(problem: RankingProblem, places: int, n_rankings: int) -> Objective:
    """Make the function that a search calls.

    Parameters
    ----------
    problem : RankingProblem
        Draws and score.
    places : int
        How many places a ranking lists.
    n_rankings : int
        About how many rankings will be asked about.

    Returns
    -------
    callable
        Takes rankings, Int (R, places), and gives Float (R,), the risk of their losses.
    """
    if problem.form is not None or n_rankings < _WORTH_COMPILING:
        return problem.objective
    compiled = _compiled(problem)
    return compiled if _agree(compiled, problem, places) else problem.objective


def _compiled(problem: RankingProblem) -> Objective:
    """Give the objective with losses from JAX, in batches of one size."""
    import jax
    import jax.numpy as jnp

    score, batch = problem.score, max(1, min(1024, _BATCH // len(problem.values)))
    with jax.enable_x64(True):
        digest = jax.tree.map(jnp.asarray, problem.digest)
        losses = jax.jit(lambda digest, rankings: score.of_digest(jnp, digest, rankings))

    def objective(rankings: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            # Sorting by JAX is ten times slower on a CPU than NumPy's partition.
            found: np.ndarray = score.risk.of(np.asarray(losses(digest, rankings)))
        return found

    return in_batches(objective, batch)


def in_batches(objective: Objective, batch: int) -> Objective:
    """Call a function for batches of one size, the last padded, so that it is compiled once.

    Parameters
    ----------
    objective : callable
        Takes rankings, Int (batch, places), and gives Float (batch,).
    batch : int
        How many rankings it is given.

    Returns
    -------
    callable
        Takes any number of rankings.
    """

    def batched(rankings: np.ndarray) -> np.ndarray:
        found = np.empty(len(rankings))
        for start in range(0, len(rankings), batch):
            part = rankings[start : start + batch]
            padding = np.repeat(part[:1], batch - len(part), axis=0)
            found[start : start + batch] = objective(np.concatenate([part, padding]))[: len(part)]
        return found

    return batched


def _agree(compiled: Objective, problem: RankingProblem, places: int) -> bool:
    """Tell whether a function, such as a user's, can be traced and gives the same when it is."""
    everyone = np.arange(problem.n_policies)
    rows = np.stack([everyone[:places], everyone[::-1][:places]])
    expected = problem.objective(rows)  # what is wrong with the function itself is said here
    try:
        found = compiled(rows)
    except Exception:
        # NumPy code may do anything with a traced array. As plain NumPy it has just worked.
        return False
    size = max(problem.scale, float(np.abs(expected).max()))
    return bool(np.allclose(found, expected, rtol=1e-9, atol=1e-12 * size))
