"""The values of a belief alone, on labels: what thousands of trials need of a fit.

Most of a fit's time goes into what comes with the values: weights and their covariance, losses, the
layout of the belief; and every new shape of log compiles it all again. Location, scale and degrees
of freedom of each value, and the correlations between them, are worked out here by the functions
that `bayesdice_ppl.fit` is made of, in few shapes, and values are drawn from these.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.special import ndtr, stdtrit

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.fitting import FitSettings
from bayesdice_ppl.inference import FitForm
from bayesdice_ppl.inference.copula import correlation_matrix, influence_covariance
from bayesdice_ppl.inference.marginals import OneValue, one_value
from bayesdice_ppl.moments import Candidates, Cells


@final
class ValueBelief(NamedTuple):
    """Student t beliefs of N values, tied by a Gaussian copula.

    Attributes
    ----------
    mean, sd, degrees_of_freedom
        Location, scale and degrees of freedom (infinite: a normal) of each value, shape (N,).
    correlation
        Of the normal scores, shape (N, N).
    """

    mean: Float[Any, " N"]
    sd: Float[Any, " N"]
    degrees_of_freedom: Float[Any, " N"]
    correlation: Float[Any, "N N"]


def value_belief(cells: Cells, candidates: Candidates, settings: FitSettings) -> ValueBelief:
    """Closed-form belief of the values of all candidates.

    Parameters
    ----------
    cells, candidates
        The log and the candidates, from `bayesdice_ppl.fitting.read_inputs`, on one-hot features.
    settings
        The fit's settings: those of the library by default or of ``preset="paper"``, in which the
        price is n whatever the rank of the residual is.

    Raises
    ------
    SettingsError
        They are others; see `check_form`.
    """
    check_form(settings)
    cells, candidates = pad(cells, candidates)
    with jax.enable_x64(True):
        found = _believe(cells, jax.tree.map(jnp.asarray, candidates), settings.form)
        mean, sd, df, covariance = map(np.asarray, found)
    correlation = correlation_matrix(covariance) if settings.joint else np.eye(len(mean))
    return ValueBelief(mean, sd, df, correlation)


def draw_belief(belief: ValueBelief, draws: int, rng_key: PRNGKeyArray) -> Float[np.ndarray, "S N"]:
    """Draw values jointly, shape (S, N): each normal score at its own quantile of Student's t."""
    with jax.enable_x64(True):
        shape = (draws, len(belief.mean))
        normal = np.asarray(jax.random.normal(rng_key, shape, jnp.float64))
    values, vectors = np.linalg.eigh(belief.correlation)
    score = normal @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    # From the lower tail, where probabilities keep their precision.
    tail = stdtrit(belief.degrees_of_freedom, ndtr(-np.abs(score)))
    return belief.mean + belief.sd * np.copysign(tail, score)


def pad(cells: Cells, candidates: Candidates) -> tuple[Cells, Candidates]:
    """Add pairs, states and starts that nothing leads to, so that logs have few shapes.

    Parameters
    ----------
    cells, candidates
        The log and the candidates on its pairs.

    Returns
    -------
    (Cells, Candidates)
        With as many pairs, states and starts as the next multiple of an eighth of the power of two
        below; what was added is never logged, never taken, and in no policy's features.
    """
    target = np.asarray(candidates.target)
    n_pairs, n_states = target.shape[1], candidates.kept.shape[1]
    n_starts = len(cells.initial_state)
    pairs, states, starts = (_more(size) for size in (n_pairs, n_states, n_starts))
    cells = cells._replace(
        pair_state=np.pad(cells.pair_state, (0, pairs)),
        pair_action=np.pad(cells.pair_action, (0, pairs)),
        initial_state=np.pad(cells.initial_state, (0, starts)),
        initial_weight=np.pad(cells.initial_weight, (0, starts)),
    )
    candidates = candidates._replace(
        target=np.pad(target, ((0, 0), (0, pairs))),
        active=np.pad(candidates.active, ((0, 0), (0, pairs))),
        kept=np.pad(candidates.kept, ((0, 0), (0, states)), constant_values=1.0),
    )
    return cells, candidates


def _more(size: int) -> int:
    step = max(2 ** (size.bit_length() - 4), 4)
    return -size % step


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


@partial(jax.jit, static_argnames="form")
def _believe(
    cells: Cells, candidates: Candidates, form: FitForm
) -> tuple[Array, Array, Array, Array]:
    def one(candidate: Candidates) -> OneValue:
        found = one_value(cells, candidate, form, cells.n_transitions)
        # Sigma fills the memory, and nothing after this reads it.
        return found._replace(pilot=found.pilot._replace(covariance=jnp.zeros((0, 0))))

    mean, sd, pilots = jax.lax.map(one, candidates)
    covariance = influence_covariance(cells, pilots, small_sample=form.small_sample)
    return mean, sd, pilots.degrees_of_freedom, covariance
