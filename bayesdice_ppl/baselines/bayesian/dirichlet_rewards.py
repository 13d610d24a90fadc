"""Posterior of each state-action pair's mean reward, apart from where the pair leads.

Rewards of two values have a Beta distribution, any others a normal one of unknown variance.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.baselines.bayesian.beta_bandit import two_values

_SHAPE = 1.5
"""Of the inverse gamma prior of a reward's variance: the least half-integer with a mean."""


@final
class Logged(NamedTuple):
    """Logged rewards by state-action pair.

    Attributes
    ----------
    pair
        Code of each row's pair, action * K + state, shape (n,).
    reward
        Of each row, shape (n,).
    shape
        Numbers of actions and of states, (A, K).
    """

    pair: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    shape: tuple[int, int]

    def sum(self, values: Float[np.ndarray, " n"] | None = None) -> Float[np.ndarray, "A K"]:
        """Sum values by pair; None: count the rows."""
        size = self.shape[0] * self.shape[1]
        return np.bincount(self.pair, values, minlength=size).reshape(self.shape)


@final
class BetaRewards(NamedTuple):
    """low + (high - low) Beta(a, b); a and b of shape (A, K)."""

    a: Float[np.ndarray, "A K"]
    b: Float[np.ndarray, "A K"]
    low: float
    high: float

    def draw(self, action: int, rng: np.random.Generator, n: int) -> Float[np.ndarray, "n K"]:
        """Draw the mean rewards of one action in n worlds."""
        a, b = self.a[action], self.b[action]
        return self.low + (self.high - self.low) * rng.beta(a, b, size=(n, len(a)))


@final
class NormalRewards(NamedTuple):
    """center + scale * Student t; all of shape (A, K)."""

    center: Float[np.ndarray, "A K"]
    scale: Float[np.ndarray, "A K"]
    df: Float[np.ndarray, "A K"]

    def draw(self, action: int, rng: np.random.Generator, n: int) -> Float[np.ndarray, "n K"]:
        """Draw the mean rewards of one action in n worlds."""
        df = self.df[action]
        return self.center[action] + self.scale[action] * rng.standard_t(df, size=(n, len(df)))


type Rewards = BetaRewards | NormalRewards


def beta_rewards(
    logged: Logged, prior: tuple[float, float], values: tuple[float, float] | None
) -> BetaRewards:
    """Posterior of rewards of the two ``values``, by default those in the log.

    Raises
    ------
    LogsError
        There are not two rewards.
    """
    low, high = two_values("dirichlet", logged.reward, values)
    n, wins = logged.sum(), logged.sum(logged.reward == high)
    return BetaRewards(prior[0] + wins, prior[1] + n - wins, low, high)


def normal_rewards(logged: Logged, strength: float) -> NormalRewards:
    """Posterior of any rewards, around the log's mean reward, worth ``strength`` rewards."""
    reward, n = logged.reward, logged.sum()
    # Counted from the log's mean, so that nothing large is subtracted.
    away = reward - reward.mean()
    mean = np.divide(logged.sum(away), n, out=np.zeros(logged.shape), where=n > 0)
    within = logged.sum((away - mean.ravel()[logged.pair]) ** 2)
    weight, at = strength + n, _SHAPE + 0.5 * n
    rate = reward.var() * (_SHAPE - 1.0) + 0.5 * within
    rate = rate + 0.5 * strength * n / weight * mean**2
    return NormalRewards(reward.mean() + n / weight * mean, np.sqrt(rate / (at * weight)), 2.0 * at)
