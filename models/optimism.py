"""How good a policy may be: the score U of its belief, which an explorer maximizes.

U is the mean of the value with a bonus for what is not known of it. The bonus is a multiple of the
variance, as in the paper, or of the standard deviation, which makes U an upper quantile.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, final

import numpy as np
from jaxtyping import Array, Float

from bayesdice_ppl import checks
from bayesdice_ppl.arrays import library_of

_TINY = 1e-300
"""Keeps the root of a variance of zero, and its slope, finite."""


class Optimism(Protocol):
    """A score of a belief's mean and variance (hashable)."""

    def score(
        self, mean: Float[Any, "*b"], variance: Float[Any, "*b"], steps: Float[Any, ""]
    ) -> Float[Any, "*b"]:
        """U, in reward per step, after a log of so many steps."""
        ...

    def slope(self, variance: Float[Any, ""], steps: Float[Any, ""]) -> Float[Any, ""]:
        """The derivative of U by the variance."""
        ...

    def of_draw(
        self,
        value: Float[Array, ""],
        center: Float[Array, ""],
        spread: Float[Array, ""],
        steps: Float[Any, ""],
    ) -> Float[Array, ""]:
        """A function of one draw whose mean is U at the best center and spread, else above it.

        Parameters
        ----------
        value
            The draw.
        center, spread
            At best the mean and the sd of the draws.
        steps
            Size of the log.
        """
        ...


@final
class Variance(NamedTuple):
    """Mean plus a multiple of the variance; make one with `variance`.

    Attributes
    ----------
    lambda_u
        The multiple, in steps per reward.
    """

    lambda_u: float

    def score(
        self, mean: Float[Any, "*b"], variance: Float[Any, "*b"], steps: Float[Any, ""]
    ) -> Float[Any, "*b"]:
        """Mean + lambda_u variance."""
        return mean + self.lambda_u * variance

    def slope(self, variance: Float[Any, ""], steps: Float[Any, ""]) -> Float[Any, ""]:
        """lambda_u."""
        return self.lambda_u + 0.0 * variance

    def of_draw(
        self,
        value: Float[Array, ""],
        center: Float[Array, ""],
        spread: Float[Array, ""],
        steps: Float[Any, ""],
    ) -> Float[Array, ""]:
        """The variance is the least mean square distance to a center."""
        return value + self.lambda_u * (value - center) ** 2

    def __str__(self) -> str:
        return f"variance({self.lambda_u:g})"


@final
class Quantile(NamedTuple):
    """An upper quantile of a Gaussian belief; make one with `quantile`.

    Attributes
    ----------
    level
        Level of the quantile; None: 1 - 1 / (n + 1) after n steps.
    """

    level: float | None = None

    def multiple(self, steps: Float[Any, ""]) -> Float[Any, ""]:
        """Standard deviations above the mean, z; of a log of one step or none it is 0."""
        xp = library_of(steps)
        if xp is np:
            from scipy.special import ndtri
        else:
            from jax.scipy.special import ndtri
        level = self.level
        if level is None:
            # From above, where there are more digits.
            return xp.maximum(-ndtri(1.0 / xp.maximum(steps + 1.0, 2.0)), 0.0)
        return ndtri(xp.asarray(level, float))

    def score(
        self, mean: Float[Any, "*b"], variance: Float[Any, "*b"], steps: Float[Any, ""]
    ) -> Float[Any, "*b"]:
        """Mean + z sd."""
        return mean + self.multiple(steps) * library_of(variance).sqrt(variance + _TINY)

    def slope(self, variance: Float[Any, ""], steps: Float[Any, ""]) -> Float[Any, ""]:
        """Half of z over the sd."""
        return 0.5 * self.multiple(steps) / library_of(variance).sqrt(variance + _TINY)

    def of_draw(
        self,
        value: Float[Array, ""],
        center: Float[Array, ""],
        spread: Float[Array, ""],
        steps: Float[Any, ""],
    ) -> Float[Array, ""]:
        """The sd is the least of (variance / t + t) / 2 over t."""
        half = 0.5 * ((value - center) ** 2 / spread + spread)
        return value + self.multiple(steps) * half

    def __str__(self) -> str:
        return "quantile" if self.level is None else f"quantile({self.level:g})"


def variance(lambda_u: float) -> Variance:
    """U = mean + lambda_u variance, as in the paper; at 0 there is no optimism.

    Parameters
    ----------
    lambda_u
        At least 0, in steps per reward: for rewards in 0 to 1, 1 adds 0.01 to a value that is known
        within 0.1.

    Raises
    ------
    SettingsError
        lambda_u is negative.
    """
    return Variance(checks.nonnegative("variance: lambda_u", lambda_u))


def quantile(level: float | None = None) -> Quantile:
    """U is the upper quantile of the value's belief.

    Parameters
    ----------
    level
        Between 0.5 and 1. By default 1 - 1 / (n + 1) after n logged steps (Kaufmann, Cappé,
        Garivier, "On Bayesian upper confidence bounds for bandit problems", 2012).

    Raises
    ------
    SettingsError
        The level is out of its range.
    """
    if level is not None:
        checks.between("quantile: level", level, 0.5, 1.0)
    return Quantile(level)
