"""Held-out loss: how well a ratio fitted on some episodes meets the constraints on others.

The ratio is judged by the residual of the episodes left out. The loss is a U-statistic: it scores
the square of the expected residual and not the residual's noise. Otherwise a ratio of low variance
would win over a right one.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bayesdice_ppl.inference.pilot import run_pilot
from bayesdice_ppl.models import LinearGaussianRatio, RatioModel, less_value, linear
from bayesdice_ppl.moments import (
    VALUE_ROW,
    Candidates,
    Cells,
    Moments,
    MomentSettings,
    Prior,
    build_moments,
    renormalize_pairs,
    state_features,
)

RIDGE = 1e-2
"""Share of the mean eigenvalue that is added to the covariance before it is inverted."""


class FoldFit(NamedTuple):
    """A fit to a part of the log: ratio of each cell (N, C), and value (N,)."""

    ratio: Float[np.ndarray, "N C"]
    value: Float[np.ndarray, " N"]


def keep_episodes(cells: Cells, kept: Bool[Array, " m"]) -> Cells:
    """The log without some episodes, in the same shapes; cells must be kept apart by episode."""
    weight = kept.astype(cells.count.dtype)
    here = weight[cells.episode]
    return cells._replace(
        count=cells.count * here,
        reward_sum=cells.reward_sum * here,
        reward_square_sum=cells.reward_square_sum * here,
        initial_weight=weight / weight.sum(),
        n_transitions=jnp.sum(cells.count * here),
        n_episodes=weight.sum(),
    )


def over_counted_pairs(cells: Cells, candidate: Candidates) -> Candidates:
    """One candidate renormalized over the pairs in this part of the log.

    Inflow to a missing pair could not be balanced. With features other than one-hot there is
    nothing to renormalize.
    """
    if candidate.target is None:
        return candidate
    target = jnp.asarray(candidate.target)
    visits = jax.ops.segment_sum(cells.count, cells.pair, num_segments=target.shape[0])
    here = visits > 0.0
    renormalized, _ = renormalize_pairs(target * here, cells.pair_state, candidate.kept.shape[0])
    return candidate._replace(target=renormalized, active=jnp.asarray(candidate.active) * here)


def deal_folds(n_episodes: int, folds: int, rng_key: PRNGKeyArray) -> Bool[np.ndarray, "F m"]:
    """Episodes of each fold, shape (F, m); every episode is in one, and sizes differ by at most 1.

    Parameters
    ----------
    n_episodes
        m.
    folds
        F.
    rng_key
        Key that deals.
    """
    order = np.asarray(jax.random.permutation(rng_key, n_episodes))
    held_out = np.zeros((folds, n_episodes), dtype=bool)
    held_out[np.arange(n_episodes) % folds, order] = True
    return held_out


@partial(jax.jit, static_argnames=("settings", "prior", "model"))
def fit_folds(
    cells: Cells,
    candidates: Candidates,
    kept: Bool[Array, "F m"],
    settings: MomentSettings,
    prior: Prior,
    model: RatioModel = linear(),  # noqa: B008  an immutable NamedTuple
) -> FoldFit:
    """Ratio and value of every candidate on every part of the log, in closed form or at the mode.

    Parameters
    ----------
    cells
        The log, kept apart by episode.
    candidates
        The candidates.
    kept
        Episodes of each part, shape (F, m).
    settings, prior
        Discount, meaning of a termination, and how wide the priors are.
    model
        The model of the ratio. One that is not linear gives its first estimate.

    Returns
    -------
    FoldFit
        With a leading axis over the F parts.
    """

    def one(given: tuple[Array, Candidates]) -> tuple[Array, Array]:
        episodes, candidate = given
        part = keep_episodes(cells, episodes)
        candidate = over_counted_pairs(part, candidate)
        moments = build_moments(part, state_features(part, candidate), settings)
        ratio = model.build(part, moments, prior)
        pilot = run_pilot(part, ratio, settings, small_sample=False)
        if not model.linear:
            return pilot.ratio, pilot.value
        straight = cast("LinearGaussianRatio", ratio)
        price = part.n_transitions
        mean = straight.posterior(pilot.covariance, price, value_constraint=True).mean
        return straight.by_pair(mean[:-1])[cells.pair], mean[-1]

    def part(episodes: Array) -> FoldFit:
        everyone = jax.tree.map(jnp.asarray, candidates)
        return FoldFit(*jax.lax.map(lambda c: one((episodes, c)), everyone))

    return jax.lax.map(part, kept)


def episode_residuals(
    cells: Cells,
    moments: Moments,
    ratio: Float[Array, " C"],
    value: Float[Array, ""],
    kept: Bool[Array, " m"],
    settings: MomentSettings,
) -> Float[Array, "m R"]:
    """Residual of each episode; the mean over the kept ones is the residual of that part.

    Parameters
    ----------
    cells, moments
        The whole log, by episode, and the judging features' moments.
    ratio, value
        The ratio and the value that are judged.
    kept
        The episodes of the part, whose number and length give the scale, shape (m,).
    settings
        Discount and meaning of a termination.
    """
    n_episodes = moments.initial.shape[0]
    terms = moments.design * (ratio * cells.count)[:, None]
    terms = terms.at[:, VALUE_ROW].add(ratio * cells.reward_sum)
    sums = jax.ops.segment_sum(terms, cells.episode, num_segments=n_episodes)
    n = jnp.sum(cells.count * kept[cells.episode])
    own_start = moments.initial - cells.initial_weight @ moments.initial
    constant = less_value(moments.offset, value)
    return (kept.sum() / n) * sums + constant + (1.0 - settings.gamma) * own_start


def own_residuals(
    cells: Cells,
    moments: Moments,
    ratio: Float[Array, "F C"],
    value: Float[Array, " F"],
    held_out: Bool[Array, "F m"],
    settings: MomentSettings,
) -> Float[Array, "m R"]:
    """Residual of each episode under the fit that did not see it; see `episode_residuals`.

    Parameters
    ----------
    cells, moments, settings
        As for `episode_residuals`.
    ratio, value
        The fit without each of the F folds.
    held_out
        The episodes of each fold, shape (F, m); every episode is in one fold.
    """
    n_episodes = moments.initial.shape[0]
    fold = jnp.argmax(held_out, axis=0)
    here = fold[cells.episode]
    weight = ratio[here, jnp.arange(len(cells.pair))]
    terms = moments.design * (weight * cells.count)[:, None]
    terms = terms.at[:, VALUE_ROW].add(weight * cells.reward_sum)
    sums = jax.ops.segment_sum(terms, cells.episode, num_segments=n_episodes)
    n = jax.ops.segment_sum(cells.count, here, num_segments=held_out.shape[0])
    own_start = moments.initial - cells.initial_weight @ moments.initial
    constant = less_value(jnp.broadcast_to(moments.offset, sums.shape), value[fold])
    scale = (held_out.sum(axis=1) / n)[fold]
    return scale[:, None] * sums + constant + (1.0 - settings.gamma) * own_start


class _Judged(NamedTuple):
    """What the loss of one candidate is made of.

    Attributes
    ----------
    own
        Residual of each episode under each fit, in units of the metric, shape (V, m, R).
    others
        Mean residual of the other episodes of its fold, likewise.
    """

    own: Float[Array, "V m R"]
    others: Float[Array, "V m R"]


def _judge(
    cells: Cells,
    candidate: Candidates,
    ratio: Float[Array, "V F C"],
    value: Float[Array, "V F"],
    held_out: Bool[Array, "F m"],
    settings: MomentSettings,
) -> _Judged:
    moments = build_moments(cells, state_features(cells, candidate), settings)
    everyone = jnp.ones(held_out.shape[1], dtype=bool)
    average = episode_residuals(
        cells, moments, ratio.mean(axis=(0, 1)), value.mean(), everyone, settings
    )
    centered = average - average.mean(axis=0)
    covariance = centered.T @ centered / centered.shape[0]
    ridge = RIDGE * jnp.trace(covariance) / covariance.shape[0]
    factor = jnp.linalg.cholesky(covariance + ridge * jnp.eye(covariance.shape[0]))

    def whitened(ratio: Array, value: Array) -> Array:
        psi = own_residuals(cells, moments, ratio, value, held_out, settings)
        return jax.scipy.linalg.solve_triangular(factor, psi.T, lower=True).T

    own = jax.vmap(whitened)(ratio, value)
    member = held_out.astype(own.dtype)
    fold, size = jnp.argmax(held_out, axis=0), member.sum(axis=1)
    sums = jnp.einsum("fm,vmr->vfr", member, own)
    return _Judged(own, (sums[:, fold] - own) / (size[fold] - 1.0)[:, None])


@partial(jax.jit, static_argnames="settings")
def held_out_losses(
    cells: Cells,
    judges: Candidates,
    ratios: Float[Array, "V F N C"],
    values: Float[Array, "V F N"],
    held_out: Bool[Array, "F m"],
    settings: MomentSettings,
) -> Float[Array, "V m"]:
    """Held-out loss of each episode under each of V fits, summed over the candidates.

    Parameters
    ----------
    cells, judges
        The log by episode and the candidates, on the judging features.
    ratios, values
        The results of each fit without each of the F folds.
    held_out
        The episodes of each fold, shape (F, m); every episode is in one fold.
    settings
        Discount and meaning of a termination.

    Notes
    -----
    The loss of episode e is psi_e' W (mean of the fold's other psi) / 2. W is the same for all: the
    inverse of an episode's covariance at the average ratio of the fits.
    """

    def one(given: tuple[Candidates, Array, Array]) -> Float[Array, "V m"]:
        found = _judge(cells, *given, held_out, settings)
        return 0.5 * jnp.sum(found.own * found.others, axis=2)

    return jax.lax.map(one, _by_candidate(judges, ratios, values)).sum(axis=0)


@partial(jax.jit, static_argnames="settings")
def held_out_products(
    cells: Cells,
    judges: Candidates,
    ratios: Float[Array, "V F N C"],
    values: Float[Array, "V F N"],
    held_out: Bool[Array, "F m"],
    settings: MomentSettings,
) -> Float[Array, "N V V m"]:
    """Held-out products of each two fits, by candidate; the diagonal is `held_out_losses`.

    The loss of a mixture of fits with weights w is w' M w, M the sum of these over episodes: a
    residual is affine in ratio and value, and the weights sum to 1.

    Parameters
    ----------
    cells, judges, ratios, values, held_out, settings
        As for `held_out_losses`.
    """

    def one(given: tuple[Candidates, Array, Array]) -> Float[Array, "V V m"]:
        found = _judge(cells, *given, held_out, settings)
        crossed = jnp.einsum("vmr,umr->vum", found.own, found.others)
        return 0.25 * (crossed + jnp.swapaxes(crossed, 0, 1))

    return jax.lax.map(one, _by_candidate(judges, ratios, values))


def _by_candidate(
    judges: Candidates, ratios: Float[Array, "V F N C"], values: Float[Array, "V F N"]
) -> tuple[Candidates, Array, Array]:
    """Everything with the candidates as the first axis."""
    return (
        jax.tree.map(jnp.asarray, judges),
        jnp.moveaxis(ratios, 2, 0),
        jnp.moveaxis(values, 2, 0),
    )
