"""Checks of the numbers that baselines are made with."""

from __future__ import annotations

import math
from typing import Any

from bayesdice_ppl.errors import SettingsError


def nonnegative(name: str, what: str, number: Any) -> float:
    """Refuse what is no finite number of at least 0.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if not _finite(number) or number < 0.0:
        raise SettingsError(f"{name}: {what}: expected a number of at least 0, found {number!r}.")
    return float(number)


def optional_ridge(name: str, number: Any) -> float | None:
    """Refuse a ridge that is neither None nor a number of at least 0.

    Raises
    ------
    SettingsError
        It is something else.
    """
    return None if number is None else nonnegative(name, "ridge", number)


def positive(name: str, what: str, number: Any) -> float:
    """Refuse what is no finite number above 0.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if not _finite(number) or number <= 0.0:
        raise SettingsError(f"{name}: {what}: expected a number above 0, found {number!r}.")
    return float(number)


def one_of(name: str, what: str, value: Any, choices: tuple[str, ...]) -> str:
    """Refuse what is not one of some words.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if value not in choices:
        raise SettingsError(
            f"{name}: {what}: expected one of {', '.join(choices)}, found {value!r}."
        )
    return str(value)


def whole(name: str, what: str, number: Any, least: int = 1) -> int:
    """Refuse what is no whole number of at least ``least``.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise SettingsError(
            f"{name}: {what}: expected a whole number of at least {least}, found {number!r}."
        )
    return number


def even(name: str, what: str, number: Any) -> int:
    """Refuse what is no even number of at least 2.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if whole(name, what, number, 2) % 2:
        raise SettingsError(f"{name}: {what}: expected an even number, found {number!r}.")
    return int(number)


def _finite(number: Any) -> bool:
    return (
        isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
    )
