"""The small-sample rule: the noise of a value that few visits to a pair hide.

A pair that was logged a few times shows less spread than it has. Its squared errors are shrunk
toward those of all pairs. This adds to Sigma's value entry and gives the values a Student t. The
same rule on products of two candidates' errors keeps the joint covariance positive semidefinite. It
is for one-hot features, where a temporal-difference error has mean zero in every pair.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxtyping import Float, Int

from bayesdice_ppl.arrays import each, library_of, replaced, sums_by
from bayesdice_ppl.moments import Cells, TransformedRewards, reward_moments, with_rewards

NORMAL_REWARDS = 2.0
"""Weight of all pairs' spread in each pair's own, in normal rewards."""


def shrunk_spread(scatter: Any, visits: Any, pool: Any, weight: Any = NORMAL_REWARDS) -> Any:
    """Variance of a pair's rewards, drawn toward the pool of all pairs.

    Parameters
    ----------
    scatter
        Sum of squared deviations from the pair's mean.
    visits
        How many there are.
    pool
        Variance within all pairs.
    weight
        How many normal rewards the pool counts for. The variance of n normal rewards has n - 1
        degrees of freedom, and that of the pool `weight`.
    """
    return (scatter + weight * pool) / (visits - 1.0 + weight)


class FewVisits(NamedTuple):
    """Two estimates of a value's variance when pairs have few visits; see `few_visits`.

    Attributes
    ----------
    shrunk
        Variance with squared errors shrunk toward their pooled mean, scalar.
    seen
        Variance as the log shows it, which Sigma has already, scalar.
    degrees_of_freedom
        Those of `shrunk`, scalar.
    """

    shrunk: Float[Any, ""]
    seen: Float[Any, ""]
    degrees_of_freedom: Float[Any, ""]


def small_sample_rule(
    cells: Cells,
    by_pair: Float[Any, " P"],
    error: Float[Any, " C"],
    unit: Int[Any, " P"] | None = None,
) -> tuple[Float[Any, ""], Float[Any, ""]]:
    """Variance of the value that few visits hide, and the degrees of freedom of its spread.

    Parameters
    ----------
    cells, by_pair, error, unit
        As for `few_visits`.

    Returns
    -------
    (Array, Array)
        The variance to add to the value's, and the degrees of freedom; scalars.
    """
    found = few_visits(cells, by_pair, error, unit)
    return library_of(found.shrunk).maximum(
        0.0, found.shrunk - found.seen
    ), found.degrees_of_freedom


def few_visits(
    cells: Cells,
    by_pair: Float[Any, " P"],
    error: Float[Any, " C"],
    unit: Int[Any, " P"] | None = None,
) -> FewVisits:
    """Variance of the value, with the spread of rarely logged pairs shrunk.

    Parameters
    ----------
    cells
        The log.
    by_pair
        The ratio of each pair, shape (P,).
    error
        Temporal-difference error of each cell without its reward, shape (C,).
    unit
        The pair that each pair's visits are counted with, shape (P,), which has the same ratio.
        None: each pair is counted by itself.

    Notes
    -----
    Within a pair the squared errors are shrunk toward their pooled mean, which has the weight of
    two observations: s2 = (SS + 2 pool) / (n_sa + 1). With d the pair's share of the policy's
    visits, v = d^2 s2 / n_sa. The degrees of freedom are Satterthwaite's, (sum v)^2 / sum(v^2 /
    (n_sa + 1)).

    The logging policy's choice of actions is part of the noise in a state. Its visits and errors
    are counted by state, and SS includes the differences between its actions.
    """
    n_pairs = by_pair.shape[0]
    xp = library_of(by_pair)
    counted_with = cells.pair if unit is None else unit[cells.pair]

    def sums(x: Float[Any, " C"]) -> Float[Any, " P"]:
        return sums_by(x, counted_with, n_pairs)

    visits = sums(cells.count)
    seen = visits > 0.0
    divisor = xp.where(seen, visits, 1.0)
    total = sums(cells.count * error + cells.reward_sum)
    square = sums(cells.count * error**2 + 2.0 * error * cells.reward_sum + cells.reward_square_sum)
    scatter = xp.where(seen, xp.maximum(square - total**2 / divisor, 0.0), 0.0)
    repeats = xp.sum(xp.where(seen, visits - 1.0, 0.0))
    # If no pair was logged twice, only the spread of all rewards can be pooled.
    pool = xp.where(
        repeats > 0.0,
        xp.sum(scatter) / xp.where(repeats > 0.0, repeats, 1.0),
        reward_moments(cells)[1] ** 2,
    )
    share = by_pair * visits / cells.n_transitions
    shrunk = shrunk_spread(scatter, visits, pool)
    variance = share**2 * shrunk / divisor
    plain = xp.sum(share**2 * scatter / divisor**2)
    spread = xp.sum(variance)
    heavy = xp.sum(variance**2 / (visits + 1.0))
    df = xp.where(heavy > 0.0, spread**2 / xp.where(heavy > 0.0, heavy, 1.0), xp.inf)
    return FewVisits(spread, plain, df)


def small_sample_covariance(
    cells: Cells,
    by_pair: Float[Any, "N P"],
    error: Float[Any, "N C"],
    unit: Int[Any, "N P"] | None = None,
    rewards: TransformedRewards | None = None,
) -> Float[Any, "N N"]:
    """Covariance of the candidates' values that few visits to a pair hide.

    Parameters
    ----------
    cells
        The log, on one-hot features.
    by_pair, error, unit
        As for `few_visits`, of all N candidates.
    rewards
        Each candidate's transformed rewards, or None for the log's own.

    Returns
    -------
    Array
        Shape (N, N), in squared reward per step. On the diagonal are the variances that
        `small_sample_rule` adds.

    Notes
    -----
    The rule on cross-products. With delta the temporal-difference errors, n_sa the visits of a
    pair and d = zeta n_sa / n a candidate's share of it::

        SS_jk,sa = sum_i delta_j,i delta_k,i - (sum_i delta_j,i)(sum_i delta_k,i) / n_sa
        pool_jk  = sum_sa SS_jk,sa / sum_sa (n_sa - 1)
        S_jk     = sum_sa d_j d_k (SS_jk,sa + 2 pool_jk) / (n_sa (n_sa + 1))
        V_jk     = sum_sa d_j d_k SS_jk,sa / n_sa^2

    the rule adds S - V. If no pair was logged twice, the pool is the covariance of the rewards. If
    S_jj < V_jj, the rule leaves the variance as it is: row and column j of S are stretched until
    S_jj = V_jj. S stays positive semidefinite. By transition, the covariance of the influences
    contains V. So its sum with S - V is a covariance too, and equal candidates correlate at 1.

    The visits of the logging policy are counted by state. With the candidates it shares the noise
    within a pair: its row and column of S are those by pair. They are shrunk if S_jj by pair
    exceeds max(S_jj, V_jj) by state. Its diagonal is the one by state. The difference is the noise
    of its own actions, which it does not share.
    """
    n_pairs = cells.pair_state.shape[0]
    xp = library_of(by_pair)
    visits = sums_by(cells.count, cells.pair, n_pairs)
    repeats = xp.sum(xp.where(visits > 0.0, visits - 1.0, 0.0))
    # One point for each cell, if all candidates share the log's rewards; one for each transition,
    # if every candidate has transformed rewards.
    if rewards is None:
        pair, weight = cells.pair, cells.count
        mean_reward = cells.reward_sum / xp.where(weight > 0.0, weight, 1.0)
        delta = error + mean_reward
        spread = xp.maximum(cells.reward_square_sum - cells.reward_sum * mean_reward, 0.0)
        of_rewards = reward_moments(cells)[1] ** 2
    else:
        pair = cells.pair[rewards.cell]
        weight, spread = xp.ones(pair.shape), xp.zeros(pair.shape)
        delta = error[:, rewards.cell] + rewards.by_row
        centered = rewards.by_row - xp.mean(rewards.by_row, axis=1, keepdims=True)
        of_rewards = centered @ centered.T / cells.n_transitions
    ratio = by_pair[:, pair]
    divisor = xp.where(visits > 0.0, visits, 1.0)
    # Centered first: action values of order 1 / (1 - gamma) cancel in the errors.
    off = delta - (sums_by((weight * delta).T, pair, n_pairs).T / divisor)[:, pair]

    def scatter(scale: Float[Any, "N X"]) -> Float[Any, "N N"]:
        """Sum over pairs of scale_j scale_k SS_jk."""
        scaled = scale * off
        return (scaled * weight) @ scaled.T + (scale * spread) @ scale.T

    at = divisor[pair]
    pool = xp.where(
        repeats > 0.0,
        scatter(xp.ones_like(ratio)) / xp.where(repeats > 0.0, repeats, 1.0),
        of_rewards,
    )
    share = ratio * at / cells.n_transitions
    damped = share / xp.sqrt(at * (at + 1.0))
    seen = scatter(share / at)
    # The pooled term counts once for each pair, so its points share it.
    shrunk = scatter(damped) + NORMAL_REWARDS * pool * ((damped * weight / at) @ damped.T)
    own, least = xp.diagonal(shrunk), xp.diagonal(seen)
    if unit is None:
        stretch = xp.sqrt(xp.where(own < least, least / xp.where(own > 0.0, own, 1.0), 1.0))
        return shrunk * stretch[:, None] * stretch - seen
    by_unit = _few_visits_by_unit(cells, by_pair, error, unit, rewards)
    whole = xp.maximum(by_unit.shrunk, by_unit.seen)
    held = xp.minimum(xp.maximum(own, least), whole)
    stretch = xp.sqrt(held / xp.where(own > 0.0, own, 1.0))
    added = shrunk * stretch[:, None] * stretch - seen
    where = xp.arange(len(added))
    return replaced(added, (where, where), whole - by_unit.seen)


def _few_visits_by_unit(
    cells: Cells,
    by_pair: Float[Any, "N P"],
    error: Float[Any, "N C"],
    unit: Int[Any, "N P"],
    rewards: TransformedRewards | None,
) -> FewVisits:
    """Each candidate's own `few_visits`, counted as in its first estimate."""
    sums = None if rewards is None else rewards._replace(by_row=None, cell=None)

    def one(by_pair: Any, error: Any, unit: Any, own: TransformedRewards | None) -> FewVisits:
        return few_visits(with_rewards(cells, own), by_pair, error, unit)

    return each(one, by_pair, error, unit, sums)
