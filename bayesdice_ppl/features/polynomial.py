"""Polynomial features: all products of powers of the numbers up to a total degree."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from bayesdice_ppl.checks import whole
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.maps import (
    Points,
    Scale,
    Space,
    check_part,
    numbers,
    parts_of,
    scale_of,
    unit_size,
)

MOST = 5000
"""Most features that are built."""


@final
class PolynomialMap(NamedTuple):
    """Monomials of standardized numbers.

    Attributes
    ----------
    of
        Which parts the numbers come from.
    scale
        Of the logged numbers.
    powers
        Exponent of each number in each feature, shape (d, p).
    size
        By which each feature is divided, shape (d,): its root mean square over the log.
    """

    of: str
    scale: Scale
    powers: Int[np.ndarray, "d p"]
    size: Float[np.ndarray, " d"]

    def __call__(self, points: Points) -> Float[np.ndarray, "b d"]:
        """Features of points."""
        values = self.scale(numbers(points, self.of, "polynomial"))
        result = np.ones((len(values), len(self.powers)))
        for j, power in enumerate(self.powers.T):
            # A table of powers of one number, looked up for all features at once.
            table = values[:, j, None] ** np.arange(power.max(initial=0) + 1)
            result *= table[:, power]
        return result / self.size

    @property
    def sees(self) -> frozenset[str]:
        """Which parts it looks at."""
        return frozenset(parts_of(self.of))

    def under_gaussian(
        self,
        states: Float[np.ndarray, "b p"] | Int[np.ndarray, " b"],
        mean: Float[np.ndarray, "b q"],
        sd: Float[np.ndarray, "#b q"] | Float[np.ndarray, " q"],
    ) -> Float[np.ndarray, "b d"]:
        """Mean features: products of the moments of independent normal numbers."""
        center, spread = self.scale.normal(states, mean, sd, self.of, "polynomial")
        result = np.ones((len(center), len(self.powers)))
        for j, power in enumerate(self.powers.T):
            result *= _moments(center[:, j], spread[:, j], power.max(initial=0))[:, power]
        return result / self.size


def _moments(
    mean: Float[np.ndarray, " b"], sd: Float[np.ndarray, " #b"], degree: int
) -> Float[np.ndarray, "b degree+1"]:
    """E x^0 to E x^degree of x ~ Normal(mean, sd^2), shape (b, degree + 1).

    By parts, E x^k = mean E x^(k-1) + (k - 1) sd^2 E x^(k-2).
    """
    table = np.ones((len(mean), degree + 1))
    for k in range(1, degree + 1):
        table[:, k] = mean * table[:, k - 1]
        if k > 1:
            table[:, k] += (k - 1) * sd**2 * table[:, k - 2]
    return table


@final
class Polynomial(NamedTuple):
    """A choice of polynomial features; make one with `polynomial`."""

    degree: int
    of: str

    @property
    def sees(self) -> frozenset[str]:
        """Which parts it looks at."""
        return frozenset(parts_of(self.of))

    def build(self, space: Space, rng_key: PRNGKeyArray | None) -> PolynomialMap:
        """Fix the scales and list the monomials."""
        values = numbers(space.points, self.of, "polynomial")
        p = values.shape[1]
        count = comb(p + self.degree, self.degree)
        if count > MOST:
            raise SettingsError(
                f"polynomial: expected at most {MOST:,} terms, found {count:,} for degree "
                f"{self.degree} of {p} numbers. Use a lower degree, or fourier."
            )
        powers = [
            np.bincount(chosen, minlength=p)
            for total in range(self.degree + 1)
            for chosen in combinations_with_replacement(range(p), total)
            if total
        ]
        table = np.array([np.zeros(p, dtype=np.int64), *powers])
        plain = PolynomialMap(self.of, scale_of(values), table, np.ones(len(table)))
        return plain._replace(size=unit_size(plain(space.points)))

    def __str__(self) -> str:
        return f"polynomial({self.degree}, of={self.of!r})"


def polynomial(degree: int, *, of: str = "both") -> Polynomial:
    """All monomials of the standardized numbers up to a total degree, the constant among them.

    Parameters
    ----------
    degree
        At least 1.
    of
        ``"state"``, ``"action"`` or ``"both"``: the vectors that are looked at.

    Raises
    ------
    SettingsError
        The degree is not a positive whole number, or the part is unknown.
    """
    return Polynomial(whole("polynomial: degree", degree), check_part(of, "polynomial"))
