"""Names that other tools give to the columns of a log, and what leaving such a column out would do.

A table from elsewhere calls an episode ``traj_id`` and its end ``done``. Nothing is taken for what
it may be: a column that looks like one of ours is proposed. It is refused where leaving it out
would change the log, until the user maps it or says that it is something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Bool, Int

from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import first_row, flags_of
from bayesdice_ppl.logs.labels import as_labels, label_codes
from bayesdice_ppl.logs.steps import clock_of
from bayesdice_ppl.logs.tables import mapping_text
from bayesdice_ppl.plain import listed_word, shell_word

_NAMES: Mapping[str, str] = {
    "episode_id": "episode ep ep_id eps_id episode_number episode_num episode_no episode_nr "
    "episode_idx episode_index traj traj_id traj_idx trajectory trajectory_id trajectory_idx "
    "trajectory_index rollout rollout_id",
    "step": "t time_step timesteps t_step step_id step_num step_number step_no step_idx step_index "
    "time_idx time_index episode_step step_in_episode timestamp datetime date_time",
    "state": "states s state_id context contexts context_id observation observations",
    "obs": "observation observations",
    "action": "actions a act acts action_id action_taken chosen_action arm arm_id item item_id",
    "reward": "rewards r rew rews click clicks",
    "next_state": "next_states s_next next_s s_prime state_next new_state next_state_id "
    "next_context next_observation next_observations",
    "next_obs": "next_observation next_observations obs_next observation_next new_obs "
    "new_observation",
    "terminated": "terminal terminals termination terminations terminateds is_terminal "
    "is_terminated done dones is_done game_over episode_over",
    "truncated": "truncation truncations truncateds is_truncated timeout timeouts is_timeout "
    "timed_out time_limit time_limit_reached time_limit_truncated",
    "propensity": "propensities propensity_score p_score p_scores action_prob action_probs "
    "action_probability action_propensity behavior_prob behaviour_prob behavior_probability "
    "behaviour_probability behavior_policy_prob behaviour_policy_prob logging_prob "
    "logging_probability logging_policy_prob logged_prob pi_b prob probability",
    "policy": "policies policy_id policy_name candidate candidate_id candidate_name model",
    "prob": "probs probability probabilities p pi action_prob action_probs action_probability",
}
"""Our name -> names of one meaning, the likeliest first. Case and punctuation do not count."""

_VECTORS = ("obs", "next_obs")


class _Context(NamedTuple):
    """The log as it would be read with the episodes that are found so far."""

    table: pl.DataFrame
    """Columns under our names."""
    vectors: bool
    """Whether states or actions are vectors."""
    number: Int[np.ndarray, " n"]
    """Episode of each row of the table."""

    @property
    def alone(self) -> bool:
        """Whether every row is an episode of its own."""
        return int(self.number.max(initial=-1)) + 1 == len(self.number)

    @property
    def follows(self) -> bool:
        """Whether a column says what followed each row."""
        return not {"next_state", "next_obs"}.isdisjoint(self.table.columns)

    @property
    def order(self) -> Int[np.ndarray, " n"]:
        """Rows of the table, grouped by episode."""
        return np.argsort(self.number, kind="stable")

    def last(self) -> Bool[np.ndarray, " n"]:
        """Whether a row is the last of its episode, in the order of the table."""
        order = self.order
        grouped = self.number[order]
        last = np.empty(len(order), dtype=bool)
        last[order] = np.r_[grouped[1:] != grouped[:-1], True][: len(order)]
        return last


def plain(name: str) -> str:
    """A name without case and punctuation: ``TimeLimit.truncated`` is ``timelimittruncated``."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


@lru_cache(maxsize=10_000)
def spellings(key: str, name: str) -> bool:
    """Whether a name is one of ours in any usual spelling."""
    return plain(name) in {plain(spelled) for spelled in (key, *_NAMES.get(key, "").split())}


