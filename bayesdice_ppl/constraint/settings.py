"""What a user chooses about the chance constraint P_q(ell <= epsilon) >= xi, checked when made.

Everything here is hashable, because compiled functions depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

from bayesdice_ppl import checks
from bayesdice_ppl.constraint.penalties import PenaltyChoice, mahalanobis, penalty_choice
from bayesdice_ppl.constraint.surrogates import Surrogate, markov, surrogate_choice
from bayesdice_ppl.constraint.value_laws import ValueLaw, skewed, value_law_choice
from bayesdice_ppl.errors import SettingsError

INNER = ("guide", "exact")
SEARCH = "search"
"""Stands for the least lambda at which the constraint holds."""


@final
@dataclass(frozen=True)
class Normalization:
    """The normalization as a chance constraint of its own, P(ell_1 <= epsilon_1) >= xi_1.

    Attributes
    ----------
    lam, epsilon, xi
        lambda_1, epsilon_1 and xi_1. None: epsilon_1 = chi2_{1, xi_1} / (2 n), lambda_1 = n
        epsilon_1. It is always priced by Markov's bound.

    Raises
    ------
    SettingsError
        A number is out of its range.
    """

    lam: float | None = None
    epsilon: float | None = None
    xi: float = 0.95

    def __post_init__(self) -> None:
        for name in ("lam", "epsilon"):
            number = getattr(self, name)
            if number is not None:
                checks.positive(f"normalization.{name}", number)
        checks.between("normalization.xi", self.xi, 0.0, 1.0)


@final
@dataclass(frozen=True)
class Constraint:
    """The chance constraint: its penalty, its price and its surrogate.

    Attributes
    ----------
    penalty
        ``"mahalanobis"`` (default, calibrated), ``"squared"`` (the paper's), or one made by
        `bayesdice_ppl.penalties`: ``power(p)``, ``huber(c)``.
    surrogate
        ``"markov"`` (default, and the only calibrated one), ``"cvar"``, ``"bernstein"``,
        ``"cdf"``, or one made by `bayesdice_ppl.surrogates`.
    lam, epsilon, xi
        P(ell <= epsilon) >= xi at price lambda. By default epsilon = chi2_{r, xi} / (2 n), with r
        the rank of Sigma, and lambda = n epsilon. ``lam="search"`` takes the least lambda at which
        the constraint holds under q; this narrows q, which is then no longer calibrated.
    value_constraint
        True: the noise of the rewards is part of the belief. False: the value is exactly the mean
        of ratio times reward, as in the paper.
    small_sample
        True: rarely logged pairs widen the belief. None: True where the rule applies, which is with
        the Mahalanobis penalty, the value constraint and one-hot features.
    normalization
        ``True``, or a `Normalization`: mean_i zeta_i = 1 as a chance constraint of its own. By
        default it is a row of the residual like the others.
    inner
        ``"guide"``: SVI fits the multipliers. ``"exact"``: their closed form is used. None: the
        guide if the best multipliers are affine and the residual has at most 512 rows.
    value_law
        Which quantiles values have, on labels. ``"skewed"``: Student's t, bent by the skewness of
        the errors. ``"student"``: without it. ``"empirical"``: empirical likelihood, which measures
        the value's row by the weights that the log would need, and keeps within what it can be
        weighted to. It needs the small-sample rule, and is as ``"skewed"`` where the errors of a
        value show less than half of its variance.

    Raises
    ------
    SettingsError
        A choice is unknown or out of its range.
    """

    penalty: PenaltyChoice = mahalanobis()  # noqa: RUF009  an immutable NamedTuple
    surrogate: Surrogate = markov()  # noqa: RUF009
    lam: float | Literal["search"] | None = None
    epsilon: float | None = None
    xi: float = 0.95
    value_constraint: bool = True
    small_sample: bool | None = None
    normalization: Normalization | None = None
    inner: str | None = None
    value_law: ValueLaw = skewed()  # noqa: RUF009

    if TYPE_CHECKING:

        def __init__(
            self,
            penalty: PenaltyChoice | str = ...,
            surrogate: Surrogate | str = ...,
            lam: float | Literal["search"] | None = ...,
            epsilon: float | None = ...,
            xi: float = ...,
            value_constraint: bool = ...,
            small_sample: bool | None = ...,
            normalization: Normalization | bool | None = ...,
            inner: str | None = ...,
            value_law: ValueLaw | str = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        read = {
            "penalty": penalty_choice(self.penalty),
            "surrogate": surrogate_choice(self.surrogate),
            "normalization": _normalization(self.normalization),
            "value_law": value_law_choice(self.value_law),
        }
        for name, value in read.items():
            object.__setattr__(self, name, value)
        if self.lam is not None and self.lam != SEARCH:
            checks.positive("lam", self.lam)
        if self.epsilon is not None:
            checks.positive("epsilon", self.epsilon)
        checks.between("xi", self.xi, 0.0, 1.0)
        checks.flag("value_constraint", self.value_constraint)
        if self.small_sample is not None:
            checks.flag("small_sample", self.small_sample)
        if self.inner is not None:
            checks.one_of("inner", self.inner, INNER)
        if self.small_sample and not self.calibrated:
            raise SettingsError(
                "small_sample=True: expected the Mahalanobis penalty with the value constraint, "
                f"found the penalty {self.penalty} with value_constraint={self.value_constraint}. "
                "Leave small_sample out."
            )
        if self.value_law.needs_errors and not (self.calibrated and self.small_sample is not False):
            raise SettingsError(
                f"value_law={str(self.value_law)!r}: expected the Mahalanobis penalty, the value "
                f"constraint and the small-sample rule, found the penalty {self.penalty} with "
                f"value_constraint={self.value_constraint} and small_sample={self.small_sample}. "
                "Leave value_law out."
            )

    @property
    def calibrated(self) -> bool:
        """Whether penalty and value constraint are those of a calibrated belief."""
        return self.penalty.calibrated and self.value_constraint

    @property
    def searched(self) -> bool:
        """Whether lambda is searched."""
        return self.lam == SEARCH

    def closed_form_missing(self) -> str | None:
        """The part without a closed form under a linear ratio, in words, or None."""
        if not self.penalty.quadratic:
            return f"the penalty {self.penalty}"
        return None if self.surrogate.linear else f"the surrogate {self.surrogate}"


def _normalization(given: object) -> Normalization | None:
    if given is None or given is False:
        return None
    if given is True:
        return Normalization()
    if not isinstance(given, Normalization):
        raise SettingsError(
            f"normalization: expected True or a bd.inference.Normalization(...), found {given!r}."
        )
    return given
