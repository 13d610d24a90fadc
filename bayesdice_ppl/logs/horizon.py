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
from bayesdice_ppl.logs.counted import CountedLogs
from bayesdice_ppl.logs.labels import MISSING, shown_all
from bayesdice_ppl.logs.logs import Logs

FEWEST_ROWS = 20
"""Rows from which it is looked whether they follow each other."""
MOST_ROWS = 20_000
"""The first so many rows are looked at."""
CLEARLY = 6.0
"""Standard errors above chance from which they do."""


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


def usable_rows(logs: Logs | CountedLogs, gamma: float) -> UsableRows:
    """Select the rows that a fit at this discount can use.

    Of a counted log they are lines, each of several rows; ``left_out`` and ``missing`` are rows.

    Parameters
    ----------
    logs
        The logged transitions.
    gamma
        Discount in [0, 1]. At 0 the next state does not matter, and every row counts.

    Raises
    ------
    LogsError
        No row is left; or rows follow each other as the steps of episodes do, and no column names
        the episodes.
    """
    if isinstance(logs, CountedLogs):
        return _usable_lines(logs, gamma)
    everything = np.ones(logs.n_transitions, dtype=bool)
    if gamma == 0.0:
        return UsableRows(everything, 0, ())
    _refuse_chains(logs, gamma)
    missing = (logs.next_state == MISSING) & ~logs.terminated
    if not missing.any():
        return UsableRows(everything, 0, ())
    steps = np.unique(logs.step[missing])
    ending = np.intersect1d(steps, logs.step[logs.terminated])
    mask = ~(missing | np.isin(logs.step, ending))
    if not mask.any():
        raise LogsError(_none_left(logs, gamma, int(missing.sum()), steps))
    left_out, where = int((~mask).sum()), tuple(int(s) for s in steps)
    return UsableRows(mask, left_out, where, int(missing.sum()))


def _usable_lines(logs: CountedLogs, gamma: float) -> UsableRows:
    """The same for the lines of a counted log, which know whether their rows are left out."""
    everything = np.ones(len(logs.count), dtype=bool)
    if gamma == 0.0:
        return UsableRows(everything, 0, ())
    _refuse_chains(logs.sample, gamma)
    missing, steps = logs.missing, logs.missing_steps
    if not missing.any():
        return UsableRows(everything, 0, ())
    mask, lacking = ~(missing | logs.left_out), int(logs.count[missing].sum())
    if not mask.any():
        raise LogsError(_none_left(logs, gamma, lacking, np.array(steps)))
    return UsableRows(mask, int(logs.count[~mask].sum()), steps, lacking)


def _refuse_chains(logs: Logs, gamma: float) -> None:
    """Refuse rows that are the steps of episodes but stand alone, each as a start of its own."""
    if logs.named_episodes:
        return
    rows = np.flatnonzero(~logs.terminated[:-1] & (logs.next_state[:-1] != MISSING))[:MOST_ROWS]
    n = len(rows)
    if n < FEWEST_ROWS:
        return
    onward, state = logs.next_state[rows], logs.state[rows + 1]
    if logs.vector_states:
        # Their codes tell rows apart, not vectors.
        both = logs.state_labels[np.r_[onward, state]]
        codes = np.unique(both, axis=0, return_inverse=True)[1].ravel()
        onward, state = codes[:n], codes[n:]
    size = int(max(onward.max(), state.max())) + 1
    shares = (np.bincount(codes, minlength=size) / n for codes in (onward, state))
    chance = float(np.prod(list(shares), axis=0).sum())
    share = float(np.mean(onward == state))
    error = np.sqrt(chance * (1.0 - chance) / n)
    if share < 0.5 * (1.0 + chance) or share - chance < CLEARLY * max(error, 1.0 / n):
        return
    raise LogsError(
        f"expected a column episode_id, since gamma = {gamma:g}: {share:.0%} of {n:,} rows lead to "
        "the state of the row after them, as the steps of episodes do. Without the column each row "
        "is an episode of its own, and its state counts as a start. Add a column episode_id: where "
        "flags tell the ends, the number of ends before each row. If the rows do stand alone, "
        "number them in that column."
        f"{logs.proposal('episode_id')}"
    )


def _none_left(
    logs: Logs | CountedLogs, gamma: float, count: int, steps: Int[np.ndarray, " k"]
) -> str:
    """Why no row is left, and what would keep most of them."""
    column = "next_obs" if logs.vector_states else "next_state"
    n = logs.n_transitions
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
