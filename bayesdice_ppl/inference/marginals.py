"""Closed-form beliefs of values alone: of one, or of many means at once, one number each.

To invert a distribution function its belief is needed at many points, of which each is the mean of
an indicator. Only the mean, the spread and the degrees of freedom of each are kept.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesdice_ppl import penalties
from bayesdice_ppl.inference.engine import Candidates, state_features
from bayesdice_ppl.inference.exact import exact_posterior, exact_value
from bayesdice_ppl.inference.pilot import Pilot, run_pilot
from bayesdice_ppl.inference.settings import FitSettings
from bayesdice_ppl.moments import (
    Cells,
    MomentSettings,
    TransformedRewards,
    build_moments,
    with_rewards,
)


class Marginals(NamedTuple):
    """Student t beliefs of J means: location, scale and degrees of freedom, each of shape (J,)."""

    mean: Float[Any, " J"]
    sd: Float[Any, " J"]
    degrees_of_freedom: Float[Any, " J"]


class OneValue(NamedTuple):
    """Belief of one candidate's value, and what it rests on.

    Attributes
    ----------
    mean, sd
        Location and scale of the value's Student t, scalars.
    pilot
        The candidate's pilot, which holds the degrees of freedom.
    """

    mean: Float[Array, ""]
    sd: Float[Array, ""]
    pilot: Pilot


def one_value(
    cells: Cells,
    candidate: Candidates,
    settings: MomentSettings,
    price: Float[Array, ""],
    *,
    by_episode: bool = False,
    small_sample: bool,
    squared: bool,
    value_constraint: bool,
) -> OneValue:
    """Closed-form belief of one candidate's value, from a log that may be traced.

    Parameters
    ----------
    cells
        The log.
    candidate
        One of `Candidates`, whose fields have lost their first axis.
    settings
        How the log is read.
    price
        lambda / epsilon; n is what gives calibrated beliefs.
    by_episode, small_sample
        As for `run_pilot`.
    squared
        The squared penalty, instead of the Mahalanobis one.
    value_constraint
        Whether the value is a latent number of its own, or the one that the ratio implies.
    """
    moments = build_moments(cells, state_features(cells, candidate), settings)
    pilot = run_pilot(cells, moments, settings, by_episode=by_episode, small_sample=small_sample)
    metric = jnp.eye(len(moments.offset)) if squared else pilot.covariance
    if value_constraint:
        found = exact_value(moments, metric, price)
        return OneValue(found.mean[-1], found.sd, pilot)
    whole = exact_posterior(moments, metric, price, value_constraint=False)
    return OneValue(whole.mean[-1], whole.sd[-1], pilot)


def value_marginals(
    cells: Cells,
    candidates: Candidates,
    rewards: TransformedRewards,
    price: Float[np.ndarray, " J"],
    settings: FitSettings,
) -> Marginals:
    """Closed-form belief of the mean of each entry's rewards.

    Parameters
    ----------
    cells
        The log.
    candidates
        One for each of the J entries.
    rewards
        What each entry counts.
    price
        lambda / epsilon of each entry.
    settings
        The fit's settings. Penalties that have no closed form are taken as the Mahalanobis one,
        and the normalization as one of the rows.
    """
    squared = settings.penalty == penalties.squared()
    with jax.enable_x64(True):
        found = _marginals(
            cells,
            candidates,
            rewards._replace(by_row=None, cell=None),
            price,
            settings.moments,
            settings.by_episode,
            settings.small_sample,
            squared,
            settings.value_constraint,
        )
        return jax.tree.map(np.asarray, found)


@partial(
    jax.jit,
    static_argnames=("settings", "by_episode", "small_sample", "squared", "value_constraint"),
)
def _marginals(
    log: Cells,
    candidates: Candidates,
    rewards: TransformedRewards,
    price: Array,
    settings: MomentSettings,
    by_episode: bool,
    small_sample: bool,
    squared: bool,
    value_constraint: bool,
) -> Marginals:
    def one(given: tuple[Candidates, TransformedRewards, Array]) -> Marginals:
        candidate, counted, one_price = given
        found = one_value(
            with_rewards(log, counted),
            candidate,
            settings,
            one_price,
            by_episode=by_episode,
            small_sample=small_sample,
            squared=squared,
            value_constraint=value_constraint,
        )
        return Marginals(found.mean, found.sd, found.pilot.degrees_of_freedom)

    given = jax.tree.map(jnp.asarray, (candidates, rewards, price))
    return jax.lax.map(one, given)
