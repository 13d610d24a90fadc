"""Rewards of a known kind: 0 or 1, counts, or bounded; and what is then known of a pair's mean.

Where a user knows what rewards can be, each pair's mean reward has a posterior of its own: a Beta
for rewards between two bounds, a Gamma for counts. It does not lean on the log's spread, which few
visits hide. The prior is Jeffreys', which the pairs of a value share. To add a kind, write a class
with these methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from bayesdice_ppl import checks
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.logs import RewardUnits
from bayesdice_ppl.moments.mean_posteriors import BetaMeans, GammaMeans, MeanPosteriors
from bayesdice_ppl.moments.pairs import PairRewards

HALF = 0.5
"""Jeffreys' prior for one mean: half a success, and half a failure or no time at all."""
_TWO_VALUED = 2.0
"""Rewards that the largest spread within the bounds counts for, as in the small-sample rule."""


@runtime_checkable
class RewardKind(Protocol):
    """What rewards can be (hashable)."""

    @property
    def flat(self) -> Any:
        """The kind as a user writes it, in values that JSON can hold."""

    @property
    def words(self) -> str:
        """What is expected of a reward, in words."""

    def holds(self, reward: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Whether each reward is of this kind, shape (n,)."""

    def into(self, units: RewardUnits) -> RewardKind:
        """The same kind of rewards in other units."""

    def means(self, rewards: PairRewards, prior: float = HALF) -> MeanPosteriors:
        """Posteriors of the mean rewards of pairs.

        Parameters
        ----------
        rewards
            Those of each pair.
        prior
            Successes of the prior, and failures, in each pair.
        """


@final
@dataclass(frozen=True)
class Bounded:
    """Rewards between two bounds, which they may take or not.

    Notes
    -----
    Within the bounds no rewards of this mean vary more than those at the two bounds alone, which
    have m (1 - m) in units of the range. If a pair's rewards have a share h of that, n of them say
    as much of the mean as n / h of two values: Beta(m n / h + 1/2, (1 - m) n / h + 1/2). h is drawn
    to that of all pairs by the weight of two rewards, and that to 1 by the same: the most that is
    possible. Of two-valued rewards h is 1, exactly.
    """

    low: float
    high: float
    written: tuple[float, float] | None = None

    @property
    def flat(self) -> list[float]:
        """The two bounds, as a user has them."""
        return list(self.written or (self.low, self.high))

    @property
    def words(self) -> str:
        """What is expected of a reward."""
        return f"rewards from {self.low:g} to {self.high:g}"

    def holds(self, reward: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Whether each reward is within the bounds."""
        return np.asarray((reward >= self.low) & (reward <= self.high))

    def into(self, units: RewardUnits) -> Bounded:
        """The bounds in other units."""
        own = self.written or (self.low, self.high)
        return Bounded(float(units.into(self.low)), float(units.into(self.high)), own)

    def means(self, rewards: PairRewards, prior: float = HALF) -> BetaMeans:
        """Betas of effective counts."""
        visits, width = rewards.visits, self.high - self.low
        share = np.clip((rewards.mean - self.low) / width, 0.0, 1.0)
        squares = rewards.scatter / width**2
        # What squares would be at the two bounds; both are measured from the pair's own mean.
        most = (visits - 1.0) * share * (1.0 - share) + squares / visits
        repeats = float((visits - 1.0).sum())
        one = float(most.sum()) / repeats if repeats > 0.0 else 0.0
        if one > 0.0:
            pooled = (squares.sum() + _TWO_VALUED * one) / (most.sum() + _TWO_VALUED * one)
            spread = (squares + _TWO_VALUED * pooled * one) / (most + _TWO_VALUED * one)
            spread = np.minimum(spread, 1.0)
        else:
            spread = np.ones_like(visits)
        return _betas(self.low, width, share, visits / spread, 1.0 - spread, prior)


@final
@dataclass(frozen=True)
class Binary:
    """Rewards of two values, 0 and 1 as a user has them."""

    low: float = 0.0
    high: float = 1.0

    @property
    def flat(self) -> str:
        """Its name."""
        return "binary"

    @property
    def words(self) -> str:
        """What is expected of a reward."""
        return "rewards of 0 or 1"

    def holds(self, reward: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Whether each reward is one of the two."""
        return np.asarray((reward == self.low) | (reward == self.high))

    def into(self, units: RewardUnits) -> Binary:
        """The two values in other units."""
        return Binary(float(units.into(self.low)), float(units.into(self.high)))

    def means(self, rewards: PairRewards, prior: float = HALF) -> BetaMeans:
        """Jeffreys' Betas."""
        visits, width = rewards.visits, self.high - self.low
        share = np.clip((rewards.mean - self.low) / width, 0.0, 1.0)
        return _betas(self.low, width, share, visits, np.zeros_like(visits), prior)


@final
@dataclass(frozen=True)
class Counts:
    """Counts: 0, 1, 2, ... as a user has them; `zero` and `unit` say where these are.

    Notes
    -----
    Poisson counts of sum k in n visits have Gamma(k + 1/2) / n. Counts that vary more, by a factor
    h over all pairs (Pearson's statistic over its degrees of freedom), have Gamma(k / h + 1/2) h /
    n. Where they vary less, h is 1.
    """

    zero: float = 0.0
    unit: float = 1.0

    @property
    def flat(self) -> str:
        """Its name."""
        return "counts"

    @property
    def words(self) -> str:
        """What is expected of a reward."""
        return "whole rewards of 0 or more"

    def holds(self, reward: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Whether each reward is a count."""
        number = (reward - self.zero) / self.unit
        return np.asarray((number >= 0.0) & (number == np.floor(number)))

    def into(self, units: RewardUnits) -> Counts:
        """The same in other units."""
        zero = float(units.into(self.zero))
        return Counts(zero, float(units.into(self.zero + self.unit)) - zero)

    def means(self, rewards: PairRewards, prior: float = HALF) -> GammaMeans:
        """Gammas."""
        visits = rewards.visits
        number = np.maximum((rewards.mean - self.zero) / self.unit, 0.0)
        # A pair without an event has no square to compare.
        seen = number > 0.0
        repeats = float((visits - 1.0)[seen].sum())
        excess = float((rewards.scatter[seen] / self.unit**2 / number[seen]).sum())
        factor = max(1.0, excess / repeats) if repeats > 0.0 else 1.0
        rate = visits / factor
        estimated = np.full_like(visits, float(factor > 1.0))
        return GammaMeans(number * rate + prior, rate, self.zero, self.unit, estimated)


def _betas(
    low: float,
    width: float,
    share: Float[np.ndarray, " P"],
    effective: Float[np.ndarray, " P"],
    estimated: Float[np.ndarray, " P"],
    prior: float,
) -> BetaMeans:
    won, lost = share * effective + prior, (1.0 - share) * effective + prior
    return BetaMeans(won, lost, low, width, estimated)


def reward_kind(given: object) -> RewardKind | None:
    """Read what rewards can be; None: nothing is known.

    Raises
    ------
    SettingsError
        It is neither a known word nor two bounds.
    """
    if given is None or isinstance(given, RewardKind):
        return given
    if isinstance(given, str) and given in _WORDS:
        return _WORDS[given]
    pair = given if isinstance(given, list | tuple) else ()
    if len(pair) == 2 and all(checks.is_number(end) for end in pair) and pair[0] < pair[1]:
        return Bounded(float(pair[0]), float(pair[1]))
    raise SettingsError(
        f"prior.rewards: expected {', '.join(map(repr, _WORDS))} or two bounds such as (0, 5), "
        f"found {given!r}."
    )


_WORDS: dict[str, RewardKind] = {"binary": Binary(), "counts": Counts()}


def check_rewards(
    kind: RewardKind | None, reward: Float[np.ndarray, " n"], column: str = "reward"
) -> None:
    """Refuse a log whose rewards are not of the kind that was promised.

    Parameters
    ----------
    kind
        The kind, or None for any.
    reward
        The rewards.
    column
        Their column, for the message.

    Raises
    ------
    LogsError
        A reward is of another kind; the message names its row.
    """
    if kind is None:
        return
    odd = ~kind.holds(reward)
    if odd.any():
        row = int(np.argmax(odd))
        raise LogsError(
            f"row {row + 1}, column {column!r}: expected {kind.words}, as prior.rewards="
            f"{kind.flat!r} says, found {reward[row]:g}. Leave rewards out of the prior, or mend "
            "the log."
        )


class KnownMeans(NamedTuple):
    """What is known of the pairs' mean rewards, with the kind of reward.

    Attributes
    ----------
    kind
        What rewards can be, in the units of the log.
    rewards
        Those of each pair.
    """

    kind: RewardKind
    rewards: PairRewards

    def posterior(self, share: Float[np.ndarray, " P"]) -> MeanPosteriors:
        """Posteriors of the pairs' means for a value in which each has a share of the steps.

        Parameters
        ----------
        share
            Share of the candidate's steps at each pair, shape (P,).

        Notes
        -----
        Half a success in each of 30 pairs would be 15 successes that nobody saw. For a sum of
        Poisson counts Jeffreys' prior is half a success for the sum. So a pair's is 1 / (2 m), with
        m the effective number of pairs, (sum c)^2 / sum c^2 of c = share^2 / visits; it is 1/2 for
        a value of one pair. Price and Bonett (2004) divide the successes that they add to linear
        functions of proportions alike.
        """
        weight = share**2 / self.rewards.visits
        square = float(weight @ weight)
        pairs = float(weight.sum()) ** 2 / square if square > 0.0 else 1.0
        return self.kind.means(self.rewards, HALF / pairs)
