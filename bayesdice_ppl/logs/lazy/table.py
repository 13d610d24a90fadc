"""The columns of a lazy log under names of ours, each of one known type.

Nothing is computed here. Types come from the table's schema, and every other module writes its
queries on these columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import polars as pl

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.columns import FLAGS
from bayesdice_ppl.logs.groups import can_group
from bayesdice_ppl.logs.labels import as_labels, label_kind
from bayesdice_ppl.logs.lazy.engines import RAW, as_lazy, collect, engine_of
from bayesdice_ppl.logs.rewards import split_rewards
from bayesdice_ppl.logs.schema import COLUMNS, find_columns

STATE, ACTION, NEXT, EPISODE = (f"{RAW}{key}" for key in ("state", "action", "next", "episode"))
"""Labels, as the table has them."""
REWARD, STEP, ENDED, CUT, CHANCE = "reward", "step", "ended", "cut", "chance"


class LazyTable(NamedTuple):
    """A log that is asked, and not read.

    Attributes
    ----------
    given
        The table as the user has it.
    frame
        Its columns under our names: `STATE`, `ACTION`, `REWARD` and those that there are of
        `EPISODE`, `STEP`, `NEXT`, `ENDED` and `CUT` (true, false, or null where it is neither) and
        `CHANCE`; and its further columns.
    names
        Our name of a column -> the table's.
    schema
        An empty frame of the table.
    others
        The table's columns that may group rows -> their names in ``frame``.
    unused
        All columns without a meaning in a log, in the table's order.
    reward_name
        The table's name of the reward.
    in_order
        Whether the rows have an order without a column that says so, as those of a file do.
    not_handed
        Columns of a type that the engine does not hand over. They are left out.
    """

    given: nw.LazyFrame[Any]
    frame: nw.LazyFrame[Any]
    names: Mapping[str, str]
    schema: pl.DataFrame
    others: Mapping[str, str]
    unused: tuple[str, ...]
    reward_name: str
    in_order: bool
    not_handed: tuple[str, ...] = ()

    @property
    def float_step(self) -> bool:
        """Whether steps are numbers that may have decimals."""
        return _is_float(self.kind("step"))

    @property
    def engine(self) -> str:
        """The engine's name."""
        return engine_of(self.given)

    def kind(self, key: str) -> pl.DataType:
        """Type of one of our columns in the user's table."""
        return self.schema.schema[self.names[key]]


def lay_columns(
    table: Any,
    columns: Mapping[str, str] | None,
    ignore: Sequence[str],
    reward: str | Sequence[str] | None,
) -> LazyTable:
    """Find the columns of a log in a lazy table.

    Parameters
    ----------
    table, columns, ignore, reward
        As for `bayesdice_ppl.logs.lazy.count_log`.

    Raises
    ------
    LogsError
        A column is missing, or holds what cannot be counted: vectors, sets of actions.
    """
    given = as_lazy(table)
    given, schema, not_handed = _handed_over(given, columns)
    ignore = ignore if isinstance(ignore, str) else [n for n in ignore if n not in not_handed]
    whole, mapping, rewards = split_rewards(schema, columns, reward)
    if len(rewards) > 1:
        raise LogsError(
            f"reward: expected one column for a log that is counted where it lies, found "
            f"{listed(rewards)}. Count it once for each."
        )
    found, vectors, unused = find_columns(whole, mapping, ignore)
    if vectors:
        raise LogsError(
            f"columns {listed(sorted(vectors))}: expected labels, found vectors. Only states and "
            "actions that are labels can be counted where the log lies: read it into memory "
            "(bd.read_logs of a file, Logs.from_dataframe)."
        )
    if "allowed_actions" in found.columns:
        raise LogsError(
            "column 'allowed_actions': expected none in a log that is counted where it lies. Put "
            "the set into the state, or read the log into memory (bd.read_logs of a file, "
            "Logs.from_dataframe)."
        )
    names = {key: dict(mapping or {}).get(key, key) for key in found.columns}
    if "next_state" in names and _holds_nothing(given, schema, names["next_state"], names["state"]):
        del names["next_state"]
    _check_kinds(schema, names)
    able = [name for name in unused if can_group(schema.schema[name])]
    others = {name: f"group_{k}" for k, name in enumerate(able)}
    in_order = engine_of(given) == "polars"
    frame, counts = given, in_order and "step" not in names and "episode_id" in names
    if counts:
        frame = nw.from_native(given.to_native().with_row_index(own_name(schema)))
    kept = _expressions(schema, names)
    kept += [_group(schema.schema[name], name).alias(own) for name, own in others.items()]
    if counts:
        kept.append(nw.col(own_name(schema)).cast(nw.Int64).alias(STEP))
    return LazyTable(
        given,
        frame.select(*kept),
        names,
        schema,
        others,
        unused,
        names["reward"],
        in_order,
        not_handed,
    )


def own_name(schema: pl.DataFrame) -> str:
    """A name for the numbers of rows that no column of the table has."""
    name = "row_of_the_table"
    while name in schema.columns:
        name += "_"
    return name


