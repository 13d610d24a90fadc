"""Doubly robust estimates: a model's value, corrected by the importance-weighted errors it makes.

The model is the value of the candidate in the log's own Markov chain. Where it is right the
correction vanishes, noise and all; where it is wrong the weights put it right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import PRNGKeyArray

from bayesdice_ppl.baselines.behavior import BEHAVIORS, log_ratio
from bayesdice_ppl.baselines.checks import nonnegative, one_of
from bayesdice_ppl.baselines.corrections import bellman_episodes, corrected, fit_errors
from bayesdice_ppl.baselines.interface import Asked, Checked, Estimate, Needs
from bayesdice_ppl.baselines.intervals import (
    RESAMPLES,
    check_interval,
    find_interval,
    interval_suffixes,
)
from bayesdice_ppl.baselines.per_trajectory import effective_episodes
from bayesdice_ppl.baselines.rows import make_rows
from bayesdice_ppl.baselines.weights import all_rows, cumulative_log_weight
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import ContinuousPolicy, Policy

METHOD = "doubly robust"


@final
@dataclass(frozen=True)
class DoublyRobust(Checked):
    """A doubly robust estimator; see `doubly_robust`."""

    weighted: bool = True
    interval: str | None = None
    cross_fit: bool = True
    ridge: float = 1e-6
    behavior: str = "logged"
    resamples: int = RESAMPLES

    def __post_init__(self) -> None:
        one_of(METHOD, "behavior", self.behavior, BEHAVIORS)
        nonnegative(METHOD, "ridge", self.ridge)
        check_interval(METHOD, self.interval, self.resamples)

    @property
    def name(self) -> str:
        """Name in tables, such as "weighted DR + bca"."""
        whose = " (fitted behavior)" if self.behavior == "fitted" else ""
        weighted = "weighted " if self.weighted else ""
        return f"{weighted}DR{whose}{interval_suffixes(self.interval)[0]}"

    @property
    def short(self) -> str:
        """Name for the command line, such as "wdr:bca"."""
        whose = ":fitted" if self.behavior == "fitted" else ""
        weighted = "w" if self.weighted else ""
        return f"{weighted}dr{interval_suffixes(self.interval)[1]}{whose}"

    @property
    def needs(self) -> Needs:
        """Labels, propensities unless the behavior is fitted, and a key for the bootstrap."""
        return Needs(
            propensities=self.behavior == "logged", labels=True, rng_key=self.interval == "bca"
        )

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
        """Estimate from episodes of corrected errors."""
        rows, used, starts = bellman_episodes(logs, asked.gamma)
        ratio = log_ratio(logs, policy, self.behavior)
        log_weight = cumulative_log_weight(ratio, all_rows(logs, asked.gamma).step)[used]
        bellman = make_rows(logs, policy, asked)
        fitted = fit_errors(bellman, rows, starts, self.ridge, cross_fit=self.cross_fit)
        estimates = corrected(
            fitted, log_weight, rows, asked, weighted=self.weighted, name=self.name
        )
        lower, upper = find_interval(
            self.interval,
            estimates,
            asked.level,
            width=float(np.ptp(estimates)),
            rng_key=rng_key,
            resamples=self.resamples,
        )
        return Estimate(
            float(estimates.mean()),
            lower,
            upper,
            effective_episodes=effective_episodes(log_weight, rows, asked.gamma),
        )


def doubly_robust(
    *,
    weighted: bool = True,
    interval: str | None = None,
    cross_fit: bool = True,
    ridge: float = 1e-6,
    behavior: str = "logged",
    resamples: int = RESAMPLES,
) -> DoublyRobust:
    """Doubly robust off-policy evaluation, with an interval from per-trajectory estimates.

    Of each episode V(s_0) + sum_t gamma^t rho_t (r_t + gamma V(s_{t+1}) - Q(s_t, a_t)), rho_t the
    product of pi(a|s) / b(a|s) up to step t and Q a fit on other episodes.

    Parameters
    ----------
    weighted
        True: weights normalized over the episodes at each step, as for weighted per-step
        importance sampling. False: as they are, for which the estimate is unbiased whatever Q is.
    interval
        None, or from the per-trajectory estimates ``"student"``, ``"bernstein"``, ``"hoeffding"``
        or ``"bca"``. The two bounds use the observed range of these estimates, since of a fitted Q
        none is known beforehand, so that their guarantee is not strict.
    cross_fit
        True: episodes with even numbers are corrected by the model of those with odd numbers, and
        the other way round. False: one model of all, which has seen the errors it is corrected by.
    ridge
        Of the model, as for `lstdq`.
    behavior
        ``"logged"``: the log's propensities. ``"fitted"``: the share of each action in each state.
    resamples
        Of the bootstrap.

    Returns
    -------
    DoublyRobust
        A baseline. It needs labels, and propensities or ``behavior="fitted"``; at gamma > 0 every
        step of every episode and the successor of all but the last.

    Notes
    -----
    *Model.* The value of the candidate in the log's own chain, by counting; a pair that the log
    does not have is given the value of the mean reward. V is the expectation of Q under the
    candidate, whatever Q is, and V(s_{t+1}) is 0 after an absorbing termination and the mean V of
    the initial states after one with a restart.

    *Tail.* What follows a cut is the model's V(s_T), so that the estimate is of the whole
    discounted value, and not of its first steps. Where episodes terminate and start anew, the
    correction is divided by the discounted weight of an episode, since every later episode makes
    the same errors; that weight is estimated from the normalized weights. At gamma = 1 the estimate
    is the model's average reward plus the weighted errors per step.

    *When it fails.* Like importance sampling on long episodes, though less soon; where no weight is
    left only the model speaks. `Estimate.effective_episodes` says on how many the correction rests:
    where they are few it brings in the noise of these, and no longer mends the model. Few episodes
    make two poor models.

    References
    ----------
    Jiang, Li, "Doubly robust off-policy value evaluation for reinforcement learning" (2016);
    Thomas, Brunskill, "Data-efficient off-policy policy evaluation for reinforcement learning"
    (2016), for the weighted one.
    """
    return DoublyRobust(weighted, interval, cross_fit, ridge, behavior, resamples)


__all__ = ["DoublyRobust", "doubly_robust"]
