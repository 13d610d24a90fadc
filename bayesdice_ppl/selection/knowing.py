"""What a choice would save that knows the value of one policy, draw by draw.

The best ranking given a value is found on some of the draws, by regression, and judged on others:
what looks better by noise alone gains nothing there (see `value_of_information`).
"""

from typing import final

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.losses import Score
from bayesdice_ppl.losses.structure import ROUNDING
from bayesdice_ppl.selection.alternatives import good_prefix
from bayesdice_ppl.selection.rules import Rules

# Parts that take turns in judging what was chosen by the others, each of several runs of draws:
# the draws of a Markov chain are like their neighbors.
_PARTS, _RUNS = 4, 5
# A policy's draws are cut by its value into eighths and halves, each with a ranking of its own.
_WINDOWS = (8, 2)
# Knots of the cubic spline inside the range of the values.
_INNER_KNOTS = 2


@final
class Choice:
    """A choice to be made, and the ranking that is selected now.

    Parameters
    ----------
    values : Float[ndarray, "M N"]
        Draws of the policy values.
    score : Score
        Judged by the mean of its losses.
    rules : Rules
        Which launches are allowed.
    present : tuple of int
        What is selected without knowing more: a prefix that is allowed.
    """

    def __init__(
        self,
        values: Float[np.ndarray, "M N"],
        score: Score,
        rules: Rules,
        present: tuple[int, ...],
    ) -> None:
        self._values, self._score, self._rules, self._present = values, score, rules, present
        self._digest = score.digest(values)
        run = np.arange(len(values)) * _PARTS * _RUNS // len(values)
        self._part = run % _PARTS
        self.present_losses = self._losses([present])[0]

    def saved_by_knowing(self, policy: int) -> Float[np.ndarray, " M"]:
        """Give by how much a choice that knows a policy's value lowers the loss.

        Parameters
        ----------
        policy : int
            Whose value is known.

        Returns
        -------
        Float[ndarray, "M"]
            In every draw, in the units of the loss; negative where knowing misled. All 0 for a
            policy whose value is certain.
        """
        known = self._values[:, policy]
        saved = np.zeros(len(known))
        if np.ptp(known) <= ROUNDING * np.abs(known).max():
            return saved
        for part in range(_PARTS):
            judged = np.flatnonzero(self._part == part)
            learned = np.flatnonzero(self._part != part)
            change = self._losses(self._alternatives(known, learned)) - self.present_losses
            chosen = _chosen(known[learned], change[:, learned], known[judged])
            saved[judged] = -change[chosen, judged]
        return saved

    def _losses(self, prefixes: list[tuple[int, ...]]) -> Float[np.ndarray, "R M"]:
        """Give the losses of prefixes, which a budget may have made of different lengths."""
        losses = np.empty((len(prefixes), len(self._values)))
        for size in {len(prefix) for prefix in prefixes}:
            rows = [row for row, prefix in enumerate(prefixes) if len(prefix) == size]
            listed = np.array([prefixes[row] for row in rows], np.intp)
            losses[rows] = self._score.of_digest(np, self._digest, listed)
        return losses

    def _alternatives(
        self, known: Float[np.ndarray, " M"], learned: Int[np.ndarray, " m"]
    ) -> list[tuple[int, ...]]:
        """List the present choice, first, and good ones for the values that may become known."""
        ranked = learned[np.argsort(known[learned], kind="stable")]
        found = [self._present]
        for count in _WINDOWS:
            for window in np.array_split(ranked, count):
                prefix = good_prefix(self._values[window], self._score, self._rules, self._present)
                if prefix not in found:
                    found.append(prefix)
        return found


def _chosen(
    known: Float[np.ndarray, " m"],
    change: Float[np.ndarray, "R m"],
    asked: Float[np.ndarray, " q"],
) -> Int[np.ndarray, " q"]:
    """Choose the ranking of the lowest loss given a value, by regression; of equals the first."""
    from scipy.interpolate import BSpline

    inner = np.quantile(known, np.linspace(0.0, 1.0, _INNER_KNOTS + 2))
    breaks = np.unique(inner)  # the same value in many draws makes some coincide
    if len(breaks) == 1:
        return np.zeros(len(asked), np.intp)
    knots = np.pad(breaks, 3, mode="edge")

    def basis(values: np.ndarray) -> np.ndarray:
        within = np.clip(values, breaks[0], breaks[-1])
        design: np.ndarray = BSpline.design_matrix(within, knots, 3).toarray()
        return design

    coefficients = np.linalg.lstsq(basis(known), change.T, rcond=None)[0]
    return np.argmin(basis(asked) @ coefficients, axis=1)
