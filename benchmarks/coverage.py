"""Coverage of Student t beliefs over many logs, in one number with its Monte Carlo error.

Every interval of a belief can be read off one number a trial: how much of the belief's mass lies
in the central interval that ends at the truth. Coverage at a level is the share of trials in
which that mass is at most the level.
"""

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student_t

from bayesdice_ppl.experiments.coverage import LEVELS as _LEVELS
from bayesdice_ppl.experiments.coverage import MeasuredCoverage, coverage_of

LEVELS = np.array(_LEVELS)


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


def measure_coverage(mass: Float[np.ndarray, " T"], *, seed: int) -> MeasuredCoverage:
    """Coverage and MACE.

    Parameters
    ----------
    mass
        From `central_mass`, one a trial; a NaN would count as not covered.
    seed
        Of the bootstrap.
    """
    return coverage_of(mass[:, None] <= LEVELS, LEVELS, seed=seed)
