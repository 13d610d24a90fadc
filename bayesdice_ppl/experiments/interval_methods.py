"""Methods that give intervals, at several levels from one log.

Draws give the intervals of all levels as quantiles. Other methods are run once for each level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl import baselines
from bayesdice_ppl.baselines.interface import Query, central
from bayesdice_ppl.baselines.weighting.intervals import INTERVALS
from bayesdice_ppl.experiments.methods import BANDITS, BAYESDICE, LABELS, SMALL, Method
from bayesdice_ppl.experiments.trials import Trial
from bayesdice_ppl.experiments.value_draws import draw_values

DRAWS = 4_000
"""Draws of BayesDICE's belief, and of the others' on small worlds."""

FEWER_DRAWS = 400
"""Draws of methods that solve or refit a large world for each."""

NETWORK_TRIALS = 200
"""Trials in which networks are trained: as many as the paper has."""


@final
@dataclass(frozen=True)
class IntervalMethod(Method):
    """A method that gives intervals; see `bayesdice_ppl.experiments.methods.Method`."""

    def intervals(
        self, trial: Trial, policy: str, levels: Sequence[float], query: Query
    ) -> Float[np.ndarray, "L 2"]:
        """Central intervals of one candidate's value.

        Parameters
        ----------
        trial
            The log.
        policy
            Name of the candidate.
        levels
            Nominal levels.
        query
            The same for baselines, with rows that they share.

        Returns
        -------
        array
            Lower and upper end at each level, shape (L, 2), in reward per step.

        Raises
        ------
        LogsError, PoliciesError, SettingsError
            The method has no answer for this log.
        """
        if self.baseline is None:
            draws = draw_values(
                trial.logs,
                {policy: trial.candidates[policy]},
                gamma=trial.gamma,
                rng_key=trial.rng_key,
                draws=DRAWS,
                **self.form,
            )
            return all_central(draws[:, 0], levels)
        found = []
        for level in levels:
            estimate = self.baseline.ask(query, level)
            if estimate.draws is not None:
                return all_central(estimate.draws, levels)
            found.append((estimate.lower, estimate.upper))
        return np.array(found, dtype=np.float64)


def all_central(
    draws: Float[np.ndarray, " S"], levels: Sequence[float]
) -> Float[np.ndarray, "L 2"]:
    """Central intervals of draws at all levels."""
    return np.array([central(draws, level) for level in levels])


def interval_methods(*, marginal: bool) -> tuple[IntervalMethod, ...]:
    """List the methods of the experiment on intervals.

    Parameters
    ----------
    marginal
        Put intervals from marginalized importance sampling in the place of those from per-step
        importance sampling.
    """
    own = (
        IntervalMethod(BAYESDICE),
        IntervalMethod("BayesDICE, paper's form", form={"preset": "paper"}, worlds=SMALL),
    )
    if marginal:
        return own + tuple(
            IntervalMethod(f"marginalized IS + {kind}", baselines.marginalized(interval=kind))
            for kind in INTERVALS
        )
    sampled = tuple(
        IntervalMethod(f"weighted IS + {kind}", baselines.importance_sampling(interval=kind))
        for kind in INTERVALS
    )
    return (
        *own,
        *sampled,
        IntervalMethod("CoinDICE", baselines.coin_dice(renormalize=True), worlds=LABELS),
        IntervalMethod("CoinDICE", baselines.coin_dice(), worlds=("reacher",)),
        IntervalMethod("Dirichlet model", baselines.dirichlet_model(draws=DRAWS), worlds=SMALL),
        # Each draw is a world of 400 states to be solved.
        IntervalMethod(
            "Dirichlet model", baselines.dirichlet_model(draws=FEWER_DRAWS), worlds=("taxi",)
        ),
        IntervalMethod("Beta", baselines.beta_bandit(draws=DRAWS), worlds=BANDITS),
        IntervalMethod(
            "bootstrap of LSTDQ",
            baselines.lstdq_bootstrap(draws=1000, renormalize=True),
            worlds=SMALL,
        ),
        IntervalMethod(
            "bootstrap of LSTDQ",
            baselines.lstdq_bootstrap(draws=FEWER_DRAWS, renormalize=True),
            worlds=("taxi",),
        ),
        IntervalMethod(
            "bootstrap of LSTDQ",
            baselines.lstdq_bootstrap(draws=FEWER_DRAWS),
            worlds=("reacher",),
        ),
        IntervalMethod("BDQN", baselines.bdqn(), most_trials=NETWORK_TRIALS),
    )
