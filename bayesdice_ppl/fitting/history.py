"""Whether a state is Markov: what came before a step must not predict its error.

Given its state and action, the temporal-difference error of a step has mean zero whatever came
before: which pair one step earlier, or two or three, and how many steps. If different episodes have
like errors after like pasts, the state is not Markov. What came before may do one thing in one pair
and the opposite in another, as where a state lacks a velocity. So the step before is looked at in
each pair too. Then the value is estimated anew with rows
weighted as the candidate would get to them from their past, which says how far it may be off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.codes import combined
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.alike import (
    UNKNOWN,
    Past,
    centered_errors,
    combine_chances,
    lay_past,
    predicted,
    units_of,
)
from bayesdice_ppl.fitting.inputs import Inputs
from bayesdice_ppl.inference import Problem

BY_CHANCE = 0.003
"""Share of logs in which the gauge speaks by chance, over all candidates and pasts."""
LAGS = 3
"""Most steps back."""
_TOLD = (
    "what was done one step before",
    "what was done two steps before",
    "what was done three steps before",
    "the number of steps since the start",
)
_WHEN = (1, 2, 3, 0, 1, 1)
"""How many steps back each past is that is looked at; 0 for the number of steps."""
_ENOUGH = 5
"""Fewest rows of one past in one pair."""
STRETCHES = 20
"""Stretches of rows that are taken for units where there are few episodes."""
START = 1
"""Code of a row that nothing came before; others have 2 more than the pair."""
_REASON = (
    "rests on states that are not Markov: given state and action, {past} predicts what follows. "
    "This may move its value by {number:.1f} sds of its belief. Put {past} into the state, or what "
    "it stands for."
)


class Steps(NamedTuple):
    """The rows of a log as steps that follow each other.

    Attributes
    ----------
    pair
        Pair of each row, shape (n,).
    before
        `UNKNOWN`, `START`, or 2 more than the pair of the row before, shape (n,).
    unit
        Rows of one code may move together, shape (n,).
    share
        Share of each pair in the rows of its state, shape (P,).
    made_up
        Rows of each pair that did not terminate, over those that a row follows, shape (P,).
    """

    pair: Int[np.ndarray, " n"]
    before: Int[np.ndarray, " n"]
    unit: Int[np.ndarray, " n"]
    share: Float[np.ndarray, " P"]
    made_up: Float[np.ndarray, " P"]


def steps_of(inputs: Inputs, problem: Problem) -> Steps:
    """Lay out the rows that are used as steps."""
    logs, pair = inputs.logs, inputs.pairs.of_row
    row = np.flatnonzero(inputs.rows.mask)
    episode, n_pairs = logs.episode[row], len(inputs.cells.pair_state)
    starts = np.r_[True, logs.episode[1:] != logs.episode[:-1]][row]
    follows = np.zeros(len(row), dtype=bool)
    follows[1:] = (np.diff(row) == 1) & (np.diff(episode) == 0)
    follows[1:] &= logs.next_state[row[:-1]] == logs.state[row[1:]]
    before = np.where(follows, np.r_[0, pair[:-1]] + 2, np.where(starts, START, UNKNOWN))
    visits = np.bincount(pair, minlength=n_pairs).astype(np.float64)
    in_state = np.bincount(inputs.cells.pair_state, visits)[inputs.cells.pair_state]
    cells = inputs.cells
    went_on = np.bincount(cells.pair, cells.count * (1.0 - cells.terminated), n_pairs)
    followed = np.bincount(before, minlength=n_pairs + 2)[2:]
    return Steps(
        pair,
        before,
        units_of(inputs, problem, STRETCHES),
        visits / np.maximum(in_state, 1.0),
        np.where(followed > 0, went_on / np.maximum(followed, 1), 0.0),
    )


def weights_ahead(
    weight: Float[np.ndarray, " n"],
    steps: Steps,
    likely: Float[np.ndarray, " n"],
    entering: float,
    gamma: float,
) -> Float[np.ndarray, " n"]:
    """Weights of rows as the candidate gets to them from the rows before, which have weights.

    Parameters
    ----------
    weight
        Of each row, shape (n,).
    steps
        The log.
    likely
        Candidate's probability of each action over its share in the state, shape (n,).
    entering
        Mass that enters by first states per step.
    gamma
        Discount.

    Notes
    -----
    A row after another has gamma times its weight times ``likely``, a first row entering n / m
    times ``likely``. Rows that no row follows are made up for by others of their pair.
    """
    found = np.zeros(len(weight))
    found[1:] = gamma * weight[:-1] * steps.made_up[steps.pair[:-1]]
    first = steps.before == START
    found[first] = entering * len(weight) / max(int(first.sum()), 1)
    found[steps.before == UNKNOWN] = 0.0
    return np.asarray(found * likely)


def likely_move(
    error: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    past: Int[np.ndarray, " n"],
    steps: Steps,
    variance: float,
) -> float:
    """Root mean square of what other weights move the value by, given how they seem to move it.

    Parameters
    ----------
    error
        Errors, from the mean of their pair, shape (n,).
    weight
        The weights, shape (n,).
    past
        Code of what came before, shape (n,).
    steps
        The log.
    variance
        Of the mean errors after each past.

    Notes
    -----
    The move is sum_k c_k b_k, with c_k the sum of the weights of rows after k, from their means in
    the pair, over n. With b_k drawn with the given variance it has a normal prior; sum w e / n is a
    measurement of it, with the standard error of its sums over units.
    """
    n, visits = len(error), np.bincount(steps.pair)
    off = weight - (np.bincount(steps.pair, weight) / np.maximum(visits, 1))[steps.pair]
    each = off * error / n
    by_unit = np.bincount(steps.unit, each)
    noise = max(float(each @ each), float(by_unit @ by_unit))
    after = np.bincount(past, off) / n
    prior = max(variance, 0.0) * float(after @ after)
    if not prior > 0.0:
        return 0.0
    kept = prior / (prior + noise)
    return float(np.sqrt((kept * each.sum()) ** 2 + kept * noise))


def pasts_of(inputs: Inputs, steps: Steps) -> list[Past]:
    """Everything of the past that is looked at, in the order of `_WHEN`."""
    code, found = steps.before, []
    for name in _TOLD[:LAGS]:
        known = np.where(code > START, code, UNKNOWN)
        found.append(lay_past(name, known, steps.pair, steps.unit))
        code = np.where(steps.before > START, np.r_[UNKNOWN, code[:-1]], UNKNOWN)
    # Doubling steps: 0, 1, 2 to 3, 4 to 7, and so on.
    since = np.frexp(inputs.logs.step[inputs.rows.mask])[1].astype(np.int64)
    found.append(lay_past(_TOLD[LAGS], since + 1, steps.pair, steps.unit))
    before = np.maximum(steps.before - START - 1, 0)
    for one in (inputs.pairs.action[before], inputs.pairs.state[before]):
        both = in_each_pair(np.where(steps.before > START, one + 1, UNKNOWN), steps.pair)
        found.append(lay_past(_TOLD[0], both, steps.pair, steps.unit))
    return found


def in_each_pair(code: Int[np.ndarray, " n"], pair: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """A code of what came before each row in each pair apart, shape (n,).

    Parameters
    ----------
    code, pair
        What came before, and the pair, shape (n,).

    Notes
    -----
    Of a few rows with skewed errors the mean in the pair is too noisy to take off: what has fewer
    than `_ENOUGH` rows is not looked at. In simulated logs of lognormal errors the test spoke by
    chance in 5 % of logs at p < 0.001 with 1.2 rows each.
    """
    place = combined(code, pair)[1]
    enough = (np.bincount(place) >= _ENOUGH)[place] & (code != UNKNOWN)
    return np.where(enough, place + 1, UNKNOWN)


def not_markov(
    inputs: Inputs, problem: Problem, sd: Float[np.ndarray, " N"]
) -> list[SupportWarning]:
    """Warn where what came before a step predicts its error.

    Parameters
    ----------
    inputs, problem
        The log, and what was fitted of the mean reward.
    sd
        Sd of each belief, shape (N,).
    """
    settings, names = inputs.settings, inputs.names
    if not (settings.tabular and settings.plain and settings.gamma > 0.0):
        return []
    steps = steps_of(inputs, problem)
    pasts = pasts_of(inputs, steps)
    before = np.asarray(problem.pilots.error)

    def errors(j: int) -> Float[np.ndarray, " n"]:
        return centered_errors(inputs.reward + before[j][inputs.cell_of_row], steps.pair)

    tests = []
    for j in range(len(names)):
        error = errors(j)
        tests.append([predicted(error, past) for past in pasts])
    chances = np.array([[test.chance for test in row] for row in tests])
    each = np.array([combine_chances(column) for column in chances.T])
    shown = each < BY_CHANCE / len(pasts)
    if not shown.any():
        return []
    # Pasts that lie close together show each other; the clearest is told.
    clearest = pasts[int(each.argmin())].name
    found: list[SupportWarning] = []
    for j, name in enumerate(names):
        sizes = np.zeros(len(pasts))
        for k, weight in _weights(inputs, problem, steps, j, shown):
            error = errors(j)
            sizes[k] = likely_move(error, weight, pasts[k].code, steps, tests[j][k].variance)
        number = float(sizes.max()) / max(float(sd[j]), 1e-300)
        reason = _REASON.format(past=clearest, number=number)
        found += gauges.PAST.judge(name, number, reason)
    return found


def _weights(
    inputs: Inputs, problem: Problem, steps: Steps, j: int, shown: Bool[np.ndarray, " L"]
) -> Iterator[tuple[int, Float[np.ndarray, " n"]]]:
    """A candidate's weights of the rows by each past that shows, and its number.

    If the number of steps shows, steps are weighted as they are discounted, and so are those of
    which other weights are made.
    """
    pilots, gamma = problem.pilots, inputs.settings.gamma
    weight = np.asarray(pilots.by_pair)[j][steps.pair]
    likely = np.asarray(inputs.candidates.target)[j] / np.maximum(steps.share, 1e-300)
    entering = float(np.asarray(pilots.start_weight)[j])
    if shown[LAGS]:
        fades = gamma ** inputs.logs.step[inputs.rows.mask].astype(np.float64)
        weight = weight * fades / fades.mean()
        yield LAGS, weight
    for ago in range(1, LAGS + 1):
        weight = weights_ahead(weight, steps, likely[steps.pair], entering, gamma)
        for k, when in enumerate(_WHEN):
            if shown[k] and when == ago:
                yield k, weight
