"""Check a log and its candidates without fitting, and list all that is wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayesdice_ppl.checking import (
    candidates,
    chances,
    coverage,
    episodes,
    periods,
    rewards,
    shares,
    together,
)
from bayesdice_ppl.checking.fault import ERROR, Fault
from bayesdice_ppl.checking.faults import FoundFaults, find_faults
from bayesdice_ppl.checking.flag_columns import flag_text
from bayesdice_ppl.checking.report import LogReport
from bayesdice_ppl.checking.section import Section
from bayesdice_ppl.checking.table import take_table
from bayesdice_ppl.errors import BayesDiceError, LogsError
from bayesdice_ppl.fitting import FitSettings, flat_settings, settings_for
from bayesdice_ppl.logs import CountedLogs, Logs, read_logs
from bayesdice_ppl.logs.lazy import is_url
from bayesdice_ppl.logs.reading import read_log_table
from bayesdice_ppl.logs.rewards import split_rewards
from bayesdice_ppl.logs.sources.source import SourceTable
from bayesdice_ppl.logs.tables import to_polars
from bayesdice_ppl.policies import ContinuousPolicy, Policy, read_policies


def check(
    logs: Any,
    policies: Mapping[str, Policy | ContinuousPolicy] | str | os.PathLike[str] | None = None,
    *,
    gamma: float,
    on_termination: str = "restart",
    columns: Mapping[str, str] | None = None,
    actions: Sequence[Any] | None = None,
    ignore: Sequence[str] = (),
    reward: str | Sequence[str] | None = None,
    layout: str | None = None,
) -> LogReport:
    """Check a log, and candidates beside it, and list every fault with its rows and its mend.

    Parameters
    ----------
    logs
        A file, any dataframe with one row per step, or `Logs`. Of a log that is counted where it
        lies, such as ``duckdb:///logs.duckdb?table=steps``, the report is on the first rows.
    policies
        Name -> candidate, or a file of them. Without it the log alone is checked.
    gamma
        Discount in [0, 1] of the question that the log is to answer.
    on_termination
        What follows a termination: ``"restart"`` or ``"absorb"``; see `bayesdice_ppl.fit`.
    columns, actions, ignore, reward, layout
        As for `bayesdice_ppl.read_logs`; not with `Logs`. The report is on the first of several
        rewards; of the others it only tells whether they are numbers.

    Returns
    -------
    LogReport
        Printed, it is a report; ``report.faults`` has the faults, ``report.to_dict()`` all of it.

    Raises
    ------
    LogsError
        The file cannot be read at all, or ``logs`` is no table.
    SettingsError
        A setting is out of its range.

    Examples
    --------
    >>> import polars as pl
    >>> import bayesdice_ppl as bd
    >>> log = pl.DataFrame({"state": [0, 0, 0], "action": [0, 1, 0], "reward": [1.0, None, 0.5]})
    >>> [fault.sentence for fault in bd.check(log, gamma=0).faults]
    ["'reward' has no value in row 2."]
    """
    asked: dict[str, Any] = {"gamma": gamma, "on_termination": on_termination}
    flat_settings(**asked)  # refused before anything is read
    source, read_as, table_code = "", tuple[str, ...](), ""
    if isinstance(logs, str) and is_url(logs):
        source = logs
        options: dict[str, Any] = {"columns": columns, "actions": actions, "ignore": ignore}
        logs = read_logs(logs, reward=reward, layout=layout, **options)
    if isinstance(logs, CountedLogs):
        n, first = logs.n_transitions, logs.sample.n_transitions
        told = f"All {n:,} rows were counted where they lie, and what no row may hold is refused."
        read_as = (told, f"The report below is on the first {first:,} rows.")
        logs = logs.sample
    if isinstance(logs, Logs):
        frame = logs.to_dataframe()
        found = FoundFaults(take_table(frame, None), (), logs, whole=True)
    else:
        if isinstance(logs, str | os.PathLike):
            source = Path(logs).name
            table_code = _read_code(logs, columns=columns, reward=reward, layout=layout)
            given_table = read_log_table(logs, columns=columns, reward=reward, layout=layout)
        else:
            given_table = to_polars(logs, LogsError)
        if isinstance(given_table, SourceTable):
            read_as = given_table.source.with_columns(columns).sentences
            actions = given_table.actions if actions is None else actions
            given_table = given_table.chosen(columns)
        _, columns, names = split_rewards(given_table, columns, reward)
        options = {"actions": actions, "ignore": ignore, "others": names[1:]}
        found = find_faults(given_table, columns, **options)
    given, refused = _candidates(policies)
    sections: list[Section] = []
    faults = [*found.faults, *refused]
    thin = False
    if found.logs is not None:
        settings = settings_for(found.logs, **asked)
        usable = episodes.usable_of(found.logs, gamma)
        sections = _figures(found, settings, usable)
        if given is not None and usable.rows is not None:
            judged = candidates.judge(found.logs, given, settings)
            thin = judged.thin
            faults += judged.faults
            sections += [] if judged.section is None else [judged.section]
    faults += [fault for section in sections for fault in section.faults]
    return LogReport(
        source,
        float(gamma),
        _taken(found),
        _unused(found, ignore),
        tuple(faults),
        tuple(sections),
        found.whole,
        thin,
        None if policies is None else len(given or ()),
        read_as,
        table_code,
    )


def _read_code(path: str | os.PathLike[str], **options: Any) -> str:
    """Python that reads the table which the mends change."""
    given = [repr(os.fspath(path))]
    given += [f"{name}={value!r}" for name, value in options.items() if value is not None]
    return f"df = bd.read_table({', '.join(given)})"


def _candidates(policies: Any) -> tuple[Any, list[Fault]]:
    """The candidates, or the fault that keeps them from being read."""
    if not isinstance(policies, str | os.PathLike):
        return policies, []
    try:
        return read_policies(policies), []
    except BayesDiceError as error:
        return None, [Fault(candidates.KIND, ERROR, "", str(error))]


def _figures(found: FoundFaults, settings: FitSettings, usable: episodes.Usable) -> list[Section]:
    logs, gamma = found.logs, settings.gamma
    assert logs is not None
    restart = settings.on_termination == "restart"
    clock = periods.clock_of_log(found.table, logs) if found.whole else None
    several: list[Section | None] = [
        episodes.look(logs, gamma, usable, _ends(found)),
        rewards.look(logs, gamma, restart=restart),
        coverage.look(logs),
        chances.look(logs),
        shares.look(logs, gamma, restart=restart),
        periods.look(logs, gamma, clock, restart=restart),
    ]
    if usable.rows is not None:
        several.append(together.look(logs, usable.rows, settings))
    return [section for section in several if section is not None]


def _ends(found: FoundFaults) -> str:
    """The flags of terminations in a mend; empty where there are none."""
    series = found.table.series("terminated")
    return "" if series is None else flag_text(series, found.table.names["terminated"])


def _taken(found: FoundFaults) -> dict[str, list[str]]:
    names = {key: [name] for key, name in found.table.names.items()}
    return names | {key: list(several) for key, several in found.table.vectors.items()}


def _unused(found: FoundFaults, ignore: Sequence[str]) -> dict[str, str]:
    taken = {name for several in _taken(found).values() for name in several}
    held = [name for name in found.table.frame.columns if name not in taken]
    notes: dict[str, str] = {}
    if found.logs is not None:
        notes |= dict.fromkeys(found.logs.looked_at, "may group rows")
        alike = found.logs.lookalikes.items()
        notes |= {name: f"looks like {key}" for key, name in alike if key != "step"}
    notes |= dict.fromkeys(ignore, "ignored")
    return {name: notes.get(name, "") for name in held}
