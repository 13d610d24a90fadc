"""Numbers that cannot be used: text, infinite ones, and ones out of their range."""

from __future__ import annotations

import numpy as np
import polars as pl

from bayesdice_ppl.checking.fault import ERROR, Fault, Mend, column_text, row_words, rows_where
from bayesdice_ppl.checking.number_texts import WrittenNumbers, read_written
from bayesdice_ppl.checking.table import TakenTable
from bayesdice_ppl.logs.columns import REWARD_SIZE

TEXT, INFINITE, RANGE, TYPE = (
    "text for numbers",
    "numbers that are not finite",
    "numbers out of range",
    "type of a column",
)
_PERCENT = 100.0


def find(table: TakenTable) -> list[Fault]:
    """Find rewards, propensities and numbers of vectors that cannot be used."""
    found: list[Fault] = []
    columns = [(key, table.names[key]) for key in ("reward", "propensity") if key in table.names]
    for key, several in table.vectors.items():
        columns += [(key, name) for name in several]
    for key, name in columns:
        series = table.frame[name]
        if isinstance(series.dtype, pl.List | pl.Array):
            found += _of_lists(table, key, name, series)
        elif series.null_count() == len(series):
            continue
        elif series.dtype == pl.String:
            written = read_written(series)
            found.append(_text(table, name, series, written))
            # What the mend makes of them may be no better.
            found += _of_numbers(table, key, name, written.numbers)
        elif not (series.dtype.is_numeric() or series.dtype == pl.Boolean):
            sentence = f"{name!r} holds {series.dtype}, and should hold numbers."
            found.append(Fault(TYPE, ERROR, name, sentence))
        else:
            found += _of_numbers(table, key, name, series.cast(pl.Float64))
    return found


def _text(table: TakenTable, name: str, series: pl.Series, written: WrittenNumbers) -> Fault:
    """Text where numbers should stand."""
    cast = f"with_columns({written.code})"
    rows = rows_where(series.is_not_null() & written.numbers.is_null())
    odd = rows_where(series.is_not_null() & series.cast(pl.Float64, strict=False).is_null())
    shown = odd if len(odd) else rows_where(series.is_not_null())
    how = " ".join(("Make them numbers.", *written.words))
    if not len(rows):
        such = f"such as {series[int(shown[0]) - 1]!r}"
        where = f" in {row_words(odd)}" if len(odd) else ""
        sentence = f"{name!r} holds numbers as text{where}, {such}."
        return Fault(TEXT, ERROR, name, sentence, shown, Mend(how, (cast,)))
    sentence = (
        f"{name!r} holds text in {row_words(rows)}, such as {series[int(rows[0]) - 1]!r}, and "
        "should hold numbers."
    )
    if 2 * len(rows) > series.len():
        return Fault(TEXT, ERROR, name, f"{sentence} What it means is not known.", rows)
    words = (
        f"{how} Leave out the {table.dropped} in which that fails. (If the text "
        "means a number, such as 0, write that number instead.)"
    )
    keep = table.in_episode(f"{column_text(name)}.is_not_null()")
    return Fault(TEXT, ERROR, name, sentence, rows, Mend(words, (cast, keep)))


def _of_numbers(table: TakenTable, key: str, name: str, numbers: pl.Series) -> list[Fault]:
    found, held = [], column_text(name)
    odd = numbers.is_not_null() & ~numbers.is_finite().fill_null(True)
    if key == "next_obs" and numbers.is_nan().fill_null(False).any():
        # A next observation may be missing, but NaN is a number.
        odd = odd & ~numbers.is_nan().fill_null(False)
        odd = odd | numbers.is_nan().fill_null(False)
    if odd.any():
        rows = rows_where(odd)
        kinds = sorted({str(value) for value in numbers.filter(odd).unique().to_list()})
        sentence = f"{name!r} holds {' and '.join(kinds)} in {row_words(rows)}."
        words = f"Leave these {table.dropped} out, if that happened by chance."
        # Null is told of apart.
        condition = f"{held}.is_finite()"
        if key == "next_obs":
            words = "Take the next observation for unknown."
            step = f"with_columns(pl.when({condition}).then({held}))"
            found.append(Fault(INFINITE, ERROR, name, sentence, rows, Mend(words, (step,))))
        else:
            mend = Mend(words, (table.in_episode(f"{condition}.fill_null(True)"),))
            found.append(Fault(INFINITE, ERROR, name, sentence, rows, mend))
    if key == "reward":
        found += _sizes(table, name, numbers)
    if key == "propensity":
        found += _chances(table, name, numbers)
    return found