def _handed_over(
    given: nw.LazyFrame[Any], columns: Mapping[str, str] | None
) -> tuple[nw.LazyFrame[Any], pl.DataFrame, tuple[str, ...]]:
    """The table's columns that an engine hands over, an empty frame of them, and all others.

    Raises
    ------
    LogsError
        A column with a meaning in a log is none of them.
    """
    kinds = given.collect_schema()
    # Databases have spans of months and days, which no frame of polars holds.
    odd = [
        name for name, kind in kinds.items() if kind == nw.Duration and engine_of(given) != "polars"
    ]
    if not odd:
        return given, collect(given.head(0), as_given=True), ()
    mapping = dict(columns or {})
    for name in odd:
        if name in mapping.values() or (name in COLUMNS and name not in mapping):
            raise LogsError(
                f"column {name!r}: expected a type that {engine_of(given)} hands over, found "
                f"{kinds[name]}. Convert the column where the log lies."
            )
    given = given.select(*(name for name in kinds if name not in odd))
    return given, collect(given.head(0), as_given=True), tuple(odd)


def _holds_nothing(given: nw.LazyFrame[Any], schema: pl.DataFrame, onward: str, state: str) -> bool:
    """Whether a column of next states says nothing: its type may then be that of no state."""
    kind = schema.schema[onward]
    if kind == pl.Null:
        return True
    text = (pl.String, pl.Categorical, pl.Enum)
    if kind not in text or schema.schema[state] in text:
        return False
    return collect(given.filter(~nw.col(onward).is_null()).select(onward).head(1)).is_empty()


def _is_float(kind: pl.DataType) -> bool:
    return kind.is_float() or (isinstance(kind, pl.Decimal) and kind.scale != 0)


def _check_kinds(schema: pl.DataFrame, names: Mapping[str, str]) -> None:
    """Refuse types that no row could have made right."""
    for key in ("state", "action", "next_state", "episode_id"):
        if key in names:
            as_labels(schema[names[key]], key, LogsError)
    for key in ("reward", "propensity"):
        kind = schema.schema[names[key]] if key in names else pl.Float64()
        if not (kind.is_numeric() or kind == pl.Boolean):
            raise LogsError(f"column {key!r}: expected numbers, found {kind}. Convert the column.")
    for key in ("terminated", "truncated"):
        kind = schema.schema[names[key]] if key in names else pl.Boolean()
        text = kind in (pl.String, pl.Categorical, pl.Enum)
        if not (kind == pl.Boolean or kind.is_numeric() or text):
            raise LogsError(
                f"column {key!r}: expected true or false, found {kind}. Convert the column."
            )
    if "next_state" in names:
        state, onward = (
            label_kind(as_labels(schema[names[key]], key, LogsError))
            for key in ("state", "next_state")
        )
        if state != onward:
            raise LogsError(
                f"column 'next_state': expected {state}, as in the column 'state', found {onward}. "
                "Use one kind of label in both."
            )
    if "step" in names:
        kind = schema.schema[names["step"]]
        if not (kind.is_numeric() or kind in (pl.Date, pl.Datetime)):
            raise LogsError(
                f"column 'step': expected whole numbers, dates or times with their date, found "
                f"{kind}. Convert the column where the log lies, or number the steps of each "
                "episode 0, 1, 2, ..."
            )


def _expressions(schema: pl.DataFrame, names: Mapping[str, str]) -> list[nw.Expr]:
    """Our columns, each of one type."""
    places = {"state": STATE, "action": ACTION, "next_state": NEXT, "episode_id": EPISODE}
    found = [
        _label(schema.schema[names[key]], names[key]).alias(place)
        for key, place in places.items()
        if key in names
    ]
    found.append(nw.col(names["reward"]).cast(nw.Float64).alias(REWARD))
    if "propensity" in names:
        found.append(nw.col(names["propensity"]).cast(nw.Float64).alias(CHANCE))
    if "step" in names:
        step = nw.col(names["step"])
        decimal = _is_float(schema.schema[names["step"]])
        found.append((step.cast(nw.Float64) if decimal else step).alias(STEP))
    for key, place in (("terminated", ENDED), ("truncated", CUT)):
        if key in names:
            found.append(_flag(schema.schema[names[key]], names[key]).alias(place))
    return found


def _label(kind: pl.DataType, name: str) -> nw.Expr:
    column = nw.col(name)
    whole = kind.is_integer() or (isinstance(kind, pl.Decimal) and kind.scale == 0)
    if whole or kind == pl.Boolean:
        return column.cast(nw.Int64)
    if kind in (pl.Categorical, pl.Enum):
        return column.cast(nw.String)
    return column.cast(nw.Float64) if kind.is_float() else column


def _group(kind: pl.DataType, name: str) -> nw.Expr:
    """What says which rows belong together; times count as days."""
    column = nw.col(name)
    if kind in (pl.Categorical, pl.Enum):
        return column.cast(nw.String)
    if kind.is_float():
        # What is no number names no group.
        return nw.when(~column.is_nan()).then(column)
    return column.dt.date() if kind == pl.Datetime else column


def flag_of(kind: pl.DataType, name: str) -> nw.Expr | None:
    """True or false, null where a column is neither; None for a type that holds no flags."""
    text = (pl.String, pl.Categorical, pl.Enum)
    return _flag(kind, name) if kind.is_numeric() or kind in (pl.Boolean, *text) else None


def _flag(kind: pl.DataType, name: str) -> nw.Expr:
    column = nw.col(name)
    if kind == pl.Boolean:
        return column
    if kind.is_numeric():
        number = column.cast(nw.Float64)
        return nw.when((number == 0.0) | (number == 1.0)).then(number == 1.0)
    text = column.cast(nw.String).str.strip_chars().str.to_lowercase()
    true = [word for word, flag in FLAGS.items() if flag]
    return nw.when(text.is_in(list(FLAGS))).then(text.is_in(true))
