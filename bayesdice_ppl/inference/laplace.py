"""Laplace's approximation: the closed form on a ratio as it is linear around its mode.

It is exact for a linear ratio. For others it is deterministic and takes seconds where SVI and NUTS
take minutes. What it cannot see is how the posterior bends away from its mode; NUTS is its judge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from jaxtyping import PRNGKeyArray

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.inference.engine import Solution
from bayesdice_ppl.inference.exact import Exact
from bayesdice_ppl.inference.problem import FitForm, Problem


@final
@dataclass(frozen=True)
class Laplace:
    """Laplace's approximation as an engine, without settings."""

    @property
    def name(self) -> str:
        """What it is called."""
        return "laplace"

    @property
    def guided(self) -> bool:
        """It moves in no coordinates."""
        return False

    @property
    def tangent(self) -> bool:
        """It solves the problem as it is linear around its mode."""
        return True

    def check(self, form: FitForm, draws: int) -> None:
        """Refuse what has no closed form even for a linear ratio."""
        missing = form.constraint.closed_form_missing()
        if missing is not None:
            raise SettingsError(
                "inference='laplace': expected a quadratic penalty and Markov's surrogate, found "
                f"{missing}. Use 'svi' or 'nuts'."
            )
        constraint = form.constraint
        if not form.model.linear and (constraint.searched or constraint.normalization is not None):
            found = "lam='search'" if constraint.searched else "normalization="
            raise SettingsError(
                "inference='laplace': expected a fixed lam and no normalization=, since the mode "
                f"of {form.model} moves with both, found {found}. Use inference='svi', or "
                "model='linear'."
            )

    def solve(self, problem: Problem, rng_key: PRNGKeyArray, form: FitForm, draws: int) -> Solution:
        """The closed form of every candidate on its tangent."""
        return Exact().solve(problem, rng_key, form, draws)
