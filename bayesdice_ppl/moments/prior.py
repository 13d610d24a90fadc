"""The widths of the priors of the ratio and of the value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from bayesdice_ppl import checks

UNSEEN = ("pooled", "moved")
"""What may be done about pairs that the log does not have."""


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
    unseen
        What pairs of state and action that the log does not have are worth, with one-hot features.
        ``"pooled"``: each is a latent, which differs from the logged pairs by as much as these
        differ from each other, by state and by action. ``"moved"``: a candidate's probability of
        them is moved to the logged actions of the state, as if these were all.

    Raises
    ------
    SettingsError
        A number is not positive, or ``unseen`` is another word.
    """

    ratio_sd: float = 10.0
    value_sd: float = 10.0
    unseen: str = "pooled"

    def __post_init__(self) -> None:
        checks.positive("prior.ratio_sd", self.ratio_sd)
        checks.positive("prior.value_sd", self.value_sd)
        checks.one_of("prior.unseen", self.unseen, UNSEEN)
