"""Several rewards of one log: a belief of each as it is alone, and draws that are joint over all.

Errors on the same logs move together across rewards as they do across candidates. So each reward is
fitted with everything that a single one gets: its unit of independence, its tails, its warnings.
Then the draws of the second are put in the order that their correlation with the first asks for,
and so on (Iman and Conover, 1982). The first keeps its draws, so further rewards change nothing of
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy.stats import norm

from bayesdice_ppl.arrays import symmetric_root
from bayesdice_ppl.belief import BeliefView, annotate
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.fitting.inputs import Inputs
from bayesdice_ppl.fitting.settings import FitSettings
from bayesdice_ppl.inference import Problem, Unseen, value_covariance
from bayesdice_ppl.inference.copula import correlation_matrix, reorder
from bayesdice_ppl.keys import normal_numbers
from bayesdice_ppl.moments import transformed_rewards

if TYPE_CHECKING:
    from xarray import DataTree

SEEN = 1e-10
"""Directions of the first rewards' correlation below this share of the largest say nothing."""


class OneReward(NamedTuple):
    """What was fitted of one reward.

    Attributes
    ----------
    belief
        Its belief.
    inputs, problem, unseen
        What it was made from.
    """

    belief: DataTree
    inputs: Inputs
    problem: Problem
    unseen: Unseen | None


def check_several(choices: Sequence[FitSettings], rewards: Sequence[str]) -> None:
    """Refuse what cannot be fitted to several rewards at once.

    Raises
    ------
    SettingsError
        Features or priors are to be chosen, the value is another statistic than the mean, or the
        model is trained.
    """
    if len(rewards) < 2:
        return
    asked = {
        "one choice of features and prior": len(choices) > 1,
        "the mean as the statistic": not choices[0].plain,
        "a model that is not trained": choices[0].needs_training,
    }
    for expected, missed in asked.items():
        if missed:
            raise SettingsError(
                f"reward: with several rewards ({', '.join(rewards)}) a fit expects {expected}. "
                f"Fit each alone: fit(logs.with_reward({rewards[0]!r}), ...)."
            )


def join_rewards(
    names: Sequence[str], fitted: Sequence[OneReward], rng_key: PRNGKeyArray
) -> DataTree:
    """Put the beliefs of several rewards into one, with joint draws.

    Parameters
    ----------
    names
        Names of the T rewards.
    fitted
        What was fitted of each; the first is the belief's value.
    rng_key
        Key of the order of the draws.

    Returns
    -------
    xarray.DataTree
        The first one's belief, with each reward's draws under its own name in ``posterior``, and
        the warnings about the others' values in the attribute ``other_warnings``.
    """
    belief = fitted[0].belief
    value, group = BeliefView.value.name, BeliefView.value.group
    correlation = correlation_of_rewards(fitted)
    n_policies = len(fitted[0].inputs.names)
    draws = [
        np.asarray(one.belief[f"{group}/{value}"].transpose("chain", "draw", "policy")).reshape(
            -1, n_policies
        )
        for one in fitted
    ]
    for t, values in enumerate(joint_order(draws, correlation, rng_key)):
        own = belief[f"{group}/{value}"]
        shaped = values.reshape(own.transpose("chain", "draw", "policy").shape)
        belief[f"{group}/{names[t]}"] = own.transpose("chain", "draw", "policy").copy(data=shaped)
    warned = {
        name: [each._asdict() for each in BeliefView(one.belief).support_warnings or ()]
        for name, one in zip(names[1:], fitted[1:], strict=True)
    }
    annotate(belief, rewards=list(names), other_warnings=warned)
    return belief


