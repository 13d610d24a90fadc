"""How far values move with what nobody logged: the prior, and the price of the constraint.

Where there is a closed form the candidates are fitted again with every prior sd halved and doubled,
and with the price halved and doubled. A prior that matters moves the mean. The price sets the
width: under the default, lambda / epsilon is the number of transitions, and another price makes
the belief narrower or wider by its root. It should not move the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import BeliefView

FACTORS = (0.5, 2.0)
"""By which prior sds and prices are multiplied."""
MOVED = 0.25
"""Move of a mean past which it is told, in sds of the belief: as for other gauges of a move."""
PRIOR, PRICE = "sensitivity to prior", "sensitivity to price"

type Refit = Callable[[Mapping[str, Any]], BeliefView]
"""A fit of the same candidates with some settings changed."""


class Sensitivity(NamedTuple):
    """What other settings do to N values.

    Attributes
    ----------
    name
        What was changed.
    moved
        Largest move of each mean, in sds of the belief, shape (N,).
    width
        Least and largest sd over that of the belief.
    """

    name: str
    moved: Float[np.ndarray, " N"]
    width: tuple[float, float]

    @property
    def sentence(self) -> str:
        """What was found, without the candidate."""
        what = "prior sds" if self.name == PRIOR else "lambda / epsilon"
        return (
            f"with {what} halved or doubled means move by at most {self.moved.max():.2g} sds, and "
            f"sds are {self.width[0]:.2f} to {self.width[1]:.2f} times as wide"
        )

    @property
    def advice(self) -> str:
        """What it means where means move."""
        if self.name == PRIOR:
            return "The log says little beside the prior. Log more."
        return "Constraint and prior disagree. Use a wider prior, or log more."


def sensitivity(view: BeliefView, refit: Refit) -> list[Sensitivity]:
    """Fit again with other priors and other prices.

    Parameters
    ----------
    view
        The belief, whose problem has a closed form.
    refit
        Fits its candidates again.
    """
    settings = view.settings
    own = view if settings["inference"] == "exact" else refit({})
    priors = [
        {name: factor * settings[name] for name in ("prior_sd", "value_prior_sd")}
        for factor in FACTORS
    ]
    # The setting is one number for all candidates, whose prices are alike by default.
    prices = [{"lam": factor * float(np.median(view.lam))} for factor in FACTORS]
    return [_move(PRIOR, own, refit, priors), _move(PRICE, own, refit, prices)]


def _move(name: str, own: BeliefView, refit: Refit, changes: list[dict[str, float]]) -> Sensitivity:
    mean, sd = own.guide_mean, np.where(own.guide_sd > 0.0, own.guide_sd, 1.0)
    found = [refit(change) for change in changes]
    moved = np.max([np.abs(each.guide_mean - mean) / sd for each in found], axis=0)
    widths = np.array([each.guide_sd / sd for each in found])
    return Sensitivity(name, moved, (float(widths.min()), float(widths.max())))
