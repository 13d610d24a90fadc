"""Move and widen a belief by the record of its own procedure, and say so in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayesdice_ppl.belief import BeliefView, annotate, read_values
from bayesdice_ppl.calibration.calibration import Calibration
from bayesdice_ppl.errors import BeliefError, SettingsError

if TYPE_CHECKING:
    from xarray import DataTree

LEAST_TRIALS = 50


def recalibrate(belief: DataTree, calibration: Calibration) -> DataTree:
    """Move and widen the values of a belief as simulated logs say that they should have been.

    Parameters
    ----------
    belief
        From `bayesdice_ppl.fit`; it stays as it is.
    calibration
        From `calibrate`, about the same candidates and at least 50 logs.

    Returns
    -------
    xarray.DataTree
        The belief with other draws of ``value``, also under the name of its statistic or reward,
        and a note for each candidate of what was done. Draws keep their order, so that values move
        together as before. Other variables, and the warnings, are those of the belief.

    Raises
    ------
    BeliefError
        The belief is about other candidates.
    SettingsError
        There are too few logs.

    Notes
    -----
    The mean moves by the mean error over the logs, in sds of the belief, and the spread is
    multiplied by the sd of these errors. A record of T logs knows the factor to 1 / sqrt(2 T) of
    itself; a factor or a move within two such errors of none is not applied.
    """
    draws = read_values(belief)
    if set(draws.names) != set(calibration.names):
        raise BeliefError(
            f"recalibrate: expected a calibration of {', '.join(draws.names)}, found one of "
            f"{', '.join(calibration.names)}."
        )
    if calibration.trials < LEAST_TRIALS:
        raise SettingsError(
            f"recalibrate: expected a calibration by at least {LEAST_TRIALS} logs, found "
            f"{calibration.trials}. Raise trials."
        )
    values = draws.values.copy()
    notes = []
    for j, name in enumerate(draws.names):
        record = calibration.record(name)
        lean_error = record.stretch / np.sqrt(calibration.trials)
        stretch_error = record.stretch / np.sqrt(2.0 * calibration.trials)
        lean = record.lean if abs(record.lean) > 2.0 * lean_error else 0.0
        stretch = record.stretch if abs(record.stretch - 1.0) > 2.0 * stretch_error else 1.0
        column = values[..., j]
        mean, sd = column.mean(), column.std(ddof=1)
        values[..., j] = mean + lean * sd + stretch * (column - mean)
        done = f"moved by {lean:+.2f} of its sds and spread {stretch:.2f} times as wide"
        unchanged = lean == 0.0 and stretch == 1.0
        notes.append(
            f"recalibrated by {calibration.trials:,} simulated logs ({calibration.kind}): {name} "
            f"{'stays as it was' if unchanged else done}"
        )
    found = belief.copy(deep=True)
    value = found["posterior"]["value"]
    dims = [dim for dim in ("chain", "draw", "policy") if dim in value.dims]
    array = values if "chain" in value.dims else values[0]
    moved = value.transpose(*dims).copy(data=array)
    # The first statistic, or reward, stands under its own name too.
    for own, each in belief["posterior"].dataset.data_vars.items():
        if each.dims == value.dims and each.equals(belief["posterior"].dataset["value"]):
            found["posterior"][str(own)] = moved
    annotate(found, notes=[*BeliefView(belief).notes, *notes])
    return found
