"""Rewards of a simulated log: the log's own, with what its groups share and the tail they follow.

A drawn row brings its own reward. What a log holds only as a whole is put back here: rows of one
group move together; where the largest rewards follow a heavy tail, the next log has larger ones;
and where a pair has few rows, these differ by less than new ones would. The mean of every row's
reward stays known exactly.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.calibration.shared import SharedEffect, shared_effects
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.tails import FEWEST, TailLaw, tail_law

LARGEST_INDEX = 0.9
"""Index of a tail at most: at 1 there is no mean that could be covered."""

THIN = 20
"""Rows of a pair below which its rewards are drawn with what all pairs know of their spread."""
PRIOR_ROWS = 2.0
"""Rows that all pairs count for in one pair's spread, as in the small-sample rule of a fit."""
DISTINCT = 0.5
"""Share of the rewards of a tail that must differ from each other."""


class Tail(NamedTuple):
    """The largest rewards, or the least, by a generalized Pareto law.

    Attributes
    ----------
    held
        Whether a row's reward is one of them, shape (n,).
    side
        1 for the largest, -1 for the least.
    law
        What they follow, measured from the means of their pairs.
    """

    held: Bool[np.ndarray, " n"]
    side: float
    law: TailLaw

    @property
    def mean(self) -> float:
        """Mean of a reward of the tail, from the mean of its pair."""
        return self.side * (self.law.threshold + self.law.scale / (1.0 - self.law.shape))

    def drawn(self, size: int, rng: np.random.Generator) -> Float[np.ndarray, " size"]:
        """Rewards of the tail, from the means of their pairs."""
        scale, shape = self.law.scale, self.law.shape
        # A heavy tail has an index past the gauge's first threshold, which is not 0.
        above = scale / shape * (rng.random(size) ** -shape - 1.0)
        return self.side * (self.law.threshold + above)


class RewardLaw(NamedTuple):
    """How rewards of a simulated log are drawn, given the log's rows that were drawn.

    Attributes
    ----------
    base
        Mean reward of each row's pair of state and action, shape (n,).
    own
        Each row's reward, without what its groups share, shape (n,).
    effects
        What rows of one group share.
    tails
        Heavy tails, at most one to each side.
    two
        The two rewards that there are, or None: an effect then turns one into the other.
    spread
        Sd of what is added to a row's reward, for the spread that few rows hide, shape (n,).
    noise
        What is added, in sds: rewards of all pairs from the means of their pairs, shape (k,).
    redrawn
        Of two rewards, the probability that a row's is drawn from all rows instead, shape (n,).
    """

    base: Float[np.ndarray, " n"]
    own: Float[np.ndarray, " n"]
    effects: tuple[SharedEffect, ...] = ()
    tails: tuple[Tail, ...] = ()
    two: tuple[float, float] | None = None
    spread: Float[np.ndarray, " n"] | None = None
    noise: Float[np.ndarray, " k"] | None = None
    redrawn: Float[np.ndarray, " n"] | None = None

    @classmethod
    def of_log(
        cls,
        reward: Float[np.ndarray, " n"],
        pair: Int[np.ndarray, " n"],
        groupings: dict[str, Int[np.ndarray, " n"]],
        *,
        plain: bool = False,
    ) -> Self:
        """The law of a log's rewards.

        Parameters
        ----------
        reward, pair
            Reward of each row, and its pair of state and action, shape (n,).
        groupings
            Ways to group the rows, by name.
        plain
            Whether rewards are drawn as they are, without effects and tails.
        """
        visits = np.maximum(np.bincount(pair), 1)
        base = (np.bincount(pair, reward) / visits)[pair]
        off = reward - base
        if plain:
            return cls(base, reward)
        effects, left = shared_effects(off, groupings)
        values = np.unique(reward)
        if len(values) <= 2:
            # One effect: those of several, as they turn rewards, have no mean that is simple.
            if effects:
                two = (float(values[0]), float(values[-1]))
                return cls(base, reward, tuple(effects[:1]), (), two)
            thin = np.where(visits < THIN, PRIOR_ROWS / (visits + PRIOR_ROWS), 0.0)[pair]
            return cls(base, reward, redrawn=thin)
        # What is left has each pair's mean, so that values are those of the log's own table.
        left = left - (np.bincount(pair, left) / visits)[pair]
        own = base + left if effects else reward
        spread, noise = hidden_spread(left, pair)
        tails = heavy_tails(left, reward)
        return cls(base, own, tuple(effects), tails, spread=spread, noise=noise)

    @property
    def expected(self) -> Float[np.ndarray, " n"]:
        """Mean reward of each row of the log, if it is drawn, shape (n,)."""
        if self.two is not None:
            low, high = self.two
            # Rows of one pair and one reward are alike.
            kinds = np.stack([self.base, self.own])
            _, first, kind = np.unique(kinds, axis=1, return_index=True, return_inverse=True)
            each = np.zeros(len(first))
            (shared,) = self.effects
            for effect in shared.effect:
                each += self._turned(effect, first) / len(shared.effect)
            raised = each[kind.reshape(-1)]
            return self.own + np.where(self._is_low, 1.0, -1.0) * (high - low) * raised
        if self.redrawn is not None:
            return (1.0 - self.redrawn) * self.own + self.redrawn * self.own.mean()
        mean = self.own
        for tail in self.tails:
            mean = np.where(tail.held, self.base + tail.mean, mean)
        return mean

    def drawn(
        self, row: Int[np.ndarray, " k"], at: Int[np.ndarray, " k"], rng: np.random.Generator
    ) -> Float[np.ndarray, " k"]:
        """Rewards of a simulated log.

        Parameters
        ----------
        row
            The log's rows that were drawn, shape (k,).
        at
            Rows of the log in whose groups the simulated rows are, shape (k,).
        rng
            Draws.
        """
        shared = [each.drawn(rng)[at] for each in self.effects]
        own = self.own[row]
        if self.two is not None:
            low, high = self.two
            turned = rng.random(len(row)) < self._turned(shared[0], row)
            return np.where(turned, low + high - own, own)
        if self.redrawn is not None:
            again = np.flatnonzero(rng.random(len(row)) < self.redrawn[row])
            own[again] = rng.choice(self.own, size=len(again))
            return own
        if self.spread is not None and self.noise is not None:
            own += self.spread[row] * rng.choice(self.noise, size=len(row))
        for tail in self.tails:
            held = np.flatnonzero(tail.held[row])
            own[held] = self.base[row[held]] + tail.drawn(len(held), rng)
        return own + np.sum(shared, axis=0) if shared else own

    def _turned(
        self, effect: Float[np.ndarray, " k"] | float, row: Int[np.ndarray, " k"] | None = None
    ) -> Float[np.ndarray, " k"]:
        """Probability that an effect on the mean turns the lower reward up, or the higher down."""
        assert self.two is not None
        low, high = self.two
        rows = slice(None) if row is None else row
        share = (self.base[rows] - low) / (high - low)
        step = np.asarray(effect) / (high - low)
        is_low = self._is_low[rows]
        # The mean of the pair moves by the effect if this share of the rows that can turn does.
        can_turn = np.where(is_low, 1.0 - share, share)
        return np.asarray(np.clip(np.where(is_low, step, -step) / can_turn, 0.0, 1.0))

    @property
    def _is_low(self) -> Bool[np.ndarray, " n"]:
        """Whether each row's reward is the lower of the two."""
        assert self.two is not None
        return np.asarray(self.own < 0.5 * sum(self.two))

    @property
    def notes(self) -> tuple[str, ...]:
        """What simulated logs have beside rows of the log, in words."""
        told = [
            f"As in the log, rewards of one {each.name} share an effect (sd {each.sd:.2g})."
            for each in self.effects
        ]
        told += [
            f"Its {'largest' if tail.side > 0.0 else 'least'} rewards follow a heavy tail (index "
            f"{tail.law.shape:.2f}), from which simulated logs have new ones."
            for tail in self.tails
        ]
        if self.spread is not None:
            told.append(
                "Rewards of pairs with few rows are drawn with the spread that so few rows hide. "
                "Some lie outside the range of the log's, and fewer are alike."
            )
        return tuple(told)


