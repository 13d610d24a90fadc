"""Tables whose columns have names: an array is read by place, a table by its labels.

Whoever gives a dataframe of probabilities means its columns by their names. Reading them by place
would value another policy, without a sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.logs.labels import shown_all


def column_labels(thing: Any) -> list[Any] | None:
    """Labels of a dataframe's columns; None for what is no dataframe."""
    if nw.from_native(thing, pass_through=True) is thing:
        return None
    return [plain(each) for each in list(thing.columns)]


def row_labels(thing: Any) -> list[Any] | None:
    """Labels of a pandas dataframe's rows; None where there are none."""
    index = getattr(thing, "index", None)
    return None if column_labels(thing) is None or index is None else [plain(x) for x in index]


def plain(label: Any) -> Any:
    """A label without NumPy's type."""
    return label.item() if isinstance(label, np.generic) else label


def by_label(thing: Any, labels: Sequence[Any], what: str) -> Any:
    """Put the columns of a dataframe in the order of some labels; anything else as it is.

    Columns that are only numbered, 0, 1, ..., have no names, and stay where they are.

    Parameters
    ----------
    thing
        A dataframe, or anything else.
    labels
        What its columns should be.
    what
        What it is, for messages.

    Raises
    ------
    PoliciesError
        Its columns are others.
    """
    names = column_labels(thing)
    if names is None:
        return thing
    wanted = [plain(label) for label in labels]
    array = thing.to_numpy()
    if names == wanted:
        return array
    if len(set(names)) == len(names) and set(names) == set(wanted):
        return array[:, [names.index(label) for label in wanted]]
    texts = [str(label) for label in wanted]
    if set(names) == set(texts) and len(set(texts)) == len(texts):
        # Some dataframes hold no names but texts.
        return array[:, [names.index(label) for label in texts]]
    if names == list(range(len(names))):
        return array
    raise PoliciesError(
        f"{what}: expected a table whose columns are {shown_all(wanted)}, found "
        f"{shown_all(names)}. Name them so, or give an array in that order."
    )


def unnamed(thing: Any, what: str) -> Any:
    """A dataframe as an array, where nothing says what its columns should be.

    Raises
    ------
    PoliciesError
        Its columns have names.
    """
    names = column_labels(thing)
    if names is None:
        return thing
    if names != list(range(len(names))):
        raise PoliciesError(
            f"{what}: expected an array, whose columns are the actions in the order in which they "
            f"are declared, found a table with the columns {shown_all(names)}. Give its numbers in "
            "that order."
        )
    return thing.to_numpy()
