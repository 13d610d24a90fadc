"""What a search minimizes, as fast as the score allows.

Where the mean loss has a form, the draws are summed over once and each ranking costs next to
nothing. Otherwise every ranking is held against every draw: by JAX, compiled once for batches of
one size, on the same draws for all rankings, so that two rankings differ by what they are alone.
"""

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.losses import Custom, Objective, Score

# Losses of one batch, in numbers: 16 MB.
_BATCH = 1 << 21
# Below this many rankings compiling takes longer than it saves.
_WORTH_COMPILING = 2_000


def fast_objective(
    score: Score, values: Float[np.ndarray, "M N"], places: int, n_rankings: int
) -> Objective:
    """Make the function that a search calls.

    Parameters
    ----------
    score : Score
        What is minimized.
    values : Float[ndarray, "M N"]
        Draws of the policy values.
    places : int
        How many places a ranking lists.
    n_rankings : int
        About how many rankings will be asked about.

    Returns
    -------
    callable
        Takes rankings, Int (R, places), and gives Float (R,), the risk of their losses.
    """
    plain = score.objective(values)
    # The means of all but the user's functions are summed over the draws beforehand.
    simple = score.averaged and not isinstance(score, Custom)
    if simple or n_rankings < _WORTH_COMPILING:
        return plain
    compiled = _compiled(score, values, places)
    if isinstance(score, Custom) and not _agree(compiled, plain, values.shape[1], places):
        return plain
    return compiled


def _compiled(score: Score, values: np.ndarray, places: int) -> Objective:
    """Give the objective with losses from JAX, in batches of one size."""
    import jax
    import jax.numpy as jnp

    batch = max(1, min(1024, _BATCH // len(values)))
    with jax.enable_x64(True):
        digest = jax.tree.map(jnp.asarray, score.digest(values))
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


def _agree(compiled: Objective, plain: Objective, n_policies: int, places: int) -> bool:
    """Whether a user's function can be traced, and means the same when it is."""
    rows = np.stack([np.arange(places), np.arange(n_policies)[::-1][:places]])
    expected = plain(rows)  # what is wrong with the function itself is said by this call
    try:
        found = compiled(rows)
    except Exception:
        # Whatever a function of NumPy's makes of a tracer: called as it is, it has just worked.
        return False
    return bool(np.allclose(found, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max()))
