"""Laws of a value: which quantiles a belief has, given its location, its width and its errors.

The chance constraint says how wide a value is. Over repeated logs its estimate may lean, or have
tails, and there are several ways to read that off the errors. Each is an object that knows its own
rule. To add one, write a class with these methods and put its maker into `VALUE_LAWS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.choices import read_choice
from bayesdice_ppl.constraint.empirical_likelihood import likelihood_curve
from bayesdice_ppl.constraint.quantile_curves import Curve
from bayesdice_ppl.errors import SettingsError


@runtime_checkable
class ValueLaw(Protocol):
    """How quantiles of a value follow from its errors (hashable); its text is its name."""

    @property
    def needs_errors(self) -> bool:
        """Whether each item's error is needed, and not their moments alone."""

    def skewness(self, measured: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """Skewness by which quantiles are bent, from that of the errors, shape (N,)."""

    def curve(
        self, error: Float[np.ndarray, " I"], count: Float[np.ndarray, " I"], variance: float
    ) -> Curve | None:
        """The quantiles of one value, if they are not those of its skewness.

        Parameters
        ----------
        error, count
            Errors of the independent items, and how many have each, shape (I,).
        variance
            Of the belief.
        """


@final
@dataclass(frozen=True, repr=False)
class Skewed:
    """Student's t, bent by the skewness of the errors."""

    needs_errors: ClassVar[bool] = False

    def skewness(self, measured: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """All of it."""
        return measured

    def curve(
        self, error: Float[np.ndarray, " I"], count: Float[np.ndarray, " I"], variance: float
    ) -> Curve | None:
        """None."""
        return None

    def __repr__(self) -> str:
        return "skewed"


@final
@dataclass(frozen=True, repr=False)
class Student:
    """Student's t, which is symmetric."""

    needs_errors: ClassVar[bool] = False

    def skewness(self, measured: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """None of it."""
        return np.zeros_like(measured)

    def curve(
        self, error: Float[np.ndarray, " I"], count: Float[np.ndarray, " I"], variance: float
    ) -> Curve | None:
        """None."""
        return None

    def __repr__(self) -> str:
        return "student"


@final
@dataclass(frozen=True, repr=False)
class Empirical:
    """Bayesian empirical likelihood; where errors show too little, Student's t by its skewness."""

    needs_errors: ClassVar[bool] = True

    def skewness(self, measured: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """All of it, which is said of the errors and used where there is no curve."""
        return measured

    def curve(
        self, error: Float[np.ndarray, " I"], count: Float[np.ndarray, " I"], variance: float
    ) -> Curve | None:
        """The empirical likelihood's."""
        return likelihood_curve(error, count, variance)

    def __repr__(self) -> str:
        return "empirical"


def skewed() -> ValueLaw:
    """Student's t, bent by the third moment of the errors: the default."""
    return Skewed()


def student() -> ValueLaw:
    """Student's t as it is."""
    return Student()


def empirical() -> ValueLaw:
    """Empirical likelihood: density exp(-ell), with ell Owen's log ratio of the value's row."""
    return Empirical()


VALUE_LAWS: dict[str, Callable[..., ValueLaw]] = {
    "skewed": skewed,
    "student": student,
    "empirical": empirical,
}
"""Every law by name."""


def value_law_choice(given: object) -> ValueLaw:
    """Read a law, or the name of one.

    Raises
    ------
    SettingsError
        There is no such law.
    """
    if isinstance(given, str):
        return read_choice("value_law", given, VALUE_LAWS)
    if not isinstance(given, ValueLaw):
        raise SettingsError(f"value_law: expected one of {', '.join(VALUE_LAWS)}, found {given!r}.")
    return given
