"""The numbers of a vector one by one, in a form that smooth features can use.

Real logs mix numbers of many kinds. A number with few values, such as a weekday or a flag, becomes
indicators. One with heavy tails, such as money spent, is compressed. All others are standardized.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from bayesdice_ppl.checks import whole
from bayesdice_ppl.features.maps import Points, Space, check_part, numbers, parts_of, scale_of

FEW_VALUES = 8
"""Most different values of a number that becomes indicators."""
HEAVY_TAILS = 6.0
"""Kurtosis past which a number is compressed; a normal number has 3, a Laplace number 6."""
WAVE_LENGTH = 5.0
"""Half the length of the first wave of a number, in standard deviations."""
_NORMAL_QUARTILES = 1.349
"""Distance between the quartiles of a normal number, in standard deviations."""


@final
class Standardized(NamedTuple):
    """A number less its mean, over its standard deviation."""

    center: float
    sd: float

    def __call__(self, values: Float[np.ndarray, " b"]) -> Float[np.ndarray, "b 1"]:
        """One column."""
        return ((values - self.center) / self.sd)[:, None]


@final
class Compressed(NamedTuple):
    """A number with heavy tails: asinh of its distance to the median, then standardized.

    Attributes
    ----------
    median, size
        Median, and the distance between the quartiles as that of a normal number.
    after
        Standardizes the result.
    """

    median: float
    size: float
    after: Standardized

    def __call__(self, values: Float[np.ndarray, " b"]) -> Float[np.ndarray, "b 1"]:
        """One column."""
        return self.after(np.arcsinh((values - self.median) / self.size))


@final
class Indicators(NamedTuple):
    """A number with few values: one column a value, all zero at a value that was not logged.

    Attributes
    ----------
    values
        In order, shape (k,).
    size
        Height of an indicator, so that their variances sum to 1.
    """

    values: Float[np.ndarray, " k"]
    size: float

    def __call__(self, values: Float[np.ndarray, " b"]) -> Float[np.ndarray, "b k"]:
        """A column for each value."""
        return (values[:, None] == self.values) * self.size


Column = Standardized | Compressed | Indicators


@final
class Columns(NamedTuple):
    """How each number of a vector becomes columns.

    Attributes
    ----------
    each
        One for each of the p numbers.
    """

    each: tuple[Column, ...]

    def __call__(self, values: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b k"]:
        """All columns of vectors."""
        parts = [column(part) for column, part in zip(self.each, values.T, strict=True)]
        return np.concatenate(parts, axis=1)

    def normal(
        self,
        states: Float[np.ndarray, "b p"] | Int[np.ndarray, " b"],
        mean: Float[np.ndarray, "b q"],
        sd: Float[np.ndarray, "#b q"] | Float[np.ndarray, " q"],
        of: str,
        name: str,
    ) -> tuple[Float[np.ndarray, "b k"], Float[np.ndarray, "1 k"]]:
        """Columns and their standard deviation under a normal action, which is 0: see `Scale`."""
        found = self(numbers(Points(states, mean), of, name))
        return found, np.zeros((1, found.shape[1]))


def width_of(values: Float[np.ndarray, "b p"], waves: int) -> int:
    """How many features `columns` makes of logged vectors, those that follow from others aside.

    Parameters
    ----------
    values
        The logged vectors, shape (b, p).
    waves
        As for `columns`.
    """
    different = [len(np.unique(part)) for part in values.T]
    return sum(n - 1 if n <= FEW_VALUES else max(2 * waves, 1) for n in different)


def columns_of(values: Float[np.ndarray, "b p"]) -> Columns:
    """Choose the form of each number by its logged values.

    Parameters
    ----------
    values
        The logged vectors, shape (b, p).

    Raises
    ------
    SettingsError
        A number is too large for double precision.
    """
    scale = scale_of(values)
    return Columns(
        tuple(
            _column(part, float(center), float(sd))
            for part, center, sd in zip(values.T, scale.center, scale.sd, strict=True)
        )
    )


def _column(values: Float[np.ndarray, " b"], center: float, sd: float) -> Column:
    different = np.unique(values)
    if 1 < len(different) <= FEW_VALUES:
        share = np.array([np.mean(values == value) for value in different])
        return Indicators(different, float(1.0 / np.sqrt(np.sum(share * (1.0 - share)))))
    lower, median, upper = np.quantile(values, (0.25, 0.5, 0.75))
    size = float(upper - lower) / _NORMAL_QUARTILES
    kurtosis = np.mean(((values - center) / sd) ** 4)
    if kurtosis <= HEAVY_TAILS or size <= 0.0:
        return Standardized(center, sd)
    drawn = np.arcsinh((values - median) / size)
    return Compressed(float(median), size, Standardized(float(drawn.mean()), float(drawn.std())))


@final
class ColumnsMap(NamedTuple):
    """Each number by itself, of states or of actions.

    Attributes
    ----------
    of
        Which part the numbers come from.
    columns
        Their form.
    waves
        How many cosines and as many sines stand for a number that is not indicators; 0: it stands
        for itself.
    """

    of: str
    columns: Columns
    waves: int = 0

    def __call__(self, points: Points) -> Float[np.ndarray, "b d"]:
        """Features of points."""
        values, found = numbers(points, self.of, "columns"), []
        for column, part in zip(self.columns.each, values.T, strict=True):
            own = column(part)
            if self.waves and not isinstance(column, Indicators):
                phase = own * (np.pi / WAVE_LENGTH * np.arange(1, self.waves + 1))
                own = np.concatenate([np.cos(phase), np.sin(phase)], axis=1)
            found.append(own)
        return np.concatenate(found, axis=1)

    @property
    def sees(self) -> frozenset[str]:
        """Which parts it looks at."""
        return frozenset(parts_of(self.of))

    def under_gaussian(
        self,
        states: Float[np.ndarray, "b p"] | Int[np.ndarray, " b"],
        mean: Float[np.ndarray, "b q"],
        sd: Float[np.ndarray, "#b q"] | Float[np.ndarray, " q"],
    ) -> Float[np.ndarray, "b d"] | None:
        """The features themselves of a state; None of actions, whose form may be curved."""
        return self(Points(states, mean)) if self.of == "state" else None


@final
class ColumnsChoice(NamedTuple):
    """A choice of the numbers one by one; make one with `columns`."""

    of: str
    waves: int = 0

    @property
    def sees(self) -> frozenset[str]:
        """Which parts it looks at."""
        return frozenset(parts_of(self.of))

    def build(self, space: Space, rng_key: PRNGKeyArray | None) -> ColumnsMap:
        """Fix the form of each number."""
        form = columns_of(numbers(space.points, self.of, "columns"))
        return ColumnsMap(self.of, form, self.waves)

    def __str__(self) -> str:
        waves = f", waves={self.waves}" if self.waves else ""
        return f"columns(of={self.of!r}{waves})"


def columns(of: str = "both", *, waves: int = 0) -> ColumnsChoice:
    """Each number of the vectors by itself, without interactions.

    A number with at most 8 different values becomes indicators of them. A number whose kurtosis is
    above 6 is compressed by asinh, in units of its quartiles. All others are standardized. Beside
    `fourier` they help where there are many numbers: random waves in many dimensions hardly see
    what one number does.

    Parameters
    ----------
    of
        ``"state"``, ``"action"`` or ``"both"``: the vectors that are looked at.
    waves
        0: each number stands for itself, and features are linear in it. Above 0: so many cosines
        and as many sines stand for it, the first with a half wave in 5 standard deviations.

    Raises
    ------
    SettingsError
        There is no such part, or ``waves`` is not a whole number of at least 0.
    """
    return ColumnsChoice(check_part(of, "columns"), whole("columns: waves", waves, 0))
