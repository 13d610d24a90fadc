"""Risks: functionals of a ranking's losses over the draws of a belief.

A belief gives every ranking one loss per draw. The mean is the expected loss, the default. The
conditional value at risk is the mean of the worst draws alone, for users who care more about a bad
outcome than about the average.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from bayesdice_ppl.checks import share
from bayesdice_ppl.choices import read_choice
from bayesdice_ppl.errors import SettingsError

__all__ = ["Risk", "cvar", "mean", "read"]


@runtime_checkable
class Risk(Protocol):
    """A functional of the losses over draws, lower is better.

    Attributes
    ----------
    name : str
        Name in tables and files, for example "cvar(0.1)".
    """

    @property
    def name(self) -> str:
        """Name in tables and files."""

    def of(self, losses: Any) -> Any:
        """Reduce losses over draws.

        Parameters
        ----------
        losses : Float[ndarray, "R M"]
            Loss of each ranking in each draw.

        Returns
        -------
        Float[ndarray, "R"]
            In the units of the losses.
        """

    def influence(self, losses: Any) -> Any:
        """Give the part of each draw in the risk: their mean is the risk, their spread its error.

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

    def of(self, losses: Any) -> Any:
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

    def of(self, losses: Any) -> Any:
        """Average over the worst draws."""
        n_draws = losses.shape[-1]
        worth = self.alpha * n_draws
        count = self._count(n_draws)
        worst = np.partition(losses, n_draws - count, axis=-1)[..., n_draws - count :]
        total = worst[..., 1:].sum(axis=-1) + (worth - (count - 1)) * worst[..., 0]
        return total / worth

    def influence(self, losses: Any) -> Any:
        """Give the quantile, plus the excess of each draw over it divided by alpha."""
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
        draws. Where a tenth is not a whole number of draws, the last one counts in part.
        ``cvar(1)`` is the mean.

    Returns
    -------
    Risk
        In the units of the loss.

    Raises
    ------
    SettingsError
        alpha is not a number in (0, 1].

    References
    ----------
    Rockafellar and Uryasev, "Conditional value-at-risk for general loss distributions", 2002.
    """
    return Cvar(share("alpha", alpha))


def read(text: str, setting: str = "risk") -> Risk:
    """Read a risk from its name: ``"mean"`` or ``"cvar(0.1)"``.

    Parameters
    ----------
    text : str
        The name.
    setting : str
        What messages call the setting, for example ``"--risk"``.

    Raises
    ------
    SettingsError
        The text is neither.
    """
    makers: dict[str, Callable[..., Risk]] = {"mean": mean, "cvar": cvar}
    return read_choice(setting, text, makers)


def check_risk(risk: object) -> Risk:
    """Refuse what is not a risk; None stands for the mean.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if risk is None:
        return mean()
    if isinstance(risk, type) or not isinstance(risk, Risk):
        raise SettingsError(
            f"risk: expected one of bayesdice_ppl.risk, such as cvar(0.1), found {risk!r}."
        )
    return risk
