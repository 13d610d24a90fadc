"""The values of a belief alone, for worlds of thousands of pairs.

With so many pairs nearly all of a fit's time goes into the covariance of the weights, its root and
its rank, of which the values need nothing. Location, scale and degrees of freedom of each value and
the correlations between them are worked out here by the functions that `bayesdice_ppl.fit` is made
of, and values are drawn from these.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.special import ndtr, stdtrit

from bayesdice_ppl.inference import Candidates, FitSettings, Pilot, run_pilot
from bayesdice_ppl.inference.copula import correlation_matrix, influence_covariance
from bayesdice_ppl.inference.engine import state_features
from bayesdice_ppl.inference.exact import exact_value
from bayesdice_ppl.moments import Cells, MomentSettings, build_moments


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
        The log and the candidates, from `bayesdice_ppl.preparation.gather`, on one-hot features.
    settings
        The fit's settings: the library's defaults but for ``gamma`` and ``on_termination``, at
        which the price is n whatever the rank of the residual.
    """
    with jax.enable_x64(True):
        mean, sd, df, covariance = map(
            np.asarray,
            _believe(
                cells,
                jax.tree.map(jnp.asarray, candidates),
                settings.moments,
                settings.small_sample,
            ),
        )
    return ValueBelief(mean, sd, df, correlation_matrix(covariance))


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


@partial(jax.jit, static_argnames=("settings", "small_sample"))
def _believe(
    cells: Cells, candidates: Candidates, settings: MomentSettings, small_sample: bool
) -> tuple[Array, Array, Array, Array]:
    def one(candidate: Candidates) -> tuple[Array, Array, Pilot]:
        moments = build_moments(cells, state_features(cells, candidate), settings)
        pilot = run_pilot(cells, moments, settings, small_sample=small_sample)
        found = exact_value(moments, pilot.covariance, cells.n_transitions)
        # Sigma fills the memory, and nothing after this reads it.
        return found.mean[-1], found.sd, pilot._replace(covariance=jnp.zeros((0, 0)))

    mean, sd, pilots = jax.lax.map(one, candidates)
    covariance = influence_covariance(cells, pilots, small_sample=small_sample)
    return mean, sd, pilots.degrees_of_freedom, covariance
