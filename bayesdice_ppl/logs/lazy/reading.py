"""A lazy table in, a counted log out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from jaxtyping import Int

from bayesdice_ppl.checks import listed
from bayesdice_ppl.logs.actions import read_declared
from bayesdice_ppl.logs.counted import CountedLogs
from bayesdice_ppl.logs.groups import looked_at_of, of_few_groups_of
from bayesdice_ppl.logs.labels import MISSING, encode, sorted_labels
from bayesdice_ppl.logs.lazy.engines import told_by_engines
from bayesdice_ppl.logs.lazy.faults import read_distinct
from bayesdice_ppl.logs.lazy.first import WITHOUT_ORDER, check_lookalikes, first_rows, order_of
from bayesdice_ppl.logs.lazy.rows import (
    GOES_ON,
    KEYS,
    KIND,
    LEFT_OUT,
    ONWARD,
    OVER,
    POWERS,
    START,
    LazyRows,
)
from bayesdice_ppl.logs.lazy.survey import Survey, take_survey
from bayesdice_ppl.logs.lazy.table import ACTION, EPISODE, STATE, LazyTable, lay_columns
from bayesdice_ppl.logs.sources.source import Source
from bayesdice_ppl.progress import stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from bayesdice_ppl.logs.logs import Logs


def count_log(
    table: Any,
    *,
    columns: Mapping[str, str] | None = None,
    actions: Sequence[Any] | None = None,
    ignore: Sequence[str] = (),
    reward: str | Sequence[str] | None = None,
    hold: Callable[..., Logs],
) -> CountedLogs:
    """Validate and count a log where it lies.

    Parameters
    ----------
    table, columns, actions, ignore, reward
        As for `bayesdice_ppl.Logs.from_lazy`.
    hold
        Makes the log in memory of the first rows: ``Logs.from_dataframe``.

    Raises
    ------
    LogsError
        The table cannot be used, with what was found where.
    """
    with stage("counting the log"), told_by_engines():
        asked = lay_columns(table, columns, ignore, reward)
        survey = take_survey(asked)
        rows = LazyRows(asked, survey)
        lines = rows.counted()
        held = [name for name in ignore if name not in asked.not_handed]
        options: dict[str, Any] = {"columns": columns, "ignore": held, "reward": reward}
        count = lines["rows"].cast(pl.Int64)
        labels = tuple(
            read_distinct(lines[place], key, count)
            for key, place in (("state", STATE), ("action", ACTION), ("next_state", ONWARD))
        )
        sample = first_rows(asked, survey, hold, options)
        return _laid_out(rows, lines, labels, sample, actions)


def _laid_out(
    rows: LazyRows,
    lines: pl.DataFrame,
    labels: tuple[pl.Series, ...],
    sample: Logs,
    actions: Sequence[Any] | None,
) -> CountedLogs:
    table, survey, count = rows.table, rows.survey, lines["rows"].cast(pl.Int64)
    state, action, onward = labels
    kind = lines[KIND].to_numpy()
    state_labels, action_labels = sorted_labels(state, onward), sorted_labels(action)
    known = kind % LEFT_OUT == GOES_ON
    if not known.all():
        # A state that stands in for one that is not known is one that was logged.
        state_labels = sorted_labels(state, onward.filter(pl.Series(known)))
    columns = [name for name in table.others if name not in survey.not_whole]
    kinds = table.schema.schema
    sizes = {name: survey.n_groups[name] - (survey.nulls[name] > 0) for name in columns}
    held = {name: size for name, size in sizes.items() if survey.nulls[name] < survey.n}
    filled = [name for name in held if survey.nulls[name] == 0]
    looked = tuple(
        name for name in filled if looked_at_of(kinds[name], name, sizes[name], survey.n)
    )
    few = tuple(
        name for name in filled if name not in looked and of_few_groups_of(kinds[name], sizes[name])
    )
    ended, both = survey.ended
    declared = read_declared(actions, action, count)
    return CountedLogs(
        state=encode(state, state_labels),
        action=encode(action, action_labels),
        next_state=np.where(known, encode(onward, state_labels), MISSING),
        terminated=kind % LEFT_OUT == OVER,
        left_out=kind >= LEFT_OUT,
        count=count.to_numpy().astype(np.float64),
        powers=np.stack([lines[f"power_{k}"].to_numpy() for k in range(1, POWERS + 1)]),
        ends=np.stack([lines["lowest"].to_numpy(), lines["highest"].to_numpy()]),
        starts=lines[START].cast(pl.Float64).to_numpy(),
        center=survey.mean,
        scale=survey.sd if survey.sd > 0.0 else 1.0,
        least=survey.least,
        most=survey.most,
        state_labels=state_labels,
        action_labels=action_labels,
        n_episodes=survey.m,
        n_truncated=survey.m - ended + both,
        missing_steps=survey.missing_steps,
        has_propensity="propensity" in table.names,
        looked_at=looked,
        of_few_groups=few,
        groups=held,
        sample=_recoded(sample, state_labels, action_labels, declared),
        keys=lines.select(KEYS),
        rows=rows,
        declared_actions=declared,
        unused_columns=(*table.unused, *table.not_handed),
        lookalikes=sample.lookalikes,
        named_episodes="episode_id" in table.names,
        reward_name=table.reward_name,
        order=order_of(table, survey),
        source=_source(table, survey, sample, order_of(table, survey)),
    )


def _recoded(
    sample: Logs, states: np.ndarray, actions: np.ndarray, declared: np.ndarray | None
) -> Logs:
    """The first rows with the codes of the whole log."""

    def places(labels: np.ndarray, all_labels: np.ndarray) -> Int[np.ndarray, " k"]:
        where = {label: place for place, label in enumerate(all_labels.tolist())}
        return np.array([where.get(label, MISSING) for label in labels.tolist()], dtype=np.int64)

    state, action = places(sample.state_labels, states), places(sample.action_labels, actions)
    following = np.where(sample.next_state == MISSING, MISSING, state[sample.next_state])
    return replace(
        sample,
        state=state[sample.state],
        action=action[sample.action],
        next_state=following,
        state_labels=states,
        action_labels=actions,
        declared_actions=declared,
    )


def _source(table: LazyTable, survey: Survey, sample: Logs, order: str) -> Source:
    """Where the log lies, and what was looked at in its first rows alone."""
    notes = []
    if sample.n_transitions < survey.n:
        told = (
            ""
            if survey.windowed or EPISODE not in _names(table)
            else (" and whether each next state is that of the next row,")
        )
        notes.append(
            f"What depends on the order of rows{told} is looked at in the first "
            f"{sample.n_transitions:,} of {survey.n:,} rows."
        )
        notes += check_lookalikes(table, sample.lookalikes, sample.n_transitions)
    if order in WITHOUT_ORDER:
        notes.append(f"What depends on the order of rows is looked at in {WITHOUT_ORDER[order]}.")
    if table.not_handed:
        notes.append(
            f"The columns {listed(table.not_handed, 99)} hold what {table.engine} does not hand "
            "over, and are left out."
        )
    return Source(f"a table of {table.engine}, counted where it lies", {}, tuple(notes))


def _names(table: LazyTable) -> list[str]:
    return list(table.frame.collect_schema().names())
