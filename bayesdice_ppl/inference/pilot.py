"""The first estimate, or pilot: the ratio at which Sigma is evaluated and then frozen.

Sigma depends on the ratio that is being inferred. As in two-step generalized method of moments, a
first estimate is made with Sigma at the logging policy's ratio, one everywhere, or at the action
ratio where it is known. Sigma is then evaluated at that estimate: once for a linear ratio, a few
times for others. The last estimate gives the temporal-difference errors for the small-sample rule
and the joint belief.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.arrays import added, library_of, repeated
from bayesdice_ppl.constraint import residual_covariance, small_sample_rule, start_weight
from bayesdice_ppl.models import FirstEstimate, Ratio
from bayesdice_ppl.moments import VALUE_ROW, Cells, Moments, MomentSettings


class Pilot(NamedTuple):
    """The first estimate for one policy, and Sigma.

    Attributes
    ----------
    by_pair, value
        First estimate of the ratio of each pair, shape (P,), and of the value, scalar.
    covariance
        Sigma at that ratio, frozen, with the small-sample term, shape (R, R). Where the weights
        were eliminated it is Sigma along the slope alone, shape (1, 1).
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
        Degrees of freedom of the Student t from which values are drawn. By the small-sample rule;
        m - 1 for other features with episodes as the unit; else infinite.
    latent
        Latent numbers and value of the estimate, shape (L + 1,).
    unit
        The pair that each pair's visits are counted with, shape (P,); see `Moments`.
    """

    by_pair: Float[Any, " P"]
    value: Float[Any, ""]
    covariance: Float[Any, "R R"]
    ratio: Float[Any, " C"]
    error: Float[Any, " C"]
    start_value: Float[Any, " E"]
    start_weight: Float[Any, ""]
    slope: Float[Any, " R"]
    degrees_of_freedom: Float[Any, ""]
    latent: Float[Any, " L"]
    unit: Int[Any, " P"] | None = None


def run_pilot(
    cells: Cells,
    ratio: Ratio,
    settings: MomentSettings,
    *,
    by_episode: bool = False,
    small_sample: bool = True,
) -> Pilot:
    """Estimate a first ratio and freeze Sigma at it.

    Parameters
    ----------
    cells, ratio, settings
        The log, the form of the ratio on it, and how the log was read.
    by_episode
        Whether episodes are the independent unit, rather than transitions.
    small_sample
        Whether to add the variance that rarely logged pairs hide to Sigma, and give the values a
        Student t. For one-hot features.
    """
    moments, n = ratio.moments, cells.n_transitions
    clustered = by_episode and settings.tabular
    # The logging policy's ratio: one everywhere, or on the pairs that the policy visits.
    n_cells = cells.pair.shape[0]
    xp = library_of(moments.design)
    one = moments.active[cells.pair] if settings.tabular else xp.ones(n_cells)
    if moments.action_ratio is not None:
        one = moments.action_ratio[cells.pair]

    def covariance_at(by_cell: Float[Any, " C"]) -> Float[Any, "R R"]:
        return residual_covariance(cells, moments, by_cell, settings, by_episode=clustered)

    estimate = ratio.estimate(covariance_at(one) / n)

    def refresh(state: tuple[Int[Any, ""], FirstEstimate]) -> tuple[Int[Any, ""], FirstEstimate]:
        taken, last = state
        found = ratio.estimate(covariance_at(last.by_pair[cells.pair]) / n, last.latent)
        return taken + 1, found

    if ratio.refreshes > 1:
        more = ratio.refreshes - 1
        counted = (xp.asarray(0), estimate)
        _, estimate = repeated(lambda state: state[0] < more, refresh, counted)
    by_cell, slope = estimate.by_pair[cells.pair], estimate.slope
    covariance = covariance_at(by_cell)
    # A row of the design times the slope is a temporal-difference error.
    error = moments.design @ slope
    df = xp.asarray(xp.inf, by_cell.dtype)
    if by_episode and not settings.tabular:
        extra = episode_surplus(cells, moments, by_cell, slope, covariance, settings)
        covariance = added(covariance, (VALUE_ROW, VALUE_ROW), extra)
        df = cells.n_episodes - 1.0
    if small_sample:
        extra, df = small_sample_rule(cells, estimate.by_pair, error, moments.unit)
        covariance = added(covariance, (VALUE_ROW, VALUE_ROW), n * extra)
    return Pilot(
        by_pair=estimate.by_pair,
        value=estimate.value,
        covariance=covariance,
        ratio=by_cell,
        error=error,
        start_value=moments.initial @ slope,
        start_weight=start_weight(cells, by_cell, settings),
        slope=slope,
        degrees_of_freedom=df,
        latent=estimate.latent,
        unit=moments.unit,
    )


def value_variances(pilots: Pilot, n: float) -> Float[np.ndarray, " N"]:
    """Variance of each candidate's value over repeated logs of n transitions, shape (N,)."""
    covariance = np.asarray(pilots.covariance)
    if covariance.shape[-1] == 1:
        along: np.ndarray = covariance[:, 0, 0] / n
        return along
    both = zip(np.asarray(pilots.slope), covariance, strict=True)
    return np.array([slope @ sigma @ slope for slope, sigma in both]) / n


def episode_surplus(
    cells: Cells,
    moments: Moments,
    ratio: Float[Any, " C"],
    slope: Float[Any, " R"],
    covariance: Float[Any, "R R"],
    settings: MomentSettings,
) -> Float[Any, ""]:
    """The variance that episodes as the unit add to the value's entry of Sigma by transition.

    Parameters
    ----------
    cells, moments, settings
        The log, kept apart by episode, the moments of one policy, and how the log was read.
    ratio
        The ratio of each cell, shape (C,), at which Sigma is evaluated.
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
    then look exact, and the gain would trust them: on CartPole (50 episodes, 200 features) beliefs
    came out four times too narrow. The metric is therefore made from transitions. Only one number
    comes from episodes: the variance in the value's own direction.
    """
    # The rows as the slope weighs them are one row, to which the reward adds with a weight of one.
    seen = moments._replace(
        design=(moments.design @ slope)[:, None], initial=(moments.initial @ slope)[:, None]
    )
    whole = residual_covariance(cells, seen, ratio, settings, by_episode=True)
    return library_of(whole).maximum(0.0, whole[0, 0] - slope @ covariance @ slope)
