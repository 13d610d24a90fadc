"""What the baselines that solve the Bellman equation of a log have in common.

They need no propensities, take labels or features, and differ in what they make of the rows alone.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import PRNGKeyArray

from bayesdice_ppl.baselines.interface import Asked, Checked, Estimate, Needs
from bayesdice_ppl.baselines.rows import Rows, make_rows
from bayesdice_ppl.features.maps import FeatureChoice
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import ContinuousPolicy, Policy


@dataclass(frozen=True)
class OnRows(Checked):
    """A baseline that answers from the rows of the Bellman equation.

    Attributes
    ----------
    ridge, features, renormalize
        As for `lstdq`.
    merge
        Whether transitions that agree in everything are counted as one row.
    """

    ridge: float | None
    features: FeatureChoice | None
    renormalize: bool
    merge: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in tables."""

    @property
    def needs(self) -> Needs:
        """Nothing beside transitions; of a log of vectors a key."""
        return Needs()

    @property
    def gives(self) -> str:
        """An estimate alone."""
        return "estimate"

    def answer(
        self,
        logs: Logs,
        policy: Policy | ContinuousPolicy,
        asked: Asked,
        rng_key: PRNGKeyArray | None,
    ) -> Estimate:
        """Estimate the value from the rows of the Bellman equation."""
        rows = make_rows(
            logs,
            policy,
            asked,
            features=self.features_of(logs),
            rng_key=rng_key,
            renormalize=self.renormalize,
            merge=self.merge,
        )
        return self.answer_rows(rows, asked)

    def features_of(self, logs: Logs) -> FeatureChoice | None:
        """Give the features of a log."""
        return self.features

    @abstractmethod
    def answer_rows(self, rows: Rows, asked: Asked) -> Estimate:
        """Estimate the value from the rows; a SettingsError where the method has no answer."""
