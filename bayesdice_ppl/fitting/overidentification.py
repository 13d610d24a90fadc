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

from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.inputs import Inputs, OtherTests
from bayesdice_ppl.inference import Problem
from bayesdice_ppl.models import pair_slopes_of
from bayesdice_ppl.moments import NORMALIZATION_ROW, build_moments, state_features

MOST_TESTS, UNITS_PER_TEST = 10, 5
"""Most directions that are tested, and episodes (or rows) for each of them, at least."""
LEAST_SHARE = 0.01
"""Share of the variance of all functions that a direction must have left over to be tested. Finer
ones have long tails: with 0.001 of it J was beyond its 1 % point in 3 % of right logs."""
KEPT = 1e-12
"""Eigenvalues of the innovation below this share of the largest count as zero."""
MOST_SLOPES = 50_000_000
"""Pairs times weights past which a ratio is not judged."""


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
    (Newey, 1985). Its mean over independent units is judged by Hotelling's T^2, in the directions
    that have most variance left, at most one for each five units.
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
            f"in {tests} directions, p = {p_value:.1g}): its features cannot express how it "
            "differs from the logging policy. Leave features out for the default ones, use more, "
            "or try model=bd.models.neural().",
        )
    ]


def _of_candidate(
    inputs: Inputs, problem: Problem, other: OtherTests, j: int
) -> tuple[float, int, float]:
    """Statistic, number of tests, and p-value."""
    from scipy.stats import f as f_law

    untested = (np.nan, 0, np.nan)
    terms, own = _residuals(inputs, problem, other, j)
    if terms is None:
        return untested
    spread = terms.by_row.T @ terms.by_row
    total = np.trace(own.T @ own)
    values, vectors = np.linalg.eigh(spread)
    n_units = len(terms.by_unit)
    kept = int(np.sum(values > LEAST_SHARE * total))
    n_tests = min(kept, MOST_TESTS, n_units // UNITS_PER_TEST)
    if n_tests == 0 or not np.isfinite(spread).all():
        return untested
    sums = terms.by_unit @ vectors[:, ::-1][:, :n_tests]
    mean, covariance = sums.mean(axis=0), np.cov(sums.T).reshape(n_tests, n_tests)
    statistic = float(n_units * mean @ np.linalg.solve(covariance, mean))
    scaled = statistic * (n_units - n_tests) / (n_tests * (n_units - 1.0))
    return statistic, n_tests, float(f_law.sf(scaled, n_tests, n_units - n_tests))


class _Terms(NamedTuple):
    """What each row, and each independent unit, adds to the residuals that are judged."""

    by_row: Float[np.ndarray, "C M"]
    by_unit: Float[np.ndarray, "U M"]


def _residuals(
    inputs: Inputs, problem: Problem, other: OtherTests, j: int
) -> tuple[_Terms | None, Float[np.ndarray, "C M"]]:
    """The other functions' residuals less what the fitted ones explain, and those before that."""
    cells, settings = inputs.cells, inputs.settings.form.moments

    def own(x: Any) -> Any:
        return jax.tree.map(lambda leaf: np.asarray(leaf)[j], x)

    ratio, pilot, candidate = own(problem.ratio), own(problem.pilots), own(other.candidates)
    moments = build_moments(
        cells._replace(pair_features=other.pair_features),
        state_features(cells._replace(pair_features=other.pair_features), candidate),
        settings,
    )
    used = np.flatnonzero(np.any(other.pair_features != 0.0, axis=0))
    design, starts = np.asarray(moments.design)[:, used], np.asarray(moments.initial)[:, used]
    # The value's row has a weight of its own and tells nothing of the ratio.
    fitted, first = np.asarray(ratio.moments.design)[:, :-1], np.asarray(ratio.moments.initial)
    first = first[:, :-1]
    latent = pilot.latent[:-1]
    if len(cells.pair_state) * len(latent) > MOST_SLOPES:
        return None, design
    n, m = float(cells.n_transitions), int(cells.n_episodes)
    restart = settings.gamma if settings.restart else 0.0
    zeta = np.asarray(ratio.by_pair(latent))[cells.pair]
    move = np.asarray(pair_slopes_of(ratio)(latent))[cells.pair]
    count, ended = np.asarray(cells.count), np.asarray(cells.terminated * cells.count)
    entering = (1.0 - settings.gamma) + restart * float(ended @ zeta) / n

    with jax.enable_x64(True):
        variance = np.asarray(ratio.latent_prior().variance)
    moves = count[:, None] * move / n
    by_fitted, by_other = fitted.T @ moves, design.T @ moves
    noise = np.asarray(pilot.covariance)[:-1, :-1] / n
    values, vectors = np.linalg.eigh(by_fitted @ (variance[:, None] * by_fitted.T) + noise)
    kept = values > KEPT * values[-1]
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    explained = by_other @ (variance[:, None] * by_fitted.T) @ inverse
    rows, entry = design - fitted @ explained.T, starts - first @ explained.T
    weight = zeta * np.sqrt(count)
    terms = rows * (zeta * count)[:, None]
    # The normalization's residual is the mean ratio less one.
    level, code = explained[:, NORMALIZATION_ROW + 1], None
    # A row that ended has the mean start after it; each start adds what it differs by.
    start = cells.initial_weight @ entry
    level = level + (1.0 - settings.gamma) * start
    if inputs.settings.form.by_episode:
        sums = np.zeros((m, len(used)))
        np.add.at(sums, cells.episode, terms)
        by_unit = (m / n) * sums + entering * (entry[:m] - start) + level
        if problem.unit is not None and problem.unit.groupings:
            code = problem.unit.groupings[0].of_episode
    else:
        by_unit = (rows * zeta[:, None])[inputs.cell_of_row] + level
    if code is not None:
        share = np.bincount(code)
        grouped = np.zeros((len(share), len(used)))
        np.add.at(grouped, code, by_unit)
        by_unit = grouped[share > 0] * (np.count_nonzero(share) / len(code))
    return _Terms(rows * weight[:, None], by_unit), design * weight[:, None]
