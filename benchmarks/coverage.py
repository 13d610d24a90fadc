"""Coverage of Student t beliefs over many logs, in one number with its Monte Carlo error.

Every interval of a belief can be read off one number a trial: how much of the belief's mass lies
in the central interval that ends at the truth. Coverage at a level is the share of trials in
which that mass is at most the level.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student_t

LEVELS = np.array([0.5, 0.7, 0.8, 0.9, 0.95])
_RESAMPLES = 2000


class Coverage(NamedTuple):
    """How often central intervals held the truth.

    Attributes
    ----------
    levels
        Coverage at each of `LEVELS`, shape (5,).
    mace
        Mean over the levels of |coverage - nominal|.
    mace_error
        Its Monte Carlo standard error, by the bootstrap over trials.
    """

    levels: Float[np.ndarray, " L"]
    mace: float
    mace_error: float


def central_mass(
    mean: Float[np.ndarray, " T"],
    sd: Float[np.ndarray, " T"],
    df: Float[np.ndarray, " T"],
    truth: float | Float[np.ndarray, " T"],
) -> Float[np.ndarray, " T"]:
    """Mass of each belief's central interval that ends at the truth.

    Parameters
    ----------
    mean, sd, df
        Location, scale and degrees of freedom (infinite: a normal) of each belief, shape (T,).
    truth
        The true value, or that of each belief's own world, shape (T,).

    Returns
    -------
    array
        Shape (T,), in [0, 1]; a belief without spread covers the truth only if it is there.
    """
    sure = sd <= 0.0
    distance = np.abs(truth - mean)
    certain = np.where(distance == 0.0, 0.0, 1.0)
    mass = 1.0 - 2.0 * student_t.sf(distance / np.where(sure, 1.0, sd), df)
    return np.where(sure, certain, mass)


def measure_coverage(mass: Float[np.ndarray, " T"], *, seed: int) -> Coverage:
    """Coverage and MACE.

    Parameters
    ----------
    mass
        From `central_mass`, one a trial; a NaN would count as not covered.
    seed
        Of the bootstrap.
    """
    covered = (mass[:, None] <= LEVELS).astype(np.float64)
    share = covered.mean(axis=0)
    n = len(mass)
    weights = np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=_RESAMPLES) / n
    resampled = np.abs(weights @ covered - LEVELS).mean(axis=1)
    # Where every resample is the same, rounding leaves 1e-17.
    error = float(np.round(resampled.std(), 12))
    return Coverage(share, float(np.abs(share - LEVELS).mean()), error)
