"""Columns that say which rows belong together: users, sites, days.

A log needs no such column. But rows of one user may share what no state holds, and a belief has to
know. Columns of integers, text or dates are kept as codes, so that a fit can look.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import polars as pl
from jaxtyping import Int

from bayesdice_ppl.logs.labels import MISSING

_NAMES = re.compile(
    r"(^|[_\W])(id|uid|uuid|user|customer|client|member|patient|subject|person|visitor|household|"
    r"account|session|visit|site|clinic|hospital|ward|center|centre|shop|store|device|machine|"
    r"robot|school|class|group|cluster|day|date|week)s?($|[_\W])",
    re.IGNORECASE,
)


def read_groups(
    frame: pl.DataFrame, columns: Iterable[str], order: Int[np.ndarray, " n"]
) -> dict[str, Int[np.ndarray, " n"]]:
    """Codes of every column that may group rows.

    Parameters
    ----------
    frame
        The user's table.
    columns
        Its columns without another meaning.
    order
        The table's rows in the order of the log, shape (n,).

    Returns
    -------
    dict
        Column -> code of each row, counted from 0; -1 where the column holds nothing. Columns of
        other types, and those of one value, are left out.
    """
    found = {}
    for name in columns:
        series = frame[name]
        kind = series.dtype
        texts = kind in (pl.String, pl.Categorical, pl.Enum, pl.Date, pl.Boolean)
        if not (kind.is_integer() or texts) or series.drop_nulls().n_unique() < 2:
            continue
        code = series.cast(pl.String).rank("dense").cast(pl.Int64) - 1
        found[name] = code.fill_null(MISSING).to_numpy()[order]
    return found


def named_as_group(column: str) -> bool:
    """Whether a column's name says that rows belong together, such as ``user_id`` or ``day``."""
    return _NAMES.search(column) is not None
