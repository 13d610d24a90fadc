"""Posterior of each state-action pair's mean reward, apart from where the pair leads.

Rewards of two values have a Beta distribution, any others a normal one of unknown variance.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.baselines.beta_bandit import two_values

_SHAPE = 1.5
"""Of the inverse gamma prior of a reward's variance: the least half-integer with a mean."""


@final
class Prior(NamedTuple):
    """What is believed before the log is seen; its fields are as for `dirichlet_model`.

    Attributes
    ----------
    strength
        Number of transitions that the prior of each pair is worth.
    reward
        How rewards are modelled.
    beta
        Parameters of the Beta distributions.
    values
        The two rewards there can be, or None.
    """

    strength: float
    reward: str
    beta: tuple[float, float]
    values: tuple[float, float] | None


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


def mean_rewards(
    action: Int[np.ndarray, " n"],
    state: Int[np.ndarray, " n"],
    reward: Float[np.ndarray, " n"],
    shape: tuple[int, int],
    prior: Prior,
) -> BetaRewards | NormalRewards:
    """Posterior of the mean reward of each pair.

    Parameters
    ----------
    action, state, reward
        Of each row, shape (n,).
    shape
        Numbers of actions and of states, (A, K).
    prior
        The prior, its ``reward`` either ``"beta"`` or ``"normal"``.

    Raises
    ------
    LogsError
        ``"beta"`` and there are not two rewards.
    """
    pair, size = action * shape[1] + state, shape[0] * shape[1]
    n = np.bincount(pair, minlength=size).reshape(shape)
    if prior.reward == "beta":
        low, high = two_values("dirichlet", reward, prior.values)
        wins = np.bincount(pair, reward == high, minlength=size).reshape(shape)
        return BetaRewards(prior.beta[0] + wins, prior.beta[1] + n - wins, low, high)
    # Counted from the log's mean, so that nothing large is subtracted.
    away = reward - reward.mean()
    total = np.bincount(pair, away, minlength=size).reshape(shape)
    mean = np.divide(total, n, out=np.zeros(shape), where=n > 0)
    errors = (away - mean.ravel()[pair]) ** 2
    within = np.bincount(pair, errors, minlength=size).reshape(shape)
    weight, at = prior.strength + n, _SHAPE + 0.5 * n
    rate = reward.var() * (_SHAPE - 1.0) + 0.5 * within
    rate = rate + 0.5 * prior.strength * n / weight * mean**2
    return NormalRewards(reward.mean() + n / weight * mean, np.sqrt(rate / (at * weight)), 2.0 * at)
