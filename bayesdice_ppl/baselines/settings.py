"""How methods declare and check their settings."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from bayesdice_ppl.checks import nonnegative

GIVEN: tuple[Any, ...] = ()
"""For `only_with`: any value but None."""


def only_with(default: Any, **others: tuple[Any, ...]) -> Any:
    """Declare a setting that has an effect only with certain values of other settings.

    The registry reads the conditions, and refuses the setting elsewhere.

    Parameters
    ----------
    default
        Of the setting.
    **others
        Other setting -> the values with which this one has an effect.
    """
    return field(default=default, metadata=others)


def optional_ridge(number: Any) -> None:
    """Refuse a ridge that is neither None nor a number of at least 0."""
    if number is not None:
        nonnegative("ridge", number)
