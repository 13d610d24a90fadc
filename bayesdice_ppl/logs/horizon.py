"""The horizon rule: which transitions can be used when some next states were never logged.

A log without a column ``next_state`` or ``next_obs`` does not say where the last step of an episode
led. Suppose that other episodes terminated at that step. To leave out only the unterminated rows
would select on the outcome, since it keeps the episodes that happened to end there. So the *whole*
step is left out, terminated or not. Where no episode terminated, only the rows themselves are left
out. The number is reported.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.labels import MISSING, shown_all
from bayesdice_ppl.logs.logs import Logs


class UsableRows(NamedTuple):
    """Which rows a fit can use.

    Attributes
    ----------
    mask
        True for the rows that are used, shape (n,).
    left_out
        How many are not.
    steps
        The steps at which rows are left out, sorted.
    """

    mask: Bool[np.ndarray, " n"]
    left_out: int
    steps: tuple[int, ...]


def usable_rows(logs: Logs, gamma: float) -> UsableRows:
    """Select the rows that a fit at this discount can use.

    Parameters
    ----------
    logs
        The logged transitions.
    gamma
        Discount in [0, 1]. At 0 the next state does not matter, and every row counts.

    Raises
    ------
    LogsError
        No row is left.
    """
    everything = np.ones(logs.n_transitions, dtype=bool)
    if gamma == 0.0:
        return UsableRows(everything, 0, ())
    missing = (logs.next_state == MISSING) & ~logs.terminated
    if not missing.any():
        return UsableRows(everything, 0, ())
    steps = np.unique(logs.step[missing])
    ending = np.intersect1d(steps, logs.step[logs.terminated])
    mask = ~(missing | np.isin(logs.step, ending))
    if not mask.any():
        column = "next_obs" if logs.vector_states else "next_state"
        raise LogsError(
            f"expected rows whose next state is known, since gamma = {gamma:g}, found none. Those "
            f"at steps {shown_all(steps, 5)} lack it, and where an episode terminated at such a "
            "step, all rows of the step are left out. Map the column episode_id, so that the next "
            f"row gives the next state; or add a column {column}; or use gamma = 0 if each row "
            "stands alone."
        )
    return UsableRows(mask, int((~mask).sum()), tuple(int(s) for s in steps))
