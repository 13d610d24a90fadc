"""The shape of each value's belief: its skewness, what few rewards hide, and its law.

Sigma says how wide a value is; the rows say the rest. Where the kind of reward is known, each
pair's mean reward has a Beta or Gamma posterior, and the value is their weighted sum: its variance
takes the place of what rewards show, and its law is that of the sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.constraint import Curve, ValueLaw, shrunk_spread
from bayesdice_ppl.inference.dependence import Dependence, GroupedRows, Unit, influences
from bayesdice_ppl.inference.pilot import Pilot
from bayesdice_ppl.inference.skewness import (
    CountedRows,
    Rows,
    Tails,
    measure_tails,
    moments_of_starts,
    of_cells,
    of_entries,
    skewness_of,
    sums_by_episode,
    sums_by_group,
)
from bayesdice_ppl.inference.sums import NO_REST, Rest, sum_curve
from bayesdice_ppl.moments import Cells, KnownMeans, TransformedRewards

_KEPT = 0.1
"""Share of the rewards' own variance within cells that Sigma keeps at least, so that it stays a
covariance."""


class Shaped(NamedTuple):
    """What the rows say of N values beyond their widths.

    Attributes
    ----------
    tails
        Skewness, effective number of errors, and law of each value.
    added
        What is added to the variance of each value, and may be negative, shape (N,).
    degrees_of_freedom
        Of each value, shape (N,).
    """

    tails: Tails
    added: Float[np.ndarray, " N"]
    degrees_of_freedom: Float[np.ndarray, " N"]


def shape_values(
    cells: Cells,
    pilots: Pilot,
    rows: Rows | CountedRows,
    variance: Float[np.ndarray, " N"],
    law: ValueLaw,
    *,
    rewards: TransformedRewards | None = None,
    by_episode: bool = False,
    groups: tuple[GroupedRows, Unit] | None = None,
    known: KnownMeans | None = None,
) -> Shaped:
    """Skewness, hidden variance and law of every candidate's value.

    Parameters
    ----------
    cells, pilots, rows, rewards, by_episode, groups
        As for `measure_tails`.
    variance
        Of each value, with the small-sample rule's part, shape (N,).
    law
        Which quantiles values have, where the kind of reward is not known.
    known
        What is known of the pairs' mean rewards, where the kind of reward is known; else None.
    """
    found = measure_tails(cells, pilots, rows, rewards, by_episode=by_episode, groups=groups)
    hidden, third = of_entries(found, "hidden"), of_entries(found, "third")
    effective = of_entries(found, "effective")
    df = np.asarray(pilots.degrees_of_freedom)
    if known is not None:
        bound = None if groups is None else groups[1].binds
        return _with_known(cells, pilots, rows, (variance, df, effective), known, bound)
    total = variance + hidden
    skewness = law.skewness(skewness_of(third, total, df))
    curves: tuple[Curve | None, ...] = ()
    if law.needs_errors:
        curves = tuple(
            law.curve(
                *_items(cells, pilots, rows, rewards, j, by_episode=by_episode, groups=groups),
                float(one),
            )
            for j, one in enumerate(total)
        )
    return Shaped(Tails(skewness, hidden, effective, curves), hidden, df)


def tails_of_units(
    cells: Cells,
    pilots: Pilot,
    units: tuple[Dependence, Unit | None],
    variance: Float[np.ndarray, " N"],
    law: ValueLaw,
    rewards: TransformedRewards | None = None,
) -> Tails:
    """Skewness and effective number of errors of values on other than one-hot features.

    Parameters
    ----------
    cells, pilots
        The log and the first estimates of all N candidates.
    units
        The rows behind the cells, and the unit of independence; episodes where none was found.
    variance
        Of each value, shape (N,).
    law
        Which quantiles values have.
    rewards
        Each entry's transformed rewards, or None for the log's own.
    """
    dependence, unit = units
    code = dependence.units(unit)
    third, effective = np.zeros_like(variance), np.full_like(variance, np.inf)
    curves: list[Curve | None] = []
    for j, one in enumerate(variance):
        error = influences(cells, pilots, dependence, rewards, j)
        sums = np.bincount(code, error)
        third[j] = float((sums**3).sum())
        square, fourth = float((error**2).sum()), float((error**4).sum())
        if fourth > 0.0:
            effective[j] = square**2 / fourth
        if law.needs_errors:
            curves.append(law.curve(*_distinct(sums), float(one)))
    df = np.asarray(pilots.degrees_of_freedom)
    skewness = law.skewness(skewness_of(third, variance, df))
    return Tails(skewness, np.zeros_like(variance), effective, tuple(curves))


def _items(
    cells: Cells,
    pilots: Pilot,
    rows: Rows | CountedRows,
    rewards: TransformedRewards | None,
    j: int,
    *,
    by_episode: bool,
    groups: tuple[GroupedRows, Unit] | None,
) -> tuple[Float[np.ndarray, " I"], Float[np.ndarray, " I"]]:
    """Errors of the items that are independent, which sum to 0, and how many have each."""
    if groups is not None:
        return _distinct(sums_by_group(cells, pilots, groups, rewards, j))
    assert isinstance(rows, Rows)  # laws of errors are refused where rows are not held
    reward = rows.reward if rewards is None else np.asarray(rewards.by_row)[j]
    if by_episode:
        mean = of_cells(rows.cell, reward, len(cells.count))[0]
        return _distinct(sums_by_episode(cells, pilots, j, mean))
    n, m = float(cells.n_transitions), float(cells.n_episodes)
    by_row = np.asarray(pilots.ratio)[j][rows.cell]
    by_row = by_row * (np.asarray(pilots.error)[j][rows.cell] + reward)
    of_rows, how_many = _distinct((by_row - by_row.mean()) / n)
    share, value = np.asarray(cells.initial_weight), np.asarray(pilots.start_value)[j]
    of_starts = float(np.asarray(pilots.start_weight)[j]) * (value - share @ value) / m
    there = share > 0.0
    if not np.any(of_starts[there]):
        return of_rows, how_many
    return np.r_[of_rows, of_starts[there]], np.r_[how_many, m * share[there]]


def _distinct(error: Float[np.ndarray, " I"]) -> tuple[np.ndarray, np.ndarray]:
    value, count = np.unique(error, return_counts=True)
    return value, count.astype(np.float64)


class _Parts(NamedTuple):
    """Cumulants of a value's error within pairs.

    Attributes
    ----------
    reward, onward, both
        Variance by the small-sample rule: of rewards, of what follows them, and their covariance.
    seen
        Variance of all as the log shows it.
    inside
        That of rewards with the same pair, successor and termination.
    third
        Third cumulant of what follows.
    """

    reward: float
    onward: float
    both: float
    seen: float
    inside: float
    third: float


def _with_known(
    cells: Cells,
    pilots: Pilot,
    rows: Rows | CountedRows,
    measured: tuple[np.ndarray, np.ndarray, np.ndarray],
    known: KnownMeans,
    bound: np.ndarray | None,
) -> Shaped:
    """Shapes where each pair's mean reward has a posterior of its own."""
    variance, df, effective = measured
    n, n_pairs = float(cells.n_transitions), len(cells.pair_state)
    visits = np.bincount(cells.pair, cells.count, n_pairs)
    mean = rows.by_cell(len(cells.count))[0]
    added, freedom, lean = np.zeros_like(variance), np.array(df), np.zeros_like(variance)
    curves: list[Curve | None] = []
    for j, by_pair in enumerate(np.asarray(pilots.by_pair)):
        share = by_pair * visits / n
        posterior = known.posterior(share)
        parts = _parts(cells, pilots, j, mean, visits, share)
        own = float(share**2 @ posterior.variance)
        ratio = np.sqrt(own / parts.reward) if parts.reward > 0.0 else 0.0
        whole = own + parts.onward + 2.0 * parts.both * ratio
        before = max(parts.reward + parts.onward + 2.0 * parts.both, parts.seen)
        added[j] = max(whole - before, -(1.0 - _KEPT) * parts.inside)
        total = variance[j] + added[j]
        if not total > 0.0:
            curves.append(None)
            continue
        settled = own - float(share**2 @ (posterior.variance * posterior.estimated))
        left = max(total - settled, 0.0) / total
        if bound is None or not bound[j]:
            freedom[j] = df[j] / left**2 if left > NO_REST else np.inf
        others = parts.third + float(moments_of_starts(cells, pilots, j)[1])
        lean[j] = (float(share**3 @ posterior.third) + others) / total**1.5
        rest = Rest(max(total - own, 0.0), others)
        curves.append(sum_curve(posterior, share, rest))
    tails = Tails(lean, np.zeros_like(variance), effective, tuple(curves))
    return Shaped(tails, added, freedom)


