"""The delete-a-group jackknife: how far a value moves when a group of episodes is left out.

The spread of a belief takes the log's own matrices as known. With many features they are noise too,
and they follow each other: on CartPole that hid half of the spread. Leaving out groups of episodes
shows it, because matrix, offset and Sigma are counted anew each time (Shao and Wu, 1989).

An estimate moves with the log in a part that is linear in the episodes, and one that is quadratic.
The belief has the variance of the first alone. The jackknife counts the second twice (Efron and
Stein, 1981). So half of what it has beyond the belief's variance is added.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.arrays import added, library_of, one_by_one, replaced
from bayesdice_ppl.inference.pilot import Pilot
from bayesdice_ppl.models import LinearGaussianRatio, Ratio, pair_slopes_of
from bayesdice_ppl.models.gaussian import WIDE_STEP, condition_value
from bayesdice_ppl.moments import VALUE_ROW, Cells, MomentSettings, round_size

QUADRATIC = 0.5
"""Share of the jackknife's variance of a quadratic part that is the part's own."""


class Groups(NamedTuple):
    """The cells and the episodes of each group; J groups of at most W cells and V episodes.

    Attributes
    ----------
    cell
        Cells of each group, shape (J, W), with any cell where there are fewer.
    counted
        1 where there is a cell, shape (J, W).
    episode
        Episodes of each group, shape (J, V), with any episode where there are fewer.
    started
        1 where there is an episode, shape (J, V).
    """

    cell: Int[Any, "J W"]
    counted: Float[Any, "J W"]
    episode: Int[Any, "J V"]
    started: Float[Any, "J V"]


def deal_groups(cells: Cells, n_groups: int) -> Groups:
    """Deal episodes into groups of about equal numbers of transitions.

    Parameters
    ----------
    cells
        The log, kept apart by episode.
    n_groups
        J, at most the number of episodes.
    """
    n_episodes = len(cells.initial_state)
    n_groups = min(n_groups, n_episodes)
    counted = np.flatnonzero(np.asarray(cells.count) > 0.0)
    episode = np.asarray(cells.episode)[counted]
    lengths = np.bincount(episode, np.asarray(cells.count)[counted], minlength=n_episodes)
    # Longest first, to and fro over the groups.
    order = np.argsort(-lengths, kind="stable")
    place = np.arange(n_episodes) % (2 * n_groups)
    group = np.empty(n_episodes, dtype=np.int64)
    group[order] = np.minimum(place, 2 * n_groups - 1 - place)
    cell, weight = _listed(counted, group[episode], n_groups)
    return Groups(cell, weight, *_listed(np.arange(n_episodes), group, n_groups))


def _listed(
    members: Int[np.ndarray, " x"], group: Int[np.ndarray, " x"], n_groups: int
) -> tuple[Int[np.ndarray, "J W"], Float[np.ndarray, "J W"]]:
    """Members group by group, and 1 where there is one."""
    sizes = np.bincount(group, minlength=n_groups)
    # Few different widths, so that the next log finds the compiled function.
    width = round_size(int(sizes.max()))
    listed = np.zeros((n_groups, width), dtype=np.int64)
    there = np.zeros((n_groups, width))
    for j in range(n_groups):
        own = members[group == j]
        listed[j, : len(own)] = own
        there[j, : len(own)] = 1.0
    return listed, there


def left_out_values(
    cells: Cells,
    ratio: Ratio,
    latent: Float[Any, " L"],
    groups: Groups,
    settings: MomentSettings,
) -> Float[Any, " J"]:
    """The value estimated without each group, by one step from the estimate with all.

    Parameters
    ----------
    cells, ratio
        The log, and one candidate's ratio on it.
    latent
        Latent numbers and value of the estimate, shape (L + 1,).
    groups
        From `deal_groups`.
    settings
        Discount and meaning of a termination.

    Notes
    -----
    Sigma is counted anew at the ratio of the whole log. A ratio that is not linear is taken as it
    is linear around the estimate.
    """
    moments, gamma = ratio.moments, settings.gamma
    xp = library_of(moments.design, latent)
    restart = gamma if settings.restart else 0.0
    count = cells.count
    mean_reward = cells.reward_sum / xp.where(count > 0.0, count, 1.0)
    rows = added(moments.design, np.s_[:, VALUE_ROW], mean_reward)
    spread = xp.maximum(cells.reward_square_sum - cells.reward_sum * mean_reward, 0.0)
    zeta = ratio.by_pair(latent[:-1])[cells.pair]
    moves = pair_slopes_of(ratio)(latent[:-1])[cells.pair]

    here = groups.cell
    weight = count[here] * groups.counted
    row, z, move = rows[here], zeta[here], moves[here]
    ended = cells.terminated[here] * weight
    matrix = (row * weight[..., None]).swapaxes(1, 2) @ move
    second = (row * (weight * z**2)[..., None]).swapaxes(1, 2) @ row
    within = xp.sum(groups.counted * z**2 * spread[here], axis=1)
    second = added(second, np.s_[:, VALUE_ROW, VALUE_ROW], within)
    first = ((weight * z)[:, None] @ row)[:, 0]
    ended_moves = (ended[:, None] @ move)[:, 0]
    ended_mass = xp.sum(ended * z, axis=1)
    size = xp.sum(weight, axis=1)
    started = groups.started
    initial = moments.initial[groups.episode] * started[..., None]
    starts = xp.sum(initial, axis=1)
    start_square = initial.swapaxes(1, 2) @ initial
    n_starts = xp.sum(started, axis=1)
    start_mean = xp.sum(starts, axis=0) / xp.sum(n_starts)

    def rest(x: Any) -> Any:
        return xp.sum(x, axis=0) - x

    prior, value_prior = ratio.latent_prior(), ratio.value_prior()
    prior_mean = xp.append(xp.asarray(prior.mean), value_prior.mean)
    prior_scale = xp.sqrt(xp.append(xp.asarray(prior.variance), value_prior.variance))

    def value(left: tuple[Any, ...]) -> Float[Any, ""]:
        matrix, second, first, ended_moves, ended_mass, n, starts, start_square, m = left
        start = starts / m
        # The start states are others, for what follows a termination too.
        moved = start - start_mean
        by_latent = (matrix + restart * xp.outer(moved, ended_moves)) / n
        level = (first + restart * moved * ended_mass) / n + moments_offset
        level = level + (1.0 - gamma) * moved
        mean = first / n
        entry = (1.0 - gamma) + restart * ended_mass / n
        covariance = second / n - xp.outer(mean, mean)
        covariance = covariance + (n / m) * entry**2 * (start_square / m - xp.outer(start, start))
        value_column = replaced(xp.zeros((len(level), 1), level.dtype), (VALUE_ROW, 0), -1.0)
        whole = xp.concatenate([by_latent, value_column], axis=1)
        offset = level - by_latent @ latent[:-1]
        found = condition_value(
            whole, offset, covariance / n, prior_mean, prior_scale, wide=WIDE_STEP
        )
        return found.mean[-1]

    # The offset of the moments themselves: a tangent keeps another one.
    moments_offset = ratio.residual(latent[:-1]) - rows.T @ (zeta * count) / cells.n_transitions
    parts = (matrix, second, first, ended_moves, ended_mass, size, starts, start_square, n_starts)
    return one_by_one(value, jax.tree.map(rest, parts))


def widened(
    cells: Cells, ratio: LinearGaussianRatio, pilot: Pilot, groups: Groups, settings: MomentSettings
) -> Pilot:
    """Widen a belief by half of what the jackknife's variance has beyond its own.

    Parameters
    ----------
    cells, ratio, pilot
        The log, one candidate's ratio on it, linear or as it is linear around its mode, and its
        first estimate.
    groups
        From `deal_groups`.
    settings
        Discount and meaning of a termination.

    Returns
    -------
    Pilot
        With more variance of the value in Sigma, and at most as many degrees of freedom as there
        are groups, less one.
    """
    n = cells.n_transitions
    found = ratio.value_posterior(pilot.covariance, n)
    values = left_out_values(cells, ratio, found.mean, groups, settings)
    xp = library_of(values)
    more = QUADRATIC * xp.maximum(jackknife_variance(values) - found.sd**2, 0.0)
    df = xp.minimum(pilot.degrees_of_freedom, values.shape[0] - 1.0)
    return pilot._replace(
        covariance=added(pilot.covariance, (VALUE_ROW, VALUE_ROW), n * more),
        degrees_of_freedom=xp.where(more > 0.0, df, pilot.degrees_of_freedom),
    )


def jackknife_variance(values: Float[Any, "*b J"]) -> Float[Any, "*b"]:
    """Variance of an estimate from its values without each of J groups."""
    n_groups = values.shape[-1]
    mean = values.mean(axis=-1, keepdims=True)
    return (n_groups - 1.0) / n_groups * ((values - mean) ** 2).sum(axis=-1)
