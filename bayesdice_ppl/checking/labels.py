"""Values that are no labels: measurements, times, and lists where a name should stand."""

from __future__ import annotations

import polars as pl

from bayesdice_ppl.checking.fault import ERROR, Fault, Mend, column_text, row_words, rows_where
from bayesdice_ppl.checking.table import TakenTable
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.labels import as_labels

KIND, TWO_KINDS = "labels", "two kinds of labels"


def find(table: TakenTable) -> list[Fault]:
    """Find states, actions and episodes that are no labels."""
    found = []
    for key in ("episode_id", "state", "action", "next_state"):
        name = table.names.get(key)
        if name is None:
            continue
        series = table.frame[name]
        try:
            as_labels(series, name, LogsError)
        except LogsError:
            found.append(_fault(table, key, name, series))
    return found + _kinds(table)


def _fault(table: TakenTable, key: str, name: str, series: pl.Series) -> Fault:
    held, kind = column_text(name), series.dtype
    text = Mend("Make them text, one for each moment.", (f"with_columns({held}.cast(pl.String))",))
    if kind.is_float():
        broken = series.is_not_null() & ~(series.is_finite() & (series == series.round(0)))
        rows = rows_where(broken | (series.abs() > 2.0**53))
        odd = series[int(rows[0]) - 1]
        sentence = f"{name!r} holds {odd} in {row_words(rows)}, and labels are whole or text."
        if not series.filter(series.is_finite()).len() or rows_where(~series.is_finite()).size == (
            rows.size
        ):
            condition = f"{held}.is_finite().fill_null(True)"
            words = f"Leave these {table.dropped} out, if that happened by chance."
            keep = Mend(words, (table.in_episode(condition),))
            return Fault(KIND, ERROR, name, sentence, rows, keep)
        words = "Make them text. A measurement is no label: name its column obs_0 instead."
        cast = Mend(words, text.steps)
        return Fault(KIND, ERROR, name, sentence, rows, cast)
    if isinstance(kind, pl.List | pl.Array):
        sentence = f"{name!r} holds vectors ({kind}), and labels are whole numbers or text."
        vector = {"state": "obs", "next_state": "next_obs"}.get(key)
        mend: Mend | None = None
        if vector:
            mend = Mend("Name it as vectors are named.", (f"rename({{{name!r}: {vector!r}}})",))
        return Fault(KIND, ERROR, name, sentence, mend=mend)
    sentence = f"{name!r} holds {kind}, and labels are whole numbers or text."
    return Fault(KIND, ERROR, name, sentence, mend=text if kind.is_temporal() else None)


def _kinds(table: TakenTable) -> list[Fault]:
    """Next states of another kind than states."""
    both = [table.series("state"), table.series("next_state")]
    if any(series is None or series.null_count() == len(series) for series in both):
        return []
    try:
        kinds = [as_labels(series, "", LogsError).dtype for series in both if series is not None]
    except LogsError:
        return []
    if kinds[0] == kinds[1]:
        return []
    names = [table.names["state"], table.names["next_state"]]
    sentence = f"{names[0]!r} holds {kinds[0]} and {names[1]!r} {kinds[1]}; expected one kind."
    words = "Make both text."
    casts = ", ".join(f"{column_text(name)}.cast(pl.String)" for name in names)
    return [
        Fault(TWO_KINDS, ERROR, names[1], sentence, mend=Mend(words, (f"with_columns({casts})",)))
    ]
