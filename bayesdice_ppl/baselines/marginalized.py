"""Marginalized importance sampling: one ratio for each state and action, not a product of many.

Every logged reward is weighted by d^pi(s, a) / d^D(s, a), the stationary ratio that DICE methods
estimate, so that the noise does not grow with the length of an episode. Sums over episodes are the
per-trajectory estimates of the paper's appendix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.baselines.bellman import LabelRows, evaluate
from bayesdice_ppl.baselines.checks import nonnegative
from bayesdice_ppl.baselines.importance_sampling import check_bounds
from bayesdice_ppl.baselines.interface import Asked, Checked, Estimate, Needs
from bayesdice_ppl.baselines.intervals import (
    RESAMPLES,
    check_interval,
    find_interval,
    interval_suffixes,
)
from bayesdice_ppl.baselines.per_trajectory import Sample
from bayesdice_ppl.baselines.rows import make_rows
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.features.maps import FeatureChoice
from bayesdice_ppl.logs import Logs, usable_rows
from bayesdice_ppl.policies import ContinuousPolicy, Policy

METHOD = "marginalized importance sampling"


@final
@dataclass(frozen=True)
class Marginalized(Checked):
    """A marginalized importance-sampling estimator; see `marginalized`."""

    interval: str | None = None
    ridge: float = 1e-6
    features: FeatureChoice | None = None
    reward_range: tuple[float, float] | None = None
    max_weight: float | None = None
    resamples: int = RESAMPLES

    def __post_init__(self) -> None:
        check_interval(METHOD, self.interval, self.resamples)
        check_bounds(METHOD, self.reward_range, self.max_weight)
        nonnegative(METHOD, "ridge", self.ridge)

    @property
    def name(self) -> str:
        """Name in tables, such as "marginalized IS + bca"."""
        return f"marginalized IS{interval_suffixes(self.interval)[0]}"

    @property
    def short(self) -> str:
        """Name for the command line, such as "mis:bca"."""
        return f"mis{interval_suffixes(self.interval)[1]}"

    @property
    def needs(self) -> Needs:
        """Transitions alone; a key for the bootstrap, and for the features of vectors."""
        return Needs(rng_key=self.interval == "bca")

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
        """Estimate from transitions weighted by the ratio."""
        used = usable_rows(logs, asked.gamma).mask
        ratio = self._ratio(logs, policy, asked, rng_key)
        episode, m = logs.episode[used], logs.n_episodes
        if asked.gamma == 0.0:
            m = logs.n_transitions
            episode = np.arange(m)
        share = m / len(ratio)
        estimates = share * np.bincount(episode, ratio * logs.reward[used], minlength=m)
        equal = share * np.bincount(episode, minlength=m)
        sample = Sample(estimates, equal, float(ratio.max()))
        lower, upper = find_interval(
            self.interval,
            estimates,
            asked.level,
            width=sample.width(logs.reward, self.reward_range, self.max_weight),
            rng_key=rng_key,
            resamples=self.resamples,
        )
        return Estimate(float(estimates.mean()), lower, upper)

    def _ratio(
        self,
        logs: Logs,
        policy: Policy | ContinuousPolicy,
        asked: Asked,
        rng_key: PRNGKeyArray | None,
    ) -> Float[np.ndarray, " n"]:
        """Ratio of each row that is used; with what was absorbed it averages one."""
        rows = make_rows(
            logs, policy, asked, features=self.features, rng_key=rng_key, renormalize=True
        )
        if asked.gamma == 0.0 and isinstance(rows, LabelRows):
            # Every row is a context of its own, and not the first of an episode alone.
            start, count = np.unique(rows.state, return_counts=True)
            step = rows.step._replace(start=start, start_count=count.astype(np.float64))
            rows = rows._replace(step=step)
        ratio = evaluate(rows, self.ridge).ratio
        stands_for = np.ones(len(ratio))
        if not asked.restart and asked.gamma > 0.0:
            stands_for += asked.gamma / (1.0 - asked.gamma) * rows.step.ended
        total = float(np.mean(ratio * stands_for))
        if not total > 0.0:
            raise LogsError(
                "marginalized importance sampling: the candidate takes none of the actions that "
                "were logged in the states in which episodes start, so that it has no ratio here."
            )
        return ratio / total


def marginalized(
    *,
    interval: str | None = None,
    ridge: float = 1e-6,
    features: FeatureChoice | None = None,
    reward_range: tuple[float, float] | None = None,
    max_weight: float | None = None,
    resamples: int = RESAMPLES,
) -> Marginalized:
    """Marginalized importance sampling, with an interval from per-trajectory estimates.

    The value is the mean over all transitions of zeta(s, a) r, zeta the stationary ratio. Episode e
    contributes y_e = (m / n) sum of zeta r over its steps, and the m of them give the interval.

    Parameters
    ----------
    interval
        None, ``"student"``, ``"bernstein"``, ``"hoeffding"`` or ``"bca"``.
    ridge
        Transitions that are made up for each feature, as for `lstdq`.
    features
        What ratio and test functions can tell apart. None: one-hot for labels, and for vectors
        those that `bayesdice_ppl.fit` takes by default.
    reward_range, max_weight
        Bounds on rewards and ratios, from which Hoeffding and Bernstein have their range, as for
        `importance_sampling`.
    resamples
        Of the bootstrap.

    Returns
    -------
    Marginalized
        A baseline. It needs neither propensities nor whole episodes; at gamma > 0 successors, and
        for logs of vectors a key.

    Notes
    -----
    The ratio solves the balance equation mean(zeta (gamma phi(s', pi) - phi(s, a))) + (1 - gamma)
    mean phi(s_0, pi) = 0 on the logged pairs, the saddle point of DualDICE with one-hot features,
    independently of BayesDICE's own inference. On labels the candidate is renormalized over the
    actions logged in each state. Ratios are scaled to average one (with the steps after an
    absorbing termination, whose reward is 0), which changes them only where the candidate runs into
    states that the log knows nothing of: that part is left out.

    *When it fails.* The intervals take the ratio as known. It is fitted on the same log, and how
    its error moves the value is not in the spread of y_e, so that they may be too narrow, or too
    wide, at any number of episodes. On features the ratio is only as good as they are.

    References
    ----------
    Liu, Li, Tang, Zhou, "Breaking the curse of horizon" (2018); Nachum, Chow, Dai, Li, "DualDICE"
    (2019).
    """
    return Marginalized(interval, ridge, features, reward_range, max_weight, resamples)


__all__ = ["Marginalized", "marginalized"]
