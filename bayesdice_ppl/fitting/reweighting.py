"""Whether a state holds what matters: rows of one pair are weighted anew, and the value must stay.

If it does, the error of a row has mean zero given its pair, whatever else is known of the row. Then
any weights of the rows of a pair lead to the same value. Three kinds of weights are tried: as if
shares of actions had been the same along the whole log, or in all groups of a column, and as if
propensities had been the same within a state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from bayesdice_ppl import codes
from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.alike import (
    UNITS,
    Past,
    centered_errors,
    combine_chances,
    lay_past,
    predicted,
    units_of,
)
from bayesdice_ppl.fitting.gauges import Gauge
from bayesdice_ppl.fitting.inputs import Inputs
from bayesdice_ppl.inference import Problem

BY_CHANCE = 0.003
"""Share of logs in which one gauge speaks by chance, over all candidates."""
PERIODS = (2, 6)
"""Numbers of stretches that the log is cut into."""
FEWEST, FEWEST_UNITS = 20, 10
"""Rows below which nothing can be seen, and units for each period on average."""
_DRIFTED = (
    "rests on a log in which rewards and shares of actions changed together along the rows. With "
    "each period's own shares its value moves by {:.1f} of the sds that independent rows give it. "
    "Put the period into the state, or log a fixed policy."
)
_CHANGED = (
    "rests on a log whose rewards changed along the rows, and is a belief of their average. With "
    "the rewards of the last {} of the log its value moves by {} of the sds that independent rows "
    "give it. Use later rows alone, or put the period into the state."
)
_LAST = dict(zip(PERIODS, ("half", "sixth"), strict=True))
MANY_GROUPS, ROWS_EACH, MOST_GROUPS = 10, 50, 200
"""Groups of a column from which they may be a sample of many, fewest rows of each on average, and
most groups that are looked at."""
CLEAR = 3.0
"""Standard errors of independent groups by which a move is none of chance."""
_APART = (
    "rests on a log in which rewards and shares of actions differ together between the groups of "
    "{column}. With each group's own shares its value moves by {{:.1f}} sds of its belief. Put "
    "{column} into the state."
)
_HIDDEN = (
    "rests on a log whose propensities vary within a state, and rewards vary with them: the "
    "logging policy saw something that the state does not hold. With rows weighted by their "
    "propensities its value moves by {:.1f} sds of its belief. Put what the policy saw into the "
    "state."
)


class SortedRows(NamedTuple):
    """Rows that share their cell and what else is looked at, counted.

    Attributes
    ----------
    cell, pair
        Of each group, shape (G,).
    other
        What else its rows share, as a code, shape (G,).
    rows, reward, square
        Number of rows, and the sums of their rewards and of the squares, shape (G,).
    of_row
        The group of each row, shape (n,).
    """

    cell: Int[np.ndarray, " G"]
    pair: Int[np.ndarray, " G"]
    other: Int[np.ndarray, " G"]
    rows: Float[np.ndarray, " G"]
    reward: Float[np.ndarray, " G"]
    square: Float[np.ndarray, " G"]
    of_row: Int[np.ndarray, " n"]


class Errors(NamedTuple):
    """Temporal-difference errors of one candidate, from the mean of their pair.

    Attributes
    ----------
    total, square
        Sums of the errors of each group and of their squares, shape (G,).
    visits
        Rows of each pair, shape (P,).
    """

    total: Float[np.ndarray, " G"]
    square: Float[np.ndarray, " G"]
    visits: Float[np.ndarray, " P"]


class Move(NamedTuple):
    """What other weights of the rows do to one value.

    Attributes
    ----------
    size
        By how much the value moves.
    variance
        Of that by the noise of the errors.
    """

    size: float
    variance: float

    @property
    def beyond(self) -> float:
        """Root of the square that the move has beyond its variance."""
        return float(np.sqrt(max(self.size**2 - self.variance, 0.0)))


class Look(NamedTuple):
    """One way to weight the rows anew.

    Attributes
    ----------
    gauge
        What it is told by.
    reason
        What to say of it, with a place for its number.
    groups
        The rows, by what the weights depend on.
    factor
        By which a candidate's ratio is multiplied, shape (G,).
    kinds
        The rows by what errors may depend on, in one way and another.
    sampled
        Whether the groups may be a sample of many, whose own spread is no fault.
    """

    gauge: Gauge
    reason: str
    groups: SortedRows
    factor: Float[np.ndarray, " G"]
    kinds: tuple[Past, ...]
    sampled: bool = False


def group_rows(
    cell: Int[np.ndarray, " n"],
    pair_of_cell: Int[np.ndarray, " C"],
    reward: Float[np.ndarray, " n"],
    other: Int[np.ndarray, " n"],
) -> SortedRows:
    """Count the rows by their cell and by a code of what else is looked at.

    Parameters
    ----------
    cell, reward, other
        Of each row, shape (n,).
    pair_of_cell
        Shape (C,).
    """
    (cell, other), of_row = codes.combined(cell, other)
    count = np.bincount(of_row).astype(np.float64)
    return SortedRows(
        cell,
        pair_of_cell[cell],
        other,
        count,
        np.bincount(of_row, reward),
        np.bincount(of_row, reward**2),
        of_row,
    )


def errors_of(groups: SortedRows, error: Float[np.ndarray, " C"], n_pairs: int) -> Errors:
    """Errors of a candidate in each group.

    Parameters
    ----------
    groups
        The rows.
    error
        Error of each cell before its reward is added, shape (C,).
    n_pairs
        P.
    """
    own, visits = error[groups.cell], np.bincount(groups.pair, groups.rows, n_pairs)
    total = groups.reward + groups.rows * own
    square = groups.square + own * (2.0 * groups.reward + groups.rows * own)
    mean = (np.bincount(groups.pair, total, n_pairs) / np.maximum(visits, 1.0))[groups.pair]
    return Errors(
        total - groups.rows * mean,
        np.maximum(square - mean * (2.0 * total - groups.rows * mean), 0.0),
        visits,
    )


def move_of(groups: SortedRows, errors: Errors, weight: Float[np.ndarray, " G"]) -> Move:
    """What a candidate's value moves by, if its rows have these weights instead of one for a pair.

    Parameters
    ----------
    groups, errors
        The rows, and the candidate's errors.
    weight
        Of a row of each group, shape (G,).

    Notes
    -----
    With w the weights and e the errors, both from their means in the pair, it is sum w e / n. Its
    variance is sum w^2 e^2 / n^2, made larger for the means that were taken off.
    """
    n, centered = groups.rows.sum(), centered_weight(groups, weight)
    visits = errors.visits[groups.pair]
    scale = np.where(visits > 1.0, visits / np.maximum(visits - 1.0, 1.0), 0.0)
    variance = float((centered**2 * errors.square * scale).sum()) / n**2
    return Move(float(centered @ errors.total / n), variance)


def among_groups(
    groups: SortedRows, errors: Errors, weight: Float[np.ndarray, " G"], move: Move
) -> Move:
    """A move with the variance of independent groups; none where that explains it.

    Parameters
    ----------
    groups, errors, weight
        As for `move_of`.
    move
        What that gives.

    Notes
    -----
    Groups that differ by themselves, with shares that have nothing to do with how, move a value
    one way as often as the other.
    """
    each = centered_weight(groups, weight) * errors.total / groups.rows.sum()
    by_group = np.bincount(groups.other, each)
    variance = max(move.variance, float(by_group @ by_group))
    if move.size**2 <= CLEAR**2 * variance:
        return Move(0.0, variance)
    return Move(move.size, variance)


def centered_weight(groups: SortedRows, weight: Float[np.ndarray, " G"]) -> Float[np.ndarray, " G"]:
    """Weights from their mean in the pair."""
    sums = np.bincount(groups.pair, groups.rows * weight)
    mean = sums / np.maximum(np.bincount(groups.pair, groups.rows), 1.0)
    return np.asarray(weight - mean[groups.pair])


def share_of(groups: SortedRows, state_of_pair: Int[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
    """Share of each pair in the rows of its state, shape (P,)."""
    visits = np.bincount(groups.pair, groups.rows, len(state_of_pair))
    total = np.bincount(state_of_pair, visits)[state_of_pair]
    return np.asarray(visits / np.maximum(total, 1.0))


def share_anew(groups: SortedRows, state_of_pair: Int[np.ndarray, " P"]) -> Float[np.ndarray, " G"]:
    """Share of each pair in its state over that in the group's period, shape (G,)."""
    n_parts = int(groups.other.max()) + 1
    at = groups.pair * n_parts + groups.other
    within = state_of_pair[groups.pair] * n_parts + groups.other
    in_pair = np.bincount(at, groups.rows)[at]
    in_state = np.bincount(within, groups.rows)[within]
    return np.asarray(share_of(groups, state_of_pair)[groups.pair] * in_state / in_pair)


