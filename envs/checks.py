"""Checks of the numbers that make a world, each with one form of message."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.checks import is_number
from bayesdice_ppl.errors import EnvironmentSpecError


def check_share(name: str, number: Any, *, below_one: bool = False) -> None:
    """Refuse what is not a number in [0, 1], or in [0, 1).

    Raises
    ------
    EnvironmentSpecError
        It is something else.
    """
    if not is_number(number) or not 0 <= number <= 1 or (below_one and number == 1):
        interval = "[0, 1)" if below_one else "[0, 1]"
        raise EnvironmentSpecError(f"{name}: expected a number in {interval}, found {number!r}.")


def read_probabilities(
    name: str, values: Any, n_axes: int, form: str
) -> Float[np.ndarray, "*shape"]:
    """Read probabilities into an array, float64.

    Parameters
    ----------
    name
        Which argument they are.
    values
        What was given.
    n_axes
        Number of axes that the array must have.
    form
        What is expected, for the message.

    Raises
    ------
    EnvironmentSpecError
        There are none, their rows differ in length, or one is outside [0, 1].
    """
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != n_axes or array.size == 0 or not np.all((array >= 0) & (array <= 1)):
        raise EnvironmentSpecError(f"{name}: expected {form}, found {values!r}.")
    return array
