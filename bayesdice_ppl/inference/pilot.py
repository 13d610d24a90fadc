"""The pilot: a first ratio, at which the residual's covariance is evaluated and then frozen.

Sigma depends on the ratio that is being inferred. As in two-step generalized method of moments, a
first estimate with Sigma at the logs' own ratio (one everywhere) gives the ratio at which Sigma is
evaluated once and for all; the same estimate gives the temporal-difference errors from which the
small-sample rule and the joint belief are made.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bayesdice_ppl.constraint import residual_covariance, start_weight
from bayesdice_ppl.inference.gain import condition_value
from bayesdice_ppl.moments import Cells, Moments, MomentSettings, cell_ratio, reward_moments


class Pilot(NamedTuple):
    """What the pilot knows of one policy.

    Attributes
    ----------
    mean
        The pilot's estimate of (weights, value), shape (K + 1,).
    covariance
        Sigma at the pilot's ratio, frozen, small-sample term included, shape (R, R).
    ratio
        The ratio of each cell, shape (C,).
    error
        Temporal-difference error of each cell before its reward is added, shape (C,); up to a
        constant at gamma = 1.
    start_value
        Action value of the policy in each initial state, shape (E,).
    slope
        How a row of the residual moves the value, in units of the value's own row, shape (R,):
        minus the action value, seen through the test features.
    start_weight
        Mass that enters by the initial states per step, c0, scalar.
    degrees_of_freedom
        Of the Student t from which values are drawn: by the small-sample rule, m - 1 for other
        features with episodes as the unit, else infinite.
    unit
        The pair that each pair's visits are counted with, shape (P,); see `Moments`.
    """

    mean: Float[Array, " K"]
    covariance: Float[Array, "R R"]
    ratio: Float[Array, " C"]
    error: Float[Array, " C"]
    start_value: Float[Array, " E"]
    start_weight: Float[Array, ""]
    slope: Float[Array, " R"]
    degrees_of_freedom: Float[Array, ""]
    unit: Int[Array, " P"] | None = None


def run_pilot(
    cells: Cells,
    moments: Moments,
    settings: MomentSettings,
    *,
    by_episode: bool = False,
    small_sample: bool = True,
) -> Pilot:
    """Estimate a first ratio and freeze Sigma at it.

    Parameters
    ----------
    cells, moments, settings
        The log, what it says of one policy, and how it was read.
    by_episode
        Whether episodes are the independent unit, rather than transitions.
    small_sample
        Add to Sigma what the spread of rewards and successors within a pair does not show when
        the pair was logged a few times, and give the values a Student t. For one-hot features.
    """
    # The prior's center is a ratio of one everywhere, whatever the features are.
    one = moments.prior_mean[:-1]
    clustered = by_episode and settings.tabular
    first = residual_covariance(cells, moments, one, settings, by_episode=clustered)
    estimate = condition_value(
        moments.matrix,
        moments.offset,
        first / cells.n_transitions,
        moments.prior_mean,
        moments.prior_scale,
    )
    weights = estimate.mean[:-1] * moments.active
    covariance = residual_covariance(cells, moments, weights, settings, by_episode=clustered)

    # The gain's row for the value holds minus the action values, and minus one for the reward;
    # seen from there a row of the design is a temporal-difference error.
    slope = estimate.gain / estimate.gain[-1]
    ratio = cell_ratio(cells, moments, weights)
    error = moments.design @ slope
    df = jnp.asarray(jnp.inf, weights.dtype)
    if by_episode and not settings.tabular:
        extra = episode_surplus(cells, moments, weights, slope, covariance, settings)
        covariance = covariance.at[-1, -1].add(extra)
        df = cells.n_episodes - 1.0
    if small_sample:
        extra, df = small_sample_rule(cells, weights, error, moments.unit)
        covariance = covariance.at[-1, -1].add(cells.n_transitions * extra)
    return Pilot(
        mean=jnp.append(weights, estimate.mean[-1]),
        covariance=covariance,
        ratio=ratio,
        error=error,
        start_value=moments.initial @ slope,
        start_weight=start_weight(cells, ratio, settings),
        slope=slope,
        degrees_of_freedom=df,
        unit=moments.unit,
    )


def episode_surplus(
    cells: Cells,
    moments: Moments,
    weights: Float[Array, " K"],
    slope: Float[Array, " R"],
    covariance: Float[Array, "R R"],
    settings: MomentSettings,
) -> Float[Array, ""]:
    """What episodes as the unit add to the value's entry of a Sigma made from transitions.

    Parameters
    ----------
    cells, moments, settings
        The log, kept apart by episode, what it says of one policy, and how it was read.
    weights
        Weights of the ratio at which Sigma is evaluated, shape (K,).
    slope
        How a row of the residual moves the value, shape (R,).
    covariance
        Sigma with transitions as the unit, shape (R, R).

    Returns
    -------
    Array
        Scalar, not negative.

    Notes
    -----
    Sigma from m episodes has rank m - 1 at most. With hundreds of features most directions would
    then look exact, and the gain would put its trust in them: on CartPole (50 episodes, 200
    features) beliefs came out four times too narrow. The metric is therefore made from
    transitions, and only the variance in the value's own direction, one number, from episodes.
    """
    whole = residual_covariance(cells, moments, weights, settings, by_episode=True)
    return jnp.maximum(0.0, slope @ (whole - covariance) @ slope)


class FewVisits(NamedTuple):
    """The variance of a value as few visits to each pair show it; see `few_visits`.

    Attributes
    ----------
    shrunk
        With squared errors shrunk towards their pooled mean, scalar.
    seen
        As the log has it, which is a part of Sigma already, scalar.
    degrees_of_freedom
        Of the former, scalar.
    """

    shrunk: Float[Array, ""]
    seen: Float[Array, ""]
    degrees_of_freedom: Float[Array, ""]


def small_sample_rule(
    cells: Cells,
    weights: Float[Array, " P"],
    error: Float[Array, " C"],
    unit: Int[Array, " P"] | None = None,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Variance of the value that few visits hide, and the degrees of freedom of its spread.

    Parameters
    ----------
    cells, weights, error, unit
        As for `few_visits`.

    Returns
    -------
    (Array, Array)
        The variance to add to that of the value, and the degrees of freedom; scalars.
    """
    found = few_visits(cells, weights, error, unit)
    return jnp.maximum(0.0, found.shrunk - found.seen), found.degrees_of_freedom


