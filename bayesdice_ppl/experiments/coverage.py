"""How often intervals hold the truth, in one number with its Monte Carlo error."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float

LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95)
"""Nominal levels of the central intervals."""

_RESAMPLES = 2000


@final
class MeasuredCoverage(NamedTuple):
    """How often central intervals held the truth.

    Attributes
    ----------
    levels
        Coverage at each level, shape (L,).
    mace
        Mean over the levels of |coverage - nominal|.
    mace_error
        Its Monte Carlo standard error, by the bootstrap over trials.
    """

    levels: Float[np.ndarray, " L"]
    mace: float
    mace_error: float


def coverage_of(
    covered: Bool[np.ndarray, "T L"], levels: Float[np.ndarray, " L"], *, seed: int
) -> MeasuredCoverage:
    """Coverage and MACE.

    Parameters
    ----------
    covered
        Whether each trial's interval of each level held the truth.
    levels
        The nominal levels.
    seed
        Of the bootstrap.
    """
    share = covered.mean(axis=0)
    n = len(covered)
    weights = np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=_RESAMPLES) / n
    resampled = np.abs(weights @ covered.astype(np.float64) - levels).mean(axis=1)
    # Where every resample is the same, rounding leaves 1e-17.
    error = float(np.round(resampled.std(), 12))
    return MeasuredCoverage(share, float(np.abs(share - levels).mean()), error)
