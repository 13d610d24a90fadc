"""Checks of numbers and words that a user gives, each with one form of message.

Every function returns the value it was given, as a plain Python number or string, or raises
`SettingsError`: which setting, what was expected, what was found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from bayesdice_ppl.errors import SettingsError

MOST_LISTED = 8
"""Names that a message lists before it counts the rest."""


def listed(names: Iterable[Any], most: int = MOST_LISTED) -> str:
    """Names between commas, each in quotes; of more than ``most`` the rest is counted.

    Parameters
    ----------
    names
        What to list.
    most
        How many to write out.
    """
    every = [repr(str(name)) for name in names]
    shown = ", ".join(every[:most])
    return shown if len(every) <= most else f"{shown} and {len(every) - most:,} more"


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number; True and False are none."""
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number; True and False are none."""
    return not isinstance(value, bool) and isinstance(value, Integral)


def positive(name: str, number: Any) -> float:
    """Refuse what is not a finite number above 0.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if not is_number(number) or number <= 0.0:
        raise SettingsError(f"{name}: expected a number above 0, found {number!r}.")
    return float(number)


def nonnegative(name: str, number: Any) -> float:
    """Refuse what is not a finite number of at least 0.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if not is_number(number) or number < 0.0:
        raise SettingsError(f"{name}: expected a number of at least 0, found {number!r}.")
    return float(number)


def between(name: str, number: Any, low: float, high: float) -> float:
    """Refuse what is not a number strictly between two others.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if not is_number(number) or not low < number < high:
        raise SettingsError(
            f"{name}: expected a number between {low:g} and {high:g}, found {number!r}."
        )
    return float(number)


def discount(number: Any, name: str = "gamma") -> float:
    """Refuse what is not a discount in [0, 1].

    Raises
    ------
    SettingsError
        It is something else.
    """
    if not is_number(number) or not 0.0 <= number <= 1.0:
        raise SettingsError(f"{name}: expected a discount in [0, 1], found {number!r}.")
    return float(number)


def share(name: str, number: Any) -> float:
    """Refuse what is not a share in (0, 1].

    Raises
    ------
    SettingsError
        It is something else.
    """
    if not is_number(number) or not 0.0 < number <= 1.0:
        raise SettingsError(f"{name}: expected a number in (0, 1], found {number!r}.")
    return float(number)


def whole(name: str, number: Any, least: int = 1) -> int:
    """Refuse what is not a whole number of at least ``least``.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if not is_whole(number) or number < least:
        raise SettingsError(
            f"{name}: expected a whole number of at least {least}, found {number!r}."
        )
    return int(number)


def even(name: str, number: Any, least: int = 2) -> int:
    """Refuse what is not an even number of at least ``least``.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if not is_whole(number) or number < least or number % 2:
        raise SettingsError(
            f"{name}: expected an even number of at least {least}, found {number!r}."
        )
    return int(number)


def flag(name: str, value: Any) -> bool:
    """Refuse what is neither True nor False.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if not isinstance(value, bool):
        raise SettingsError(f"{name}: expected True or False, found {value!r}.")
    return value


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """Refuse what is not one of some words.

    Raises
    ------
    SettingsError
        It is something else.
    """
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        raise SettingsError(f"{name}: expected one of {listed(known, 99)}, found {value!r}.")
    return value