def correlation_of_rewards(fitted: Sequence[OneReward]) -> Float[np.ndarray, "TN TN"]:
    """Correlation of all values of all rewards: entry t N + j is reward t of candidate j.

    Notes
    -----
    Within a reward it is its own belief's. Across rewards it is that of the influence functions, by
    the unit of independence of the reward that has the most groupings, less what else widens a
    value: what pairs that were never logged are worth is taken to be independent across rewards.
    """
    n_rewards, first = len(fitted), fitted[0]
    n_policies = len(first.inputs.names)
    pilots = jax.tree.map(
        lambda *x: np.concatenate([np.asarray(each) for each in x]),
        *(one.problem.pilots for one in fitted),
    )
    by_row = np.repeat(np.stack([one.inputs.reward for one in fitted]), n_policies, axis=0)
    rewards = transformed_rewards(
        by_row, np.zeros(len(by_row)), first.inputs.cell_of_row, len(first.inputs.cells.count)
    )
    widest = max(fitted, key=lambda one: len(one.problem.unit.groupings) if one.problem.unit else 0)
    unit = widest.problem.unit
    stacked = widest.problem._replace(
        pilots=pilots,
        rewards=rewards,
        known=None,
        unit=None if unit is None else replace(unit, correction=None),
    )
    form = first.inputs.settings.form
    with jax.enable_x64(True):
        shared = np.asarray(value_covariance(stacked, form))
        own = [
            np.asarray(
                value_covariance(one.problem, form) if one.unseen is None else one.unseen.covariance
            )
            for one in fitted
        ]
    variance = np.concatenate([np.diagonal(each) for each in own])
    varies = np.where(variance > 0.0, variance, 1.0)
    part = np.sqrt(np.clip(np.diagonal(shared) / varies, 0.0, 1.0))
    correlation = correlation_matrix(shared) * np.outer(part, part)
    if not first.inputs.settings.joint:
        candidate = np.arange(len(correlation)) % n_policies
        correlation = np.where(candidate[:, None] == candidate, correlation, 0.0)
    for t in range(n_rewards):
        here = slice(t * n_policies, (t + 1) * n_policies)
        correlation[here, here] = BeliefView(fitted[t].belief).correlation
    return correlation


def joint_order(
    draws: Sequence[Float[np.ndarray, "S N"]],
    correlation: Float[np.ndarray, "TN TN"],
    rng_key: PRNGKeyArray,
) -> list[Float[np.ndarray, "S N"]]:
    """Order the draws of each reward after the first, so that they correlate with those before.

    Parameters
    ----------
    draws
        Those of each reward, shape (S, N), joint over its own candidates.
    correlation
        Of the normal scores of all T N values.
    rng_key
        Key of the part that the rewards before do not tell.

    Returns
    -------
    list of arrays
        The first as it was; each other with the same numbers in each column, in another order.
        Equal columns stay equal.
    """
    n_policies = draws[0].shape[1]
    ordered = [draws[0]]
    first = _distinct(draws[0])[0]
    places, scores = list(first), _normal_scores(draws[0][:, first])
    for t in range(1, len(draws)):
        first, copy = _distinct(draws[t])
        own = [t * n_policies + j for j in first]
        before = correlation[np.ix_(places, places)]
        across = correlation[np.ix_(places, own)]
        slope = np.linalg.pinv(before, rcond=SEEN, hermitian=True) @ across
        left = correlation[np.ix_(own, own)] - across.T @ slope
        fresh = _fresh(scores, len(first), jax.random.fold_in(rng_key, t))
        new = scores @ slope + fresh @ symmetric_root((left + left.T) / 2.0)
        ranks = np.argsort(np.argsort(new, axis=0, kind="stable"), axis=0, kind="stable")
        ranks = ranks[:, copy]
        ordered.append(np.take_along_axis(draws[t], reorder(draws[t], ranks), axis=0))
        places, scores = places + own, np.column_stack([scores, new])
    return ordered


def _distinct(draws: Float[np.ndarray, "S N"]) -> tuple[np.ndarray, np.ndarray]:
    """The first of each set of equal columns, in order, and which of these each column equals."""
    seen: dict[bytes, int] = {}
    copy = [
        seen.setdefault(np.ascontiguousarray(column).tobytes(), len(seen)) for column in draws.T
    ]
    first = [copy.index(k) for k in range(len(seen))]
    return np.array(first), np.array(copy)


def _normal_scores(draws: Float[np.ndarray, "S N"]) -> Float[np.ndarray, "S N"]:
    ranks = np.argsort(np.argsort(draws, axis=0, kind="stable"), axis=0, kind="stable")
    return np.asarray(norm.ppf((ranks + 0.5) / len(draws)))


def _fresh(
    scores: Float[np.ndarray, "S P"], n_columns: int, rng_key: PRNGKeyArray
) -> Float[np.ndarray, "S M"]:
    """Standard normal numbers, made exactly uncorrelated with each other and with the scores."""
    n_draws = len(scores)
    dtype = jax.dtypes.canonicalize_dtype(np.float64)
    fresh = normal_numbers(rng_key, (n_draws, n_columns), dtype).astype(np.float64)
    fresh = fresh - fresh.mean(axis=0)
    if n_draws <= scores.shape[1] + n_columns + 1:
        return fresh
    basis = np.linalg.qr(np.column_stack([np.ones(n_draws), scores]))[0]
    fresh = fresh - basis @ (basis.T @ fresh)
    return np.asarray(np.linalg.qr(fresh)[0] * np.sqrt(n_draws))
