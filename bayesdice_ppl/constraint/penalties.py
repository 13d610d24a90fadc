"""Convex penalties f of the residual, each with its Fenchel conjugate f*.

The chance-constraint loss is ell = f(residual) = max over beta of beta'residual - f*(beta). Any
convex f >= 0 with f(0) = 0 is in the paper's family. The choice decides how the belief spreads.

What a user asks for is a *choice*, such as ``huber(0.1)``. It is hashable, and its text can be read
back. A choice builds the penalty of one policy once the residual's covariance is known. To add a
penalty, write its class and the function that makes its choice, and put that into `PENALTIES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, final

from jaxtyping import Float

from bayesdice_ppl import checks
from bayesdice_ppl.arrays import cholesky, library_of, solve_lower
from bayesdice_ppl.choices import read_choice
from bayesdice_ppl.errors import SettingsError

_ROUNDING = 1e-12
"""Share by which a multiplier may pass Huber's bound and still count as within it."""


class Penalty(Protocol):
    """A convex penalty with its conjugate, and the multipliers at which they meet."""

    def value(self, residual: Float[Any, "*b R"]) -> Float[Any, "*b"]:
        """f(residual) >= 0."""
        ...

    def conjugate(self, beta: Float[Any, "*b R"]) -> Float[Any, "*b"]:
        """f*(beta) = max over x of beta'x - f(x)."""
        ...

    def maximizer(self, residual: Float[Any, "*b R"]) -> Float[Any, "*b R"]:
        """The beta at which beta'residual - f*(beta) is largest."""
        ...

    def unwhiten(self, whitened: Float[Any, "*b R"]) -> Float[Any, "*b R"]:
        """The best beta for a residual in the penalty's own, whitened units."""
        ...

    def whitening(self) -> Float[Any, "R R"] | None:
        """The matrix V with ``f(x) = |V x|^2 / 2``, or None where f is not quadratic."""
        ...


@final
class PenaltyChoice(NamedTuple):
    """A penalty as it is asked for; make one with the functions of this module.

    Attributes
    ----------
    text
        Its text, such as ``"huber(0.1)"``, which can be read back.
    make
        Function from Sigma, invertible, shape (R, R), the rows that count, shape (R,), and the
        parameter to the penalty of one policy.
    parameter
        Its number, or None.
    quadratic
        Whether f is a square, so that the posterior has a closed form.
    calibrated
        Whether f is measured in the residual's covariance Sigma.
    """

    text: str
    make: Callable[[Float[Any, "R R"], Float[Any, " R"], float | None], Penalty]
    parameter: float | None = None
    quadratic: bool = False
    calibrated: bool = False

    def build(self, covariance: Float[Any, "R R"], rows: Float[Any, " R"]) -> Penalty:
        """Make the penalty of one policy.

        Parameters
        ----------
        covariance
            Sigma, invertible, shape (R, R).
        rows
            1 for the rows of the residual that count, shape (R,).
        """
        return self.make(covariance, rows, self.parameter)

    def metric(self, covariance: Float[Any, "R R"]) -> Float[Any, "R R"]:
        """The matrix M with f(x) = x' M^+ x / 2, shape (R, R); Sigma if f is not quadratic."""
        plain = self.quadratic and not self.calibrated
        xp = library_of(covariance)
        return xp.eye(len(covariance), dtype=covariance.dtype) if plain else covariance

    def __repr__(self) -> str:
        return self.text


@final
class Squared(NamedTuple):
    """``f(x) = |x|^2 / 2``, its own conjugate: the paper's penalty.

    Attributes
    ----------
    rows
        1 for the rows of the residual that count, 0 for those that do not, shape (R,).
    """

    rows: Float[Any, " R"]

    def value(self, residual: Float[Any, "*b R"]) -> Float[Any, "*b"]:
        """f(residual)."""
        return 0.5 * ((residual * self.rows) ** 2).sum(axis=-1)

    def conjugate(self, beta: Float[Any, "*b R"]) -> Float[Any, "*b"]:
        """f*(beta), for a beta that is zero where the rows do not count."""
        return 0.5 * (beta**2).sum(axis=-1)

    def maximizer(self, residual: Float[Any, "*b R"]) -> Float[Any, "*b R"]:
        """The residual itself."""
        return residual * self.rows

    def unwhiten(self, whitened: Float[Any, "*b R"]) -> Float[Any, "*b R"]:
        """The same coordinates."""
        return whitened * self.rows

    def whitening(self) -> Float[Any, "R R"]:
        """The identity on the rows that count."""
        return library_of(self.rows).diag(self.rows)


