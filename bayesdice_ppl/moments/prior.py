"""The widths of the priors of the ratio and of the value."""

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
        Prior sd of each pair's ratio, around 1. With features, the root mean square over the logged
        pairs of the prior sd of the ratio, or of its logarithm behind ``link="exp"``.
    value_sd
        Prior sd of the value, in standard deviations of the logged reward. If terminations absorb,
        these are taken around the absorbed reward.

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
