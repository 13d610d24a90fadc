"""What is made of a ranking's losses over the belief: their mean, or how bad they may get.

A belief gives every ranking one loss a draw. The mean is the expected loss; a conditional value at
risk looks at the worst draws alone, for those who can bear an average loss better than a bad one.
"""

from dataclasses import dataclass
from math import ceil
from types import ModuleType
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from bayesdice_ppl.errors import ScoreError

__all__ = ["Risk", "cvar", "mean"]


@runtime_checkable
class Risk(Protocol):
    """A functional of the losses over draws, lower is better: made by `mean` and `cvar`.

    Attributes
    ----------
    name : str
        Name in tables and files, for example "cvar(0.1)".
    """

    @property
    def name(self) -> str:
        """Name in tables and files."""

    def of(self, losses: Any, xp: ModuleType = np) -> Any:
        """Reduce losses over draws.

        Parameters
        ----------
        losses : Float[Array, "R M"]
            Loss of each ranking in each draw.
        xp : module
            `numpy` or `jax.numpy`, whichever the array is of.

        Returns
        -------
        Float[Array, "R"]
            In the units of the losses.
        """

    def influence(self, losses: Any) -> Any:
        """Give each draw's part in the risk, whose mean is the risk and whose spread its error.

        Parameters
        ----------
        losses : Float[ndarray, "M"]
            Loss of one ranking in each draw.

        Returns
        -------
        Float[ndarray, "M"]
            In the units of the losses.
        """


@final
@dataclass(frozen=True)
class Mean:
    """The expected loss: see `mean`."""

    @property
    def name(self) -> str:
        """Name in tables and files."""
        return "mean"

    def of(self, losses: Any, xp: ModuleType = np) -> Any:
        """Average over draws."""
        return losses.mean(axis=-1)

    def influence(self, losses: Any) -> Any:
        """Give the losses themselves."""
        return losses


@final
@dataclass(frozen=True)
class Cvar:
    """The mean of the worst share of draws: see `cvar`."""

    alpha: float

    @property
    def name(self) -> str:
        """Name in tables and files."""
        return f"cvar({self.alpha:g})"

    def of(self, losses: Any, xp: ModuleType = np) -> Any:
        """Average over the worst draws."""
        n_draws = losses.shape[-1]
        share = self.alpha * n_draws
        count = self._count(n_draws)
        if xp is np:
            worst = np.partition(losses, n_draws - count, axis=-1)[..., n_draws - count :]
        else:
            worst = xp.sort(losses, axis=-1)[..., n_draws - count :]
        total = worst[..., 1:].sum(axis=-1) + (share - (count - 1)) * worst[..., 0]
        return total / share

    def influence(self, losses: Any) -> Any:
        """Give the quantile, and what a draw lies above it over alpha."""
        n_draws = losses.shape[-1]
        count = self._count(n_draws)
        least = np.partition(losses, n_draws - count)[n_draws - count]
        return least + np.maximum(losses - least, 0.0) / self.alpha

    def _count(self, n_draws: int) -> int:
        """Count the worst draws, the least of which counts in part."""
        return max(ceil(self.alpha * n_draws), 1)


def mean() -> Risk:
    """Judge a ranking by its expected loss, the default."""
    return Mean()


def cvar(alpha: float) -> Risk:
    """Judge a ranking by its conditional value at risk, the mean of its worst outcomes.

    Parameters
    ----------
    alpha : float
        In (0, 1]: ``cvar(0.1)`` is the mean of the largest tenth of the losses over the belief's
        draws, the last draw counted in part where a tenth is no whole number; ``cvar(1)`` is the
        mean.

    Returns
    -------
    Risk
        In the units of the loss.

    Raises
    ------
    ScoreError
        If alpha is not a number in (0, 1].

    References
    ----------
    Rockafellar and Uryasev, "Conditional value-at-risk for general loss distributions", 2002.
    """
    if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.integer | np.floating):
        raise ScoreError(f"alpha of cvar must be a number in (0, 1], got {alpha!r}")
    if not 0.0 < alpha <= 1.0:
        raise ScoreError(f"alpha of cvar must be in (0, 1], got {alpha}")
    return Cvar(float(alpha))


def check_risk(risk: object) -> None:
    """Refuse what is no risk: a ScoreError."""
    if isinstance(risk, type) or not isinstance(risk, Risk):
        raise ScoreError(f"risk must be one of bayesdice_ppl.risk, such as cvar(0.1): got {risk!r}")
