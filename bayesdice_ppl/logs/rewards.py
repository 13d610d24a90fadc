"""Several columns of rewards: the first is the log's reward, the others are kept beside it.

A log may hold what was earned in more than one currency, such as quality and cost. Each column gets
a value of its own in the belief, and all of them are joint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import read_rewards
from bayesdice_ppl.logs.schema import COLUMNS

RESERVED = (
    *("value", "loss", "weight", "weights", "noise"),
    *("chain", "draw", "policy", "other_policy", "pair", "feature", "component"),
)
"""Names that a belief gives to something else: its variables, and its dims."""


def split_rewards(
    frame: pl.DataFrame,
    columns: Mapping[str, str] | None,
    reward: str | Sequence[str] | None,
) -> tuple[pl.DataFrame, Mapping[str, str] | None, tuple[str, ...]]:
    """Take the further columns of rewards out of a table, and map the first.

    Parameters
    ----------
    frame
        The user's table.
    columns
        Our name -> the table's name.
    reward
        The columns of rewards, or one, or None: as ``columns`` says.

    Returns
    -------
    (polars.DataFrame, mapping or None, tuple of str)
        The table without the further ones, the mapping with the first, and all their names; no
        names where ``reward`` is None.

    Raises
    ------
    LogsError
        A name is not in the table, is given twice or means something else in a belief; or
        ``columns`` maps the reward too.
    """
    if reward is None:
        return frame, columns, ()
    names = (reward,) if isinstance(reward, str) else tuple(reward)
    if not names or not all(isinstance(name, str) for name in names):
        raise LogsError(
            f"reward: expected the name of a column, or a list of them, found {reward!r}."
        )
    if columns is not None and "reward" in columns:
        raise LogsError(
            "reward: the column of rewards is mapped by columns= (--columns) too. Do one of them."
        )
    for name in names:
        if name not in frame.columns:
            raise LogsError(
                f"reward: expected a column of the table, found {name!r}. It has "
                f"{listed(frame.columns, 99)}."
            )
        if names.count(name) > 1:
            raise LogsError(f"reward: the column {name!r} is named twice. Name it once.")
        if len(names) > 1 and (name in RESERVED or "/" in name):
            raise LogsError(
                f"reward: expected names that a belief can hold, found {name!r}. Rename the "
                f"column: {', '.join(RESERVED)} and names with a slash mean something else there."
            )
        if name != names[0] and name != "reward" and name in COLUMNS:
            raise LogsError(
                f"reward: expected further columns without a meaning of their own, found {name!r}, "
                "which a log takes for something else. Rename the column."
            )
        taken = [key for key, source in (columns or {}).items() if source == name]
        if taken:
            raise LogsError(
                f"reward: the column {name!r} is mapped to {taken[0]!r} too. Give it one meaning."
            )
    return frame.drop(names[1:]), {**(columns or {}), "reward": names[0]}, names


def check_one_reward(rewards: Sequence[str], asker: str) -> None:
    """Refuse a log of several rewards where only one can be told of.

    Parameters
    ----------
    rewards
        Names of the log's rewards.
    asker
        What takes only one, for the message.

    Raises
    ------
    LogsError
        There are several.
    """
    if len(rewards) > 1:
        raise LogsError(
            f"logs: expected one reward for {asker}, found {', '.join(rewards)}. Take one of them: "
            f"logs.with_reward({rewards[0]!r}) (--reward {rewards[0]})."
        )


def read_other_rewards(
    frame: pl.DataFrame, names: Sequence[str], order: Int[np.ndarray, " n"]
) -> dict[str, Float[np.ndarray, " n"]]:
    """The rewards after the first, by the names of their columns, in the order of the log.

    Raises
    ------
    LogsError
        One is not a finite number.
    """
    return {name: read_rewards(frame, name)[order] for name in names[1:]}
