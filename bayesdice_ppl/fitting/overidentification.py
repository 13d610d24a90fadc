"""Hansen's J on functions that a belief was not fitted to.

A ratio is fitted to as many test functions as it has weights, so that its own constraint holds
whatever is wrong. A right ratio meets every other test function too. J takes further smooth
functions, less what the fitted ones explain of them, and judges whether their residuals are zero up
to noise. Where they are not, the features cannot express the ratio.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import jax
import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.arrays import eigh
from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.grouping import rows_behind
from bayesdice_ppl.fitting.inputs import Inputs, OtherTests
from bayesdice_ppl.inference import Problem
from bayesdice_ppl.models import pair_slopes_of
from bayesdice_ppl.models.gaussian import condition
from bayesdice_ppl.moments import NORMALIZATION_ROW, StateFeatures, build_moments

MOST_TESTS, UNITS_PER_TEST = 10, 5
"""Most directions that are tested, and episodes (or rows) for each of them, at least."""
LEAST_SHARE = 0.01
"""Share of the variance of all functions that a direction must have left over to be tested. Finer
ones have long tails: with 0.001 of it J was beyond its 1 % point in 3 % of right logs."""
LEAST_VARIATION = 1e-9
"""Share of the units' mean square below which they do not vary."""
MOST_SLOPES = 50_000_000
"""Pairs times weights past which a ratio is not judged, as a network's on a long log."""


@final
class Overidentification(NamedTuple):
    """J of every candidate.

    Attributes
    ----------
    statistic
        Hotelling's T^2 of the residuals, shape (N,). NaN where nothing is left to test.
    tests
        Number of directions tested, shape (N,).
    p_value
        Probability of a larger one under a right ratio, shape (N,). NaN where nothing is tested.
    """

    statistic: Float[np.ndarray, " N"]
    tests: Int[np.ndarray, " N"]
    p_value: Float[np.ndarray, " N"]


def overidentification(inputs: Inputs, problem: Problem) -> Overidentification | None:
    """J of every candidate on functions that were drawn apart from the fit's own.

    Parameters
    ----------
    inputs
        The input of a fit, with other functions.
    problem
        Its problem.

    Returns
    -------
    Overidentification or None
        None where there are no other functions: with one-hot features every function of the logged
        pairs was fitted.

    Notes
    -----
    With g the fitted residual, h that of the other functions, A how the weights move with -g (the
    gain), and H how h moves with them, h - H A g does not move with the weights to first order
    (Newey, 1985). Its mean over independent units, which are episodes or the first grouping of rows
    that is the fit's unit, is judged by Hotelling's T^2 in the directions that have most variance
    left, at most one for each five units.
    """
    other = inputs.other
    if other is None:
        return None
    found = [_of_candidate(inputs, problem, other, j) for j in range(len(inputs.names))]
    statistic, tests, p_value = (np.array(each) for each in zip(*found, strict=True))
    return Overidentification(statistic, tests, p_value)


def unlike_others(
    names: tuple[str, ...], judged: Overidentification | None
) -> list[SupportWarning]:
    """Warn where functions that were not fitted have residuals that no right ratio has."""
    if judged is None:
        return []
    return [
        warning
        for name, statistic, tests, p_value in zip(names, *judged, strict=True)
        if tests > 0
        for warning in gauges.OTHER_TESTS.judge(
            name,
            p_value,
            f"has a ratio that fails on functions that it was not fitted to (J = {statistic:.0f} "
            f"in {tests} directions, p = {p_value:.1g}). Its features cannot express how it "
            "differs from the logging policy, or the propensities or the clone are wrong. Check "
            "these, use other features, or try model=bd.models.neural().",
        )
    ]


