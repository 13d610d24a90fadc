"""Whether a state is Markov: what came before a step must not predict its error.

Given its state and action, the temporal-difference error of a step has mean zero whatever came
before: which pair one step earlier, or two or three, and how many steps. If different episodes have
like errors after like pasts, the state is not Markov. Then the value is estimated anew with rows
weighted as the candidate would get to them from their past, which says how far it may be off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.fitting import gauges
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
FEWEST_EPISODES, STRETCHES, UNITS = 10, 20, 200
"""With fewer episodes that many stretches of rows are taken for units; and most units, beyond which
several count as one."""
FEWEST = 50
"""Rows with an earlier pair below which nothing can be seen."""
UNKNOWN, START = 0, 1
"""Codes of what came before a row: not in the log, or nothing; 2 more than the pair otherwise."""
_REASON = (
    "rests on states that are not Markov: given state and action, {past} predicts what follows. "
    "This may move its value by {number:.1f} sds of its belief. Put {past} into the state, or what "
    "it stands for."
)


class Predicted(NamedTuple):
    """Whether different units have like errors after like pasts.

    Attributes
    ----------
    chance
        Probability of errors that are as much alike by chance.
    variance
        Of the mean errors after each past; negative by chance.
    """

    chance: float
    variance: float


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
    unit = np.arange(len(row)) * STRETCHES // len(row)
    if logs.n_episodes >= FEWEST_EPISODES:
        unit = episode
    if problem.unit is not None:
        columns = [each for each in problem.unit.groupings if not each.by_order]
        unit = columns[0].of_row if columns else unit
    return Steps(
        pair,
        before,
        np.unique(unit, return_inverse=True)[1],
        visits / np.maximum(in_state, 1.0),
        np.where(followed > 0, went_on / np.maximum(followed, 1), 0.0),
    )


def predicted(
    error: Float[np.ndarray, " n"],
    pair: Int[np.ndarray, " n"],
    past: Int[np.ndarray, " n"],
    unit: Int[np.ndarray, " n"],
) -> Predicted:
    """Compare the errors that different units have after the same past.

    Parameters
    ----------
    error
        Errors, shape (n,).
    pair, past
        Codes of the pair of each row, and of what came before it, shape (n,).
    unit
        Rows of one code may move together, shape (n,).

    Notes
    -----
    With S_u(k) the sum of unit u's errors after past k, from their means in the pair, and n_k its
    rows, the statistic is sum_k (S(k)^2 - sum_u S_u(k)^2) / n_k. No error meets itself or others of
    its unit, so that its mean is zero but for the means that were taken off, whose part is added
    again. Under random signs its variance is twice the sum over u != v of
    (sum_k S_u(k) S_v(k) / n_k)^2. Its law is taken as that of a chi-square.
    """
    from scipy.special import chdtrc

    n_pairs, n_pasts = int(pair.max()) + 1, int(past.max()) + 1
    visits = np.maximum(np.bincount(pair), 1)
    centered = error - (np.bincount(pair, error) / visits)[pair]
    rows = np.bincount(past, minlength=n_pasts).astype(np.float64)
    fold = unit % UNITS
    n_units = int(fold.max()) + 1
    sums = np.bincount(fold * n_pasts + past, centered, n_units * n_pasts)
    sums = sums.reshape(n_units, n_pasts) / np.sqrt(np.maximum(rows, 1.0))
    own = float((sums**2).sum())
    gram = sums @ sums.T
    spread = float((gram**2).sum() - (np.diagonal(gram) ** 2).sum())
    noise = np.bincount(pair, centered**2, n_pairs) / np.maximum(visits - 1, 1)
    key, both = np.unique(pair * n_pasts + past, return_counts=True)
    shared = both * (both - 1.0) / (visits[key // n_pasts] * rows[key % n_pasts])
    excess = float((sums.sum(axis=0) ** 2).sum()) - own + float(noise[key // n_pasts] @ shared)
    if not spread > 0.0:
        return Predicted(1.0, 0.0)
    freedom = own**2 / spread
    chance = float(chdtrc(freedom, freedom * max(1.0 + excess / own, 0.0)))
    return Predicted(chance, excess / max(float(rows.sum()), 1.0))


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
    earlier: Int[np.ndarray, " n"],
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
    earlier
        Code of the earlier pair, shape (n,).
    steps
        The log.
    variance
        Of the mean errors after each earlier pair.

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
    after = np.bincount(earlier, off) / n
    prior = max(variance, 0.0) * float(after @ after)
    if not prior > 0.0:
        return 0.0
    kept = prior / (prior + noise)
    return float(np.sqrt((kept * each.sum()) ** 2 + kept * noise))


def pasts_of(inputs: Inputs, steps: Steps) -> list[tuple[str, Int[np.ndarray, " n"]]]:
    """What is looked at of the past: a name, and a code of each row, `UNKNOWN` if it has none."""
    past, found = steps.before, []
    for told in _TOLD[:LAGS]:
        found.append((told, np.where(past > START, past, UNKNOWN)))
        past = np.where(steps.before > START, np.r_[UNKNOWN, past[:-1]], UNKNOWN)
    # Doubling steps: 0, 1, 2 to 3, 4 to 7, and so on.
    since = np.frexp(inputs.logs.step[inputs.rows.mask])[1]
    return [*found, (_TOLD[LAGS], since.astype(np.int64) + 1)]


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
    fades = settings.gamma ** inputs.logs.step[inputs.rows.mask].astype(np.float64)
    chances = np.ones((len(names), len(pasts)))
    sizes = np.zeros((len(names), len(pasts)))
    for j in range(len(names)):
        row = _Row.of(inputs, problem, steps, j)
        weight = row.ratio
        for k, (_, past) in enumerate(pasts):
            if k < LAGS:
                weight = weights_ahead(weight, steps, row.likely, row.entering, settings.gamma)
            else:
                weight = row.ratio * fades / fades.mean()
            known = past != UNKNOWN
            if int(known.sum()) < FEWEST or np.ptp(past[known]) == 0:
                continue
            test = predicted(row.error[known], steps.pair[known], past[known], steps.unit[known])
            chances[j, k] = test.chance
            if test.chance < BY_CHANCE:
                sizes[j, k] = likely_move(row.error, weight, past, steps, test.variance)
    shown = [combined(column) < BY_CHANCE / len(pasts) for column in chances.T]
    number = np.where(shown, sizes, 0.0) / np.maximum(sd, 1e-300)[:, None]
    return [
        warning
        for j, name in enumerate(names)
        for warning in gauges.PAST.judge(
            name,
            float(number[j].max()),
            _REASON.format(past=pasts[int(number[j].argmax())][0], number=number[j].max()),
        )
    ]


def combined(chances: Float[np.ndarray, " N"]) -> float:
    """One probability from those of several tests of one thing, however they depend on each other.

    Parameters
    ----------
    chances
        Probabilities of each, shape (N,).

    Notes
    -----
    The Cauchy combination of Liu and Xie (2020). Tests that are all alike keep their probability,
    where Bonferroni's rule would multiply it by their number.
    """
    scores = np.tan((0.5 - np.clip(chances, 1e-15, 1.0 - 1e-15)) * np.pi)
    return float(0.5 - np.arctan(scores.mean()) / np.pi)


class _Row(NamedTuple):
    """What a candidate makes of each row: error from its pair's mean, ratio, and action ratio."""

    error: Float[np.ndarray, " n"]
    ratio: Float[np.ndarray, " n"]
    likely: Float[np.ndarray, " n"]
    entering: float

    @staticmethod
    def of(inputs: Inputs, problem: Problem, steps: Steps, j: int) -> _Row:
        pilots, pair = problem.pilots, steps.pair
        error = inputs.reward + np.asarray(pilots.error)[j][inputs.cell_of_row]
        mean = np.bincount(pair, error) / np.maximum(np.bincount(pair), 1)
        likely = np.asarray(inputs.candidates.target)[j] / np.maximum(steps.share, 1e-300)
        return _Row(
            error - mean[pair],
            np.asarray(pilots.by_pair)[j][pair],
            likely[pair],
            float(np.asarray(pilots.start_weight)[j]),
        )
