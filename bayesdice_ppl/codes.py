"""Whole numbers that stand for labels: those that occur, and several of them in one.

A log names states, actions and groups by codes. What occurs is found by a table as long as the
codes go, in one pass over the rows; sorting them takes a hundred times as long.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

_TABLE, _SPARSE = 1_000_000, 8
"""Codes for which a table is always made, and for how many times as many as there are rows."""


def distinct(code: Int[np.ndarray, " n"]) -> tuple[Int[np.ndarray, " K"], Int[np.ndarray, " n"]]:
    """The codes that occur, ascending, and the place of each row's among them.

    Parameters
    ----------
    code
        Whole numbers from 0, shape (n,).

    Returns
    -------
    (array, array)
        As by ``numpy.unique(code, return_inverse=True)``.
    """
    size = int(code.max(initial=-1)) + 1
    if size > max(_TABLE, _SPARSE * len(code)):
        keys, place = np.unique(code, return_inverse=True)
        return keys, place
    occurs = np.zeros(size, dtype=bool)
    occurs[code] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[code]


def combined(
    *columns: Int[np.ndarray, " n"],
) -> tuple[tuple[Int[np.ndarray, " K"], ...], Int[np.ndarray, " n"]]:
    """The combinations of codes that occur, in the order of the first, then the next column.

    Parameters
    ----------
    *columns
        Whole numbers from 0, each of shape (n,).

    Returns
    -------
    (tuple of arrays, array)
        Each column's code in each of the K combinations, and the combination of each row, as by
        ``numpy.unique`` of the rows of a matrix.
    """
    first, *others = columns
    keys: list[np.ndarray]
    one, place = distinct(first)
    keys = [one]
    for column in others:
        # Counted after each column, so that codes stay below K times the next column's.
        size = int(column.max(initial=0)) + 1
        both, place = distinct(place * size + column)
        before, own = np.divmod(both, size)
        keys = [*(key[before] for key in keys), own]
    return tuple(keys), place
