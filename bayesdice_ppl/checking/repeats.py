"""Rows and episodes that are in the log twice, where chance does not explain it.

Few states and actions make equal rows by chance. So a row counts as a copy only if some column
hardly ever repeats, such as a time or an id. An episode counts as a copy of another only if an
equal one had less than one chance in a million under the log's own shares of starts, actions,
rewards and next states.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from bayesdice_ppl.checking.fault import WARNING, Fault, Mend, row_words
from bayesdice_ppl.checking.table import TakenTable
from bayesdice_ppl.codes import combined, distinct

ROWS, EPISODES = "rows given twice", "episodes given twice"
BY_CHANCE = 1e-6
"""Expected number of equal pairs of episodes below which equal ones are copies."""
_SHOWN = 5


def find(table: TakenTable) -> list[Fault]:
    """Find copies of rows, and copies of episodes under another name."""
    return [*_rows(table), *_episodes(table)]


def _rows(table: TakenTable) -> list[Fault]:
    frame = table.frame
    if not _identified(frame, frame.columns):
        return []
    copies = _hashes(frame, frame.columns)
    first = np.unique(copies, return_index=True)[1]
    if len(first) == len(copies):
        return []
    rows = np.setdiff1d(np.arange(len(copies)), first) + 1
    sentence = (
        f"{row_words(rows).capitalize()}: each equals an earlier row in every column. They count "
        "twice, and make a belief too narrow."
    )
    mend = Mend("Keep each row once.", ("unique(maintain_order=True)",))
    return [Fault(ROWS, WARNING, "", sentence, rows, mend)]


def _episodes(table: TakenTable) -> list[Fault]:
    name = table.names.get("episode_id")
    if name is None or table.codes("episode_id") is None:
        return []
    order, episode = table.order, table.episodes
    episode = distinct(episode[order])[1]
    length = np.bincount(episode)
    m = len(length)
    if m < 2 or m == len(episode):
        return []
    start = np.r_[0, np.cumsum(length)[:-1]]
    place = (np.arange(len(episode)) - start[episode]).astype(np.uint64)
    others = [column for column in table.frame.columns if column != name]
    own = _hashes(table.frame, others)[order]
    # Sums of hashes, each times an odd number that its place gives.
    factor = place * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)
    total = np.add.reduceat(own * factor, start)
    _, of_kind = np.unique(np.stack([total, length.astype(np.uint64)]), axis=1, return_inverse=True)
    of_kind = of_kind.ravel()
    first = np.unique(of_kind, return_index=True)[1]
    later = np.setdiff1d(np.arange(m), first)
    if not len(later):
        return []
    identified = _identified(table.frame, [c for c in others if c != table.names.get("step")])
    if not identified:
        expected = 0.5 * m * (m - 1.0) * np.exp(_log_chance(table, order, episode, start))
        later = later[(expected[later] < BY_CHANCE) & (length[later] > 1)]
    if not len(later):
        return []
    labels = table.frame[name].gather(order[start[later]]).to_list()
    rows = np.sort(order[np.isin(episode, later)]) + 1
    shown = ", ".join(repr(label) for label in labels[:_SHOWN])
    more = f" and {len(labels) - _SHOWN:,} more" if len(labels) > _SHOWN else ""
    several = len(labels) > 1
    sentence = (
        f"Episode{'s' * several} {shown}{more}: {'each equals' if several else 'it equals'} an "
        "earlier episode in every row, and chance does not explain it. It counts twice."
    )
    mend = Mend(
        "Keep each once.", (f"filter(~{table.expression('episode_id')}.is_in({labels!r}))",)
    )
    return [Fault(EPISODES, WARNING, name, sentence, rows, mend)]


def _identified(frame: pl.DataFrame, columns: list[str]) -> bool:
    """Whether some column hardly ever repeats, but for copies of rows."""
    for name in columns:
        try:
            if 2 * frame[name].n_unique() >= frame.height and frame.height > _SHOWN:
                return True
        except pl.exceptions.PolarsError:
            continue
    return False


def _hashes(frame: pl.DataFrame, columns: list[str]) -> Int[np.ndarray, " n"]:
    return frame.select(columns).hash_rows(seed=0).to_numpy().astype(np.uint64)


def _log_chance(
    table: TakenTable,
    order: Int[np.ndarray, " n"],
    episode: Int[np.ndarray, " n"],
    start: Int[np.ndarray, " m"],
) -> Float[np.ndarray, " m"]:
    """Log probability of each episode under the log's own shares; 0 where it is not known."""
    state, action = table.codes("state"), table.codes("action")
    if state is None or action is None:
        return np.zeros(len(start))
    reward = table.frame[table.names["reward"]].rank("dense").fill_null(0).to_numpy()
    state, action = state[order] + 1, action[order] + 1
    done = combined(state, action, reward.astype(np.int64)[order])[1]
    of_state = np.bincount(state)[state]
    log = np.log(np.bincount(done)[done] / of_state)
    follows = np.r_[episode[1:] == episode[:-1], False]
    after = combined(done[follows], np.r_[state[1:], 0][follows])[1]
    went = np.bincount(done[follows], minlength=int(done.max()) + 1)[done[follows]]
    log[follows] += np.log(np.bincount(after)[after] / went)
    begins = state[start]
    first = np.log(np.bincount(begins)[begins] / len(begins))
    return np.asarray(first + np.add.reduceat(log, start))
