"""Rewards in units of their own: measured from their mean, in their standard deviation.

What a method makes of rewards should not depend on their unit or on where their zero lies. Where
its arithmetic does, it sees the rewards in these units, and what it says is brought back.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float


@final
class RewardUnits(NamedTuple):
    """A zero and a unit for rewards: origin + center is the zero, scale the unit.

    Attributes
    ----------
    origin
        One of the rewards, the least, or 0 where the zero of the rewards means something. Next to
        it the others are exact: rewards that differ by a constant that loses no digits have the
        same numbers in these units, to the last digit.
    center
        Mean of the rewards less the origin, or 0 too.
    scale
        Root mean square of what is left. 0 where nothing is: all rewards are then 0 in these units,
        and whatever is said of them is brought back to the one reward that there is.
    """

    origin: float = 0.0
    center: float = 0.0
    scale: float = 1.0

    def into(self, reward: Any) -> Any:
        """Rewards in these units: a number, or an array of any shape and library."""
        left = (reward - self.origin) - self.center
        return left / self.scale if self.scale > 0.0 else 0.0 * left

    def back(self, value: Any) -> Any:
        """Values in the units of the rewards, from values in these; as for `into`."""
        return self.origin + (self.center + self.scale * value)

    @property
    def zero(self) -> float:
        """The reward 0 in these units; 0 where they have no scale."""
        return (-self.origin - self.center) / self.scale if self.scale > 0.0 else 0.0


def reward_units(reward: Float[np.ndarray, " n"], *, zero_means: bool = False) -> RewardUnits:
    """Units in which rewards have mean 0 and standard deviation 1.

    Parameters
    ----------
    reward
        Shape (n,), finite.
    zero_means
        Whether the zero of the rewards means something, as where an absorbed episode earns 0 for
        ever. It then stays, and the unit is the rewards' root mean square.
    """
    origin = 0.0 if zero_means else float(reward.min())
    left = reward - origin
    center = 0.0 if zero_means else float(left.mean())
    left = left - center
    # Squares of the largest and the least rewards there are would not be numbers, or 0.
    size = float(np.abs(left).max())
    scale = size * float(np.sqrt(np.mean((left / size) ** 2))) if size > 0.0 else 0.0
    return RewardUnits(origin, center, scale)
