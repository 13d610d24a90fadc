"""Per-trajectory estimates: what each logged episode, reweighted, says of the candidate's value.

The intervals of `bayesdice_ppl.baselines.intervals` start from these m numbers, whose mean is the
estimate. For self-normalized weights the normalizer is one and the same for all episodes and is
taken as given, as in the experiments that BayesDICE is compared with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.baselines.weights import (
    EpisodeRows,
    final_log_weight,
    log_totals,
    no_weight,
    normalize_steps,
    plain_weights,
    step_discount,
)
from bayesdice_ppl.errors import SettingsError


class Sample(NamedTuple):
    """Per-trajectory estimates and what bounds them.

    Attributes
    ----------
    estimates
        Shape (m,), in reward per step; their mean is the estimate.
    share
        What each would be with weights and rewards of 1, shape (m,).
    largest
        Largest weight of any row.
    effective_episodes
        On how many of the m episodes the estimate rests, where it is importance weights that say.
    """

    estimates: Float[np.ndarray, " m"]
    share: Float[np.ndarray, " m"]
    largest: float
    effective_episodes: float | None = None

    def width(
        self,
        rewards: Float[np.ndarray, " n"],
        reward_range: tuple[float, float] | None,
        max_weight: float | None,
    ) -> float:
        """Length of the interval in which the estimates are taken to lie.

        Parameters
        ----------
        rewards
            The logged rewards.
        reward_range
            Least and largest reward there can be; None: the least and the largest logged.
        max_weight
            Largest weight that a row can have: with the rewards' range it bounds the estimates
            before they are seen. None: from the least to the largest of the estimates themselves
            and 0, which is what an episode without weight is worth.

        Raises
        ------
        SettingsError
            The log itself is outside these bounds.
        """
        low, high = float(rewards.min()), float(rewards.max())
        if reward_range is not None:
            if low < reward_range[0] or high > reward_range[1]:
                raise SettingsError(
                    f"reward_range: the logged rewards lie in [{low:g}, {high:g}], outside "
                    f"[{reward_range[0]:g}, {reward_range[1]:g}]."
                )
            low, high = reward_range
        if max_weight is None:
            return max(float(self.estimates.max()), 0.0) - min(float(self.estimates.min()), 0.0)
        if self.largest > max_weight * (1.0 + 1e-9):
            raise SettingsError(
                f"max_weight: {max_weight:g}, but the log has a weight of {self.largest:g}."
            )
        most = max_weight * float(self.share.max())
        return most * (max(high, 0.0) - min(low, 0.0))


def sample_estimates(
    log_weight: Float[np.ndarray, " n"],
    rows: EpisodeRows,
    gamma: float,
    *,
    kind: str,
    normalized: bool,
    restart: bool,
    name: str,
) -> Sample:
    """Per-trajectory estimates by importance sampling.

    Parameters
    ----------
    log_weight
        Log of the product of ratios up to each row, shape (n,).
    rows
        The transitions.
    gamma
        Discount in [0, 1].
    kind
        ``"trajectory"``: the product over the whole episode weights each of its rewards;
        ``"per_step"``: that of the steps up to the reward.
    normalized
        Weights that average one, over episodes or, per step, over episodes at each step.
    restart
        Whether a termination is followed by a fresh start, or by reward 0 for ever.
    name
        Of the method, for errors.

    Raises
    ------
    LogsError
        No weight is left, or weights overflow.

    Notes
    -----
    The value is E[sum_t c_t r_t] / E[sum_t c_t] with c_t = (1 - gamma) gamma^t, both under the
    candidate and over the steps that are logged. Where nothing terminates the log's lengths were
    set from outside, and the denominator is known: 1 - gamma^T for an episode of T steps, T at
    gamma = 1. Where episodes terminate, how long they last is the candidate's doing:

    * ``restart``: the denominator is weighted like the rewards;
    * ``absorb``: an episode that was absorbed counts 1 and one that was cut 1 - gamma^T. Unweighted
      both is E[1 - gamma^H] but for the absorbed ones' gamma^H, H the length of a cut, which has
      their weight: 1 - gamma^H + rho gamma^H.
    """
    final, length = final_log_weight(log_weight, rows)
    by_row = final[rows.episode] if kind == "trajectory" else log_weight
    step_weights = None
    if not normalized:
        weight = plain_weights(by_row, rows, name)
    elif kind == "trajectory":
        largest = final.max()
        if largest == -np.inf:
            raise no_weight(name)
        relative = np.exp(final - largest)
        weight = (relative / relative.mean())[rows.episode]
    else:
        step_weights = normalize_steps(log_weight, rows)
        if len(step_weights.survival) == 0:
            raise no_weight(name)
        weight = rows.n_episodes * step_weights.weight
    discount = rows.discount(gamma)
    numerator = rows.by_episode(discount * weight * rows.reward)
    mass, share = rows.by_episode(discount * weight), rows.by_episode(discount)
    ended = rows.by_episode(rows.terminated.astype(np.float64)) > 0
    if step_weights is not None:
        survival = step_weights.survival
        if restart or gamma == 1.0:
            denominator = float(step_discount(len(survival), gamma) @ survival)
        else:
            denominator = 1.0 - gamma ** len(survival) * step_weights.outlasts
    elif not ended.any():
        reference = mass if normalized else share
        denominator = float(reference.mean())
    elif restart:
        denominator = float(mass.mean())
    else:
        last = np.ones(rows.n_episodes)
        last[rows.episode] = weight
        unseen = gamma**length
        if normalized:
            denominator = float(np.mean(last * (1.0 - unseen * ~ended)))
        else:
            cut = float(unseen[~ended].mean()) if not ended.all() else 0.0
            denominator = float(np.mean(np.where(ended, 1.0 - cut + cut * last, 1.0 - unseen)))
    if denominator <= 0.0:
        raise no_weight(name)
    return Sample(
        numerator / denominator,
        share / denominator,
        float(weight.max()),
        effective_episodes(by_row, rows, gamma),
    )


def effective_episodes(
    log_weight: Float[np.ndarray, " n"], rows: EpisodeRows, gamma: float
) -> float:
    """On how many episodes an importance-weighted estimate rests.

    Parameters
    ----------
    log_weight
        Log of the weight of each row, normalized or not, shape (n,).
    rows
        The transitions.
    gamma
        Discount in [0, 1].

    Returns
    -------
    float
        Between 1 and the number of episodes; 0 where none has weight.

    Notes
    -----
    The effective sample size of weighted numbers, (sum w)^2 / sum w^2 (Kish, "Survey sampling",
    1965), over the episodes, which are what is independent. Weights may change from step to step,
    and so does this number n_t; an episode that terminated keeps its last weight, times the share
    of the others that were not cut, as it does in `normalize_steps`. What is given is their
    harmonic mean over the steps::

        1 / n = sum_t p_t / n_t,      p_t = c_t survival_t / sum_u c_u survival_u

    with c_t = (1 - gamma) gamma^t, 1 at gamma = 1, and the share of the weight that has not
    terminated: 1 / n_t is how the variance of step t goes, and p_t what the step counts for in the
    estimate. Where whole episodes are weighted, and are as long as each other or end by
    terminating, all n_t are equal to the usual one of these weights.

    Neither the last n_t nor the least would do. In nearly every long log a single episode is left
    at the end, where gamma^t may long have made it worth nothing. Over 200 logs of FrozenLake (50
    episodes of 100 steps, gamma = 0.95, the candidate farthest from the log) weighted per-step
    estimates had the variance of 9.9 episodes of the candidate itself; this mean was 10.1, the
    least n_t 1.3.
    """
    steps = normalize_steps(log_weight, rows)
    known = len(steps.survival)
    counts = step_discount(known, gamma) * steps.survival
    if not counts.any():
        return 0.0
    (_, total), (_, squared) = (log_totals(log_weight, rows, power=power) for power in (1, 2))
    inverse = np.exp(squared[:known] - 2.0 * total[:known])
    return float(counts.sum() / (counts @ inverse))