def _sizes(table: TakenTable, name: str, numbers: pl.Series) -> list[Fault]:
    """Rewards whose squares are no numbers."""
    held = np.abs(numbers.fill_null(0.0).to_numpy())
    held = np.where(np.isfinite(held), held, 0.0)
    largest = float(held.max(initial=0.0))
    if largest == 0.0 or REWARD_SIZE[0] < largest < REWARD_SIZE[1]:
        return []
    rows = rows_where(held >= REWARD_SIZE[1]) if largest > 1.0 else rows_where(held > 0.0)
    sentence = (
        f"{name!r} has rewards as large as {largest:g} ({row_words(rows)}), whose squares do not "
        "fit in double precision."
    )
    words = "Measure rewards in another unit. Values are then in it too."
    mend = Mend(words, (f"with_columns({column_text(name)} / {largest!r})",))
    if largest > 1.0 and 2 * len(rows) < int((held > 0.0).sum()):
        words = f"Leave these {table.dropped} out, if the numbers are errors."
        within = f"({column_text(name)}.abs() < {REWARD_SIZE[1]!r}).fill_null(True)"
        mend = Mend(words, (table.in_episode(within),))
    return [Fault(RANGE, ERROR, name, sentence, rows, mend)]


def _chances(table: TakenTable, name: str, numbers: pl.Series) -> list[Fault]:
    """Propensities that are no probabilities of an action that was taken."""
    held = numbers.to_numpy()
    density = "action" in table.vectors
    low = np.nan_to_num(held, nan=1.0) <= 0.0
    high = np.zeros(len(held), dtype=bool) if density else (held > 1.0) & np.isfinite(held)
    rows = rows_where(low | high)
    if not len(rows):
        return []
    what = "densities above 0" if density else "probabilities above 0 and up to 1"
    sentence = (
        f"{name!r} holds {held[int(rows[0]) - 1]:g} in {row_words(rows)}. Propensities of actions "
        f"that were taken are {what}."
    )
    percent = not low.any() and float(held[high].max()) <= _PERCENT
    if percent and np.nanmedian(held) > 1.0:
        step = f"with_columns({column_text(name)} / 100)"
        mend = Mend("They look like percentages: divide them.", (step,))
    else:
        words = "Drop the column: a belief on labels does not need it."
        if table.vectors:
            words = "Drop the column: a fit on vectors then learns the logging policy from the log."
        mend = Mend(words, (f"drop({name!r})",))
    return [Fault(RANGE, ERROR, name, sentence, rows, mend)]


def _of_lists(table: TakenTable, key: str, name: str, series: pl.Series) -> list[Fault]:
    """Lists of other lengths, or with numbers that are not finite."""
    inner = series.dtype.inner  # type: ignore[attr-defined]
    if not (inner.is_numeric() or inner in (pl.Boolean, pl.Null)):
        sentence = f"{name!r} holds {series.dtype}, and should hold lists of numbers."
        return [Fault(TYPE, ERROR, name, sentence)]
    lists = series.cast(pl.List(inner))
    held = column_text(name)
    if isinstance(series.dtype, pl.Array):
        held += ".arr.to_list()"
    found = []
    lengths = lists.list.len()
    if (size := lengths.drop_nulls().mode()).len():
        usual = int(size.sort()[0])
        odd = (lengths != usual).fill_null(False)
        if odd.any():
            rows = rows_where(odd)
            sentence = f"{name!r} has vectors of other lengths than {usual} in {row_words(rows)}."
            words = f"Leave these {table.dropped} out."
            keep = table.in_episode(f"({held}.list.len() == {usual}).fill_null(True)")
            found.append(Fault(RANGE, ERROR, name, sentence, rows, Mend(words, (keep,))))
    if inner.is_float():
        finite = lists.list.eval(pl.element().is_finite().fill_null(True)).list.all()
        odd = ~finite.fill_null(True)
        if odd.any():
            rows = rows_where(odd)
            sentence = f"{name!r} has a number that is not finite in {row_words(rows)}."
            words = f"Leave these {table.dropped} out, if that happened by chance."
            inside = "pl.element().is_finite().fill_null(True)"
            keep = table.in_episode(f"{held}.list.eval({inside}).list.all().fill_null(True)")
            found.append(Fault(INFINITE, ERROR, name, sentence, rows, Mend(words, (keep,))))
    return found
