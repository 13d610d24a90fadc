"""Importance sampling: logged episodes, reweighted by how likely the candidate was to act so.

Whole episodes, or every reward with the actions up to it; weights as they are, which is unbiased,
or normalized to average one, which is biased, bounded and nearly always closer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import PRNGKeyArray

from bayesdice_ppl.baselines.behavior import BEHAVIORS, check_every_step, log_ratio
from bayesdice_ppl.baselines.checks import one_of, positive
from bayesdice_ppl.baselines.interface import Asked, Checked, Estimate, Needs
from bayesdice_ppl.baselines.intervals import (
    RESAMPLES,
    check_interval,
    find_interval,
    interval_suffixes,
)
from bayesdice_ppl.baselines.per_trajectory import Sample, sample_estimates
from bayesdice_ppl.baselines.weights import all_rows, cumulative_log_weight
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import ContinuousPolicy, Policy

METHOD = "importance sampling"
KINDS = ("per_step", "trajectory")

_SHORT = {
    ("trajectory", False): "is",
    ("per_step", False): "pdis",
    ("trajectory", True): "wis",
    ("per_step", True): "wpdis",
}


@final
@dataclass(frozen=True)
class ImportanceSampling(Checked):
    """An importance-sampling estimator; see `importance_sampling`."""

    kind: str = "per_step"
    normalized: bool = True
    interval: str | None = None
    behavior: str = "logged"
    reward_range: tuple[float, float] | None = None
    max_weight: float | None = None
    resamples: int = RESAMPLES

    def __post_init__(self) -> None:
        one_of(METHOD, "kind", self.kind, KINDS)
        one_of(METHOD, "behavior", self.behavior, BEHAVIORS)
        check_interval(METHOD, self.interval, self.resamples)
        check_bounds(METHOD, self.reward_range, self.max_weight)

    @property
    def name(self) -> str:
        """Name in tables, such as "weighted per-step IS + bca"."""
        kind = {"per_step": "per-step", "trajectory": "per-trajectory"}[self.kind]
        whose = " (fitted behavior)" if self.behavior == "fitted" else ""
        weighted = "weighted " if self.normalized else ""
        return f"{weighted}{kind} IS{whose}{interval_suffixes(self.interval)[0]}"

    @property
    def short(self) -> str:
        """Name for the command line, such as "wpdis:bca"."""
        whose = ":fitted" if self.behavior == "fitted" else ""
        short = _SHORT[self.kind, self.normalized]
        return f"{short}{interval_suffixes(self.interval)[1]}{whose}"

    @property
    def needs(self) -> Needs:
        """Propensities, or labels to fit the behavior on; a key for the bootstrap."""
        fitted = self.behavior == "fitted"
        return Needs(propensities=not fitted, labels=fitted, rng_key=self.interval == "bca")

    @property
    def gives(self) -> str:
        """``"interval"`` or ``"estimate"``."""
        return "estimate" if self.interval is None else "interval"

    def answer(
        self,
        logs: Logs,
        policy: Policy | ContinuousPolicy,
        asked: Asked,
        rng_key: PRNGKeyArray | None,
    ) -> Estimate:
        """Estimate from reweighted episodes."""
        sample = self._sample(logs, policy, asked.gamma, restart=asked.restart)
        width = 0.0
        if self.interval in ("bernstein", "hoeffding"):
            width = sample.width(logs.reward, self.reward_range, self.max_weight)
        lower, upper = find_interval(
            self.interval,
            sample.estimates,
            asked.level,
            width=width,
            rng_key=rng_key,
            resamples=self.resamples,
        )
        return Estimate(
            float(sample.estimates.mean()),
            lower,
            upper,
            effective_episodes=sample.effective_episodes,
        )

    def _sample(
        self, logs: Logs, policy: Policy | ContinuousPolicy, gamma: float, *, restart: bool
    ) -> Sample:
        if gamma > 0.0:
            check_every_step(logs)
        rows = all_rows(logs, gamma)
        ratio = log_ratio(logs, policy, self.behavior)
        return sample_estimates(
            cumulative_log_weight(ratio, rows.step),
            rows,
            gamma,
            kind=self.kind,
            normalized=self.normalized,
            restart=restart,
            name=self.name,
        )


def importance_sampling(
    kind: str = "per_step",
    *,
    normalized: bool = True,
    interval: str | None = None,
    behavior: str = "logged",
    reward_range: tuple[float, float] | None = None,
    max_weight: float | None = None,
    resamples: int = RESAMPLES,
) -> ImportanceSampling:
    """Importance sampling of logged episodes, with an interval from per-trajectory estimates.

    Every reward is weighted by the product of pi(a|s) / b(a|s) over the actions that led to it, b
    being the policy that logged. By default these weights are normalized step by step.

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
        or ``"bca"``; see `bayesdice_ppl.baselines.intervals`.
    behavior
        ``"logged"``: the log's propensities. ``"fitted"``: the share of each action in each state
        of the log, for labels; at gamma = 0 with normalized weights off this is the direct method.
    max_weight
        The largest weight that a step can have, for normalized weights relative to their mean:
        Hoeffding's and Bernstein's range is then known beforehand. None: it runs from 0 to the
        largest of the per-trajectory estimates in this log (from the least, if negative), as in
        published comparisons, which no theorem covers: their guarantee is then not strict.
    reward_range
        Least and largest reward there can be, used with `max_weight`. None: the least and the
        largest logged, which is not strict either.
    resamples
        Of the bootstrap.

    Returns
    -------
    ImportanceSampling
        A baseline. It needs propensities or ``behavior="fitted"``, labels or vectors; at gamma > 0
        every step of every episode, and no successors.

    Notes
    -----
    *Value.* What is estimated is the value over the steps that were logged, normalized by their
    discounted weight, 1 - gamma^H for episodes that were cut after H steps: the unseen tail of
    weight gamma^H is taken to be like the rest. With weights as they are the estimate is then
    unbiased. At gamma = 1 it is the average reward of the first H steps, and at gamma = 0 every
    row is an episode of its own, a bandit's. Where episodes terminate, numerator and denominator
    are both expectations under the candidate, each estimated without bias, and the estimate is
    their ratio; `bayesdice_ppl.baselines.per_trajectory` has the formulas.

    *When it fails.* The variance of the weights grows exponentially with the number of steps; from
    some length on a single episode carries the estimate, and an interval from the sample knows
    nothing of what was not seen. `Estimate.effective_episodes` says on how many it rests, and
    `estimate_all` warns where they are few. A candidate that takes actions with probability 0 may
    run out of weight: normalized per-step estimates then stop at the last step with any left, and
    if there is none at all the log is refused.

    *Intervals* treat the per-trajectory estimates as independent, which normalized ones are but
    for their common normalizer.

    References
    ----------
    Precup, Sutton, Singh, "Eligibility traces for off-policy policy evaluation" (2000), for the
    four estimators; Thomas, Theocharous, Ghavamzadeh, "High confidence off-policy evaluation"
    (2015) and "High confidence policy improvement" (2015), for intervals from them.
    """
    return ImportanceSampling(
        kind, normalized, interval, behavior, reward_range, max_weight, resamples
    )


def check_bounds(
    method: str, reward_range: tuple[float, float] | None, max_weight: float | None
) -> None:
    """Refuse bounds that are no bounds.

    Raises
    ------
    SettingsError
        With what was expected.
    """
    if reward_range is not None:
        ends = np.asarray(reward_range, dtype=np.float64)
        if ends.shape != (2,) or not np.isfinite(ends).all() or ends[0] > ends[1]:
            raise SettingsError(
                f"{method}: reward_range: expected (least, largest) reward, found {reward_range!r}."
            )
    if max_weight is not None:
        positive(method, "max_weight", max_weight)


__all__ = ["KINDS", "ImportanceSampling", "check_bounds", "importance_sampling"]
