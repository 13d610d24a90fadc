"""True values that take long to simulate and therefore ship with the library.

Each line of a table holds one policy's value with its standard error; the table's README says how
it was made.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.simulation.true_values import TrueValue

STORED = ("reacher",)


def stored_value(world: str, alpha: float, gamma: float) -> TrueValue | None:
    """Look up the value of a reference policy.

    Parameters
    ----------
    world
        "reacher": `InfiniteReacher` with its usual probability of restarting, 0.03.
    alpha
        The policy's place in the world's family.
    gamma
        Discount.

    Returns
    -------
    TrueValue or None
        In reward per step, with its standard error; None if this one is not stored.

    Raises
    ------
    SettingsError
        No values of such a world are stored.

    Examples
    --------
    >>> stored_value("reacher", 0.75, 0.99).standard_error < 0.001
    True
    """
    if world not in STORED:
        raise SettingsError(f"world: expected one of {', '.join(STORED)}, found {world!r}.")
    return _table(world).get((alpha, gamma))


@cache
def _table(world: str) -> dict[tuple[float, float], TrueValue]:
    source = files("bayesdice_ppl.simulation").joinpath(f"values/{world}.csv")
    rows = csv.DictReader(source.read_text(encoding="utf-8").splitlines())
    return {
        (float(row["alpha"]), float(row["gamma"])): TrueValue(
            float(row["value"]), float(row["standard_error"]), float(row["left_out"])
        )
        for row in rows
    }
