"""State-action pairs that were never logged, as latents of the value.

The ratio lives on logged pairs, and a candidate's probability of others is moved to them. What the
others are worth is not known, but it is not unknown either: pairs differ from each other by as much
as the logged ones do. Each pair that was never logged is a latent with that prior, and the
candidate's mass on it widens the belief. Candidates share the latents.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.arrays import sums_by
from bayesdice_ppl.constraint import shrunk_spread
from bayesdice_ppl.inference.copula import correlation_matrix
from bayesdice_ppl.inference.hierarchy import PairNumbers, Sums, predict
from bayesdice_ppl.inference.pilot import Pilot
from bayesdice_ppl.moments import NORMALIZATION_ROW, Candidates, Cells, TransformedRewards

FEWEST_PAIRS = 3
"""Logged pairs below which only the spread of the errors says how far pairs may differ."""
LEAST_SHARE = 0.05
"""Share of a variance that is left at least, where the seen part would get smaller."""


class UnseenPairs(NamedTuple):
    """The U pairs that some candidate takes and the log does not have.

    Attributes
    ----------
    state, action
        Codes of the pairs, shape (U,).
    probability
        Each candidate's probability of the action in the state, shape (N, U).
    """

    state: Int[np.ndarray, " U"]
    action: Int[np.ndarray, " U"]
    probability: Float[np.ndarray, "N U"]


class Unseen(NamedTuple):
    """What pairs that were never logged do to N values.

    Attributes
    ----------
    mass
        Share of each candidate's steps at which it takes each pair, shape (N, U).
    base
        What their steps count in the value without them, reward per step, shape (N,).
    shift
        What is added to each value's mean, reward per step, shape (N,).
    covariance
        Of the values over repeated logs and over the latents, shape (N, N).
    plain
        The same without the latents, shape (N, N).
    latents
        The part that comes from the latents, shape (N, N).
    degrees_of_freedom
        Of each value's Student t, shape (N,).
    spread
        Sd of one such pair's worth around what its state and action say, shape (N,).
    move
        Sd of what each value would move by if a pair's worth were known, shape (N, U): through the
        pair's own mass, and through what it says of other pairs never logged. 0 for a pair that
        no candidate takes.
    alike
        Correlation of what a pair is worth to two candidates, shape (N, N).
    """

    mass: Float[np.ndarray, "N U"]
    base: Float[np.ndarray, " N"]
    shift: Float[np.ndarray, " N"]
    covariance: Float[np.ndarray, "N N"]
    plain: Float[np.ndarray, "N N"]
    latents: Float[np.ndarray, "N N"]
    degrees_of_freedom: Float[np.ndarray, " N"]
    spread: Float[np.ndarray, " N"]
    move: Float[np.ndarray, "N U"]
    alike: Float[np.ndarray, "N N"]

    @property
    def share(self) -> Float[np.ndarray, " N"]:
        """Share of each variance that comes from the latents, shape (N,)."""
        total = np.diagonal(self.covariance)
        own = np.diagonal(self.latents)
        return np.where(total > 0.0, own / np.where(total > 0.0, total, 1.0), 0.0)

    def first(self, n: int) -> Unseen:
        """Those of the first n values."""
        return Unseen(
            *(field[:n, :n] if i in _SQUARE else field[:n] for i, field in enumerate(self))
        )

    @property
    def kept_lean(self) -> Float[np.ndarray, " N"]:
        """Share of each value's skewness that is left beside the latents, which are symmetric."""
        kept: np.ndarray = (1.0 - np.clip(self.share, 0.0, 1.0)) ** 1.5
        return kept

    def sd(self, sd: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """Scales of the values, from those without the latents, shape (N,)."""
        before, after = np.diagonal(self.plain), np.maximum(np.diagonal(self.covariance), 0.0)
        grown = np.sqrt(after / np.where(before > 0.0, before, 1.0))
        return np.where(before > 0.0, sd * grown, np.sqrt(sd**2 + after))


_SQUARE = tuple(Unseen._fields.index(name) for name in ("covariance", "plain", "latents", "alike"))


def add_unseen(
    cells: Cells,
    pilots: Pilot,
    candidates: Candidates,
    pairs: UnseenPairs,
    arriving: Float[np.ndarray, "N S"],
    covariance: Float[np.ndarray, "N N"],
    rewards: TransformedRewards | None = None,
    *,
    gamma: float,
) -> Unseen | None:
    """Add pairs that were never logged to the values; None where no candidate takes any.

    Parameters
    ----------
    cells, pilots, candidates
        The log, on one-hot features, the first estimates, and the candidates.
    pairs
        The pairs.
    arriving
        Share of each candidate's steps at which it comes to a state without a logged action that
        it takes, shape (N, S).
    covariance
        Of the values over repeated logs, without these pairs, shape (N, N).
    rewards
        Each candidate's transformed rewards, or None for the log's own.
    gamma
        Discount.

    Notes
    -----
    pi differs from pi~, which is renormalized over logged actions, by the pairs u = (s, a). With d
    the occupancy of pi~ and Q the action value of pi (performance difference, Kakade and Langford
    2002)::

        V(pi) - V(pi~) = sum_u d(s) pi(a|s) Q(u) - sum_s d(s) pi(unlogged|s) V~(s)

    Q(u) is predicted from the action values of logged pairs (`predict`), to first order those of
    pi~. The second sum is made of estimates of logged pairs; their errors are the belief's own, so
    that a value relies on them less: error = (w + alpha) noise + latents, where w is d(s) pi(a|s)
    at logged pairs and alpha the slope of the prediction.
    """
    pilots = jax.tree.map(np.asarray, pilots)
    n_pairs, n_states = len(cells.pair_state), candidates.kept.shape[1]
    share = pilots.by_pair * sums_by(cells.count, cells.pair, n_pairs) / cells.n_transitions
    occupancy = sums_by(share.T, cells.pair_state, n_states).T + arriving
    mass = occupancy[:, pairs.state] * pairs.probability
    taken = np.any(mass > 0.0, axis=0)
    if not taken.any():
        return None
    mass = np.where(mass > 0.0, mass, 0.0)
    followed = _followed(cells, candidates, gamma)
    known, correlation = _action_values(cells, pilots, candidates, rewards, followed, gamma)
    found = predict(known, Sums(pairs.state[taken], pairs.action[taken], mass[:, taken]))
    moved = share * (1.0 - candidates.kept[:, cells.pair_state])
    base = (moved * known.value).sum(axis=1)
    noise = np.sqrt(known.noise)
    with_latents = noise * (share - moved + found.slope)
    # Pairs without an estimate have no slope; errors of the others move together.
    change = correlation * (
        with_latents @ with_latents.T
        - (noise * share) @ (noise * share).T
        - (noise * found.slope) @ (noise * found.slope).T
    )
    alike = _correlation(np.where(known.known, known.value - _middle(known), 0.0))
    latents = alike * found.covariance
    total = covariance + change + latents
    after = np.diagonal(total)
    # Where all rewards are equal, rounding may leave a variance below zero.
    least = LEAST_SHARE * np.maximum(np.diagonal(covariance), 0.0)
    least = least + np.maximum(np.diagonal(found.covariance), 0.0)
    positive = np.where(after > 0.0, after, 1.0)
    stretch = np.where(after > 0.0, np.sqrt(np.maximum(least, after) / positive), 1.0)
    total = total * stretch[:, None] * stretch
    after, own = np.diagonal(total), np.diagonal(found.covariance)
    rest = np.maximum(after - own, 0.0)
    heavy = rest**2 / pilots.degrees_of_freedom + own**2 / found.degrees_of_freedom
    df = np.where(heavy > 0.0, after**2 / np.where(heavy > 0.0, heavy, 1.0), np.inf)
    move = np.zeros_like(mass)
    move[:, taken] = found.move
    shift = found.mean - base
    return Unseen(mass, base, shift, total, covariance, latents, df, found.spread, move, alike)


def _action_values(
    cells: Cells,
    pilots: Pilot,
    candidates: Candidates,
    rewards: TransformedRewards | None,
    known: Bool[np.ndarray, "N P"],
    gamma: float,
) -> tuple[PairNumbers, Float[np.ndarray, "N N"]]:
    """Action values of the logged pairs, and the correlation of the candidates' errors in them."""
    n_pairs, count = len(cells.pair_state), np.asarray(cells.count)
    error, active = np.asarray(pilots.error), np.asarray(candidates.active)
    total = np.asarray(cells.reward_sum) if rewards is None else rewards.total
    square = np.asarray(cells.reward_square_sum) if rewards is None else rewards.square
    filled = np.where(count > 0.0, count, 1.0)
    visits = sums_by(count, cells.pair, n_pairs)
    delta = error + total / filled
    mean = sums_by((count * delta).T, cells.pair, n_pairs).T / visits
    slope = np.asarray(pilots.slope)
    value = mean + active * slope[:, :n_pairs]
    if gamma < 1.0 and slope.shape[1] > n_pairs + 1:
        # The normalization's row is 1 / (1 - gamma) times the sum of the others: what it has of the
        # action values is a constant that belongs to all of them.
        value = value - slope[:, NORMALIZATION_ROW, None] / (1.0 - gamma)
    off = delta - mean[:, cells.pair]
    inside = np.maximum(square - total**2 / filled, 0.0)
    scatter = sums_by((count * off**2 + inside).T, cells.pair, n_pairs).T
    repeats = (visits - 1.0).sum()
    shared = (off * count) @ off.T + np.sum(inside if inside.ndim == 1 else 0.0)
    if inside.ndim == 2:
        shared = shared + np.sqrt(inside) @ np.sqrt(inside).T
    pool = np.diagonal(shared) / repeats if repeats > 0.0 else np.full(len(value), np.nan)
    if repeats <= 0.0:
        # No pair was logged twice: only the spread of all can be pooled.
        middle = (visits * mean).sum(axis=1, keepdims=True) / visits.sum()
        pool = (visits * (value - middle) ** 2).sum(axis=1) / visits.sum()
    noise = shrunk_spread(scatter, visits, pool[:, None]) / visits
    spread = _scale(value, noise, known, np.sqrt(pool))
    correlation = correlation_matrix(shared) if repeats > 0.0 else _correlation(value)
    numbers = PairNumbers(cells.pair_state, cells.pair_action, value, noise, known, spread)
    return numbers, correlation


def _followed(cells: Cells, candidates: Candidates, gamma: float) -> Bool[np.ndarray, "N P"]:
    """Pairs from which every logged step leads to a state that the candidate's value is known in.

    A candidate's own pairs are taken as they are: where a step of them ends in a state without a
    logged action, the state is one of those that are predicted.
    """
    active = np.asarray(candidates.active) > 0.0
    if gamma == 0.0:
        return np.ones_like(active)
    n_pairs, n_states = len(cells.pair_state), candidates.kept.shape[1]
    valued = sums_by(active.T.astype(float), cells.pair_state, n_states).T > 0.0
    onward = (np.asarray(cells.count) > 0.0) & (np.asarray(cells.terminated) == 0.0)
    lost = onward * ~valued[:, cells.successor]
    return active | (sums_by(lost.T.astype(float), cells.pair, n_pairs).T == 0.0)


def _scale(
    value: Float[np.ndarray, "N P"],
    noise: Float[np.ndarray, "N P"],
    known: Bool[np.ndarray, "N P"],
    otherwise: Float[np.ndarray, " N"],
) -> Float[np.ndarray, " N"]:
    """The largest sd that the numbers may have, less their noise: 1 log in 20 hides more.

    Few numbers may lie together by chance. Spreads are looked for in units of this sd.
    """
    from scipy.special import chdtri

    count = known.sum(axis=1)
    many = np.maximum(count - 1, 1)
    middle = np.where(known, value, 0.0).sum(axis=1) / np.maximum(count, 1)
    variance = np.where(known, (value - middle[:, None]) ** 2, 0.0).sum(axis=1) / many
    average = np.where(known, noise, 0.0).sum(axis=1) / np.maximum(count, 1)
    largest = variance * many / chdtri(many, 0.95)
    found = np.sqrt(np.maximum(largest - average, variance * np.sqrt(2.0 / many)))
    found = np.where(count < FEWEST_PAIRS, np.maximum(found, otherwise), found)
    return np.where(found > 0.0, found, np.finfo(float).tiny ** 0.25)


def _middle(pairs: PairNumbers) -> Float[np.ndarray, "N 1"]:
    count = np.maximum(pairs.known.sum(axis=1, keepdims=True), 1)
    middle: np.ndarray = np.where(pairs.known, pairs.value, 0.0).sum(axis=1, keepdims=True) / count
    return middle


def _correlation(rows: Float[np.ndarray, "N P"]) -> Float[np.ndarray, "N N"]:
    """Correlation of rows that have mean zero; a row of zeros goes with itself alone."""
    return correlation_matrix(rows @ rows.T)