def guess(names: Iterable[str], keys: Iterable[str]) -> dict[str, str]:
    """Find columns that look like some of ours by their names.

    Parameters
    ----------
    names
        Names of a table's columns.
    keys
        Our names that are asked for.

    Returns
    -------
    dict
        Our name -> the likeliest name in the table; of a vector's numbers, what stands before
        them. Names that nothing looks like are left out.
    """
    every = list(names)
    known: dict[str, str] = {}
    bases: dict[str, str] = {}
    for name in reversed(every):
        known[plain(name)] = name
        if (base := re.sub(r"_[0-9]+$", "", name)) != name:
            bases[plain(base)] = base
    found = {}
    for key in keys:
        for spelled in (key, *_NAMES.get(key, "").split()):
            where = plain(spelled)
            if where in known and known[where] != key:
                found[key] = known[where]
            elif key in (*_VECTORS, "action") and where in bases and bases[where] != key:
                found[key] = bases[where]
            if key in found:
                break
    return found


def find_lookalikes(
    frame: pl.DataFrame,
    table: pl.DataFrame,
    vectors: Collection[str],
    unused: Iterable[str],
    columns: Mapping[str, str] | None,
) -> dict[str, str]:
    """Find columns that look like ours but are not mapped, and refuse those that would matter.

    Parameters
    ----------
    frame
        The user's table.
    table
        What was found of a log in it, under our names.
    vectors
        Which of our columns hold vectors.
    unused
        Columns of the table without a meaning, except those that are to be ignored.
    columns
        The user's mapping, for the message.

    Returns
    -------
    dict
        Our name -> a column that looks like it, and whose absence changes nothing.

    Raises
    ------
    LogsError
        Leaving such a column out would change the log: which, how, and how to map or ignore it.
    """
    alike, told = effects_of(frame, table, vectors, unused)
    if not told:
        return alike
    names = [f"{alike[key]!r} looks like {key!r}: {effect}" for key, effect in told.items()]
    mapping = mapping_text({**(columns or {}), **alike})
    listed = [alike[key] for key in told]
    raise LogsError(
        "columns that look like ours are not mapped, and the answer would change without them. "
        f"{' '.join(names)} To use what looks right, pass {mapping}. If it means something else, "
        f"pass ignore={listed!r} (--ignore {shell_word(','.join(map(listed_word, listed)))})."
    )


def effects_of(
    frame: pl.DataFrame,
    table: pl.DataFrame,
    vectors: Collection[str],
    unused: Iterable[str],
) -> tuple[dict[str, str], dict[str, str]]:
    """Find columns that look like ours but are not mapped, and what each would change.

    Parameters
    ----------
    frame, table, vectors, unused
        As for `find_lookalikes`.

    Returns
    -------
    (dict, dict)
        Our name -> a column that looks like it; and, of those whose absence changes the log, our
        name -> how, in a sentence.
    """
    held = set(table.columns)
    following = "next_obs" if "obs" in vectors else "next_state"
    keys = ("episode_id", "step", "terminated", "truncated", following, "propensity")
    left = [name for name in unused if name in frame.columns]
    alike = guess(left, [key for key in keys if key not in held])
    if not alike or table.height == 0:
        return {}, {}
    number, told = np.arange(table.height), dict[str, str]()
    where, name = (frame, alike["episode_id"]) if "episode_id" in alike else (table, "episode_id")
    if name in where.columns and (codes := _codes(where[name])) is not None:
        number = codes
    context = _Context(table, bool(vectors), number)
    for key, name in alike.items():
        effect = _EFFECTS[key](frame.get_column(name, default=None), context)
        if effect:
            told[key] = effect
    return alike, told


def _codes(series: pl.Series) -> np.ndarray | None:
    """Codes of labels from 0; None if it holds no labels. What is missing counts as one more."""
    try:
        series = as_labels(series, series.name, LogsError)
    except LogsError:
        return None
    codes = label_codes(series)[0]
    return np.where(codes < 0, codes.max(initial=-1) + 1, codes)


def _episodes_matter(series: pl.Series | None, log: _Context) -> str:
    codes = None if series is None else _codes(series)
    if codes is None or log.alone:
        return ""
    count = int(log.number.max()) + 1
    return (
        f"without it each of the {len(log.number):,} rows is an episode of its own, with it there "
        f"{'is 1 episode' if count == 1 else f'are {count:,} episodes'}."
    )


