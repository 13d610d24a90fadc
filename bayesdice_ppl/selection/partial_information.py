"""What a choice that knows the value of one policy would save, draw by draw.

The best ranking given a value is found on some of the draws, by regression, and judged on others:
what looks better by noise alone gains nothing there (see `value_of_information`).
"""

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.scores.forms import ROUNDING
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.quick_ranking import quick_ranking

type Prefix = tuple[int, ...]

# Parts that take turns in judging what was chosen by the others, each of several runs of draws:
# the draws of a Markov chain are like their neighbors.
_PARTS, _RUNS = 4, 5
# A policy's draws are split by its value into eighths and halves, each with a ranking of its own.
_WINDOWS = (8, 2)
# Knots of the cubic spline inside the range of the values.
_INNER_KNOTS = 2


def in_turn(n_draws: int) -> list[tuple[Int[np.ndarray, " q"], Int[np.ndarray, " m"]]]:
    """Split draws into those that judge and those that a choice is learned from, each in turn."""
    part_of = np.arange(n_draws) * _PARTS * _RUNS // n_draws % _PARTS
    parts = range(_PARTS)
    return [(np.flatnonzero(part_of == p), np.flatnonzero(part_of != p)) for p in parts]


def losses_of(problem: RankingProblem, prefixes: list[Prefix]) -> Float[np.ndarray, "R M"]:
    """Give the losses of prefixes, which may differ in length under a budget."""
    losses = np.empty((len(prefixes), len(problem.values)))
    for size in {len(prefix) for prefix in prefixes}:
        rows = [row for row, prefix in enumerate(prefixes) if len(prefix) == size]
        listed = np.array([prefixes[row] for row in rows], np.intp)
        losses[rows] = problem.score.of_digest(np, problem.digest, listed)
    return losses


def saved_by_knowing(
    problem: RankingProblem, present: Prefix, policy: int
) -> Float[np.ndarray, " M"]:
    """Give by how much a choice that knows a policy's value lowers the loss.

    Parameters
    ----------
    problem : RankingProblem
        Draws, a score judged by its mean, and rules.
    present : tuple of int
        What is selected without knowing more: a prefix that is allowed.
    policy : int
        Whose value is known.

    Returns
    -------
    Float[ndarray, "M"]
        In every draw, in the units of the loss; negative where knowing misled. All 0 for a
        policy whose value is certain.
    """
    known = problem.values[:, policy]
    saved = np.zeros(len(known))
    if np.ptp(known) <= ROUNDING * np.abs(known).max():
        return saved
    for judged, learned in in_turn(len(known)):
        # The present choice is the first alternative.
        losses = losses_of(problem, _alternatives(problem, present, known, learned))
        change = losses - losses[0]
        chosen = _chosen(known[learned], change[:, learned], known[judged])
        saved[judged] = -change[chosen, judged]
    return saved


def _alternatives(
    problem: RankingProblem,
    present: Prefix,
    known: Float[np.ndarray, " M"],
    learned: Int[np.ndarray, " m"],
) -> list[Prefix]:
    """List the present choice, first, and good ones for the values that may become known."""
    ranked = learned[np.argsort(known[learned], kind="stable")]
    found = [present]
    for count in _WINDOWS:
        for window in np.array_split(ranked, count):
            part = RankingProblem(problem.values[window], problem.score, problem.rules)
            prefix = quick_ranking(part, present)
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

    def basis(values: Float[np.ndarray, " v"]) -> Float[np.ndarray, "v knots"]:
        within = np.clip(values, breaks[0], breaks[-1])
        design: np.ndarray = BSpline.design_matrix(within, knots, 3).toarray()
        return design

    coefficients = np.linalg.lstsq(basis(known), change.T, rcond=None)[0]
    return np.argmin(basis(asked) @ coefficients, axis=1)
