"""A good log of vectors in two forms, and what is said of it when something is changed."""

import numpy as np
import polars as pl
import pytest

from bayesdice_ppl import Logs
from bayesdice_ppl.errors import LogsError

# Two episodes, interleaved in the table: rows 1, 3, 4 and rows 2, 5.
EPISODE = ["p", "q", "p", "p", "q"]


OBS = [[0.1, -2.0], [1.5, 0.0], [0.25, 1e-9], [3.0, 4.0], [-0.5, 2.0]]


# The next row's own in rows 1 and 2, another in row 3, not held in row 4, new in row 5.
NEXT = [OBS[2], OBS[4], [9.0, 9.0], None, [7.0, 8.0]]


ACTION = [[0.5, 1.0, -1.0], [0.0, 0.0, 2.0], [1.0, 1.0, 1.0], [-3.0, 0.5, 0.25], [0.5, 1.0, -1.0]]


PLAIN = {
    "episode_id": EPISODE,
    "reward": [0.0, 1.0, 0.5, -1.0, 2.0],
    "terminated": [False, False, False, False, True],
}


def spread(prefix, vectors):
    """One column for each number of some vectors, None where there is none."""
    size = len(next(v for v in vectors if v is not None))
    return {f"{prefix}_{k}": [None if v is None else v[k] for v in vectors] for k in range(size)}


def wide(following=True, **changes):
    table = {**PLAIN, **spread("obs", OBS), **spread("action", ACTION)}
    if following:
        table |= spread("next_obs", NEXT)
    table |= changes
    return {name: values for name, values in table.items() if values is not None}


def listed(following=True, **changes):
    table = {**PLAIN, "obs": OBS, "action": ACTION}
    if following:
        table["next_obs"] = NEXT
    table |= changes
    return {name: values for name, values in table.items() if values is not None}


def build(table, **options):
    return Logs.from_dataframe(pl.DataFrame(table, strict=False), **options)


def refusal(table, **options):
    with pytest.raises(LogsError) as caught:
        build(table, **options)
    return str(caught.value)


def put(vectors, row, k, value):
    """The vectors with one number changed; row from 1."""
    changed = [None if v is None else list(v) for v in vectors]
    changed[row - 1][k] = value
    return changed


def same(one, other):
    """Every array of one log is the other's, codes included."""
    for name in Logs.__dataclass_fields__:
        ours, theirs = getattr(one, name), getattr(other, name)
        if isinstance(ours, np.ndarray):
            assert ours.dtype == theirs.dtype, name
            np.testing.assert_array_equal(ours, theirs, err_msg=name)
    return True
