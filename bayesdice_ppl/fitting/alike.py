"""Whether errors of like rows are alike across a log: a test for what a state does not hold.

If a state holds what matters, the error of a row has mean zero given its pair, whatever else is
known of the row. Rows are sorted by something that is known. If errors of different units, such as
episodes, are more alike after the same past than by chance, the state lacks what it stands for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.codes import combined, distinct
from bayesdice_ppl.fitting.inputs import Inputs
from bayesdice_ppl.inference import Problem

UNITS = 200
"""Most units, beyond which several count as one."""
FEWEST = 50
"""Rows with a known past below which nothing can be seen."""
FEWEST_EPISODES = 10
"""Episodes below which stretches of rows are taken in their place."""
_DENSE = 1_000_000
"""Units times pasts past which sums are kept without their zeros."""
UNKNOWN = 0
"""Code of a past that the log does not have."""


def units_of(inputs: Inputs, problem: Problem, stretches: int) -> Int[np.ndarray, " n"]:
    """Which rows may move together: those of a column that is the unit, of an episode, or near.

    Parameters
    ----------
    inputs, problem
        The log, and what was fitted.
    stretches
        Into how many stretches of rows the log is cut, where there are few episodes or each has
        one row.
    """
    groupings = () if problem.unit is None else problem.unit.groupings
    for each in groupings:
        if not each.by_order:
            return distinct(each.of_row)[1]
    logs, mask = inputs.logs, inputs.rows.mask
    if FEWEST_EPISODES <= logs.n_episodes < logs.n_transitions:
        return distinct(logs.episode[mask])[1]
    n = int(mask.sum())
    return np.arange(n) * stretches // n


class Past(NamedTuple):
    """What came before rows, counted.

    Attributes
    ----------
    name
        What it is, for a message.
    code
        Of each row, shape (n,); 0 where the log does not have it.
    rows
        The rows where it is known, shape (k,).
    pair
        Their pairs, shape (k,).
    cell
        Place of each row's unit and past among those that occur, shape (k,).
    unit_of, past_of
        Unit and past of each such cell, shape (C,).
    size
        Rows after each past, shape (K,).
    visits
        Those of each pair, shape (P,).
    meeting
        How much of the variance of a pair's errors the statistic loses, as errors are taken from
        their mean, shape (P,).
    """

    name: str
    code: Int[np.ndarray, " n"]
    rows: Int[np.ndarray, " k"]
    pair: Int[np.ndarray, " k"]
    cell: Int[np.ndarray, " k"]
    unit_of: Int[np.ndarray, " C"]
    past_of: Int[np.ndarray, " C"]
    size: Float[np.ndarray, " K"]
    visits: Float[np.ndarray, " P"]
    meeting: Float[np.ndarray, " P"]


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


def lay_past(
    name: str,
    code: Int[np.ndarray, " n"],
    pair: Int[np.ndarray, " n"],
    unit: Int[np.ndarray, " n"],
) -> Past:
    """Count rows by what came before them.

    Parameters
    ----------
    name
        What it is, for a message.
    code, pair, unit
        What came before each row, its pair, and its unit, shape (n,).
    """
    rows = np.flatnonzero(code != UNKNOWN)
    past, known = code[rows], pair[rows]
    n_pasts = int(past.max(initial=0)) + 1
    size = np.bincount(past, minlength=n_pasts).astype(np.float64)
    visits = np.bincount(known, minlength=int(pair.max()) + 1).astype(np.float64)
    (of_pair, of_past), place = combined(known, past)
    both = np.bincount(place)
    shared = both * (both - 1.0) / (visits[of_pair] * size[of_past])
    meeting = np.bincount(of_pair, shared, len(visits))
    (unit_of, past_of), cell = combined(unit[rows] % UNITS, past)
    # Several pasts are held at once, each as long as the log.
    return Past(
        name,
        code.astype(np.int32),
        rows.astype(np.int32),
        known.astype(np.int32),
        cell.astype(np.int32),
        unit_of,
        past_of,
        size,
        visits,
        meeting,
    )


def predicted(error: Float[np.ndarray, " n"], past: Past) -> Predicted:
    """Compare the errors that different units have after the same past.

    Parameters
    ----------
    error
        Errors, shape (n,).
    past
        What came before.

    Notes
    -----
    With S_u(k) the sum of unit u's errors after past k, from their means in the pair, and n_k its
    rows, the statistic is sum_k (S(k)^2 - sum_u S_u(k)^2) / n_k. No error meets itself or others of
    its unit, so that its mean is zero but for the means that were taken off, whose part is added
    again. Under random signs its variance is twice the sum over u != v of
    (sum_k S_u(k) S_v(k) / n_k)^2. Its law is taken as that of a chi-square.
    """
    if len(past.rows) < FEWEST or np.count_nonzero(past.size) < 2:
        return Predicted(1.0, 0.0)
    found = error[past.rows]
    visits = np.maximum(past.visits, 1.0)
    mean = np.bincount(past.pair, found, len(visits)) / visits
    centered = found - mean[past.pair]
    sums = np.bincount(past.cell, centered, len(past.past_of)) / np.sqrt(past.size[past.past_of])
    by_unit: Any
    if UNITS * len(past.size) > _DENSE:
        from scipy.sparse import csr_array

        by_unit = csr_array((sums, (past.unit_of, past.past_of)), shape=(UNITS, len(past.size)))
    else:
        by_unit = np.zeros((UNITS, len(past.size)))
        by_unit[past.unit_of, past.past_of] = sums
    noise = np.bincount(past.pair, centered**2, len(visits)) / np.maximum(visits - 1.0, 1.0)
    return alike(by_unit, float(noise @ past.meeting), len(past.rows))


def alike(sums: Any, lost: float, n_rows: int) -> Predicted:
    """Compare the squares of sums over all units with those of each.

    Parameters
    ----------
    sums
        Of each unit, in K coordinates of mean zero: an array of shape (U, K), or a sparse one.
    lost
        What the excess of the squares lacks on average.
    n_rows
        Number of rows.
    """
    from scipy.special import chdtrc

    own = float((sums**2).sum())
    gram = sums @ sums.T
    gram = gram if isinstance(gram, np.ndarray) else gram.toarray()
    spread = float((gram**2).sum() - (np.diagonal(gram) ** 2).sum())
    if not spread > 0.0:
        return Predicted(1.0, 0.0)
    excess = float((np.asarray(sums.sum(axis=0)) ** 2).sum()) - own + lost
    freedom = own**2 / spread
    chance = float(chdtrc(freedom, freedom * max(1.0 + excess / own, 0.0)))
    return Predicted(chance, excess / n_rows)


def centered_errors(
    error: Float[np.ndarray, " n"], pair: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Errors from the mean of their pair, shape (n,)."""
    mean = np.bincount(pair, error) / np.maximum(np.bincount(pair), 1)
    return np.asarray(error - mean[pair])


def combine_chances(chances: Float[np.ndarray, " N"]) -> float:
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
