"""The gauges of a belief: every number that it is judged by, with its thresholds.

A gauge has a name, which a warning carries, and two thresholds: past the first the belief warns,
past the second it abstains. docs/warnings.md has the table, and says where
it is measured how often each speaks where intervals miss and where they hold.
"""

from __future__ import annotations

import math
from typing import NamedTuple, final

from bayesdice_ppl.belief import SupportWarning


@final
class Gauge(NamedTuple):
    """A number of a candidate, and how far it may go.

    Attributes
    ----------
    name
        What a warning of it is called.
    meaning
        What the number is.
    warns, abstains
        Thresholds past which the belief warns, and abstains; infinite where it never does.
    falls
        Whether low numbers are the bad ones; a number at the threshold is then past it.
    """

    name: str
    meaning: str
    warns: float
    abstains: float = math.inf
    falls: bool = False

    def judge(self, policy: str, number: float, reason: str) -> list[SupportWarning]:
        """The warning about a candidate, if its number is past the first threshold.

        Parameters
        ----------
        policy
            The candidate.
        number
            Its number.
        reason
            What to say of it, as a sentence whose subject is the candidate.
        """
        if not self._past(number, self.warns):
            return []
        abstain = self._past(number, self.abstains)
        threshold = self.abstains if abstain else self.warns
        told = float(number) if math.isfinite(number) else None
        return [SupportWarning(policy, reason, abstain, self.name, told, threshold)]

    def _past(self, number: float, threshold: float) -> bool:
        if math.isinf(threshold):
            return False
        # What is not a number is past every threshold.
        return not number > threshold if self.falls else not number <= threshold


UNLOGGED = Gauge(
    "unlogged actions", "share of steps with an action not logged in that state", 0.02, 0.1
)
UNLOGGED_SHIFT = Gauge(
    "unlogged shift", "possible shift of the value by unlogged actions, in its sds", 0.25, 1.0
)
UNSEEN = Gauge("unseen share", "share of the value's variance from pairs never logged", 0.5, 0.9)
LOST = Gauge("lost mass", "share of steps after a state without a logged action", 1e-6, 1e-3)
PREDICTED = Gauge(
    "predicted mass", "the same, where other states predict what it is worth", 0.02, 0.1
)
EFFECTIVE = Gauge("effective transitions", "(sum zeta)^2 / sum zeta^2", 20.0, 5.0, falls=True)
EPISODES = Gauge(
    "effective episodes", "the same of importance sampling's episodes", 50.0, 10.0, falls=True
)
EPISODE = Gauge("influential episode", "largest episode's share of the evidence", 0.75)
STARTS = Gauge(
    "one start", "what another first state would move the value by, in its sds", 0.25, 0.5
)
NEGATIVE = Gauge("negative mass", "negative share of the mass of the first ratio", 0.05, 0.2)
CONSTANT = Gauge("constant rewards", "range of the rewards used", 0.0, 0.0, falls=True)
LEFT_OUT = Gauge("left out", "share of transitions without a known successor", 0.2, 0.5)
FREEDOM = Gauge("degrees of freedom", "of the value's Student t", 4.0, 2.0, falls=True)
ADAPTIVE = Gauge(
    "adaptive log", "possible bias by a policy that followed its rewards, in sds", 0.0, 2.0
)
SHORT = Gauge("short log", "whether errors still grow at the longest stretches: 1", 0.5, 0.5)
SHARED = Gauge(
    "shared errors", "errors over those of independent rows, if a column of few groups counts", 1.2
)
WIDE = Gauge("wide belief", "sd of the value over the range of the rewards", 1.0, 1.0)
NARROW = Gauge("no width", "sd of the value over that of the rewards", 1e-4, 1e-4, falls=True)
FEATURES = Gauge("many features", "features per transition", 0.05, 0.1)
CAPPED = Gauge("capped weight", "share of weight above the cap of the action ratio", 0.05, 0.3)
OUTSIDE = Gauge("outside the log", "share of simulated time outside the log", 0.05, 0.1)
UNJUDGED = Gauge("not simulated", "the same of the logging policy itself", 0.3)
CLONE = Gauge("poor clone", "whether the clone fails its checks: 1", 0.5)
TAIL = Gauge(
    "thin tail", "effective transitions in the tail that is asked for", 5.0, 5.0, falls=True
)
UNMET = Gauge("unmet constraint", "P(ell <= epsilon)", 0.05, 0.05, falls=True)
OTHER_TESTS = Gauge(
    "other functions",
    "p-value of J on functions that were not fitted",
    1e-3,
    1e-3,
    falls=True,
)
NETWORKS = Gauge("trained networks", "whether networks on vectors were trained: 1", 0.5, 0.5)
MODE = Gauge("no mode", "whether the search stopped before it settled: 1", 0.5, 0.5)
WEIGHTS = Gauge("mean weight", "mean action ratio's distance from 1, in standard errors", 5.0)
DRIFT = Gauge("convergence", "how far SVI moved in its last window", 0.1, 0.1)
MIXING = Gauge("mixing", "R-hat of the chains of NUTS", 1.05, 1.05)
HEAVY = Gauge("heavy tail", "index of the rewards' tail, if few errors make the width", 0.3, 0.5)
FEW_ERRORS = Gauge("few errors", "effective errors that make the width", 3.0, 2.0, falls=True)
PROPENSITIES = Gauge(
    "propensities", "relative error of the logged propensities, where actions show one", 0.05
)
TOGETHER = Gauge(
    "drift together",
    "move of the value if shares of actions had not drifted, in sds",
    0.25,
    0.5,
)
APART = Gauge(
    "confounded groups",
    "move of the value if groups had had the same shares of actions, in sds",
    0.25,
    0.5,
)
CHANGED = Gauge(
    "changed rewards", "move of the value with the rewards of the log's end, in sds", 1.0, 2.0
)
HIDDEN = Gauge(
    "hidden context", "the same, if propensities had not varied within a state", 0.25, 0.5
)
PAST = Gauge("not Markov", "likely move of the value by what came before, in its sds", 0.25, 0.5)

GAUGES = tuple(each for each in list(globals().values()) if isinstance(each, Gauge))
"""All of them, in the order above."""
