"""Episodes of a log: how many, how long, how they end, and what can be used of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesdice_ppl.checking.fault import ERROR, WARNING, Fault, Mend
from bayesdice_ppl.checking.section import Section, counted, warning
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.logs import Logs, UsableRows, usable_rows
from bayesdice_ppl.logs.labels import MISSING

UNKNOWN, LEFT_OUT, ONE, UNNAMED = (
    "unknown next states",
    "rows left out",
    "one episode",
    "episodes without a name",
)


class Usable(NamedTuple):
    """The rows that a fit can use, or why there is none."""

    rows: UsableRows | None
    refused: str


def usable_of(logs: Logs, gamma: float) -> Usable:
    """The rows that a fit can use."""
    try:
        return Usable(usable_rows(logs, gamma), "")
    except LogsError as error:
        return Usable(None, str(error))


def look(logs: Logs, gamma: float, usable: Usable, terminated: str = "") -> Section:
    """Count episodes, their lengths and their ends.

    Parameters
    ----------
    logs
        The log.
    gamma
        Discount.
    usable
        The rows that a fit can use.
    terminated
        The flags of terminations in a mend; empty where there are none.
    """
    n, m = logs.n_transitions, logs.n_episodes
    length = np.bincount(logs.episode, minlength=m)
    ended = int(logs.terminated.sum())
    facts = {
        "rows": n,
        "episodes": m,
        "named": logs.named_episodes,
        "length": {
            "least": int(length.min()),
            "median": float(np.median(length)),
            "most": int(length.max()),
        },
        "terminated": ended,
        "truncated": int(logs.truncated.sum()),
        "usable_rows": None if usable.rows is None else int(usable.rows.mask.sum()),
        "rows_without_next_state": None if usable.rows is None else usable.rows.missing,
    }
    lines = [_length_words(logs, length)]
    if m < n or ended:
        lines.append(
            f"{ended:,} of them terminated, and {m - ended:,} were truncated: cut while they went "
            "on."
        )
    faults: list[Fault] = []
    rows = usable.rows
    if rows is None:
        faults.append(Fault(UNKNOWN, ERROR, "", usable.refused))
    else:
        lines.append(
            f"At gamma = {gamma:g}, all {n:,} transitions can be used."
            if not rows.left_out
            else f"At gamma = {gamma:g}, {n - rows.left_out:,} transitions can be used and "
            f"{rows.left_out:,} are left out (next state not logged)."
        )
    if gamma == 0.0 and m < n:
        lines.append(
            f"At gamma = 0 the states of the {m:,} first rows of episodes count. If every row is a "
            "decision of its own, ignore the columns of episodes and steps (ignore=, --ignore)."
        )
    following = "next_obs" if logs.vector_states else "next_state"
    if rows is not None and rows.left_out:
        words = (
            f"A column {following} that is filled in {rows.missing:,} rows, the last ones of "
            "episodes that did not terminate, would keep them all."
        )
        if rows.left_out / n > gauges.LEFT_OUT.warns:
            told = f"{rows.left_out / n:.0%} of the rows are left out. {words}"
            faults.append(warning(LEFT_OUT, told))
        else:
            lines.append(words)
    flagged = not logs.named_episodes and 0 < ended < n
    if flagged and bool((logs.next_state == MISSING).all()):
        faults.append(_without_names(ended, n, terminated))
    if m == 1 and n > 1:
        faults.append(
            warning(ONE, "There is one episode, and so one start: what others would do is unknown.")
        )
    return Section("episodes", "Episodes", facts, tuple(lines), faults=tuple(faults))


def _without_names(ended: int, n: int, terminated: str) -> Fault:
    """Rows that seem to be the steps of episodes, which no column names."""
    sentence = (
        f"{ended:,} of {n:,} rows are terminated, as at the ends of episodes, and no column names "
        "the episodes: each row counts as a start of its own."
    )
    mend = None
    if terminated:
        words = "Number the episodes by the ends before each row, if rows are in their order."
        before = f"({terminated}).cum_sum().shift(1, fill_value=0).alias('episode_id')"
        mend = Mend(words, (f"with_columns({before})",))
    return Fault(UNNAMED, WARNING, "episode_id", sentence, mend=mend)


def _length_words(logs: Logs, length: np.ndarray) -> str:
    n, m = logs.n_transitions, logs.n_episodes
    if m == n:
        alone = "" if logs.named_episodes else ", since no column names episodes"
        return f"{counted(n, 'row')}, each an episode of its own{alone}."
    low, high = int(length.min()), int(length.max())
    steps = counted(low, "step")
    if low != high:
        steps = f"{low:,} to {counted(high, 'step')} (median {np.median(length):g})"
    return f"{counted(n, 'row')} in {counted(m, 'episode')} of {steps}."