def _parts(
    cells: Cells,
    pilots: Pilot,
    j: int,
    mean: Float[np.ndarray, " C"],
    visits: Float[np.ndarray, " P"],
    share: Float[np.ndarray, " P"],
) -> _Parts:
    """The small-sample rule, which is linear in sums of squares, on each part of the errors."""
    pair, count = np.asarray(cells.pair), np.asarray(cells.count)
    n_pairs, safe = len(visits), np.where(visits > 0.0, visits, 1.0)

    def off(x: Float[np.ndarray, " C"]) -> Float[np.ndarray, " C"]:
        centered: np.ndarray = x - (np.bincount(pair, count * x, n_pairs) / safe)[pair]
        return centered

    after, reward = off(np.asarray(pilots.error)[j]), off(mean)
    own = np.maximum(cells.reward_square_sum - count * mean**2, 0.0)
    rewards = np.bincount(pair, count * reward**2 + own, n_pairs)
    onward = np.bincount(pair, count * after**2, n_pairs)
    both = np.bincount(pair, count * after * reward, n_pairs)
    repeats = float((visits[visits > 0.0] - 1.0).sum())

    def rule(squares: Float[np.ndarray, " P"]) -> float:
        pool = squares.sum() / repeats if repeats > 0.0 else 0.0
        return float((share**2 * shrunk_spread(squares, safe, pool) / safe)[visits > 0.0].sum())

    seen = float((share / safe) ** 2 @ (rewards + onward + 2.0 * both))
    inside = float((share / safe)[pair] ** 2 @ own)
    third = float((share / safe)[pair] ** 3 @ (count * after**3))
    return _Parts(rule(rewards), rule(onward), rule(both), seen, inside, third)


