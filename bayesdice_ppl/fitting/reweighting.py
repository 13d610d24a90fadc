"""Whether a state holds what matters: rows of one pair are weighted anew, and the value must stay.

If it does, the error of a row has mean zero given its pair, whatever else is known of the row. Then
any weights of the rows of a pair lead to the same value. Two kinds of weights are tried: as if
shares of actions had been the same along the whole log, and as if propensities had been the same
within a state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.gauges import Gauge
from bayesdice_ppl.fitting.inputs import Inputs
from bayesdice_ppl.inference import Problem

BY_CHANCE = 0.003
"""Share of logs in which one gauge speaks by chance, over all candidates."""
PERIODS = (2, 6)
"""Numbers of stretches that the log is cut into."""
FEWEST, FEWEST_EPISODES = 20, 10
"""Rows, and episodes, below which nothing can be seen."""
_DRIFTED = (
    "rests on a log in which rewards and shares of actions changed together along the rows. With "
    "each period's own shares its value moves by {:.1f} sds of its belief. Put the period into the "
    "state, or log a fixed policy."
)
_HIDDEN = (
    "rests on a log whose propensities vary within a state, and rewards vary with them: the "
    "logging policy saw something that the state does not hold. With rows weighted by their "
    "propensities its value moves by {:.1f} sds of its belief. Put what the policy saw into the "
    "state."
)


class Groups(NamedTuple):
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
        Of that, if the state holds what matters.
    degrees_of_freedom
        Of the variance: as of that many errors of equal weight.
    """

    size: float
    variance: float
    degrees_of_freedom: float

    @property
    def chance(self) -> float:
        """Probability of a move as large, to either side, if the state holds what matters."""
        from scipy.special import stdtr

        if not self.variance > 0.0:
            return 1.0
        score = abs(self.size) / np.sqrt(self.variance)
        return float(2.0 * stdtr(max(self.degrees_of_freedom, 1.0), -score))


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
    between
        Whether shares of actions are compared between periods.
    """

    gauge: Gauge
    reason: str
    groups: Groups
    factor: Float[np.ndarray, " G"]
    between: bool = False


def group_rows(
    cell: Int[np.ndarray, " n"],
    pair_of_cell: Int[np.ndarray, " C"],
    reward: Float[np.ndarray, " n"],
    other: Int[np.ndarray, " n"],
) -> Groups:
    """Count the rows by their cell and by a code of what else is looked at.

    Parameters
    ----------
    cell, reward, other
        Of each row, shape (n,).
    pair_of_cell
        Shape (C,).
    """
    size = int(other.max()) + 1
    key, of_row = np.unique(cell.astype(np.int64) * size + other, return_inverse=True)
    count = np.bincount(of_row).astype(np.float64)
    return Groups(
        key // size,
        pair_of_cell[key // size],
        key % size,
        count,
        np.bincount(of_row, reward),
        np.bincount(of_row, reward**2),
        of_row,
    )


def errors_of(groups: Groups, error: Float[np.ndarray, " C"], n_pairs: int) -> Errors:
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


def move_of(groups: Groups, errors: Errors, weight: Float[np.ndarray, " G"]) -> Move:
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
    parts = centered**2 * errors.square * scale / n**2
    variance, each = float(parts.sum()), float((parts**2 / groups.rows).sum())
    freedom = variance**2 / each if each > 0.0 else np.inf
    return Move(float(centered @ errors.total / n), variance, freedom)


def centered_weight(groups: Groups, weight: Float[np.ndarray, " G"]) -> Float[np.ndarray, " G"]:
    """Weights from their mean in the pair."""
    sums = np.bincount(groups.pair, groups.rows * weight)
    mean = sums / np.maximum(np.bincount(groups.pair, groups.rows), 1.0)
    return np.asarray(weight - mean[groups.pair])


def share_of(groups: Groups, state_of_pair: Int[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
    """Share of each pair in the rows of its state, shape (P,)."""
    visits = np.bincount(groups.pair, groups.rows, len(state_of_pair))
    total = np.bincount(state_of_pair, visits)[state_of_pair]
    return np.asarray(visits / np.maximum(total, 1.0))


def share_anew(groups: Groups, state_of_pair: Int[np.ndarray, " P"]) -> Float[np.ndarray, " G"]:
    """Share of each pair in its state over that in the group's period, shape (G,)."""
    n_parts = int(groups.other.max()) + 1
    at = groups.pair * n_parts + groups.other
    within = state_of_pair[groups.pair] * n_parts + groups.other
    in_pair = np.bincount(at, groups.rows)[at]
    in_state = np.bincount(within, groups.rows)[within]
    return np.asarray(share_of(groups, state_of_pair)[groups.pair] * in_state / in_pair)


