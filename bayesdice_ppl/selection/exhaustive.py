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
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.losses import Score

_CHUNK = 1 << 16
# Losses closer than this, relative to their scale, differ by rounding alone.
_SAME = 1e-12


@final
class Found(NamedTuple):
    """What an exhaustive search found.

    Attributes
    ----------
    prefix : tuple of int
        Policies of the first `depth` places, best first.
    loss : float
        Its loss averaged over draws and tie-breaks.
    runner_up : tuple of int or None
        The next best prefix: another set where order does not matter. None if there is no other.
    runner_up_loss : float or None
        Its mean loss.
    evaluated : int
        How many prefixes were tried: all there are.
    """

    prefix: tuple[int, ...]
    loss: float
    runner_up: tuple[int, ...] | None
    runner_up_loss: float | None
    evaluated: int


def count_prefixes(score: Score, n_policies: int) -> int:
    """Count the prefixes that an exhaustive search tries: N!/(N - depth)!, or C(N, depth) sets."""
    ways = perm if score.ordered else comb
    return ways(n_policies, score.depth(n_policies))


def search(
    values: Float[np.ndarray, "M N"],
    score: Score,
    preference: Int[np.ndarray, " N"],
    *,
    max_evaluations: int | None = None,
) -> Found:
    """Find the prefix with the lowest mean loss, and the next best, by trying all of them.

    Parameters
    ----------
    values : Float[ndarray, "M N"]
        Draws of the policy values, reward per step, finite.
    score : Score
        What to minimize the loss of.
    preference : Int[ndarray, "N"]
        All policies, the preferred first: among prefixes of equal loss the one wins that is first
        in lexicographic order when the policies are numbered so.
    max_evaluations : int, optional
        Largest number of prefixes to try; the score's own limit if left out.

    Returns
    -------
    Found
        The same for the same inputs, always.

    Raises
    ------
    ScoreError
        If there are more prefixes than that, or the score does not fit the candidates.
    """
    n_policies = values.shape[1]
    total = check_effort(score, n_policies, max_evaluations)
    mean_loss = score.mean_loss(values)
    scale = score.loss_scale(values)
    best_rows = np.empty((0, score.depth(n_policies)), np.intp)
    best_losses = np.empty(0)
    for rows in _prefixes(score, n_policies):
        prefixes = preference[rows]
        losses = np.concatenate([best_losses, mean_loss(prefixes)])
        kept = _two_lowest(losses, _SAME * max(scale, float(np.abs(losses).max())))
        best_rows = np.concatenate([best_rows, prefixes])[kept]
        best_losses = losses[kept]
    alone = len(best_rows) == 1
    return Found(
        tuple(best_rows[0].tolist()),
        float(best_losses[0]),
        None if alone else tuple(best_rows[1].tolist()),
        None if alone else float(best_losses[1]),
        total,
    )


def check_effort(score: Score, n_policies: int, max_evaluations: int | None = None) -> int:
    """Count the prefixes that a search has to try, and refuse too many.

    Parameters
    ----------
    score : Score
        What is to be minimized.
    n_policies : int
        N.
    max_evaluations : int, optional
        Most prefixes to try; the score's own limit if left out.

    Returns
    -------
    int
        How many there are.

    Raises
    ------
    ScoreError
        If there are more than that, or the score does not fit the candidates.
    """
    score.check(n_policies)
    total = count_prefixes(score, n_policies)
    limit = score.max_evaluations if max_evaluations is None else max_evaluations
    if total > limit:
        what = "rankings" if score.ordered else "sets"
        raise ScoreError(
            f"{score.name} of {n_policies} candidates means trying {total:,} {what}, and "
            f"max_evaluations is {limit:,}: leave out candidates that have no chance, choose a "
            "smaller k, or raise max_evaluations"
        )
    return total


def _prefixes(score: Score, n_policies: int) -> Iterator[Int[np.ndarray, "chunk depth"]]:
    """List all prefixes in lexicographic order, a bounded number at a time."""
    depth = score.depth(n_policies)
    every = permutations if score.ordered else combinations
    rows = every(range(n_policies), depth)
    while True:
        flat = np.fromiter(chain.from_iterable(islice(rows, _CHUNK)), np.intp)
        if not flat.size:
            return
        yield flat.reshape(-1, depth)


def _two_lowest(losses: Float[np.ndarray, " R"], tolerance: float) -> list[int]:
    """Give the first index among the lowest losses, and the first among the lowest of the rest."""
    first = int(np.argmax(losses <= losses.min() + tolerance))
    if len(losses) == 1:
        return [first]
    others = losses.copy()
    others[first] = np.inf
    return [first, int(np.argmax(others <= others.min() + tolerance))]
