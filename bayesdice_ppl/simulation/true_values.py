"""The true value of a policy, with its standard error.

The standard error is 0 where the value was computed from a table, and that of the simulation where
it was simulated.
"""

from __future__ import annotations

from typing import final


@final
class TrueValue(float):
    """A float with a standard error.

    Parameters
    ----------
    value
        Reward per step.
    standard_error
        Standard error of the simulation, in the same units; 0 where the value is exact.
    left_out
        Share of the discounted steps beyond the simulated horizon, which were taken to be like
        those within; 0 where the value is exact.
    exact
        Whether it was computed and not simulated. A simulation in which nothing varied has a
        standard error of 0 too, and is not exact.
    """

    standard_error: float
    left_out: float
    exact: bool

    def __new__(
        cls,
        value: float,
        standard_error: float = 0.0,
        left_out: float = 0.0,
        *,
        exact: bool = False,
    ) -> TrueValue:
        """Make the number with its standard error."""
        made = super().__new__(cls, value)
        made.standard_error = float(standard_error)
        made.left_out = float(left_out)
        made.exact = bool(exact)
        return made

    def __str__(self) -> str:
        # Files and messages show the number alone.
        return repr(float(self))

    def __repr__(self) -> str:
        if self.exact:
            return f"TrueValue({float(self)!r})"
        return f"TrueValue({float(self):.6g}, standard_error={self.standard_error:.2g})"
