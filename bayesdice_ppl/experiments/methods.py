"""What methods of all experiments have in common: a name, where they are asked, and how often."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bayesdice_ppl import baselines
from bayesdice_ppl.experiments.trials import PRIOR_BANDIT, Trial

BAYESDICE = "BayesDICE"
BANDITS = ("bandit", PRIOR_BANDIT)
SMALL = (*BANDITS, "frozenlake", "garnet")
"""Worlds of labels with a few hundred pairs at most."""

LABELS = (*SMALL, "taxi")
"""Worlds of labels."""


@dataclass(frozen=True)
class Method:
    """A method, in which worlds it is asked, and in how many trials.

    Attributes
    ----------
    name
        Name in tables.
    baseline
        The baseline; None for BayesDICE itself.
    form
        Settings of `bayesdice_ppl.fit`, for BayesDICE.
    worlds
        Worlds in which it is asked; None: in all.
    most_trials
        In how many trials of a cell, from the first, as some take long; None: in all.
    """

    name: str
    baseline: baselines.Baseline | None = None
    form: dict[str, Any] = field(default_factory=dict)
    worlds: tuple[str, ...] | None = None
    most_trials: int | None = None

    def asked(self, trial: Trial) -> bool:
        """Tell whether the method is asked about a trial."""
        here = self.worlds is None or trial.cell.world in self.worlds
        return here and (self.most_trials is None or trial.number < self.most_trials)