def known_shift(cells: Cells, pilots: Pilot, known: KnownMeans) -> Float[np.ndarray, " N"]:
    """How far the posteriors of the pairs' mean rewards move each value, shape (N,)."""
    rewards = known.rewards
    shares = np.asarray(pilots.by_pair) * rewards.visits / float(cells.n_transitions)
    return np.array([share @ (known.posterior(share).mean - rewards.mean) for share in shares])


def known_covariance(cells: Cells, pilots: Pilot, known: KnownMeans) -> Float[np.ndarray, "N N"]:
    """What posteriors of the pairs' mean rewards add to the covariance of N values.

    Parameters
    ----------
    cells, pilots
        The log and all first estimates.
    known
        What is known of the pairs' mean rewards.

    Returns
    -------
    array
        Shape (N, N): their covariance less that of the rewards by the small-sample rule.
    """
    visits, _, squares = known.rewards
    repeats = float((visits - 1.0).sum())
    pool = squares.sum() / repeats if repeats > 0.0 else 0.0
    share = np.asarray(pilots.by_pair) * visits / float(cells.n_transitions)
    own = np.array([one * np.sqrt(known.posterior(one).variance) for one in share])
    found: np.ndarray = (
        own @ own.T - (share * shrunk_spread(squares, visits, pool) / visits) @ share.T
    )
    return found
