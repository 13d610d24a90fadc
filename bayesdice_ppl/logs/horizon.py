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
from jaxtyping import Bool, Int

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
    missing
        How many rows lack their next state. If they had it, none would be left out.
    """

    mask: Bool[np.ndarray, " n"]
    left_out: int
    steps: tuple[int, ...]
    missing: int = 0


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
        raise LogsError(_none_left(logs, gamma, missing, steps))
    left_out, where = int((~mask).sum()), tuple(int(s) for s in steps)
    return UsableRows(mask, left_out, where, int(missing.sum()))


def _none_left(
    logs: Logs, gamma: float, missing: Bool[np.ndarray, " n"], steps: Int[np.ndarray, " k"]
) -> str:
    """Why no row is left, and what would keep most of them."""
    column = "next_obs" if logs.vector_states else "next_state"
    n, count = logs.n_transitions, int(missing.sum())
    start = f"expected rows whose next state is known, since gamma = {gamma:g}, found none. "
    if logs.n_episodes == n:
        return (
            f"{start}Each of the {n:,} rows is an episode of its own, and no next row says where "
            "it led. Map the column episode_id, so that the next row does; or add a "
            f"column {column}; or use gamma = 0 if each row stands alone."
            f"{logs.proposal('episode_id')}{logs.proposal('terminated')}"
        )
    return (
        f"{start}{count:,} of {logs.n_episodes:,} episodes are not terminated at their last row "
        f"(at steps {shown_all(steps, 5)}), and nothing says where these rows led. Other episodes "
        "terminated at the same steps. To keep only those would select on the outcome, so all "
        f"rows of such steps are left out. What keeps all {n:,} rows: a column {column} that is "
        f"filled in the {count:,} last rows of these episodes, and may be empty elsewhere; or, if "
        "these episodes ended there too, terminated = true in these rows. If each row stands "
        "alone, use gamma = 0."
    )
