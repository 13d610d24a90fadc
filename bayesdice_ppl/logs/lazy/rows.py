"""The rows of a counted log where they lie: counted by what they share, and summed over groups.

A second query joins the rows with a small table of numbers, one line for each kind of row. What is
asked of a group of rows, such as those of one user, is then a sum over it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.logs.lazy.engines import RAW, beside, collect
from bayesdice_ppl.logs.lazy.survey import LEAD, Survey, adjacent, in_order, step_number
from bayesdice_ppl.logs.lazy.table import ACTION, ENDED, EPISODE, NEXT, REWARD, STATE, LazyTable

ONWARD, KIND, UNIT, START, AT = f"{RAW}onward", "kind", "unit", "start", "at"
"""The state that followed, or the row's own; what kind of row it is; its reward in units of the
log; whether its episode starts there; and its step."""
GOES_ON, OVER, UNKNOWN, LEFT_OUT = 0, 1, 2, 3
"""Kinds of rows: one that goes on, one that terminated, one whose next state is not known. With 3
more it is at a step that is left out with the last kind."""
KEYS = (STATE, ACTION, ONWARD, KIND)
"""What the rows of one line share."""
AT_ONCE = 8
"""Candidates whose sums are made in one pass over the rows."""
POWERS = 4
CODE = "code"
"""One number for the keys of a line."""


class Coefficients(NamedTuple):
    """What each of K lines adds to the errors of N values; a row with reward x adds a x + b.

    Attributes
    ----------
    slope, level
        a and b of each candidate and line, shape (N, K).
    start
        What a row adds beside, if an episode starts there, shape (N, K).
    weight
        How much error is expected of a row, shape (N, K).
    used
        1 for lines whose rows are used, 0 for others, shape (K,).
    """

    slope: Float[np.ndarray, "N K"]
    level: Float[np.ndarray, "N K"]
    start: Float[np.ndarray, "N K"]
    weight: Float[np.ndarray, "N K"]
    used: Float[np.ndarray, " K"]


class SumsOfGroups(NamedTuple):
    """Sums over the rows of each of G groups.

    Attributes
    ----------
    rows, used
        Number of rows, and of rows that are used, shape (G,).
    total, square
        Of the errors of rows and starts, and of their squares, shape (N, G).
    mass, mass_square
        Of the weights, and of their squares, shape (N, G).
    ended
        Number of rows that terminated, shape (G,).
    discounted, discounted_ended
        Of gamma^t over all rows, and over those that terminated, shape (G,).
    paid
        Of gamma^t times the reward, in units of the log, shape (G,).
    """

    rows: Float[np.ndarray, " G"]
    used: Float[np.ndarray, " G"]
    total: Float[np.ndarray, "N G"]
    square: Float[np.ndarray, "N G"]
    mass: Float[np.ndarray, "N G"]
    mass_square: Float[np.ndarray, "N G"]
    ended: Float[np.ndarray, " G"]
    discounted: Float[np.ndarray, " G"]
    discounted_ended: Float[np.ndarray, " G"]
    paid: Float[np.ndarray, " G"]


class LazyRows(NamedTuple):
    """Rows that stay where they are.

    Attributes
    ----------
    table, survey
        The log and what is known of it.
    """

    table: LazyTable
    survey: Survey

    @property
    def frame(self) -> nw.LazyFrame[Any]:
        """One row for each transition, with `KEYS`, `UNIT`, `START`, `AT` and the groups."""
        survey = self.survey
        ordered = in_order(self.table, survey)
        held = ordered.collect_schema().names()
        over = nw.col(ENDED) if ENDED in held else nw.lit(False)
        onward, known = self._onward(held)
        at = step_number(survey)
        kind = nw.when(over).then(nw.lit(OVER)).otherwise(nw.lit(GOES_ON))
        if known is not None:
            kind = nw.when(over | known).then(kind).otherwise(nw.lit(UNKNOWN))
        if survey.left_out:
            # A step with a next state that is not known is left out whole.
            kind = nw.when(at.is_in(list(survey.left_out))).then(kind + LEFT_OUT).otherwise(kind)
        follows = ~over if known is None else ~over & known
        scale = survey.sd if survey.sd > 0.0 else 1.0
        start = nw.when(at == 0).then(nw.lit(1)).otherwise(nw.lit(0))
        columns = [
            nw.col(STATE),
            nw.col(ACTION),
            nw.when(follows).then(onward).otherwise(self._state(held)).alias(ONWARD),
            kind.alias(KIND),
            ((nw.col(REWARD) - survey.mean) / scale).alias(UNIT),
            start.alias(START),
            at.alias(AT),
        ]
        others = [nw.col(own) for own in self.table.others.values()]
        if EPISODE in held:
            others.append(nw.col(EPISODE))
        return ordered.select(*columns, *others)

    def _onward(self, held: list[str]) -> tuple[nw.Expr, nw.Expr | None]:
        """The state that followed, and where it is known; None: wherever a row goes on."""
        survey = self.survey
        if not survey.windowed:
            if NEXT not in held:
                return nw.col(STATE), nw.lit(False)
            return nw.col(NEXT), None if not survey.missing_steps else ~nw.col(NEXT).is_null()
        near = adjacent(survey)
        if NEXT not in held:
            return nw.col(LEAD), near
        given = ~nw.col(NEXT).is_null()
        lead = nw.col(LEAD)
        if self.table.kind("next_state").is_float():
            lead = lead.cast(nw.Float64)
        return nw.when(given).then(nw.col(NEXT)).otherwise(lead), given | near

    def _state(self, held: list[str]) -> nw.Expr:
        """The row's own state, of the type of the next state."""
        own = nw.col(STATE)
        if NEXT in held and self.table.kind("next_state").is_float():
            return own.cast(nw.Float64)
        return own

    def counted(self) -> pl.DataFrame:
        """The lines: `KEYS`, the number of their rows and starts, and sums over their rewards.

        These are the least and the largest, ``lowest`` and ``highest``, and the sums of powers,
        ``power_1`` to ``power_4``.
        """
        unit = nw.col(UNIT)
        square = unit * unit
        powers = (unit, square, square * unit, square * square)
        named = [power.alias(f"power_{k}") for k, power in enumerate(powers, start=1)]
        found = collect(
            self.frame.select(*KEYS, START, *named)
            .group_by(*KEYS)
            .agg(
                nw.len().alias("rows"),
                nw.col(START).sum(),
                nw.col("power_1").min().alias("lowest"),
                nw.col("power_1").max().alias("highest"),
                *(nw.col(f"power_{k}").sum() for k in range(1, POWERS + 1)),
            )
        )
        # Engines hand groups over in any order.
        return found.sort(*KEYS)

    def group_sums(
        self,
        columns: Sequence[str],
        keys: pl.DataFrame,
        numbers: Coefficients,
        gamma: float,
    ) -> SumsOfGroups:
        """Sums over groups of rows, in one pass for every few candidates.

        Parameters
        ----------
        columns
            What the rows of a group share: columns of the table, or ``episode``.
        keys
            The lines, in the order of the numbers.
        numbers
            What each line adds.
        gamma
            Discount.
        """
        own = [EPISODE if name == "episode" else self.table.others[name] for name in columns]
        n = len(numbers.slope)
        parts = [range(first, min(first + AT_ONCE, n)) for first in range(0, n, AT_ONCE)]
        found = [self._pass(own, keys, numbers, gamma, part) for part in parts]

        def column(name: str) -> Float[np.ndarray, " G"]:
            return found[0][name].cast(pl.Float64).to_numpy()

        def each(name: str) -> Float[np.ndarray, "N G"]:
            several = zip(found, parts, strict=True)
            return np.stack([one[f"{name}_{j}"].to_numpy() for one, part in several for j in part])

        return SumsOfGroups(
            column("rows"),
            column("used"),
            *(each(name) for name in ("total", "square", "mass", "mass_square")),
            *(column(name) for name in ("ended", "fades", "fades_ended", "paid")),
        )

    def _pass(
        self,
        own: list[str],
        keys: pl.DataFrame,
        numbers: Coefficients,
        gamma: float,
        part: range,
    ) -> pl.DataFrame:
        small = pl.DataFrame(
            {
                f"{name}_{j}": array[j]
                for j in part
                for name, array in zip(numbers._fields[:-1], numbers[:-1], strict=True)
            }
        ).with_columns(pl.Series("used", numbers.used))
        frame = self._beside(keys, small)
        over = (nw.col(KIND) == OVER) | (nw.col(KIND) == OVER + LEFT_OUT)
        ended = nw.when(over).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
        fades = _fading(gamma)
        start = nw.col(START).cast(nw.Float64)
        made = [fades.alias("fades"), (fades * nw.col(UNIT)).alias("paid"), nw.col("used")]
        several = ["used", "fades", "paid"]
        if self.survey.ended[0]:
            made += [ended.alias("ended"), (fades * ended).alias("fades_ended")]
            several += ["ended", "fades_ended"]
        sums = [nw.col(name).sum() for name in several]
        for j in part:
            error = nw.col(f"slope_{j}") * nw.col(UNIT) + nw.col(f"level_{j}")
            begins, weight = start * nw.col(f"start_{j}"), nw.col(f"weight_{j}")
            made += [
                (error + begins).alias(f"total_{j}"),
                (error * error + begins * begins).alias(f"square_{j}"),
                weight.alias(f"mass_{j}"),
                (weight * weight).alias(f"mass_square_{j}"),
            ]
            sums += [
                nw.col(f"{name}_{j}").sum() for name in ("total", "square", "mass", "mass_square")
            ]
        found = collect(frame.select(*own, *made).group_by(*own).agg(nw.len().alias("rows"), *sums))
        none = [name for name in ("ended", "fades_ended") if name not in found.columns]
        return found.sort(*own).with_columns(pl.lit(0.0).alias(name) for name in none)

    def _beside(self, keys: pl.DataFrame, small: pl.DataFrame) -> nw.LazyFrame[Any]:
        """The rows, each with the numbers of its line; the keys are those of all lines.

        One number stands for the four keys where labels are integers: a join on it is faster.
        """
        frame, columns = self.frame, [keys[name] for name in KEYS]
        if not all(column.dtype.is_integer() for column in columns):
            return frame.join(beside(frame, keys.hstack(small)), on=list(KEYS), how="inner")
        code, place, size = nw.lit(0), np.zeros(len(keys), dtype=object), 1
        for name, column in zip(KEYS, columns, strict=True):
            low, high = int(column.min()), int(column.max())  # type: ignore[arg-type]
            span = high - low + 1
            size *= span
            if size >= 2**62:
                return frame.join(beside(frame, keys.hstack(small)), on=list(KEYS), how="inner")
            code = code * span + (nw.col(name).cast(nw.Int64) - low)
            place = place * span + (column.cast(pl.Int64).to_numpy().astype(object) - low)
        small = small.with_columns(pl.Series(CODE, place.astype(np.int64)))
        return frame.with_columns(code.alias(CODE)).join(beside(frame, small), on=CODE, how="inner")

    def group_sizes(self, columns: Sequence[str]) -> Int[np.ndarray, " G"]:
        """Number of rows in each group, in no order."""
        own = [EPISODE if name == "episode" else self.table.others[name] for name in columns]
        found = collect(self.frame.select(*own).group_by(*own).agg(nw.len().alias("rows")))
        return found["rows"].cast(pl.Int64).to_numpy()

    def odd_reward(self, low: float, high: float, unit: float | None = None) -> float | None:
        """A reward of the table that is not from low to high; None if there is none.

        Parameters
        ----------
        low, high
            The ends.
        unit
            Size of the steps from low in which rewards must come; without it any number may.
        """
        reward = nw.col(REWARD)
        odd = (reward < low) | (reward > high)
        if unit is not None:
            steps = (reward - low) / unit
            odd = odd | (steps != steps.round(0))
        found = collect(self.table.frame.filter(odd).select(REWARD).head(1))
        return float(found[REWARD][0]) if found.height else None

    def commonest(
        self, keys: pl.DataFrame, used: Bool[np.ndarray, " K"], n_used: int
    ) -> float | None:
        """The reward of more than half of the used rows, as they are summed; None if there is none.

        Parameters
        ----------
        keys
            The lines.
        used
            Which lines count.
        n_used
            How many rows these have.
        """
        frame = self._beside(keys, pl.DataFrame({"counts": used})).filter(nw.col("counts"))
        by = frame.select(UNIT).group_by(UNIT).agg(nw.len().alias("rows"))
        found = collect(by.filter(nw.col("rows") * 2 > n_used))
        return float(found[UNIT][0]) if found.height else None

    def largest(
        self,
        keys: pl.DataFrame,
        numbers: tuple[Bool[np.ndarray, " K"], Float[np.ndarray, " K"], Float[np.ndarray, " K"]],
        common: float | None,
        size: Callable[[int], int],
    ) -> tuple[int, Float[np.ndarray, " k"]]:
        """The largest of the numbers a x + b of rows with a reward x.

        Parameters
        ----------
        keys
            The lines.
        numbers
            Which lines count, and a and b of each, shapes (K,).
        common
            A reward whose rows do not count.
        size
            How many are asked for, less one, of as many rows as count.

        Returns
        -------
        (int, array)
            How many rows count, and the largest of their numbers.
        """
        used, slope, level = numbers
        small = pl.DataFrame({"slope": slope, "level": level, "counts": used})
        # All lines are joined: the one number of a row is that of no other line among all alone.
        frame = self._beside(keys, small).filter(nw.col("counts"))
        if common is not None:
            frame = frame.filter(nw.col(UNIT) != common)
        frame = frame.select((nw.col("slope") * nw.col(UNIT) + nw.col("level")).alias("number"))
        count = int(collect(frame.select(nw.len().alias("n")))["n"][0])
        found = collect(frame.sort("number", descending=True).head(size(count) + 1))
        return count, found["number"].to_numpy()

    def check_groups(self, name: str) -> None:
        """Refuse a column that does not say of every row which group it is in.

        Raises
        ------
        SettingsError
            Rows hold none.
        """
        nulls = self.survey.nulls[name]
        if nulls:
            raise SettingsError(
                f"cluster={name!r}: expected a group for every row of a log that is counted where "
                f"it lies, found none in {nulls:,} rows. Fill them in, each with a value of its "
                "own if it stands alone."
            )


def _fading(gamma: float) -> nw.Expr:
    """gamma^t."""
    if gamma == 0.0:
        return nw.when(nw.col(AT) == 0).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
    if gamma == 1.0:
        return nw.lit(1.0)
    return (nw.col(AT).cast(nw.Float64) * float(np.log(gamma))).exp()
