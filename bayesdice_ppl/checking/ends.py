"""Episodes that go on after their end, and episodes in pieces."""

from __future__ import annotations

import numpy as np

from bayesdice_ppl.checking.fault import ERROR, WARNING, Fault, Mend, row_words, rows_where
from bayesdice_ppl.checking.flag_columns import flag_text
from bayesdice_ppl.checking.table import TakenTable
from bayesdice_ppl.logs.familiar import guess
from bayesdice_ppl.logs.steps import clock_of

AFTER, PIECES, LIMIT = "steps after an end", "episodes in pieces", "ends at a time limit"
_SHORTEST, _FEWEST, _PILE, _EARLIER = 5, 10, 3.0, 0.2
"""Steps of the longest episode, and ends there, from which a time limit is thought of; and how many
times as many ends it has as other lengths; and the least share of ends before it: where hardly any
end earlier, the length is the game's own."""


def find(table: TakenTable) -> list[Fault]:
    """Find rows of an episode that is over, and episodes that other rows interrupt."""
    if table.codes("episode_id") is None:
        return []
    return [*_after(table), *_pieces(table), *_limits(table)]


def _limits(table: TakenTable) -> list[Fault]:
    """Terminations that pile up at the longest length: a time limit cuts, and ends nothing."""
    ended = table.flags("terminated")
    if ended is None:
        return []
    order = table.order
    episode = table.episodes[order]
    last = np.r_[episode[1:] != episode[:-1], True]
    length = np.diff(np.r_[-1, np.flatnonzero(last)])
    ended = ended[order][last]
    longest = int(length.max())
    at_longest = ended & (length == longest)
    earlier = ended & (length < longest)
    typical = earlier.sum() / max(len(np.unique(length[earlier])), 1)
    few = earlier.sum() < _EARLIER * ended.sum() or longest < _SHORTEST
    if few or at_longest.sum() < max(_FEWEST, _PILE * typical):
        return []
    rows = np.sort(order[last][at_longest]) + 1
    flag = table.names["terminated"]
    sentence = (
        f"{flag!r} ends {at_longest.sum():,} of {len(length):,} episodes at {longest:,} steps, the "
        "longest length: where a time limit cuts, nothing has ended."
    )
    mend = None
    if "truncated" not in table.names and "truncated" not in table.frame.columns:
        held = flag_text(table.frame[flag], flag)
        cut = f"{held} & (pl.len().over({table.names['episode_id']!r}) == {longest})"
        steps = (
            f"with_columns(({cut}).alias('truncated'))",
            f"with_columns(({held} & ~pl.col('truncated')).alias({flag!r}))",
        )
        mend = Mend("Call these cuts, if that is what they are.", steps)
    return [Fault(LIMIT, WARNING, flag, sentence, rows, mend)]


def _after(table: TakenTable) -> list[Fault]:
    order, ends = table.order, table.ends
    episode = table.episodes[order]
    start = np.r_[True, episode[1:] != episode[:-1]]
    before = np.cumsum(ends[order]) - ends[order]
    late = before > before[np.maximum.accumulate(np.where(start, np.arange(len(order)), 0))]
    after = np.zeros(len(order), dtype=bool)
    after[order] = late
    if not after.any():
        return []
    rows = rows_where(after)
    name = table.names["episode_id"]
    sentence = (
        f"{row_words(rows).capitalize()}: the episode goes on after a row whose flag ends it."
    )
    keys = [key for key in ("terminated", "truncated") if table.flags(key) is not None]
    flags = [flag_text(table.frame[table.names[key]], table.names[key]) for key in keys]
    ended = f"({' | '.join(flags)})" if len(flags) > 1 else flags[0]
    piece = f"{ended}.fill_null(False).cum_sum().shift(1, fill_value=0).over({name!r})"
    steps = (*table.sorting, f"with_columns({_joined(table, piece)})", *_renumbered(table))
    words = (
        "Start a new episode after each end. (If the flag is wrong instead, set it to false there.)"
    )
    return [Fault(AFTER, ERROR, name, sentence, rows, Mend(words, steps))]


def _joined(table: TakenTable, piece: str) -> str:
    """Names of episodes with the number of the piece behind them."""
    name = table.names["episode_id"]
    return (
        f"pl.concat_str({table.expression('episode_id')}, {piece}, separator='/').alias({name!r})"
    )


def _renumbered(table: TakenTable) -> tuple[str, ...]:
    """Steps that count from 0 in each new episode."""
    if table.steps is None:
        return ()
    held, name = table.expression("step"), table.names["episode_id"]
    return (f"with_columns({held} - {held}.min().over({name!r}))",)


def _pieces(table: TakenTable) -> list[Fault]:
    if "step" in table.names or table.ends.any() or _timed(table):
        return []
    order = table.order
    episode = table.episodes[order]
    broken = (episode[1:] == episode[:-1]) & (np.diff(order) != 1)
    if not broken.any():
        return []
    rows = np.sort(order[1:][broken]) + 1
    name = table.names["episode_id"]
    sentence = (
        f"{row_words(rows).capitalize()}: an episode goes on after rows of others, and nothing "
        "says that the pieces are one."
    )
    piece = f"{table.expression('episode_id')}.rle_id()"
    words = "Make each piece an episode. (If they are one, add a column step.)"
    mend = Mend(words, (f"with_columns({_joined(table, piece)})",))
    return [Fault(PIECES, ERROR, name, sentence, rows, mend)]


def _timed(table: TakenTable) -> bool:
    """Whether a column that looks like steps tells the order of the rows."""
    alike = guess([name for name in table.frame.columns if name not in table.ignored], ["step"])
    return "step" in alike and clock_of(table.frame[alike["step"]]) is not None
