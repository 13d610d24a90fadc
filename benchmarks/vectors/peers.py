"""Other methods on the same logs, as beliefs: so that their coverage and width can be compared.

    python -m benchmarks vectors --fit benchmarks.vectors.peers:per_step_is -o rows.csv

A method that gives an interval becomes a normal belief with that interval, which is how it would be
read. Where a method refuses a log, it abstains from all candidates.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from scipy.stats import norm

import bayesdice_ppl as bd
from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.belief.make import make_belief
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs import Logs
from benchmarks.vectors.worlds import VectorWorld

LEVEL = 0.9
"""Level of the intervals that are asked for."""
QUANTILES = norm.ppf((np.arange(2000) + 0.5) / 2000)
"""Draws of a normal belief, without Monte Carlo noise."""


def _asked(
    method: str, world: VectorWorld, log: Logs, policies: Mapping[str, Any], seed: int, **given: Any
) -> Any:
    try:
        found = bd.baselines.estimate_all(
            bd.baselines.make(method, **given),
            log,
            policies,
            gamma=world.gamma,
            on_termination=world.on_termination,
            level=LEVEL,
            rng_key=jax.random.key(seed),
        )
    except LogsError as refusal:
        names = list(policies)
        nothing = log.reward.mean() + QUANTILES[:, None] * np.full(len(names), log.reward.std())
        refused = [SupportWarning(name, str(refusal), abstain=True) for name in names]
        return make_belief(nothing, names, support_warnings=refused)
    if found.has_draws:
        return found.belief()
    lower, upper = (found.table[end].to_numpy() for end in ("lower", "upper"))
    sd = (upper - lower) / (2.0 * norm.ppf(0.5 + LEVEL / 2.0))
    return make_belief((lower + upper) / 2.0 + QUANTILES[:, None] * sd, list(found.names))


def per_step_is(world: VectorWorld, log: Logs, policies: Mapping[str, Any], seed: int) -> Any:
    """Weighted per-decision importance sampling with Student t intervals."""
    return _asked("wpdis:student", world, log, policies, seed)


def coin_dice(world: VectorWorld, log: Logs, policies: Mapping[str, Any], seed: int) -> Any:
    """CoinDICE's intervals."""
    return _asked("coin_dice", world, log, policies, seed)


def lstdq_bootstrap(world: VectorWorld, log: Logs, policies: Mapping[str, Any], seed: int) -> Any:
    """LSTDQ under the Bayesian bootstrap over episodes: linear fitted Q at its fixed point."""
    return _asked("lstdq_bootstrap", world, log, policies, seed, draws=200)


def bdqn(world: VectorWorld, log: Logs, policies: Mapping[str, Any], seed: int) -> Any:
    """A Q network by fitted Q evaluation, with a Bayesian last layer."""
    return _asked("bdqn", world, log, policies, seed)


def mean_deviation(world: VectorWorld, log: Logs, policies: Mapping[str, Any], seed: int) -> Any:
    """The paper's mean and deviation networks, by min-max training of 1,500 steps."""
    return bd.fit(
        log,
        policies,
        gamma=world.gamma,
        on_termination=world.on_termination,
        rng_key=jax.random.key(seed),
        model=bd.models.mean_deviation(),
        inference=bd.inference.MinMax(steps=1500, batch=512, restarts=2, held_out=0.0),
    )
