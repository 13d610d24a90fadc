"""All faults of a table, whatever their kind, and what of it is left without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import polars as pl

from bayesdice_ppl.checking import (
    clashes,
    columns,
    ends,
    flags,
    headers,
    labels,
    missing,
    numbers,
    repeats,
    sets,
    steps,
    successors,
)
from bayesdice_ppl.checking.fault import ERROR, Fault, Mend
from bayesdice_ppl.checking.running import run_steps
from bayesdice_ppl.checking.table import TakenTable, take_table
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs import Logs

OTHER, FEW = "other", "few rows"
_KINDS = (repeats, missing, numbers, labels, sets, flags, steps, ends, successors)
"""Each finds its kind of fault, in the order in which they are told and mended."""
_ROUNDS = 4
"""How often a mended table is looked at again."""
_AFTER = "After these mends: "
_NOTHING = (
    "After these mends fewer than two rows are left: nearly all episodes have a fault. Write the "
    "right values where they are known, or log again."
)


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
    others: Sequence[str] = (),
) -> FoundFaults:
    """Find every fault of a table.

    Parameters
    ----------
    frame
        The user's table.
    mapping, actions, ignore
        As for `Logs.from_dataframe`, whose ``columns`` the mapping is.
    others
        Columns of further rewards, which should hold numbers too.
    """
    found = _look(frame, mapping, actions=actions, ignore=ignore, others=others)
    faults, mended = _tried(frame, _dropped_once(found.faults))
    told = {(fault.kind, fault.column) for fault in faults}
    said = {fault.sentence for fault in faults if fault.mend is None}
    for _ in range(_ROUNDS):
        if mended is None or mended.equals(frame):
            break
        held = [name for name in ignore if name in mended.columns]
        after = _look(mended, mapping, actions=actions, ignore=held, others=others).faults
        after = tuple(
            fault
            for fault in after
            if (fault.severity == ERROR or (fault.kind, fault.column) not in told)
            and fault.sentence not in said
        )
        if not after:
            break
        frame = mended
        more, mended = _tried(frame, _dropped_once(after))
        told |= {(fault.kind, fault.column) for fault in more}
        faults += tuple(each._replace(sentence=f"{_AFTER}{each.sentence}") for each in more)
        if all(fault.mend is None for fault in more):
            break
    if mended is None and frame.height > 1:
        faults += (Fault(FEW, ERROR, "", _NOTHING),)
    return found._replace(faults=faults)


def _dropped_once(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """Faults of which the first of a column drops it, where any of them does."""
    drops = {
        fault.column: fault.mend
        for fault in faults
        if fault.mend is not None and fault.mend.steps == (f"drop({fault.column!r})",)
    }
    done, kept = set[str](), list[Fault]()
    for fault in faults:
        mend = drops.get(fault.column, fault.mend)
        if fault.column in done:
            mend = Mend("Dropping the column, as above, mends this too.", ())
        done |= {fault.column} & set(drops)
        kept.append(fault._replace(mend=mend))
    return tuple(kept)


def _tried(
    frame: pl.DataFrame, faults: Sequence[Fault]
) -> tuple[tuple[Fault, ...], pl.DataFrame | None]:
    """Faults without the mends that cannot be done, and the table after all others.

    None for the table if nothing of it is left.
    """
    kept: list[Fault] = []
    for fault in faults:
        try:
            after = run_steps(frame, () if fault.mend is None else fault.mend.steps)
        except (pl.exceptions.PolarsError, RecursionError):
            kept.append(fault._replace(mend=None))
            continue
        if fault.severity != ERROR and after.height < 2 <= frame.height:
            # A warning is no reason to leave nothing of a log that can be used.
            kept.append(fault._replace(mend=None))
            continue
        frame = after
        kept.append(fault)
    return tuple(kept), frame if frame.height > 1 else None


def _look(
    frame: pl.DataFrame,
    mapping: Mapping[str, str] | None,
    *,
    actions: Sequence[Any] | None,
    ignore: Sequence[str],
    others: Sequence[str],
) -> FoundFaults:
    """Find the faults of a table as it stands."""
    given, whole = frame.drop(others), frame
    first = headers.find(whole)
    for fault in first:
        whole = run_steps(whole, fault.mend.steps if fault.mend else ())
    frame = whole.drop(others)
    clashing = clashes.find(frame, mapping, ignore)
    for fault in clashing:
        frame = run_steps(frame, fault.mend.steps if fault.mend else ())
    first += clashing
    named, meant = columns.find(frame, mapping, ignore)
    table, found = take_table(frame, meant, ignore), list[Fault]()
    if frame.height < 2:
        sentence = f"The table has {'one row' if frame.height else 'no rows'}, and two are needed."
        few = Fault(FEW, ERROR, "", sentence)
        return FoundFaults(table, (*first, *named, few), None, whole=False)
    for kind in _KINDS:
        found += kind.find(table)
        if kind in (missing, numbers):
            found += [fault for name in others for fault in _of_reward(table, whole, name, kind)]
    twice = [fault.rows for fault in found if fault.kind == steps.TWICE]
    if twice:
        # Copies of a row have its step, and are told of once.
        found = [
            fault
            for fault in found
            if not (fault.kind == repeats.ROWS and np.isin(fault.rows, twice[0]).all())
        ]
    # Columns are named last, so that every mend before finds them under the user's names.
    found = [*first, *found, *named]
    errors = [fault for fault in found if fault.severity == ERROR]
    try:
        logs = Logs.from_dataframe(given, columns=mapping, actions=actions, ignore=ignore)
    except LogsError as error:
        found += [Fault(OTHER, ERROR, "", str(error))] if not errors else []
        left = _without(table, errors, meant, actions)
        return FoundFaults(table, tuple(found), left, whole=False)
    return FoundFaults(table, tuple(found), logs, whole=not errors)


def _of_reward(table: TakenTable, whole: pl.DataFrame, name: str, kind: Any) -> list[Fault]:
    """Faults of a further column of rewards."""
    names = {"reward": name}
    if "episode_id" in table.names:
        names["episode_id"] = table.names["episode_id"]
    found = kind.find(TakenTable(whole, names, {}))
    return [fault for fault in found if fault.column == name]


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
        if fault.kind in (columns.MISSING, columns.ALIKE, headers.KIND, clashes.KIND):
            continue  # which the mapping, or the table, has mended
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
