"""Quantiles of a value as a curve: its distance from the estimate at each normal score.

A belief whose law has no quantiles in closed form is tabulated once. Draws then read values off at
their normal scores, which keeps their order, and so the joint belief.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Curve(NamedTuple):
    """Quantiles of one value, less its location, over its scale.

    Attributes
    ----------
    score
        Normal scores, increasing, shape (K,).
    quantile
        The quantile at each, increasing, shape (K,).
    low, high
        Ends that no quantile passes; infinite where there are none.
    weight
        Share of the curve's difference from the score itself that is kept; 1: all of it.
    """

    score: Float[np.ndarray, " K"]
    quantile: Float[np.ndarray, " K"]
    low: float = -np.inf
    high: float = np.inf
    weight: float = 1.0

    def at(self, score: Float[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
        """Quantiles at normal scores, shape (S,); past the table they go on toward the ends."""
        from scipy.interpolate import PchipInterpolator

        inner = PchipInterpolator(self.score, self.quantile)
        found = np.asarray(inner(np.clip(score, self.score[0], self.score[-1])))
        for place, side, end in ((0, -1.0, self.low), (-1, 1.0, self.high)):
            beyond = np.maximum(side * (score - self.score[place]), 0.0)
            slope = max(float(inner(self.score[place], 1)), 0.0)
            room = abs(end - self.quantile[place])
            step = slope * beyond
            if np.isfinite(room):
                # As steep as before at first, and never past the end.
                step = -room * np.expm1(-step / room) if room > 0.0 else 0.0 * step
            found = found + side * step
        return score + self.weight * (found - score)

    def diluted(self, weight: float) -> Curve:
        """The curve of a value of which only a part has this law; see `Tails.diluted`."""
        return self._replace(weight=self.weight * weight)