def _of_candidate(
    inputs: Inputs, problem: Problem, other: OtherTests, j: int
) -> tuple[float, int, float]:
    """Statistic, number of tests, and p-value."""
    from scipy.stats import f as f_law

    untested = (np.nan, 0, np.nan)
    terms = _residuals(inputs, problem, other, j)
    if terms is None:
        return untested
    values, vectors = eigh(terms.spread)
    n_units = len(terms.by_unit)
    kept = int(np.sum(values > LEAST_SHARE * terms.total))
    n_tests = min(kept, MOST_TESTS, n_units // UNITS_PER_TEST)
    if n_tests == 0:
        return untested
    sums = terms.by_unit @ vectors[:, ::-1][:, :n_tests]
    mean, covariance = sums.mean(axis=0), np.cov(sums.T).reshape(n_tests, n_tests)
    own, axes = eigh(covariance)
    # Episodes that repeat each other say nothing in some directions, and are not judged there.
    vary = own > LEAST_VARIATION * np.square(sums).mean(axis=0).max()
    n_tests = int(vary.sum())
    if n_tests == 0:
        return untested
    statistic = float(n_units * np.sum((mean @ axes[:, vary]) ** 2 / own[vary]))
    scaled = statistic * (n_units - n_tests) / (n_tests * (n_units - 1.0))
    return statistic, n_tests, float(f_law.sf(scaled, n_tests, n_units - n_tests))


class _Terms(NamedTuple):
    """The residuals that are judged.

    Attributes
    ----------
    spread
        Their second moment over rows, shape (M, M).
    total
        Trace of that of the functions themselves, with all that is explained.
    by_unit
        What each of U independent units adds, shape (U, M); their mean is the residual.
    """

    spread: Float[np.ndarray, "M M"]
    total: float
    by_unit: Float[np.ndarray, "U M"]


def _residuals(inputs: Inputs, problem: Problem, other: OtherTests, j: int) -> _Terms | None:
    """The other functions' residuals, less what the fitted ones explain; None if too large."""
    cells, settings = inputs.cells, inputs.settings.form.moments

    def own(x: Any) -> Any:
        return jax.tree.map(lambda leaf: np.asarray(leaf)[j], x)

    ratio, pilot = own(problem.ratio), own(problem.pilots)
    latent = pilot.latent[:-1]
    if len(cells.pair_state) * len(latent) > MOST_SLOPES:
        return None
    at_state = other.at_state[min(j, len(other.at_state) - 1)]
    active = np.asarray(ratio.moments.active)
    moments = build_moments(
        cells._replace(pair_features=other.pair_features),
        StateFeatures(at_state, active),
        settings,
    )
    used = np.flatnonzero(np.any(other.pair_features != 0.0, axis=0))
    design, starts = np.asarray(moments.design)[:, used], np.asarray(moments.initial)[:, used]
    # The value's row has a weight of its own and tells nothing of the ratio.
    fitted, first = np.asarray(ratio.moments.design)[:, :-1], np.asarray(ratio.moments.initial)
    first = first[:, :-1]
    n, m = float(cells.n_transitions), int(cells.n_episodes)
    zeta = np.asarray(ratio.by_pair(latent))[cells.pair]
    move = np.asarray(pair_slopes_of(ratio)(latent))[cells.pair]
    count = np.asarray(cells.count)
    with jax.enable_x64(True):
        scale = np.sqrt(np.asarray(ratio.latent_prior().variance))
    moves = count[:, None] * move / n
    by_fitted, by_other = fitted.T @ moves, design.T @ moves
    noise = np.asarray(pilot.covariance)[:-1, :-1] / n
    arrays = (by_fitted, by_other, noise, design, starts)
    if not all(np.isfinite(array).all() for array in arrays):
        return None
    gain = condition(by_fitted, np.zeros(len(noise)), noise, np.zeros(len(scale)), scale).gain
    explained = by_other @ gain
    rows, entry = design - fitted @ explained.T, starts - first @ explained.T
    weight = (zeta * np.sqrt(count))[:, None]
    # A row that ended has the mean start after it; each start adds what it differs by. The
    # normalization's residual is the mean ratio less one.
    start = cells.initial_weight @ entry
    level = explained[:, NORMALIZATION_ROW + 1] + (1.0 - settings.gamma) * start
    entering = float(pilot.start_weight)
    of_rows = ((rows * zeta[:, None])[inputs.cell_of_row] + level) / n
    by_episode = inputs.settings.form.by_episode
    behind = rows_behind(inputs.logs, inputs.rows, inputs.cell_of_row, by_episode=by_episode)
    of_starts = entering * (entry[behind.start] - start) / m
    code = behind.units(problem.unit)
    by_unit = np.zeros((int(code.max()) + 1, len(used)))
    np.add.at(by_unit, code, np.concatenate([of_rows, of_starts]))
    by_unit = by_unit[np.bincount(code) > 0]
    spread, total = (rows * weight).T @ (rows * weight), float(np.sum((design * weight) ** 2))
    return _Terms(spread, total, len(by_unit) * by_unit)
