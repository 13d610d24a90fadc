"""From posteriors to draws: value, weights and loss, joint over the candidates.

Values have the heavier tails of Student's t under the small-sample rule, and the skewness of their
estimate's error. The copula reorders whole draws, so that errors on the same logs move together.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.arrays import compiled_for_jax, each, library_of, one_by_one
from bayesdice_ppl.constraint import ChanceConstraint
from bayesdice_ppl.inference.copula import (
    correlation_matrix,
    influence_covariance,
    joint_ranks,
    reorder,
)
from bayesdice_ppl.inference.correction import within_pairs
from bayesdice_ppl.inference.dependence import group_covariance
from bayesdice_ppl.inference.engine import Solution
from bayesdice_ppl.inference.problem import QUICK, FitForm, Problem
from bayesdice_ppl.inference.skewness import Tails, standard_quantile
from bayesdice_ppl.inference.unseen import Unseen
from bayesdice_ppl.keys import normal_numbers, split_key
from bayesdice_ppl.models import GaussianPosterior, Ratio, less_value
from bayesdice_ppl.models.gaussian import WIDE
from bayesdice_ppl.moments import VALUE_ROW, Candidates


class Drawing(NamedTuple):
    """How a belief is drawn.

    Attributes
    ----------
    draws
        Number S of posterior draws.
    joint
        Whether the values move together as errors on the same logs do.
    n_statistics
        Number of statistics of each candidate among the entries; those of one stay joint.
    """

    draws: int = 4000
    joint: bool = True
    n_statistics: int = 1


class Draws(NamedTuple):
    """Joint draws.

    Attributes
    ----------
    value, loss
        Shape (S, N): the value in reward per step, and the chance-constraint loss ell. The loss is
        None where the weights were eliminated.
    recorded
        What the model records of the ratio of each draw, shape (S, N, W), or None likewise.
    correlation
        Correlation of the values in the copula, shape (N, N); the identity if not joint.
    normalization
        Loss of the normalization, shape (S, N), if it is a constraint of its own; else None.
    """

    value: Float[np.ndarray, "S N"]
    loss: Float[np.ndarray, "S N"] | None
    recorded: Float[np.ndarray, "S N W"] | None
    correlation: Float[np.ndarray, "N N"]
    normalization: Float[np.ndarray, "S N"] | None = None


def draw(
    problem: Problem,
    solution: Solution,
    candidates: Candidates,
    rng_key: PRNGKeyArray,
    form: FitForm,
    drawing: Drawing,
    unseen: Unseen | None = None,
) -> Draws:
    """Draw values, weights and losses of all candidates.

    If ``joint``, all candidates share their random numbers and the copula reorders their draws, so
    that identical candidates share every draw. Otherwise each candidate has draws of its own.
    Weights and loss belong to the value without pairs that were never logged. With ``unseen`` the
    value of a draw is the one of the same probability with them.
    """
    key_draws, key_ranks = split_key(rng_key)
    n_policies = candidates.active.shape[0]
    mean, factor = (np.asarray(array) for array in solution.posterior)
    df = np.asarray(problem.pilots.degrees_of_freedom)
    with jax.enable_x64(True):
        if solution.sampled is None:
            one = (drawing.draws, factor.shape[2])
            shape = one if drawing.joint else (n_policies, *one)
            normal = normal_numbers(key_draws, shape, factor.dtype)
            score = _scores(normal, factor[:, -1])
            latent = None
        else:
            latent = solution.sampled.reshape(n_policies, -1, mean.shape[1])
            normal = None
            sd = np.sqrt(np.sum(factor[:, -1] ** 2, axis=1))
            score = ((latent[:, :, -1] - mean[:, -1:]) / np.where(sd > 0.0, sd, 1.0)[:, None]).T
        tails = problem.tails
        scale = np.sqrt(np.sum(factor[:, -1] ** 2, axis=1))
        value = mean[:, -1] + scale * _quantile(tails, score, df)
        others: tuple[Any, ...] = (None, None, None)
        if not problem.alone:
            found = _draws(
                solution.of(problem.arrays),
                solution.posterior,
                normal,
                latent,
                value,
                form.constraint.value_constraint or form.model.linear,
            )
            value = np.asarray(found[0])
            others = tuple(None if array is None else np.asarray(array) for array in found[1:])
        if unseen is not None:
            tails = None if tails is None else tails.diluted(unseen.kept_lean)
            found_there = _quantile(tails, score, unseen.degrees_of_freedom)
            value = mean[:, -1] + unseen.shift + unseen.sd(scale) * found_there
        n_statistics = drawing.n_statistics
        if not drawing.joint and n_statistics == 1:
            loss, weight, own = others
            return Draws(value, loss, weight, np.eye(n_policies), own)
        # One column of the copula for each distinct candidate: equal candidates share it exactly.
        apart = None if unseen is None else unseen.mass
        first, copy = candidates.copies(problem.rewards, apart)
        if not drawing.joint:
            first = copy = np.arange(n_policies)
        covariance = value_covariance(problem, form) if unseen is None else unseen.covariance
        correlation = correlation_matrix(np.asarray(covariance))
        if not drawing.joint:
            # The paper's product is over candidates: the statistics of one stay joint.
            candidate = np.arange(n_policies) % (n_policies // n_statistics)
            correlation = np.where(candidate[:, None] == candidate, correlation, 0.0)
        distinct = correlation[np.ix_(first, first)]
        ranks = joint_ranks(distinct, len(value), key_ranks)[:, copy]
    # Copies differ by rounding, which a comparison of draws would take for a true difference.
    original = first[copy]
    value = value[:, original]
    chosen = reorder(value, ranks)

    def moved(array: np.ndarray | None) -> np.ndarray | None:
        """What belongs to each value, in the order of the values."""
        return None if array is None else array[chosen, original]

    loss, weight, own = (moved(array) for array in others)
    value = np.take_along_axis(value, chosen, axis=0)
    return Draws(value, loss, weight, distinct[np.ix_(copy, copy)], own)


# Compiled as a whole; otherwise a first fit compiles dozens of single operations.
_influence_covariance = compiled_for_jax(
    influence_covariance,
    static_argnames=("by_episode", "small_sample"),
    compiler_options=QUICK,
)


def value_covariance(problem: Problem, form: FitForm) -> Float[np.ndarray, "N N"]:
    """Covariance of the values over repeated logs, with the unit of independence that was found."""
    small = form.small_sample
    whole = _influence_covariance(
        problem.cells,
        problem.pilots,
        problem.rewards,
        by_episode=form.by_episode,
        small_sample=small,
    )
    if problem.known is not None:
        whole = np.asarray(whole) + problem.known
    unit, rows = problem.unit, problem.dependence
    if unit is not None and unit.correction is not None:
        before = within_pairs(problem.cells, problem.pilots, small_sample=small)
        whole = np.asarray(whole) + unit.correction.covariance - before
    if unit is None or rows is None or not unit.groupings:
        return np.asarray(whole)
    parts = (problem.cells, problem.pilots)
    plain = np.asarray(
        _influence_covariance(*parts, problem.rewards, by_episode=form.by_episode)
        if small
        else whole
    )
    found = group_covariance(*parts, rows, unit, problem.rewards, plain)
    return found + np.asarray(whole) - plain


def _quantile(
    tails: Tails | None, score: Float[np.ndarray, "S N"], df: Float[np.ndarray, " N"]
) -> Float[np.ndarray, "S N"]:
    """Values less their location, over their scale."""
    return standard_quantile(score, df) if tails is None else tails.quantile(score, df)


def _scores(
    normal: Float[np.ndarray, "*N S L"], factor: Float[np.ndarray, "N L"]
) -> Float[np.ndarray, "S N"]:
    """Standard normal score of each draw's value."""
    sd = np.sqrt(np.sum(factor**2, axis=1))
    unit = factor / np.where(sd > 0.0, sd, 1.0)[:, None]
    return normal @ unit.T if normal.ndim == 2 else np.einsum("nsl,nl->sn", normal, unit)


