"""The widths of the priors of the ratio and of the value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from jaxtyping import Float

from bayesdice_ppl import checks
from bayesdice_ppl.arrays import library_of
from bayesdice_ppl.moments.known_rewards import RewardKind, reward_kind

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
    rare_share
        Share of the transitions below which a pair is rare. The prior sd of a rare pair's ratio is
        larger in proportion (see `of_pairs`). 0: that of every pair is `ratio_sd`. For one weight a
        pair, without a link, under a calibrated penalty.
    unseen
        What pairs of state and action that the log does not have are worth, with one-hot features.
        ``"pooled"``: each is a latent, which differs from the logged pairs by as much as these
        differ from each other, by state and by action. ``"moved"``: a candidate's probability of
        them is moved to the logged actions of the state, as if these were all.
    rewards
        What rewards can be, with one-hot features: ``"binary"`` (0 or 1), ``"counts"`` (0, 1, 2,
        ...), or their bounds (low, high). Each pair's mean reward then has a Beta or Gamma
        posterior with Jeffreys' prior, in place of one that its spread in the log gives. None:
        nothing is known.

    Raises
    ------
    SettingsError
        A width is not positive, `rare_share` is negative, or ``unseen`` is another word, or
        ``rewards`` is neither a known word nor two bounds.
    """

    ratio_sd: float = 10.0
    value_sd: float = 10.0
    rare_share: float = 0.1
    unseen: str = "pooled"
    rewards: RewardKind | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            ratio_sd: float = ...,
            value_sd: float = ...,
            rare_share: float = ...,
            unseen: str = ...,
            rewards: RewardKind | str | Sequence[float] | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        checks.positive("prior.ratio_sd", self.ratio_sd)
        checks.positive("prior.value_sd", self.value_sd)
        checks.nonnegative("prior.rare_share", self.rare_share)
        checks.one_of("prior.unseen", self.unseen, UNSEEN)
        object.__setattr__(self, "rewards", reward_kind(self.rewards))

    def of_pairs(self, visits: Float[Any, " P"], n: Float[Any, ""]) -> Float[Any, " P"]:
        """Prior sd of the ratio of each pair.

        Parameters
        ----------
        visits
            Transitions of each pair, shape (P,).
        n
            Transitions in all.

        Notes
        -----
        A pair with n_sa of n transitions may have a ratio of up to n / n_sa, at which a candidate
        spends all its time there. What a pair adds to the value is its share of the candidate's
        steps, zeta n_sa / n. One sd for all ratios is a narrow prior of the share of a rare pair:
        at 10, a pair of 5 in 5,000 transitions has a share of at most some hundredths, whatever the
        candidate does. So sd = ratio_sd max(1, rare_share n / n_sa), by default max(10, n / n_sa):
        every rare pair's share has the same prior sd, by default 1.
        """
        xp = library_of(visits)
        # A pair without transitions has no part in any row.
        rarity = self.rare_share * n / xp.maximum(visits, 1.0)
        return self.ratio_sd * xp.maximum(rarity, 1.0)