def _steps_matter(series: pl.Series | None, log: _Context) -> str:
    times = None if series is None else clock_of(series)
    if series is None or times is None:
        return ""
    order, clock = log.order, not series.dtype.is_numeric()
    grouped, number = times[order], log.number[order]
    same = number[1:] == number[:-1]
    if log.alone:
        return _restarts(times)
    change = np.diff(grouped)
    if (backwards := same & (change < 0)).any():
        at = first_row(backwards)
        return (
            f"by it row {order[at + 1] + 1} of the table comes before row {order[at] + 1} of the "
            "same episode."
        )
    # A clock counts on from episode to episode, and need not tick once a step.
    if clock or (np.diff(times) >= 0).all() or (times % 1.0 != 0.0).any():
        return ""
    starts = grouped[np.r_[True, ~same]]
    late = starts != starts.min()
    if 2 * np.count_nonzero(late) > len(starts):
        return ""
    if late.any():
        at = int(order[np.flatnonzero(np.r_[True, ~same])[first_row(late)]])
        return f"by it an episode starts late, at row {at + 1}."
    gaps = same & (change > 1)
    if gaps.any() and not log.follows:
        at = first_row(gaps)
        return f"by it steps are missing between rows {order[at] + 1} and {order[at + 1] + 1}."
    return ""


def _restarts(times: np.ndarray) -> str:
    """Whether steps start again and again where no column names the episodes."""
    starts = np.flatnonzero(np.r_[True, np.diff(times) != 1.0])
    again = 1 < len(starts) <= len(times) // 2 and (times[starts] == times[0]).all()
    if not again:
        return ""
    return (
        f"it starts again at row {starts[1] + 1}, as the steps of episodes do, and no column names "
        "the episodes."
    )


def _flagged(series: pl.Series | None) -> np.ndarray | None:
    """Which rows are flagged; None if it holds no flags. What is missing is not flagged."""
    flags = None if series is None else flags_of(series)
    if series is None or flags is None or flags.null_count() > series.null_count():
        return None
    return flags.fill_null(False).to_numpy().astype(bool)


def _ends_matter(series: pl.Series | None, log: _Context) -> str:
    flags = _flagged(series)
    if flags is None or not flags.any():
        return ""
    count = int(flags.sum())
    if log.alone and not log.follows:
        # Ends of rows that stand alone say nothing that gamma = 0 asks for, and any other gamma is
        # refused. But ends of some rows are those of episodes.
        if count == len(flags):
            return ""
        return (
            f"it is true in {count:,} of {len(flags):,} rows, as at the ends of episodes, and no "
            "column names the episodes: each row would be a start of its own. Name them, by the "
            "number of ends before each row."
        )
    return (
        f"it is true in {count:,} row{'s' * (count > 1)}, and without it no episode ever ends. "
        "(An episode that was only cut is truncated, not terminated.)"
    )


def _cuts_matter(series: pl.Series | None, log: _Context) -> str:
    flags = _flagged(series)
    if flags is None or not (inside := flags & ~log.last()).any():
        return ""
    return f"it ends an episode at row {first_row(inside) + 1}, and without it the episode goes on."


def _successors_matter(series: pl.Series | None, log: _Context) -> str:
    if series is None:
        return "it says what followed the last row of each episode."
    if series.null_count() == series.len():
        return ""
    vector = isinstance(series.dtype, pl.List | pl.Array)
    if vector != ("obs" in log.table.columns) or (not vector and _codes(series) is None):
        return ""
    ended = np.zeros(series.len(), dtype=bool)
    if (flags := _flagged(log.table.get_column("terminated", default=None))) is not None:
        ended = flags
    told = log.last() & ~ended & series.is_not_null().to_numpy()
    if told.any():
        count = int(told.sum())
        return f"it says what followed {count:,} rows of which nothing else does."
    return ""


def _chances_matter(series: pl.Series | None, log: _Context) -> str:
    if not log.vectors or series is None or not series.dtype.is_numeric() or series.null_count():
        return ""
    values = series.cast(pl.Float64).to_numpy()
    density = "action" in log.table.columns and _is_vector(log.table["action"])
    if not ((values > 0.0) & (density | (values <= 1.0))).all():
        return ""
    return "without it a fit on vectors has to guess the logging policy's probabilities."


def _is_vector(series: pl.Series) -> bool:
    return isinstance(series.dtype, pl.List | pl.Array | pl.Struct)


_EFFECTS: Mapping[str, Callable[[Any, _Context], str]] = {
    "episode_id": _episodes_matter,
    "step": _steps_matter,
    "terminated": _ends_matter,
    "truncated": _cuts_matter,
    "next_state": _successors_matter,
    "next_obs": _successors_matter,
    "propensity": _chances_matter,
}
"""What leaving such a column out would change, in a sentence; empty if nothing."""
