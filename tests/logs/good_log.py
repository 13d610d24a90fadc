"""A good log of labels, and what is said of it when something is changed."""

import polars as pl
import pytest

from bayesdice_ppl import Logs
from bayesdice_ppl.errors import LogsError

GOOD = {
    "episode_id": [0, 0, 0, 1, 1],
    "step": [0, 1, 2, 0, 1],
    "state": ["a", "b", "a", "b", "b"],
    "action": ["x", "y", "x", "x", "y"],
    "reward": [0.0, 1.0, 0.5, -1.0, 2.0],
    "next_state": ["b", "a", "c", "b", "c"],
    "terminated": [False, False, True, False, False],
    "truncated": [False, False, False, False, True],
    "propensity": [0.5, 0.5, 1.0, 0.1, 0.9],
}


def build(drop=(), actions=None, columns=None, **changes):
    table = {key: value for key, value in {**GOOD, **changes}.items() if key not in drop}
    return Logs.from_dataframe(pl.DataFrame(table, strict=False), actions=actions, columns=columns)


def changed(column, row, value):
    values = list(GOOD[column])
    values[row - 1] = value
    return {column: values}


def refusal(**options):
    with pytest.raises(LogsError) as caught:
        build(**options)
    return str(caught.value)
