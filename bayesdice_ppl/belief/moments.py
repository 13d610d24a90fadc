"""Which values have a mean and an sd: Student's t has them past 1 and 2 degrees of freedom.

Draws of a value with fewer always have an average and a spread, and these are numbers about the
draws alone: others would be as far off as one likes. So tables have the median and the interval
there, and say why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool

from bayesdice_ppl.belief.schema import BeliefView

if TYPE_CHECKING:
    from xarray import DataTree

FOR_MEAN, FOR_SD = 1.0, 2.0
"""Degrees of freedom past which Student's t has a mean, and an sd."""


class ExistingMoments(NamedTuple):
    """Which moments each of N values has.

    Attributes
    ----------
    mean, sd
        Whether there is one, shape (N,).
    note
        Why some are left out, in a sentence; empty where all are there.
    """

    mean: Bool[np.ndarray, " N"]
    sd: Bool[np.ndarray, " N"]
    note: str = ""


def read_moments(belief: DataTree, names: Sequence[str]) -> ExistingMoments:
    """Which moments the values of a belief have.

    Parameters
    ----------
    belief
        The belief. One that does not say how many degrees of freedom its values have is taken to
        have all moments.
    names
        The N candidates, as ``posterior/value`` has them.
    """
    view, count = BeliefView(belief), len(names)
    every = np.ones(count, dtype=bool)
    if not view.has(BeliefView.degrees_of_freedom):
        return ExistingMoments(every, every)
    freedom = np.asarray(view.degrees_of_freedom, dtype=np.float64)
    if freedom.shape != (count,):
        return ExistingMoments(every, every)
    mean, sd = ~(freedom <= FOR_MEAN), ~(freedom <= FOR_SD)
    if sd.all():
        return ExistingMoments(mean, sd)
    few = ", ".join(name for name, there in zip(names, sd, strict=True) if not there)
    note = (
        f"{few}: a value with {FOR_SD:g} degrees of freedom or fewer has no sd, and with "
        f"{FOR_MEAN:g} or fewer no mean. Read the median and the interval."
    )
    return ExistingMoments(mean, sd, note)
