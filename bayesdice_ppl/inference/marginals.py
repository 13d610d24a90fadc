"""Closed-form beliefs of values alone: of one value, or of many means at once.

Inverting a distribution function takes its belief at many points. At each point the function is the
mean of an indicator. Only location, scale and degrees of freedom are kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from bayesdice_ppl.arrays import one_by_one
from bayesdice_ppl.inference.pilot import Pilot, run_pilot
from bayesdice_ppl.inference.problem import FitForm
from bayesdice_ppl.models import linear
from bayesdice_ppl.moments import (
    Candidates,
    Cells,
    TransformedRewards,
    build_moments,
    state_features,
    with_rewards,
)


class Marginals(NamedTuple):
    """Student t beliefs of J means: location, scale and degrees of freedom, each of shape (J,)."""

    mean: Float[Any, " J"]
    sd: Float[Any, " J"]
    degrees_of_freedom: Float[Any, " J"]


class OneValue(NamedTuple):
    """Belief of one candidate's value, and the first estimate behind it.

    Attributes
    ----------
    mean, sd
        Location and scale of the value's Student t, scalars.
    pilot
        The candidate's first estimate, with the degrees of freedom.
    """

    mean: Float[Any, ""]
    sd: Float[Any, ""]
    pilot: Pilot


def one_value(
    cells: Cells,
    candidate: Candidates,
    form: FitForm,
    price: Float[Any, ""],
) -> OneValue:
    """Closed-form belief of one candidate's value; may be traced by JAX.

    Parameters
    ----------
    cells
        The log.
    candidate
        One of `Candidates`; its fields lack the first axis.
    form
        What is fitted. A penalty without a closed form is replaced by Mahalanobis, the
        normalization is one of the rows, and the ratio is linear.
    price
        lambda / epsilon; n gives calibrated beliefs.
    """
    moments = build_moments(cells, state_features(cells, candidate), form.moments)
    ratio = linear().build(cells, moments, form.prior)
    pilot = run_pilot(
        cells,
        ratio,
        form.moments,
        by_episode=form.by_episode,
        small_sample=form.small_sample,
    )
    metric = form.constraint.penalty.metric(pilot.covariance)
    if form.constraint.value_constraint:
        found = ratio.value_posterior(metric, price)
        return OneValue(found.mean[-1], found.sd, pilot)
    whole = ratio.posterior(metric, price, value_constraint=False)
    return OneValue(whole.mean[-1], whole.sd[-1], pilot)


def value_marginals(
    cells: Cells,
    candidates: Candidates,
    rewards: TransformedRewards,
    price: Float[np.ndarray, " J"],
    form: FitForm,
) -> Marginals:
    """Closed-form belief of the mean of each entry's rewards.

    Parameters
    ----------
    cells
        The log.
    candidates
        One for each of the J entries.
    rewards
        The transformed rewards of each entry.
    price
        lambda / epsilon of each entry.
    form
        As for `one_value`.
    """

    def one(candidate: Candidates, counted: TransformedRewards, one_price: Any) -> Marginals:
        found = one_value(with_rewards(cells, counted), candidate, form, one_price)
        return Marginals(found.mean, found.sd, found.pilot.degrees_of_freedom)

    sums = rewards._replace(by_row=None, cell=None)
    return one_by_one(one, *jax.tree.map(np.asarray, (candidates, sums, price)))