@final
class Mahalanobis(NamedTuple):
    """f(x) = x' Sigma^-1 x / 2, f*(beta) = beta' Sigma beta / 2: the default.

    Attributes
    ----------
    factor, inverse
        Lower Cholesky factor L of Sigma (ridged), and L^-1, shapes (R, R).
    rows
        1 for the rows of the residual that count, shape (R,); the factor is the identity
        elsewhere.
    """

    factor: Float[Any, "R R"]
    inverse: Float[Any, "R R"]
    rows: Float[Any, " R"]

    def value(self, residual: Float[Any, "*b R"]) -> Float[Any, "*b"]:
        """f(residual)."""
        return 0.5 * (self._whiten(residual) ** 2).sum(axis=-1)

    def conjugate(self, beta: Float[Any, "*b R"]) -> Float[Any, "*b"]:
        """f*(beta)."""
        return 0.5 * ((beta @ self.factor) ** 2).sum(axis=-1)

    def maximizer(self, residual: Float[Any, "*b R"]) -> Float[Any, "*b R"]:
        """Sigma^-1 residual."""
        return self.unwhiten(self._whiten(residual))

    def unwhiten(self, whitened: Float[Any, "*b R"]) -> Float[Any, "*b R"]:
        """L'^-1 whitened, with Sigma = L L'."""
        return (whitened * self.rows) @ self.inverse

    def whitening(self) -> Float[Any, "R R"]:
        """L^-1 on the rows that count."""
        return self.inverse * self.rows

    def _whiten(self, residual: Float[Any, "*b R"]) -> Float[Any, "*b R"]:
        return (residual * self.rows) @ self.inverse.T

    @classmethod
    def of(cls, covariance: Float[Any, "R R"], rows: Float[Any, " R"]) -> Mahalanobis:
        """Factor an invertible Sigma once, for all evaluations."""
        factor = cholesky(covariance)
        identity = library_of(covariance).eye(len(rows), dtype=covariance.dtype)
        return cls(factor, solve_lower(factor, identity), rows)


@final
class Power(NamedTuple):
    """``f(x) = sum_j |x_j|^p / p``, by coordinate, with p > 1; at p = 2 it is `Squared`.

    Attributes
    ----------
    rows
        1 for the rows of the residual that count, shape (R,).
    exponent
        p, scalar.
    """

    rows: Float[Any, " R"]
    exponent: Float[Any, ""]

    def value(self, residual: Float[Any, "*b R"]) -> Float[Any, "*b"]:
        """f(residual)."""
        size = _power(abs(residual * self.rows), self.exponent)
        return size.sum(axis=-1) / self.exponent

    def conjugate(self, beta: Float[Any, "*b R"]) -> Float[Any, "*b"]:
        """``f*(beta) = sum_j |beta_j|^q / q`` with 1/p + 1/q = 1."""
        dual = self.exponent / (self.exponent - 1.0)
        return _power(abs(beta), dual).sum(axis=-1) / dual

    def maximizer(self, residual: Float[Any, "*b R"]) -> Float[Any, "*b R"]:
        """``sign(x) |x|^(p - 1)``."""
        live = residual * self.rows
        return library_of(live).sign(live) * _power(abs(live), self.exponent - 1.0)

    def unwhiten(self, whitened: Float[Any, "*b R"]) -> Float[Any, "*b R"]:
        """The maximizer at a residual of these coordinates."""
        return self.maximizer(whitened)

    def whitening(self) -> None:
        """There is none."""
        return


