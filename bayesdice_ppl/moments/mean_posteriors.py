"""Posteriors of the mean rewards of pairs: Betas between two bounds, Gammas above zero.

What can be known of a mean depends on what rewards can be. A Beta or a Gamma has the ends that the
mean has, and leans as it does near one of them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Float


@runtime_checkable
class MeanPosteriors(Protocol):
    """Posteriors of the mean rewards of P pairs, independent of each other.

    Attributes
    ----------
    mean, variance, third
        First three cumulants, shape (P,).
    estimated
        Share of the variance that rests on an estimated spread, which Student's t is for, shape
        (P,).
    ends
        Lowest and highest mean that is possible, shapes (P,).
    """

    @property
    def mean(self) -> Float[np.ndarray, " P"]:
        """Shape (P,)."""

    @property
    def variance(self) -> Float[np.ndarray, " P"]:
        """Shape (P,)."""

    @property
    def third(self) -> Float[np.ndarray, " P"]:
        """Shape (P,)."""

    @property
    def estimated(self) -> Float[np.ndarray, " P"]:
        """Shape (P,)."""

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest mean."""

    def at(self, pair: int, score: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """Quantiles of the pair's mean at normal scores, shape (K,)."""

    def below(self, pair: int, mean: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """Probability that the pair's mean is below a number, shape (K,)."""


@final
class BetaMeans(NamedTuple):
    """Means between two bounds: low + width Beta(won, lost)."""

    won: Float[np.ndarray, " P"]
    lost: Float[np.ndarray, " P"]
    low: float
    width: float
    estimated: Float[np.ndarray, " P"]

    @property
    def mean(self) -> Float[np.ndarray, " P"]:
        """Shape (P,)."""
        return self.low + self.width * self.won / (self.won + self.lost)

    @property
    def variance(self) -> Float[np.ndarray, " P"]:
        """Shape (P,)."""
        total = self.won + self.lost
        return self.width**2 * self.won * self.lost / (total**2 * (total + 1.0))

    @property
    def third(self) -> Float[np.ndarray, " P"]:
        """Shape (P,)."""
        total = self.won + self.lost
        lean = 2.0 * (self.lost - self.won) * self.won * self.lost
        return self.width**3 * lean / (total**3 * (total + 1.0) * (total + 2.0))

    @property
    def ends(self) -> tuple[float, float]:
        """The bounds."""
        return self.low, self.low + self.width

    def below(self, pair: int, mean: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """Shape (K,)."""
        from scipy.special import betainc

        share = np.clip((mean - self.low) / self.width, 0.0, 1.0)
        return np.asarray(betainc(self.won[pair], self.lost[pair], share))

    def at(self, pair: int, score: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """Shape (K,)."""
        from scipy.special import betaincinv, ndtr

        won, lost, tail = self.won[pair], self.lost[pair], ndtr(-np.abs(score))
        # From the nearer end, where probabilities keep their precision.
        share = np.where(
            score < 0.0, betaincinv(won, lost, tail), 1.0 - betaincinv(lost, won, tail)
        )
        return np.asarray(self.low + self.width * share)


@final
class GammaMeans(NamedTuple):
    """Means above zero: zero + unit Gamma(shape) / rate."""

    shape: Float[np.ndarray, " P"]
    rate: Float[np.ndarray, " P"]
    zero: float
    unit: float
    estimated: Float[np.ndarray, " P"]

    @property
    def mean(self) -> Float[np.ndarray, " P"]:
        """Shape (P,)."""
        return self.zero + self.unit * self.shape / self.rate

    @property
    def variance(self) -> Float[np.ndarray, " P"]:
        """Shape (P,)."""
        return self.unit**2 * self.shape / self.rate**2

    @property
    def third(self) -> Float[np.ndarray, " P"]:
        """Shape (P,)."""
        return 2.0 * self.unit**3 * self.shape / self.rate**3

    @property
    def ends(self) -> tuple[float, float]:
        """Zero, and no end."""
        return self.zero, np.inf

    def below(self, pair: int, mean: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """Shape (K,)."""
        from scipy.special import gammainc

        time = np.maximum(mean - self.zero, 0.0) / self.unit * self.rate[pair]
        return np.asarray(gammainc(self.shape[pair], time))

    def at(self, pair: int, score: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """Shape (K,)."""
        from scipy.special import gammainccinv, gammaincinv, ndtr

        shape, tail = self.shape[pair], ndtr(-np.abs(score))
        time = np.where(score < 0.0, gammaincinv(shape, tail), gammainccinv(shape, tail))
        return np.asarray(self.zero + self.unit * time / self.rate[pair])
