"""Importance sampling: logged episodes, weighted by how likely the candidate was to act as logged.

Weights belong to whole episodes, or to every reward with the actions up to it. As they are, the
estimate is unbiased; normalized to average one it is biased, bounded and nearly always closer.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.baselines.interface import Estimate, Needs, Query
from bayesdice_ppl.baselines.settings import GIVEN, only_with
from bayesdice_ppl.baselines.weighting.behavior import check_every_step
from bayesdice_ppl.baselines.weighting.intervals import (
    BOUNDED,
    RESAMPLES,
    PerTrajectory,
    Sample,
    check_bounds,
)
from bayesdice_ppl.baselines.weighting.weights import (
    EpisodeRows,
    all_rows,
    cumulative_log_weight,
    effective_episodes,
    final_log_weight,
    no_weight,
    normalize_steps,
    plain_weights,
    step_discount,
)
from bayesdice_ppl.checks import one_of
from bayesdice_ppl.logs import RewardUnits
from bayesdice_ppl.policies import log_ratio

KINDS = ("per_step", "trajectory")


@final
@dataclass(frozen=True)
class ImportanceSampling(PerTrajectory):
    """Importance sampling of logged episodes, with an interval from per-trajectory estimates.

    Every reward is weighted by the product of pi(a|s) / b(a|s) over the actions that led to it, b
    being the logging policy. By default these weights are normalized step by step.

    Parameters
    ----------
    kind
        ``"per_step"``: r_t is weighted by the actions up to step t. ``"trajectory"``: by all of its
        episode, which adds noise and is here for comparison.
    normalized
        True: weights average one over the episodes, at every step or as a whole. False: as they
        are.
    interval
        None, or from the per-trajectory estimates ``"student"``, ``"bernstein"``, ``"hoeffding"``
        or ``"bca"``; see `bayesdice_ppl.baselines.weighting.intervals`.
    behavior
        ``"logged"``: the log's propensities. ``"fitted"``: the share of each action in each state
        of the log, for labels; at gamma = 0 with normalized weights off this is the direct method.
    reward_range
        Least and largest reward there can be, used with `max_weight`. None: the least and the
        largest logged, which is not strict.
    max_weight
        The largest weight that a step can have, for normalized weights relative to their mean:
        Hoeffding's and Bernstein's range is then known beforehand. None: it runs from 0 to the
        largest of the per-trajectory estimates in this log (from the least, if negative). Published
        comparisons do so, but no theorem covers it: the guarantee is then not strict.
    resamples
        Of the bootstrap.

    Notes
    -----
    It needs propensities or ``behavior="fitted"``, labels or vectors; at gamma > 0 every step of
    every episode, and no successors.

    *Value.* The estimate is the value over the steps that were logged, normalized by their
    discounted weight, 1 - gamma^H for episodes that were cut after H steps: the unseen tail of
    weight gamma^H is taken to be like the rest. With weights as they are the estimate is then
    unbiased. At gamma = 1 it is the average reward of the first H steps, and at gamma = 0 every
    row is an episode of its own, a bandit's. Where episodes terminate, numerator and denominator
    are both expectations under the candidate, each estimated without bias, and the estimate is
    their ratio; `sample_estimates` has the formulas.

    *Zero.* With weights as they are and a denominator that is known, the weights do not average one
    in any one log. A constant c on all rewards then moves the estimate by c times their mean, and
    not by c, and widens the intervals: that is the price of being unbiased. All other forms move by
    c, interval and all.

    *When it fails.* The variance of the weights grows exponentially with the number of steps. From
    some length on a single episode has nearly all the weight, and an interval from the sample knows
    nothing of what was not seen. `Estimate.effective_episodes` says how many the estimate rests on,
    and `estimate_all` warns where they are few. A candidate that takes actions with probability 0
    may run out of weight: normalized per-step estimates then stop at the last step with any left,
    and if there is none at all the log is refused.

    *Intervals* treat the per-trajectory estimates as independent. Those of a ratio (normalized
    weights, or episodes that terminate and start anew) are the value and each episode's part of its
    error, by the delta method; the bootstrap takes the normalizer anew.
    Where absorbed episodes have weights by step, the normalizer is taken as known.

    References
    ----------
    Precup, Sutton, Singh, "Eligibility traces for off-policy policy evaluation" (2000), for the
    four estimators; Thomas, Theocharous, Ghavamzadeh, "High confidence off-policy evaluation"
    (2015) and "High confidence policy improvement" (2015), for intervals from them.
    """

    kind: str = "per_step"
    _: KW_ONLY
    normalized: bool = True
    interval: str | None = None
    behavior: str = "logged"
    reward_range: tuple[float, float] | None = only_with(None, interval=BOUNDED, max_weight=GIVEN)
    max_weight: float | None = only_with(None, interval=BOUNDED)
    resamples: int = only_with(RESAMPLES, interval=("bca",))

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        self.check_choices()
        check_bounds(self.reward_range, self.max_weight)

    @property
    def name(self) -> str:
        """Name in tables, such as "weighted per-step IS + bca"."""
        kind = "per-step" if self.kind == "per_step" else "per-trajectory"
        weighted = "weighted " if self.normalized else ""
        return self.name_with(f"{weighted}{kind} IS")

    @property
    def short(self) -> str:
        """Name for `make`, such as "wpdis:bca"."""
        base = ("w" if self.normalized else "") + ("pdis" if self.kind == "per_step" else "is")
        return self.short_with(base)

    @property
    def needs(self) -> Needs:
        """Propensities, or labels to fit the behavior on; a key for the bootstrap."""
        return Needs(propensities=not self.fitted, labels=self.fitted, rng_key=self.draws)

    def answer(self, query: Query, level: float) -> Estimate:
        """Estimate from weighted episodes."""
        logs, gamma = query.logs, query.gamma
        if gamma > 0.0:
            check_every_step(logs)
        rows = all_rows(logs, gamma)
        # With weights that average one a constant is known, and need not pass through them.
        known = self.normalized or bool(rows.terminated.any())
        units = RewardUnits(query.units.origin if known else 0.0)
        rows = rows._replace(reward=units.into(rows.reward))
        ratio = log_ratio(logs, query.policy, self.behavior)
        sample, effective = sample_estimates(
            cumulative_log_weight(ratio, rows.step),
            rows,
            gamma,
            kind=self.kind,
            normalized=self.normalized,
            restart=query.restart,
            name=self.name,
        )
        return self.conclude(
            query,
            level,
            sample.estimates,
            width=lambda: sample.width(logs.reward, self.reward_range, self.max_weight, units),
            mass=sample.mass,
            effective_episodes=effective,
        ).back(units)


def sample_estimates(
    log_weight: Float[np.ndarray, " n"],
    rows: EpisodeRows,
    gamma: float,
    *,
    kind: str,
    normalized: bool,
    restart: bool,
    name: str,
) -> tuple[Sample, float]:
    """Per-trajectory estimates by importance sampling, and the effective number of episodes.

    Parameters
    ----------
    log_weight
        Log of the product of ratios up to each row, shape (n,).
    rows
        The transitions.
    gamma
        Discount in [0, 1].
    kind, normalized
        As for `ImportanceSampling`. A normalizer is estimated too: an episode then adds its weight
        times (reward - value) to the error, with the value of the step for weights that are
        normalized by step.
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
    gamma = 1. Where episodes terminate, the candidate decides how long they last:

    * ``restart``: the denominator is weighted like the rewards;
    * ``absorb``: an episode that was absorbed counts 1 and one that was cut 1 - gamma^T. Without
      weights both are E[1 - gamma^H], H the length of a cut, except that absorbed episodes add
      their weight times gamma^H: 1 - gamma^H + rho gamma^H.
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
        denominator = float((mass if normalized else share).mean())
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
    value = float(numerator.mean()) / denominator
    estimates, own, center = numerator / denominator, None, 0.0
    if step_weights is not None and (restart or gamma == 1.0 or not ended.any()):
        own, center = mass, value
        of_row = np.full(len(weight), value)
        if not ended.any():
            by_step = np.bincount(rows.step, weight * rows.reward)
            of_row = (by_step / np.maximum(np.bincount(rows.step, weight), 1e-300))[rows.step]
        error = rows.by_episode(discount * weight * (rows.reward - of_row))
        estimates = value + (error - error.mean()) / denominator
    elif step_weights is None and (normalized or (restart and ended.any())):
        # A normalizer that is estimated has an error too: without it the spread of the estimates
        # would depend on where the zero of the rewards lies.
        plain = restart or gamma == 1.0 or not ended.any()
        own = mass if plain else last * (1.0 - unseen * ~ended)
        center = value
        estimates = value + (numerator - value * own) / denominator
    parts = None if own is None else own / own.mean()
    sample = Sample(estimates, share / denominator, float(weight.max()), center, parts)
    return sample, effective_episodes(by_row, rows, gamma)


importance_sampling = ImportanceSampling