@final
class Huber(NamedTuple):
    """``f(x) = max over |beta_j| <= c of beta'x - |beta|^2 / 2``: a square, but linear past c.

    Attributes
    ----------
    rows
        1 for the rows of the residual that count, shape (R,).
    bound
        c > 0, in units of the residual, scalar.
    """

    rows: Float[Any, " R"]
    bound: Float[Any, ""]

    def value(self, residual: Float[Any, "*b R"]) -> Float[Any, "*b"]:
        """f(residual)."""
        beta = self.maximizer(residual)
        return (beta * residual - 0.5 * beta**2).sum(axis=-1)

    def conjugate(self, beta: Float[Any, "*b R"]) -> Float[Any, "*b"]:
        """``f*(beta) = |beta|^2 / 2`` within the bound, infinite beyond it."""
        xp = library_of(beta)
        inside = xp.all(abs(beta) <= self.bound * (1.0 + _ROUNDING), axis=-1)
        return xp.where(inside, 0.5 * (beta**2).sum(axis=-1), xp.inf)

    def maximizer(self, residual: Float[Any, "*b R"]) -> Float[Any, "*b R"]:
        """The residual, cut off at the bound."""
        live = residual * self.rows
        return library_of(live).clip(live, -self.bound, self.bound)

    def unwhiten(self, whitened: Float[Any, "*b R"]) -> Float[Any, "*b R"]:
        """The maximizer at a residual of these coordinates."""
        return self.maximizer(whitened)

    def whitening(self) -> None:
        """There is none."""
        return


def _power(size: Float[Any, "*b R"], exponent: Float[Any, ""]) -> Float[Any, "*b R"]:
    """size^exponent for size >= 0, with a gradient of 0 and not NaN at 0."""
    xp = library_of(size, exponent)
    positive = size > 0.0
    return xp.where(positive, xp.where(positive, size, 1.0) ** exponent, 0.0)


def _squared(_: Any, rows: Float[Any, " R"], __: float | None) -> Squared:
    return Squared(rows)


def _mahalanobis(
    covariance: Float[Any, "R R"], rows: Float[Any, " R"], _: float | None = None
) -> Mahalanobis:
    return Mahalanobis.of(covariance, rows)


def _power_of(_: Any, rows: Float[Any, " R"], p: float | None) -> Power:
    return Power(rows, library_of(rows).asarray(p, rows.dtype))


def _huber(_: Any, rows: Float[Any, " R"], c: float | None) -> Huber:
    return Huber(rows, library_of(rows).asarray(c, rows.dtype))


def squared() -> PenaltyChoice:
    """``f(x) = |x|^2 / 2``, the paper's."""
    return PenaltyChoice("squared", _squared, quadratic=True)


def mahalanobis() -> PenaltyChoice:
    """f(x) = x' Sigma^-1 x / 2 with Sigma the residual's sampling covariance: the default."""
    return PenaltyChoice("mahalanobis", _mahalanobis, quadratic=True, calibrated=True)


def power(p: float) -> PenaltyChoice:
    """``f(x) = sum_j |x_j|^p / p``.

    Parameters
    ----------
    p
        Above 1; at 2 it is `squared`.

    Raises
    ------
    SettingsError
        p is not above 1.
    """
    if not (checks.is_number(p) and p > 1.0):
        raise SettingsError(f"penalty power(p): expected a number above 1, found {p!r}.")
    return PenaltyChoice(f"power({p:g})", _power_of, float(p))


def huber(c: float) -> PenaltyChoice:
    """A square that grows linearly where the residual passes c; multipliers stay within c.

    Parameters
    ----------
    c
        Above 0, in units of the residual (a stationarity residual is of the order n^-1/2).

    Raises
    ------
    SettingsError
        c is not positive.
    """
    bound = checks.positive("penalty huber(c)", c)
    return PenaltyChoice(f"huber({bound:g})", _huber, bound)


PENALTIES: dict[str, Callable[..., PenaltyChoice]] = {
    "squared": squared,
    "mahalanobis": mahalanobis,
    "power": power,
    "huber": huber,
}
"""Every penalty by name."""


def penalty_choice(given: PenaltyChoice | str) -> PenaltyChoice:
    """Read a choice, or the text of one such as ``"huber(0.1)"``.

    Raises
    ------
    SettingsError
        There is no such penalty, or its number is missing or out of range.
    """
    return given if isinstance(given, PenaltyChoice) else read_choice("penalty", given, PENALTIES)
