"""The values of a belief alone, on labels: what thousands of trials need of a fit.

Most of a fit's time goes into what comes with the values: weights and their covariance, losses, the
layout of the belief. Location, scale and degrees of freedom of each value, and the correlations
between them, are worked out here by the functions that `bayesdice_ppl.fit` is made of, and values
are drawn from these.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.arrays import one_by_one, symmetric_root
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.fitting import FitSettings, Inputs, latent_pairs, unseen_from
from bayesdice_ppl.inference.copula import correlation_matrix, influence_covariance
from bayesdice_ppl.inference.marginals import OneValue, one_value
from bayesdice_ppl.inference.shapes import known_covariance, known_shift, shape_values
from bayesdice_ppl.inference.skewness import Rows, Tails, standard_quantile
from bayesdice_ppl.keys import normal_numbers
from bayesdice_ppl.moments import Candidates, Cells, KnownMeans


@final
class ValueBelief(NamedTuple):
    """Student t beliefs of N values, bent by their skewness and tied by a Gaussian copula.

    Attributes
    ----------
    mean, sd, degrees_of_freedom
        Location, scale and degrees of freedom (infinite: a normal) of each value, shape (N,).
    tails
        Skewness of the error of each estimate, and what else its moments say; None without the
        small-sample rule.
    correlation
        Of the normal scores, shape (N, N).
    """

    mean: Float[Any, " N"]
    sd: Float[Any, " N"]
    degrees_of_freedom: Float[Any, " N"]
    tails: Tails | None
    correlation: Float[Any, "N N"]

    def at(self, score: Float[np.ndarray, "S N"]) -> Float[np.ndarray, "S N"]:
        """Values at normal scores, shape (S, N)."""
        df = self.degrees_of_freedom
        tails = self.tails
        quantile = standard_quantile(score, df) if tails is None else tails.quantile(score, df)
        return np.asarray(self.mean + self.sd * quantile)


def value_belief(
    cells: Cells,
    candidates: Candidates,
    settings: FitSettings,
    rows: Rows,
    inputs: Inputs | None = None,
    known: KnownMeans | None = None,
) -> ValueBelief:
    """Closed-form belief of the values of all candidates.

    Parameters
    ----------
    cells, candidates
        The log and the candidates, from `bayesdice_ppl.fitting.read_inputs`, on one-hot features.
    settings
        The fit's settings: those of the library by default or of ``preset="paper"``, in which the
        price is n whatever the rank of the residual is.
    rows
        The rows behind the cells.
    inputs
        The input that they come from, whose pairs that were never logged become latents; None: they
        are left out, and their probability is moved to logged pairs.
    known
        What is known of the pairs' mean rewards, where the kind of reward is known; else None.

    Raises
    ------
    SettingsError
        They are others; see `check_form`.
    """
    check_form(settings)
    form = settings.form

    def one(candidate: Candidates) -> OneValue:
        found = one_value(cells, candidate, form, cells.n_transitions)
        # Sigma fills the memory, and nothing after this reads it.
        return found._replace(pilot=found.pilot._replace(covariance=np.zeros((0, 0))))

    mean, sd, pilots = one_by_one(one, jax.tree.map(np.asarray, candidates))
    covariance = influence_covariance(cells, pilots, small_sample=form.small_sample)
    df, tails = pilots.degrees_of_freedom, None
    if form.small_sample:
        law = form.constraint.value_law
        shaped = shape_values(cells, pilots, rows, np.asarray(sd) ** 2, law, known=known)
        sd, tails = np.sqrt(sd**2 + shaped.added), shaped.tails
        df = shaped.degrees_of_freedom
        if known is not None:
            mean = mean + known_shift(cells, pilots, known)
            covariance = covariance + known_covariance(cells, pilots, known)
    unseen = None
    if inputs is not None and latent_pairs(inputs):
        unseen = unseen_from(inputs, pilots, candidates, covariance)
    if unseen is not None:
        mean, sd, df = mean + unseen.shift, unseen.sd(sd), unseen.degrees_of_freedom
        covariance = unseen.covariance
        if tails is not None:
            tails = tails.diluted(unseen.kept_lean)
    correlation = correlation_matrix(covariance) if settings.joint else np.eye(len(mean))
    return ValueBelief(mean, sd, df, tails, correlation)


def draw_belief(belief: ValueBelief, draws: int, rng_key: PRNGKeyArray) -> Float[np.ndarray, "S N"]:
    """Draw values jointly, shape (S, N): each normal score at the quantile of its own value."""
    with jax.enable_x64(True):
        shape = (draws, len(belief.mean))
        normal = normal_numbers(rng_key, shape, np.dtype(np.float64))
    score = normal @ symmetric_root(belief.correlation)
    return belief.at(score)


def check_form(settings: FitSettings) -> None:
    """Refuse settings that neither `value_belief` nor the benchmarks' trials know.

    Raises
    ------
    SettingsError
        They are neither the library's defaults nor those of ``preset="paper"``, small-sample rule
        and joint belief aside, or features are not one-hot.
    """
    form = settings.form
    penalty = form.constraint.penalty
    paper = penalty.quadratic and not (penalty.calibrated or form.constraint.value_constraint)
    known = form.constraint.calibrated or paper
    if not known or form.by_episode or not settings.tabular:
        raise SettingsError(
            "value_belief: expected the library's default settings, or preset='paper', on one-hot "
            "features."
        )
