"""Files of the Open Bandit Dataset: one row for each position of an impression.

The state is the position, since it is what the logging policies looked at: neither the uniform one
nor the Thompson sampler saw the user's features.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.sources.source import Source, SourceTable

LAYOUT = "Open Bandit"
_COLUMNS = {
    "state": "position",
    "action": "item_id",
    "reward": "click",
    "propensity": "propensity_score",
}


def is_open_bandit(names: Collection[str]) -> bool:
    """Whether a table has all columns of the Open Bandit Dataset, by their names."""
    return {*_COLUMNS.values(), "timestamp"} <= set(names)


def read_open_bandit(frame: pl.DataFrame) -> SourceTable:
    """Name the columns of the Open Bandit Dataset as ours.

    Parameters
    ----------
    frame
        Its table, as it stands in a file.

    Raises
    ------
    LogsError
        A column is missing.
    """
    missing = [name for name in _COLUMNS.values() if name not in frame.columns]
    if missing:
        raise LogsError(
            f"{LAYOUT}: expected the columns {', '.join(_COLUMNS.values())}, found no "
            f"{listed(missing)}. There is {listed(frame.columns) or 'nothing'}."
        )
    mapping = {name: key for key, name in _COLUMNS.items()}
    # The files number their rows in a column without a name.
    index = [name for name in frame.columns if name in ("", "Unnamed: 0")]
    # A name of ours that a column has already gives way to the one that has its meaning here.
    ours = [name for name in _COLUMNS if name in frame.columns and name not in mapping]
    table = frame.drop(index + ours).rename(mapping)
    features = [name for name in table.columns if name.startswith(("user_feature", "user-item"))]
    notes = ["Each row is a decision of its own, at one position of an impression: gamma is 0."]
    if features:
        notes.append(
            f"Features of the user are no part of the state ({len(features)} columns), since the "
            "logging policies did not see them."
        )
    return SourceTable(table, Source(LAYOUT, dict(_COLUMNS), tuple(notes)))
