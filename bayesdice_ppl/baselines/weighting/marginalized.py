"""Marginalized importance sampling: one ratio for each state and action, not a product of many.

Every logged reward is weighted by d^pi(s, a) / d^D(s, a), the stationary ratio that DICE methods
estimate, so the noise does not grow with the length of an episode. Sums over episodes are the
per-trajectory estimates of the paper's appendix.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.baselines.interface import Estimate, Needs, Query
from bayesdice_ppl.baselines.rows import LabelRows
from bayesdice_ppl.baselines.settings import GIVEN, only_with
from bayesdice_ppl.baselines.value.bellman import evaluate
from bayesdice_ppl.baselines.weighting.intervals import (
    BOUNDED,
    RESAMPLES,
    PerTrajectory,
    Sample,
    check_bounds,
)
from bayesdice_ppl.checks import nonnegative
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.features.maps import FeatureChoice
from bayesdice_ppl.logs import RewardUnits, usable_rows


@final
@dataclass(frozen=True)
class Marginalized(PerTrajectory):
    """Marginalized importance sampling, with an interval from per-trajectory estimates.

    The value v is the mean over all transitions of zeta(s, a) r, zeta the stationary ratio. Episode
    e contributes y_e = v + (m / n) sum of zeta (r - v) over its steps, as the ratio averages one,
    and the m of them give the interval.

    Parameters
    ----------
    interval
        None, ``"student"``, ``"bernstein"``, ``"hoeffding"`` or ``"bca"``.
    ridge
        Transitions that are made up for each feature, as for `lstdq`.
    features
        What ratio and test functions can tell apart. None: one-hot for labels; for vectors the
        default features of `bayesdice_ppl.fit`.
    reward_range, max_weight
        Bounds on rewards and ratios, from which Hoeffding and Bernstein have their range, as for
        `importance_sampling`.
    resamples
        Of the bootstrap.

    Notes
    -----
    It needs neither propensities nor whole episodes; at gamma > 0 successors, and for logs of
    vectors a key.

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

    _: KW_ONLY
    interval: str | None = None
    ridge: float = 1e-6
    features: FeatureChoice | None = None
    reward_range: tuple[float, float] | None = only_with(None, interval=BOUNDED, max_weight=GIVEN)
    max_weight: float | None = only_with(None, interval=BOUNDED)
    resamples: int = only_with(RESAMPLES, interval=("bca",))

    def __post_init__(self) -> None:
        self.check_choices()
        check_bounds(self.reward_range, self.max_weight)
        nonnegative("ridge", self.ridge)

    @property
    def name(self) -> str:
        """Name in tables, such as "marginalized IS + bca"."""
        return self.name_with("marginalized IS")

    @property
    def short(self) -> str:
        """Name for `make`, such as "mis:bca"."""
        return self.short_with("mis")

    @property
    def needs(self) -> Needs:
        """Transitions alone; a key for the bootstrap, and for the features of vectors."""
        return Needs(rng_key=self.draws)

    def answer(self, query: Query, level: float) -> Estimate:
        """Estimate from transitions weighted by the ratio."""
        logs = query.logs
        used = usable_rows(logs, query.gamma).mask
        ratio, absorbed = self._ratio(query)
        episode, m = logs.episode[used], logs.n_episodes
        if query.gamma == 0.0:
            m = logs.n_transitions
            episode = np.arange(m)
        share = m / len(ratio)
        # As the ratio averages one, a constant is known, and need not pass through it.
        units = RewardUnits(query.units.origin)
        reward = units.into(logs.reward[used])
        paid = share * np.bincount(episode, ratio * reward, minlength=m)
        mass = share * np.bincount(episode, ratio * absorbed, minlength=m)
        value = float(paid.mean())
        sample = Sample(
            estimates=value + paid - value * mass,
            share=share * np.bincount(episode, minlength=m),
            largest=float(ratio.max()),
            center=value,
            mass=mass,
        )
        return self.conclude(
            query,
            level,
            sample.estimates,
            width=lambda: sample.width(logs.reward, self.reward_range, self.max_weight, units),
            mass=sample.mass,
        ).back(units)

    def _ratio(self, query: Query) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Ratio of each row that is used, and its mass with what was absorbed after it.

        Their product averages one.
        """
        rows = query.rows(self.features, renormalize=True)
        if query.gamma == 0.0 and isinstance(rows, LabelRows):
            # Every row is a context of its own, and not the first of an episode alone.
            start, count = np.unique(rows.state, return_counts=True)
            step = rows.step._replace(start=start, start_count=count.astype(np.float64))
            rows = rows._replace(step=step)
        ratio = evaluate(rows, self.ridge).ratio
        total = float(np.mean(ratio * rows.step.mass))
        if not total > 0.0:
            raise LogsError(
                "marginalized importance sampling: the candidate takes none of the actions logged "
                "in the initial states, so its ratio is 0 everywhere. Use a log that has them."
            )
        return ratio / total, np.broadcast_to(rows.step.mass, ratio.shape)


marginalized = Marginalized