def hidden_spread(
    off: Float[np.ndarray, " n"], pair: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"] | None, Float[np.ndarray, " k"] | None]:
    """What few rows of a pair hide of the spread of its rewards.

    Parameters
    ----------
    off
        Each reward from the mean of its pair, shape (n,).
    pair
        The pair of each row, shape (n,).

    Returns
    -------
    (array, array) or (None, None)
        Sd to be added to each row's reward, shape (n,); and what is added, in sds, with mean 0 and
        variance 1, shape (k,). None where nothing is hidden.

    Notes
    -----
    With sums of squares SS over v rows, and the mean square ``pool`` of all pairs, rewards of a
    pair are taken to have the variance (SS + 2 pool) / (v + 1), of which its rows show SS / v.
    """
    visits = np.bincount(pair)
    squares = np.bincount(pair, off**2)
    several = visits > 1
    if not squares[several].sum() > 0.0:
        return None, None
    pool = float(squares[several].sum() / (visits[several] - 1).sum())
    variance = (squares + PRIOR_ROWS * pool) / (visits + 1.0)
    hidden = np.maximum(variance - squares / np.maximum(visits, 1), 0.0)
    hidden[visits >= THIN] = 0.0
    if not np.any(hidden[visits > 0] > 0.0):
        return None, None
    noise = (off * np.sqrt(visits / np.maximum(visits - 1.0, 1.0))[pair])[several[pair]]
    noise = noise - noise.mean()
    return np.sqrt(hidden)[pair], noise / noise.std()


def heavy_tails(off: Float[np.ndarray, " n"], reward: Float[np.ndarray, " n"]) -> tuple[Tail, ...]:
    """Tails whose index is past the gauge's first threshold.

    Parameters
    ----------
    off
        Each reward from the mean of its pair, shape (n,).
    reward
        The rewards. One that most rows share, such as 0 where few pay, is in no tail.
    """
    value, count = np.unique(reward, return_counts=True)
    differs = np.ones(len(reward), dtype=bool)
    if 2 * count.max() > len(reward):
        differs = reward != value[count.argmax()]
    if differs.sum() < FEWEST:
        return ()
    found = []
    for side in (1.0, -1.0):
        law = tail_law(side * off[differs])
        if law is not None and law.shape > gauges.HEAVY.warns:
            held = differs & (side * off > law.threshold)
            if len(np.unique(reward[held])) < DISTINCT * held.sum():
                # Counts and grades are no Pareto law, however the means of their pairs differ.
                continue
            law = law._replace(shape=min(law.shape, LARGEST_INDEX))
            found.append(Tail(held, side, law))
    return tuple(found)
