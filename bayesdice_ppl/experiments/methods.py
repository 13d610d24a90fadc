"""Methods of the experiments: a name, the worlds they are run in, and the number of trials."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bayesdice_ppl.baselines.interface import Estimator, Query
from bayesdice_ppl.experiments.trials import PRIOR_BANDIT, Trial

BAYESDICE = "BayesDICE"
BANDITS = ("bandit", PRIOR_BANDIT)
SMALL = (*BANDITS, "frozenlake", "garnet")
"""Worlds of labels with a few hundred pairs at most."""

LABELS = (*SMALL, "taxi")
"""Worlds of labels."""


@dataclass(frozen=True)
class Method:
    """A method, the worlds that it is run in, and the number of trials.

    Attributes
    ----------
    name
        Name in tables.
    baseline
        The baseline; None for BayesDICE itself.
    form
        Settings of `bayesdice_ppl.fit`, for BayesDICE.
    worlds
        Worlds in which it is run. None: all.
    most_trials
        How many trials of a cell, from the first, as some methods are slow. None: all.
    """

    name: str
    baseline: Estimator | None = None
    form: dict[str, Any] = field(default_factory=dict)
    worlds: tuple[str, ...] | None = None
    most_trials: int | None = None

    def asked(self, trial: Trial) -> bool:
        """Whether the method is run in a trial."""
        here = self.worlds is None or trial.cell.world in self.worlds
        return here and (self.most_trials is None or trial.number < self.most_trials)


def queries_of(trial: Trial) -> dict[str, Query]:
    """What baselines are asked in a trial, by candidate; all methods share a query's rows."""
    return {
        name: Query(trial.logs, policy, trial.gamma, trial.rng_key)
        for name, policy in trial.candidates.items()
    }
