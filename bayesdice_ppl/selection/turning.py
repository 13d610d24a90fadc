"""How likely pairs that were never logged would turn the choice, were they known.

They are latents of the belief. Were they known, the means would move by as much as the latents
vary, and other candidates might lead.
"""

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.arrays import symmetric_root
from bayesdice_ppl.belief import UnseenParts
from bayesdice_ppl.scores import Score

TURNED = 0.1
"""Probability that knowing these pairs turns the choice, past which it is said."""


def turning(values: Float[np.ndarray, "M N"], parts: UnseenParts, k: int) -> float:
    """Probability that the k candidates of the highest mean would be others, were the pairs known.

    Parameters
    ----------
    values
        Draws of the belief's values, shape (M, N).
    parts
        What they owe to pairs that were never logged.
    k
        How many go live.

    Notes
    -----
    Known, the pairs move the means by L, of covariance `parts.covariance`. Each draw gives one L,
    a linear map of the draw: B A^-1 (value - mean), with B and A the roots of the covariances of L
    and of the values.
    """
    center = values.mean(axis=0)
    scaled = np.linalg.svd(values - center, full_matrices=False)[0] * np.sqrt(len(values))
    root = symmetric_root(parts.covariance)
    moved = center + scaled @ root[: scaled.shape[1]]
    chosen = np.sort(np.argsort(-center, kind="stable")[:k])
    leading = np.sort(np.argsort(-moved, axis=1, kind="stable")[:, :k], axis=1)
    return float((leading != chosen).any(axis=1).mean())


def notes_on_turning(
    values: Float[np.ndarray, "M N"], parts: UnseenParts, score: Score, names: tuple[str, ...]
) -> list[str]:
    """Say how likely pairs that were never logged would turn the choice, were they known."""
    k = score.launches(len(names)) or 1
    if k >= len(names) or not parts.covariance.any():
        return []
    found = turning(values, parts, k)
    if found < TURNED:
        return []
    what = "candidate" if k == 1 else f"{k} candidates"
    return [
        f"the {what} of the highest mean would be another choice with probability {found:.0%}, if "
        "the actions that the log does not have were known. Log them"
    ]