def shares_changed(groups: SortedRows, state_of_pair: Int[np.ndarray, " P"]) -> float:
    """Probability of shares of actions that differ as much between periods, if they are the same.

    Pearson's chi-square of actions by period, over all states.
    """
    from scipy.special import chdtrc

    n_parts = int(groups.other.max()) + 1
    at, of_group = codes.distinct(groups.pair * n_parts + groups.other)
    pair, rows = at // n_parts, np.bincount(of_group, groups.rows)
    within = state_of_pair[pair] * n_parts + at % n_parts
    in_state = np.bincount(within, rows)
    share = share_of(groups, state_of_pair)[pair]
    # Empty places of the table add their expected number, which the rest of the sum leaves.
    statistic = float((rows**2 / (in_state[within] * share)).sum() - rows.sum())
    actions = np.bincount(state_of_pair[np.unique(pair)])
    periods = np.bincount(np.flatnonzero(in_state) // n_parts, minlength=len(actions))
    freedom = float(((actions - 1) * np.maximum(periods - 1, 0))[actions > 0].sum())
    return float(chdtrc(freedom, statistic)) if freedom > 0.0 else 1.0


def looks_of(inputs: Inputs, problem: Problem, *, sound: bool) -> Iterator[Look]:
    """Every way in which the rows of a log are weighted anew.

    Parameters
    ----------
    inputs, problem
        The log and the first estimates.
    sound
        Whether the log has propensities that fit its actions.
    """
    cells, cell = inputs.cells, inputs.cell_of_row
    n = len(cell)
    if n < FEWEST:
        return

    def grouped(other: Int[np.ndarray, " n"]) -> SortedRows:
        return group_rows(cell, cells.pair, inputs.reward, other)

    yield from _by_columns(inputs, grouped)
    # A policy that followed its rewards moves with them by itself, and is told of as such.
    if problem.unit is not None and problem.unit.adaptive:
        return
    pair, unit = inputs.pairs.of_row, units_of(inputs, problem, UNITS)
    for parts in PERIODS:
        if int(unit.max()) + 1 < FEWEST_UNITS * parts:
            continue
        period = np.arange(n) * parts // n
        groups = grouped(period)
        kinds = tuple(
            lay_past("", 1 + code, pair, unit) for code in (period, parts * pair + period)
        )
        last = parts * (groups.other == parts - 1.0)
        yield Look(gauges.CHANGED, _CHANGED.format(_LAST[parts], "{:.1f}"), groups, last, kinds)
        if shares_changed(groups, cells.pair_state) > BY_CHANCE / len(PERIODS):
            continue
        factor = share_anew(groups, cells.pair_state)
        yield Look(gauges.TOGETHER, _DRIFTED, groups, factor, kinds)
    chance = inputs.logs.propensity
    if sound and chance is not None:
        levels, level = np.unique(chance[inputs.rows.mask], return_inverse=True)
        groups = grouped(level)
        if len(groups.rows) > len(np.unique(groups.cell)):
            share = share_of(groups, cells.pair_state)[groups.pair]
            mean = np.bincount(pair, levels[level]) / np.maximum(np.bincount(pair), 1)
            high = (levels[level] > mean[pair]).astype(np.int64)
            kinds = (lay_past("", 1 + 2 * pair + high, pair, unit),)
            yield Look(gauges.HIDDEN, _HIDDEN, groups, share / levels[groups.other], kinds)


def _by_columns(
    inputs: Inputs, grouped: Callable[[Int[np.ndarray, " n"]], SortedRows]
) -> Iterator[Look]:
    """The rows by the columns whose rows may move together, and by other texts of few values.

    What a text is that no name tells, such as a country, may follow the action. So it only warns.
    """
    logs, mask, pair = inputs.logs, inputs.rows.mask, inputs.pairs.of_row
    n = len(pair)
    columns = {}
    for name, series in logs.groups.items():
        of_texts = series.dtype in (pl.String, pl.Categorical, pl.Enum)
        if not (of_texts or name in logs.looked_at or name in logs.of_few_groups):
            continue
        # Rows without an entry are one group here: they are not taken for units.
        known = logs.group_codes(name)
        empty = series.is_null() | (series.is_nan() if series.dtype.is_float() else False)
        known = np.where(empty.fill_null(True).to_numpy(), int(known.max()) + 1, known)
        code = codes.distinct(known[mask])[1]
        if 2 <= int(code.max()) + 1 <= min(n / ROWS_EACH, MOST_GROUPS):
            columns[name] = code
    # Episodes are independent given their group; so are rows that are episodes of their own.
    unit = codes.distinct(logs.episode[mask])[1]
    for name, code in columns.items():
        groups = grouped(code)
        if shares_changed(groups, inputs.cells.pair_state) > BY_CHANCE / len(columns):
            continue
        parts = int(code.max()) + 1
        kinds = tuple(lay_past("", 1 + each, pair, unit) for each in (code, parts * pair + code))
        factor = share_anew(groups, inputs.cells.pair_state)
        named = name in logs.looked_at
        told = _APART if named else f"{_APART} (If it follows the action, it is no fault.)"
        reason = told.format(column=name.replace("{", "{{").replace("}", "}}"))
        gauge = gauges.APART if named else gauges.APART._replace(abstains=math.inf)
        yield Look(gauge, reason, groups, factor, kinds, sampled=parts >= MANY_GROUPS)


def unlike_rows(
    inputs: Inputs, problem: Problem, sd: Float[np.ndarray, " N"], *, sound: bool
) -> list[SupportWarning]:
    """Warn where rows of one pair are not alike, so that other weights of them move a value.

    Parameters
    ----------
    inputs, problem
        The log, and what was fitted of the mean reward.
    sd
        Sd of each belief, shape (N,). Where stretches of rows move together, drift itself has made
        it wider, and that is taken off.
    sound
        Whether the log has propensities that fit its actions.
    """
    settings, names = inputs.settings, inputs.names
    if not (settings.tabular and settings.plain and settings.constraint.value_constraint):
        return []
    unit, plain = problem.unit, np.maximum(sd, 1e-300)
    if unit is not None and any(each.by_order for each in unit.groupings):
        plain = plain / unit.wider[: len(names)]
    pair, error = inputs.pairs.of_row, np.asarray(problem.pilots.error)
    ratio = np.asarray(problem.pilots.by_pair)
    found: dict[tuple[str, str], tuple[float, Look]] = {}
    for look in looks_of(inputs, problem, sound=sound):
        # At gamma = 0 errors are those of the rewards, whoever the candidate is.
        several = range(len(names) if settings.gamma > 0.0 else 1)
        # One candidate's rows at a time: those of all would fill the memory.
        chances = []
        for j in several:
            row = centered_errors(inputs.reward + error[j][inputs.cell_of_row], pair)
            chances.append([predicted(row, kind).chance for kind in look.kinds])
        limit = BY_CHANCE / len(look.kinds)
        if look.gauge in (gauges.TOGETHER, gauges.CHANGED):
            limit /= len(PERIODS)
        if all(combine_chances(column) > limit for column in np.array(chances).T):
            continue
        groups = look.groups
        for j, name in enumerate(names):
            errors = errors_of(groups, error[j], ratio.shape[1])
            weight = ratio[j][groups.pair] * look.factor
            move = move_of(groups, errors, weight)
            if look.sampled:
                move = among_groups(groups, errors, weight, move)
            number = move.beyond / float(plain[j])
            if number > found.get((look.gauge.name, name), (0.0, look))[0]:
                found[look.gauge.name, name] = number, look
    return [
        warning
        for (_, name), (number, look) in found.items()
        for warning in look.gauge.judge(name, number, look.reason.format(number))
    ]
