"""Read, validate and group logged transitions.

A log has one row per step of one policy at work. Reading drops nothing, fills nothing in and
guesses nothing. What cannot be used as it stands is refused, with the row and the column.
"""

from bayesdice_ppl.logs.counted import CountedLogs, check_held
from bayesdice_ppl.logs.horizon import UsableRows, usable_rows
from bayesdice_ppl.logs.logs import Logs
from bayesdice_ppl.logs.reading import read_logs, read_table
from bayesdice_ppl.logs.rewards import check_one_reward
from bayesdice_ppl.logs.units import RewardUnits, reward_units

AnyLogs = Logs | CountedLogs
"""A log in memory, or one that was counted where it lies."""

__all__ = [
    "AnyLogs",
    "CountedLogs",
    "Logs",
    "RewardUnits",
    "UsableRows",
    "check_held",
    "check_one_reward",
    "read_logs",
    "read_table",
    "reward_units",
    "usable_rows",
]
