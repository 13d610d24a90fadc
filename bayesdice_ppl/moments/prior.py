"""How wide the prior is, of the ratio and of the value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from bayesdice_ppl import checks


@final
@dataclass(frozen=True)
class Prior:
    """Prior standard deviations (hashable).

    Attributes
    ----------
    ratio_sd
        Of the ratio, around 1: of each pair's, or with features in the root mean square over the
        logged pairs.
    value_sd
        Of the value, in standard deviations of the logged reward (around the absorbed one, where
        terminations absorb).

    Raises
    ------
    SettingsError
        A number is not positive.
    """

    ratio_sd: float = 10.0
    value_sd: float = 10.0

    def __post_init__(self) -> None:
        checks.positive("prior.ratio_sd", self.ratio_sd)
        checks.positive("prior.value_sd", self.value_sd)
