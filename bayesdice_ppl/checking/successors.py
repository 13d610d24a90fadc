"""Next states that contradict the next row of the episode."""

from __future__ import annotations

import numpy as np

from bayesdice_ppl.checking.fault import ERROR, Fault, Mend, row_words
from bayesdice_ppl.checking.table import TakenTable
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.labels import as_labels

KIND = "next states"


def find(table: TakenTable) -> list[Fault]:
    """Find rows whose next state is not the state of the next row."""
    state, following = table.series("state"), table.series("next_state")
    if state is None or following is None or table.codes("episode_id") is None:
        return []
    try:
        both = [as_labels(series, "", LogsError) for series in (state, following)]
    except LogsError:
        return []
    if both[0].dtype != both[1].dtype:
        return []
    order, step = table.order, table.steps
    episode, ends = table.episodes[order], table.ends[order]
    follows = (episode[1:] == episode[:-1]) & ~ends[:-1]
    if step is not None:
        follows &= np.diff(step[order]) == 1
    here, there = both[1].gather(order)[:-1], both[0].gather(order)[1:]
    differs = (here != there).fill_null(False).to_numpy()
    broken = follows & differs
    if not broken.any():
        return []
    rows = np.sort(order[:-1][broken]) + 1
    at = int(np.flatnonzero(broken)[0])
    sentence = (
        f"{row_words(rows).capitalize()}: the next state is {here[at]!r} and the next row of the "
        f"episode is in {there[at]!r}, in the first of them."
    )
    words = "Leave these episodes out, from which rows seem to be missing."
    name = table.names["episode_id"]
    agrees = f"({table.expression('next_state')} == {table.expression('state')}.shift(-1))"
    condition = f"{agrees}.fill_null(True)"
    if step is not None:
        held = table.expression("step")
        condition = f"({condition} | ({held}.shift(-1) - {held} != 1).fill_null(True))"
    keep = f"filter({condition}.all().over({name!r}))"
    return [
        Fault(
            KIND,
            ERROR,
            table.names["next_state"],
            sentence,
            rows,
            Mend(words, (*table.sorting, keep)),
        )
    ]
