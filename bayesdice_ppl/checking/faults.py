"""All faults of a table, whatever their kind, and what of it is left without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import polars as pl

from bayesdice_ppl.checking import (
    columns,
    ends,
    flags,
    labels,
    missing,
    numbers,
    repeats,
    sets,
    steps,
    successors,
)
from bayesdice_ppl.checking.fault import ERROR, Fault
from bayesdice_ppl.checking.table import TakenTable, take_table
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs import Logs

OTHER, FEW = "other", "few rows"
_KINDS = (repeats, missing, numbers, labels, sets, flags, steps, ends, successors)
"""Each finds its kind of fault, in the order in which they are told and mended."""


@final
class FoundFaults(NamedTuple):
    """The faults of a table.

    Attributes
    ----------
    table
        The table, with what would be taken as what.
    faults
        Its faults, errors and warnings.
    logs
        What can be read: the whole log, or the episodes without a fault; None where nothing can.
    whole
        Whether that is the whole log, as it stands.
    """

    table: TakenTable
    faults: tuple[Fault, ...]
    logs: Logs | None
    whole: bool


def find_faults(
    frame: pl.DataFrame,
    mapping: Mapping[str, str] | None = None,
    *,
    actions: Sequence[Any] | None = None,
    ignore: Sequence[str] = (),
) -> FoundFaults:
    """Find every fault of a table.

    Parameters
    ----------
    frame
        The user's table.
    mapping, actions, ignore
        As for `Logs.from_dataframe`, whose ``columns`` the mapping is.
    """
    named, meant = columns.find(frame, mapping, ignore)
    table, found = take_table(frame, meant, ignore), list[Fault]()
    if frame.height < 2:
        sentence = f"The table has {'one row' if frame.height else 'no rows'}, and two are needed."
        return FoundFaults(table, (*named, Fault(FEW, ERROR, "", sentence)), None, whole=False)
    for kind in _KINDS:
        found += kind.find(table)
    twice = [fault.rows for fault in found if fault.kind == steps.TWICE]
    if twice:
        # Copies of a row have its step, and are told of once.
        found = [
            fault
            for fault in found
            if not (fault.kind == repeats.ROWS and np.isin(fault.rows, twice[0]).all())
        ]
    # Columns are named last, so that every mend before finds them under the user's names.
    found += named
    errors = [fault for fault in found if fault.severity == ERROR]
    try:
        logs = Logs.from_dataframe(frame, columns=mapping, actions=actions, ignore=ignore)
    except LogsError as error:
        found += [Fault(OTHER, ERROR, "", str(error))] if not errors else []
        return FoundFaults(
            table, tuple(found), _without(table, errors, meant, actions), whole=False
        )
    return FoundFaults(table, tuple(found), logs, whole=not errors)


def _without(
    table: TakenTable,
    errors: Sequence[Fault],
    mapping: Mapping[str, str],
    actions: Sequence[Any] | None,
) -> Logs | None:
    """The log of the episodes without a fault; None where that cannot be read either."""
    frame, episodes = table.frame, table.episodes
    rows = np.zeros(frame.height, dtype=bool)
    dropped = list(table.ignored)
    for fault in errors:
        if fault.kind in (columns.MISSING, columns.ALIKE):
            continue  # which the mapping has mended
        key = next((key for key, name in table.names.items() if name == fault.column), "")
        optional = key in ("next_state", "step", "terminated", "truncated")
        useless = optional and (2 * len(fault.rows) > frame.height or not len(fault.rows))
        if useless or key == "propensity":
            dropped.append(fault.column)
        else:
            rows[fault.rows - 1] = True
    bad = np.isin(episodes, np.unique(episodes[rows]))
    kept = frame.filter(~pl.Series(bad)) if bad.any() else frame
    # What was text because of a few rows may be numbers without them.
    for key in ("reward", "propensity"):
        name = table.names.get(key)
        if name is not None and kept[name].dtype == pl.String:
            kept = kept.with_columns(pl.col(name).cast(pl.Float64, strict=False))
    own = {key: name for key, name in mapping.items() if name not in dropped}
    try:
        return Logs.from_dataframe(kept, columns=own, actions=actions, ignore=dropped)
    except LogsError:
        return None