@partial(compiled_for_jax, static_argnames="gaussian", compiler_options=QUICK)
def _draws(
    problem: Problem,
    posterior: GaussianPosterior,
    normal: Any,
    latent: Any,
    value: Any,
    gaussian: bool,
) -> tuple[Any, Any, Any, Any]:
    def one(
        ratio: Ratio,
        constraint: ChanceConstraint,
        posterior: GaussianPosterior,
        normal: Any,
        latent: Any,
        value: Any,
    ) -> tuple[Any, Any, Any, Any]:
        mean, factor = posterior
        xp = library_of(mean)
        if latent is None:
            latent = mean + normal @ factor.T
        # The ratio follows a value into its heavier tail by regression on it, so that the draw
        # still meets the constraints as well as the Gaussian one did.
        stretch = value - latent[:, -1]
        variance = (factor[-1] ** 2).sum()
        slope = factor[:-1] @ factor[-1] / xp.where(variance > 0.0, variance, 1.0)
        latent = latent[:, :-1] + stretch[:, None] * slope
        fixed = ratio.residual(latent)
        if not gaussian:
            # The value is not affine in the latent numbers, so it is computed from the ratio.
            value = fixed[:, VALUE_ROW]
        residual = less_value(fixed, value)
        loss = constraint.penalty.value(residual)
        own = None
        if constraint.auxiliary is not None:
            own = constraint.auxiliary.penalty.value(residual)
        recorded = ratio.recorded(latent)
        # Many weights in double precision would fill the memory; beliefs keep them in single.
        many = recorded.shape[1] > WIDE
        return value, loss, recorded.astype(np.float32) if many else recorded, own

    # Joint candidates share their normal draws; independent ones have their own.
    own_draws = normal is not None and normal.ndim == 3
    stacked: dict[str, Any] = {
        "ratio": problem.ratio,
        "constraint": problem.constraint,
        "posterior": posterior,
        "latent": latent,
        "value": value.T,
    }
    if own_draws:
        stacked["normal"] = normal

    def of_one(given: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
        return one(**{"normal": normal, **given})

    # With thousands of latent numbers, one candidate after another, to save memory.
    wide = posterior.mean.shape[-1] > WIDE
    found = (one_by_one if wide else each)(of_one, stacked)
    return jax.tree.map(lambda x: library_of(x).moveaxis(x, 0, 1), found)
