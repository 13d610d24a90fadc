"""Bayesian bootstrap of LSTDQ: the value at random weights of the log's episodes.

Episodes, and of a bandit's log rows, are the independent units; their weights are uniform over all
weights of sum 1. Each draw of the weights makes one log, and LSTDQ's value of that log one draw of
the posterior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import PRNGKeyArray

from bayesdice_ppl.baselines.checks import optional_ridge, whole
from bayesdice_ppl.baselines.interface import Asked, Drawing, Estimate, Needs
from bayesdice_ppl.baselines.intervals import central
from bayesdice_ppl.baselines.lstdq_weighted import Units, solve_weighted
from bayesdice_ppl.baselines.rows import make_rows
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.features.maps import FeatureChoice
from bayesdice_ppl.keys import seed_sequence
from bayesdice_ppl.logs import Logs, usable_rows
from bayesdice_ppl.policies import ContinuousPolicy, Policy

METHOD = "lstdq_bootstrap"


@final
@dataclass(frozen=True)
class LstdqBootstrap(Drawing):
    """A Bayesian bootstrap of LSTDQ; make one with `lstdq_bootstrap`."""

    draws: int
    ridge: float | None
    features: FeatureChoice | None
    renormalize: bool

    @property
    def name(self) -> str:
        """Name in tables."""
        return METHOD

    @property
    def needs(self) -> Needs:
        """A key."""
        return Needs(rng_key=True)

    def answer(
        self,
        logs: Logs,
        policy: Policy | ContinuousPolicy,
        asked: Asked,
        rng_key: PRNGKeyArray | None,
    ) -> Estimate:
        """Draw the posterior of a policy's value."""
        assert rng_key is not None  # it was asked for among the needs
        units = find_units(logs, asked)
        rows = make_rows(
            logs,
            policy,
            asked,
            features=self.features,
            rng_key=rng_key,
            renormalize=self.renormalize,
        )
        rng = np.random.default_rng(seed_sequence(rng_key))
        weights = rng.standard_exponential((self.draws, units.size))
        weights /= weights.mean(axis=1, keepdims=True)
        draws = solve_weighted(rows, units, weights, self.ridge)
        lower, upper = central(draws, asked.level)
        return Estimate(float(draws.mean()), lower, upper, draws)


def lstdq_bootstrap(
    draws: int = 200,
    ridge: float | None = None,
    *,
    features: FeatureChoice | None = None,
    renormalize: bool = False,
) -> LstdqBootstrap:
    """Bayesian bootstrap of least-squares temporal differences.

    Parameters
    ----------
    draws
        Number of posterior draws.
    ridge, features, renormalize
        As for `bayesdice_ppl.baselines.lstdq`.

    Notes
    -----
    The posterior of the distribution of episodes puts Dirichlet(1, ..., 1) weights on those that
    were logged (Rubin, "The Bayesian bootstrap", 1981), and the value is a functional of that
    distribution: the solution of the equation of `bayesdice_ppl.baselines.lstdq` in which each
    transition, and each start, has the weight of its episode. At gamma = 0 the unit is the row;
    an episode's start there has the weight of its first row. Weights average one, so that equal
    weights are LSTDQ itself and the ridge is worth as many transitions as there.

    `value` is the mean of the draws, and the interval is central. Weights come from the key alone:
    draws of policies with the same key are joint. It needs a key and no propensities, takes labels
    or features, and inherits from LSTDQ what it says of pairs that were never logged: nothing,
    whatever the weights. So its draws are too narrow where a policy leaves the log, and with few
    episodes: an outcome that was not seen never gets a weight.

    Raises
    ------
    SettingsError
        A setting is out of its range.
    """
    return LstdqBootstrap(
        whole(METHOD, "draws", draws),
        optional_ridge(METHOD, ridge),
        features,
        bool(renormalize),
    )


def find_units(logs: Logs, asked: Asked) -> Units:
    """Independent parts of a log: episodes, or rows at gamma = 0.

    Raises
    ------
    LogsError
        There is only one.
    """
    used = np.flatnonzero(usable_rows(logs, asked.gamma).mask)
    if asked.gamma == 0.0:
        first = np.flatnonzero(np.r_[True, logs.episode[1:] != logs.episode[:-1]])
        units = Units(used, first, logs.initial_state, logs.n_transitions)
    else:
        every = np.arange(logs.n_episodes)
        units = Units(logs.episode[used], every, logs.initial_state, logs.n_episodes)
    if units.size < 2:
        what = "row" if asked.gamma == 0.0 else "episode"
        raise LogsError(
            f"{METHOD} weighs the log's {what}s against each other, and there is only one: use a "
            "longer log, or a method that does not resample."
        )
    return units


__all__ = ["LstdqBootstrap", "lstdq_bootstrap"]
