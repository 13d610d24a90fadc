"""What a user chooses of the constraint: a small value to pass, compare and write down.

A choice knows how to make the penalty for a policy once the residual's metric is known. It is
hashable, so that compiled functions can depend on it, and its text reads back to the same choice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple, final

import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesdice_ppl.constraint.penalties import (
    Huber,
    Penalty,
    Power,
    Squared,
)
from bayesdice_ppl.constraint.penalties import (
    mahalanobis as make_mahalanobis,
)
from bayesdice_ppl.errors import SettingsError

_Build = Callable[[Float[Array, "R R"], Float[Array, " R"], Any], Penalty]


class _Family(NamedTuple):
    """How penalties of one name are made, and what is known of them."""

    build: _Build
    parameter: str | None
    above: float
    quadratic: bool


@final
class PenaltyChoice(NamedTuple):
    """A penalty as it is asked for; make one with the functions of this module.

    Attributes
    ----------
    name
        Which family.
    parameter
        Its number, or None where it has none.
    """

    name: str
    parameter: float | None = None

    @property
    def quadratic(self) -> bool:
        """Whether f is a square, so that the posterior has a closed form."""
        return _FAMILIES[self.name].quadratic

    def build(self, metric: Float[Array, "R R"], rows: Float[Array, " R"]) -> Penalty:
        """Make the penalty for one policy.

        Parameters
        ----------
        metric
            Sigma, invertible, shape (R, R).
        rows
            1 for the rows of the residual that count, shape (R,).
        """
        return _FAMILIES[self.name].build(metric, rows, self.parameter)

    def __str__(self) -> str:
        return self.name if self.parameter is None else f"{self.name}({self.parameter:g})"


_FAMILIES = {
    "squared": _Family(lambda metric, rows, _: Squared(rows), None, 0.0, True),
    "mahalanobis": _Family(lambda metric, rows, _: make_mahalanobis(metric, rows), None, 0.0, True),
    "power": _Family(
        lambda metric, rows, p: Power(rows, jnp.asarray(p, rows.dtype)), "p", 1.0, False
    ),
    "huber": _Family(
        lambda metric, rows, c: Huber(rows, jnp.asarray(c, rows.dtype)), "c", 0.0, False
    ),
}


def squared() -> PenaltyChoice:
    """f(x) = |x|^2 / 2, the paper's."""
    return PenaltyChoice("squared")


def mahalanobis() -> PenaltyChoice:
    """f(x) = x' Sigma^-1 x / 2 with Sigma the residual's sampling covariance: the default."""
    return PenaltyChoice("mahalanobis")


def power(p: float) -> PenaltyChoice:
    """f(x) = sum_j |x_j|^p / p.

    Parameters
    ----------
    p
        Above 1; at 2 it is `squared`.

    Raises
    ------
    SettingsError
        p is not above 1.
    """
    return _with_number("power", p)


def huber(c: float) -> PenaltyChoice:
    """A square that goes on linearly where the residual passes c: multipliers stay within c.

    Parameters
    ----------
    c
        Above 0, in units of the residual (a stationarity residual is of the order n^-1/2).

    Raises
    ------
    SettingsError
        c is not positive.
    """
    return _with_number("huber", c)


def penalty_choice(given: PenaltyChoice | str) -> PenaltyChoice:
    """Read a choice, or the text of one such as ``"huber(0.1)"``.

    Raises
    ------
    SettingsError
        There is no such penalty, or its number is missing or out of range.
    """
    if isinstance(given, PenaltyChoice):
        return given
    text = str(given).strip()
    found = re.fullmatch(r"([a-z]+)(?:\(([^()]*)\))?", text)
    if found is None or found[1] not in _FAMILIES:
        names = ", ".join(
            name if family.parameter is None else f"{name}({family.parameter})"
            for name, family in _FAMILIES.items()
        )
        raise SettingsError(f"penalty: expected one of {names}, found {given!r}.")
    name, number = found[1], found[2]
    if _FAMILIES[name].parameter is None:
        if number is not None:
            raise SettingsError(f"penalty: {name} takes no number, found {given!r}.")
        return PenaltyChoice(name)
    try:
        return _with_number(name, float(number or "nan"))
    except ValueError as cause:
        raise SettingsError(f"penalty: {name} needs a number, found {given!r}.") from cause


def _with_number(name: str, number: float) -> PenaltyChoice:
    family = _FAMILIES[name]
    if isinstance(number, bool) or not (math.isfinite(number) and number > family.above):
        raise SettingsError(
            f"penalty {name}({family.parameter}): expected a number above {family.above:g}, "
            f"found {number}."
        )
    return PenaltyChoice(name, float(number))