def share_noise(
    groups: Groups,
    errors: Errors,
    ratio: Float[np.ndarray, " P"],
    state_of_pair: Int[np.ndarray, " P"],
) -> float:
    """Variance of a move by shares that differ by chance, where rewards do drift.

    Parameters
    ----------
    groups, errors
        The rows by period, and the candidate's errors.
    ratio
        The candidate's ratio of each pair, shape (P,).
    state_of_pair
        Shape (P,).

    Notes
    -----
    In a period a state's actions are drawn anew, and the drift of its pairs goes with how often
    each was drawn. Of the variance of a multinomial the noise of the drift itself is taken off.
    """
    n, n_parts = groups.rows.sum(), int(groups.other.max()) + 1
    at, of_group = np.unique(groups.pair * n_parts + groups.other, return_inverse=True)
    pair = at // n_parts
    count = np.bincount(of_group, groups.rows)
    drift = np.bincount(of_group, errors.total) / count
    within = state_of_pair[pair] * n_parts + at % n_parts
    share = share_of(groups, state_of_pair)[pair]
    moved = ratio[pair] * drift / n
    visits = np.bincount(within, count)
    mean, square = (np.bincount(within, share * each) for each in (moved, moved**2))
    noise = np.bincount(groups.pair, errors.square, len(ratio))
    noise = (noise / np.maximum(errors.visits - 1.0, 1.0))[pair] / count
    by_chance = visits[within] * share * (ratio[pair] / n) ** 2 * noise
    return max(float(visits @ (square - mean**2)) - float(by_chance.sum()), 0.0)


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

    def grouped(other: Int[np.ndarray, " n"]) -> Groups:
        return group_rows(cell, cells.pair, inputs.reward, other)

    # A policy that followed its rewards moves with them by itself, and is told of as such.
    follows = problem.unit is not None and problem.unit.adaptive
    if not follows:
        for parts in PERIODS:
            groups = grouped(np.arange(n) * parts // n)
            factor = share_anew(groups, cells.pair_state)
            yield Look(gauges.TOGETHER, _DRIFTED, groups, factor, between=True)
        chance = inputs.logs.propensity
        if sound and chance is not None:
            levels, level = np.unique(chance[inputs.rows.mask], return_inverse=True)
            groups = grouped(level)
            if len(groups.rows) > len(np.unique(groups.cell)):
                share = share_of(groups, cells.pair_state)[groups.pair]
                yield Look(gauges.HIDDEN, _HIDDEN, groups, share / levels[groups.other])


def unlike_rows(
    inputs: Inputs, problem: Problem, sd: Float[np.ndarray, " N"], *, sound: bool
) -> list[SupportWarning]:
    """Warn where rows of one pair are not alike, so that other weights of them move a value.

    Parameters
    ----------
    inputs, problem
        The log, and what was fitted of the mean reward.
    sd
        Sd of each belief, shape (N,).
    sound
        Whether the log has propensities that fit its actions.
    """
    settings = inputs.settings
    if not (settings.tabular and settings.plain and settings.constraint.value_constraint):
        return []
    names = inputs.names
    worst: dict[tuple[str, str], tuple[float, Look]] = {}
    looks = list(looks_of(inputs, problem, sound=sound))
    for look in looks:
        chance = BY_CHANCE / len(names)
        if look.between:
            chance /= len(PERIODS)
        for j, name in enumerate(names):
            number = _number(look, inputs, problem, j, chance) / max(float(sd[j]), 1e-300)
            if number > worst.get((look.gauge.name, name), (0.0, look))[0]:
                worst[look.gauge.name, name] = number, look
    return [
        warning
        for (_, name), (number, look) in worst.items()
        for warning in look.gauge.judge(name, number, look.reason.format(number))
    ]


def _number(look: Look, inputs: Inputs, problem: Problem, j: int, chance: float) -> float:
    """By how much a value moves, or 0 if that may be by chance."""
    groups, pilots, cells = look.groups, problem.pilots, inputs.cells
    ratio, error = (np.asarray(each)[j] for each in (pilots.by_pair, pilots.error))
    errors = errors_of(groups, error, len(ratio))
    weight = ratio[groups.pair] * look.factor
    move = move_of(groups, errors, weight)
    if move.chance > chance:
        return 0.0
    if look.between:
        more = share_noise(groups, errors, ratio, cells.pair_state)
        move = move._replace(variance=move.variance + more)
    for code in _units(inputs, problem):
        move = _by_unit(move, groups, errors, weight, error, inputs, code)
    return abs(move.size) if move.chance <= chance else 0.0


def _units(inputs: Inputs, problem: Problem) -> list[Int[np.ndarray, " n"]]:
    """Groups of rows that may move together: episodes, and columns that the belief has as units."""
    episode = inputs.logs.episode[inputs.rows.mask]
    found = [episode] if FEWEST_EPISODES <= len(np.unique(episode)) < len(episode) else []
    if problem.unit is not None:
        found += [each.of_row for each in problem.unit.groupings if not each.by_order]
    return found


def _by_unit(
    move: Move,
    groups: Groups,
    errors: Errors,
    weight: Float[np.ndarray, " G"],
    error: Float[np.ndarray, " C"],
    inputs: Inputs,
    code: Int[np.ndarray, " n"],
) -> Move:
    """The same move with the variance that rows of one unit give it, if that is larger."""
    each = inputs.reward + error[groups.cell][groups.of_row]
    pair = inputs.pairs.of_row
    each = each - (np.bincount(pair, each) / np.maximum(errors.visits, 1.0))[pair]
    sums = np.bincount(code, centered_weight(groups, weight)[groups.of_row] * each)
    n, n_units = groups.rows.sum(), len(np.unique(code))
    variance = float(sums @ sums) / n**2 * n_units / (n_units - 1.0)
    if variance <= move.variance:
        return move
    fourth = float((sums**4).sum())
    return Move(move.size, variance, float(sums @ sums) ** 2 / fourth)