def few_visits(
    cells: Cells,
    weights: Float[Array, " P"],
    error: Float[Array, " C"],
    unit: Int[Array, " P"] | None = None,
) -> FewVisits:
    """Variance of the value, with the spread of pairs that were logged a few times shrunk.

    Parameters
    ----------
    cells
        The log.
    weights
        The ratio of each pair, shape (P,).
    error
        Temporal-difference error of each cell without its reward, shape (C,).
    unit
        The pair that each pair's visits are counted with, shape (P,), of the same ratio; None:
        each is counted by itself.

    Notes
    -----
    Within a pair the squared errors are shrunk towards their pooled mean with the weight of two
    observations, s2 = (SS + 2 pool) / (n_sa + 1), v = d^2 s2 / n_sa with d the pair's share of the
    policy's visits, and the degrees of freedom are Satterthwaite's, (sum v)^2 / sum(v^2 / (n_sa +
    1)).

    Of the policy that logged, whose choice of actions is a part of what varies in a state, visits
    and errors are counted by state, and SS holds what its actions differ by.
    """
    n_pairs = weights.shape[0]
    counted_with = cells.pair if unit is None else unit[cells.pair]

    def by_pair(x: Float[Array, " C"]) -> Float[Array, " P"]:
        return jax.ops.segment_sum(x, counted_with, num_segments=n_pairs)

    visits = by_pair(cells.count)
    seen = visits > 0.0
    divisor = jnp.where(seen, visits, 1.0)
    total = by_pair(cells.count * error + cells.reward_sum)
    square = by_pair(
        cells.count * error**2 + 2.0 * error * cells.reward_sum + cells.reward_square_sum
    )
    scatter = jnp.where(seen, jnp.maximum(square - total**2 / divisor, 0.0), 0.0)
    repeats = jnp.sum(jnp.where(seen, visits - 1.0, 0.0))
    # Where no pair was logged twice, nothing but the spread of the rewards is left to pool.
    pool = jnp.where(
        repeats > 0.0,
        jnp.sum(scatter) / jnp.where(repeats > 0.0, repeats, 1.0),
        reward_moments(cells)[1] ** 2,
    )
    share = weights * visits / cells.n_transitions
    shrunk = (scatter + 2.0 * pool) / (visits + 1.0)
    variance = share**2 * shrunk / divisor
    plain = jnp.sum(share**2 * scatter / divisor**2)
    spread = jnp.sum(variance)
    heavy = jnp.sum(variance**2 / (visits + 1.0))
    df = jnp.where(heavy > 0.0, spread**2 / jnp.where(heavy > 0.0, heavy, 1.0), jnp.inf)
    return FewVisits(spread, plain, df)
