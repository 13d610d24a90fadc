"""Whether the rows of a log stand in the order of time, where a column has times.

Whatever looks for a change along the log takes its rows in their order. A file that is sorted
otherwise hides the change, and one with the newest first turns it around.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from bayesdice_ppl.logs.familiar import guess
from bayesdice_ppl.logs.logs import Logs
from bayesdice_ppl.logs.steps import clock_of


def note_on_order(logs: Logs) -> str | None:
    """Say that rows are not in the order of a column of times.

    Parameters
    ----------
    logs
        The log, with its columns that have no other meaning.

    Returns
    -------
    str or None
        None where no column has times, or the first rows of the episodes are in its order.
    """
    starts = logs.first_rows
    if len(starts) < 2:
        return None
    likely = [guess(list(logs.groups), ["step"]).get("step", "")]
    likely += [name for name, each in logs.groups.items() if each.dtype in (pl.Date, pl.Datetime)]
    for name in likely:
        if name not in logs.groups:
            continue
        times = clock_of(logs.groups[name])
        if times is None or logs.groups[name].dtype.is_numeric():
            continue  # numbers may count anything
        change = np.diff(times[starts])
        if (change >= 0).all():
            return None
        found = "the newest rows come first" if (change <= 0).all() else "rows are not in its order"
        return (
            f"the log has the times {name}, and {found}. Whether rewards or the logging policy "
            f"changed is looked for row by row: sort the log by {name}, and fit again."
        )
    return None
