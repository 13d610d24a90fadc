"""Statistics of the one-step reward as values: transformed rewards, and quantiles.

Each statistic of each candidate is an entry with its own transformed rewards. All entries are
fitted in one call and joined like candidates. A quantile is fitted as the mass below its first
estimate. Its draws invert the belief of the distribution function around that point.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.fitting.inputs import Inputs, Prepared
from bayesdice_ppl.fitting.warnings import thin_spread, unconverged, unmixed
from bayesdice_ppl.inference import Dependence, Draws, Problem, Solution, Unseen
from bayesdice_ppl.inference import prepare as prepare_problem
from bayesdice_ppl.inference.marginals import value_marginals
from bayesdice_ppl.moments import Candidates, transformed_rewards
from bayesdice_ppl.statistics import Distribution, weighted_distribution

MOST_POINTS = 33
"""Points at which the belief of a distribution function is computed; linear in between."""
TAIL, WIDEST = 1e-5, 40.0
"""The window around the quantile: the tail of the belief left out on each side, and the most
standard deviations of the mass below the quantile that it may reach."""


class Entries(NamedTuple):
    """All statistics of all candidates: entry t N + j is statistic t of candidate j.

    Attributes
    ----------
    problem, candidates, names
        Those of the T N entries.
    distributions
        Reward distribution of each of the N candidates under the first estimate of its ratio.
    centers
        The profiled number of each entry, shape (T, N).
    """

    problem: Problem
    candidates: Candidates
    names: tuple[str, ...]
    distributions: tuple[Distribution, ...]
    centers: Float[np.ndarray, "T N"]


def count_statistics(prepared: Prepared) -> Entries:
    """Give each statistic of each candidate its own transformed rewards.

    Parameters
    ----------
    prepared
        The problem of the plain mean; its first estimates give the ratios.

    Raises
    ------
    SettingsError
        A user's transform does not return finite numbers.
    """
    inputs = prepared.inputs
    statistics, reward = inputs.settings.statistic, inputs.reward
    distributions = _distributions(prepared)
    centers = np.array([[s.center(d) for d in distributions] for s in statistics])
    by_row = np.concatenate(
        [[s.transform(reward, c) for c in row] for s, row in zip(statistics, centers, strict=True)]
    )
    nothing = np.zeros(1)
    absorbed = np.concatenate(
        [
            [s.transform(nothing, c)[0] for c in row]
            for s, row in zip(statistics, centers, strict=True)
        ]
    )
    n_statistics = len(statistics)
    candidates = jax.tree.map(
        lambda x: np.tile(x, (n_statistics, *(1,) * (x.ndim - 1))), inputs.candidates
    )
    rewards = transformed_rewards(by_row, absorbed, inputs.cell_of_row, len(inputs.cells.count))
    known = prepared.problem.dependence
    problem = prepare_problem(
        inputs.cells,
        candidates,
        inputs.settings.form,
        rewards,
        known.following(prepared.problem.unit) if isinstance(known, Dependence) else None,
        rows=inputs.cell_rows,
        guided=inputs.settings.inference.guided,
        tangent=inputs.settings.inference.tangent,
    )
    if problem.tails is not None:
        # A quantile is found from the mass below it, which has a Student's t.
        inverted = np.repeat([s.inverted for s in statistics], len(inputs.names))
        problem = problem._replace(tails=problem.tails.without(inverted))
    names = inputs.names * n_statistics
    return Entries(problem, candidates, names, distributions, centers)


def invert_quantiles(
    inputs: Inputs,
    entries: Entries,
    solution: Solution,
    drawn: Draws,
    unseen: Unseen | None = None,
) -> Draws:
    """Replace draws of the mass below a quantile's first estimate by draws of the quantile.

    Parameters
    ----------
    inputs, entries
        The input, and the result of `count_statistics`.
    solution, drawn, unseen
        Those of the entries.

    Notes
    -----
    P(quantile <= x) = P(F(x) >= alpha) at every point x. At the quantile's first estimate the
    belief of F is the engine's. From there to the other points it moves and widens as the closed
    form does. The probabilities are sorted (monotone rearrangement). A draw with much mass below
    the first estimate takes a low quantile, so that it stays one draw.
    """
    value = drawn.value.copy()
    settings, n_policies = inputs.settings, len(inputs.names)
    mean, sd = solution.value_mean, solution.value_sd
    df = np.asarray(entries.problem.pilots.degrees_of_freedom)
    if unseen is not None:
        mean, sd, df = mean + unseen.shift, unseen.sd(sd), unseen.degrees_of_freedom
    if settings.value_implied:
        # The value follows from the ratio, and is not the Gaussian's.
        mean, sd = value.mean(axis=0), value.std(axis=0, ddof=1)
        df = np.full_like(df, np.inf)
    for t, statistic in enumerate(settings.statistic):
        if not statistic.inverted:
            continue
        part = slice(t * n_policies, (t + 1) * n_policies)
        value[:, part] = _quantiles(
            inputs,
            entries,
            statistic.parameter or 0.0,
            (mean[part], sd[part], df[part]),
            entries.centers[t],
            value[:, part],
            np.array([price.lam / price.epsilon for price in entries.problem.prices[part]]),
        )
    return drawn._replace(value=value)


def by_statistic(inputs: Inputs, drawn: Draws) -> dict[str, Float[np.ndarray, "S N"]]:
    """Draws of each statistic under its own name; empty if there is only one."""
    statistics, n = inputs.settings.statistic, len(inputs.names)
    if len(statistics) == 1:
        return {}
    return {
        str(statistic): drawn.value[:, t * n : (t + 1) * n]
        for t, statistic in enumerate(statistics)
    }


def warnings_of_others(
    inputs: Inputs, problem: Problem, solution: Solution
) -> list[SupportWarning]:
    """The engine's warnings about the statistics after the first."""
    n, found = len(inputs.names), []
    df = np.asarray(problem.pilots.degrees_of_freedom)
    for t, statistic in enumerate(inputs.settings.statistic[1:], start=1):
        part = slice(t * n, (t + 1) * n)
        here: Solution = jax.tree.map(lambda x, part=part: x[part], solution)
        found += [
            warning._replace(reason=f"{statistic}: {warning.reason}")
            for warning in (
                *thin_spread(inputs.names, df[part], problem.unit),
                *unconverged(inputs.names, here.drift),
                *unmixed(inputs.names, here),
            )
        ]
    return found


def first_statistic(
    inputs: Inputs, problem: Problem, solution: Solution, drawn: Draws
) -> tuple[Problem, Solution, Draws]:
    """The entries of the first statistic, which is the belief's value."""
    n = len(inputs.names)

    def first(tree: Any) -> Any:
        return jax.tree.map(lambda x: x[:n], tree)

    problem = problem._replace(
        ratio=first(problem.ratio),
        constraint=first(problem.constraint),
        coordinates=first(problem.coordinates),
        pilots=first(problem.pilots),
        prices=problem.prices[:n],
        rewards=None,
        unit=None if problem.unit is None else problem.unit.first(n),
        tails=None if problem.tails is None else problem.tails.first(n),
    )
    square = drawn.correlation[:n, :n]
    drawn = jax.tree.map(lambda x: x[:, :n], drawn)._replace(correlation=square)
    return problem, first(solution), drawn


def _distributions(prepared: Prepared) -> tuple[Distribution, ...]:
    """Each candidate's distribution of the rewards of the rows that are used."""
    inputs = prepared.inputs
    reward = inputs.reward
    ratio = np.asarray(prepared.problem.pilots.ratio)[:, inputs.cell_of_row]
    found = []
    for row in ratio:
        mass = row / len(row)
        if not inputs.settings.form.moments.restart:
            # What is absorbed earns 0 for ever: an atom at 0 with the mass that visits lack.
            found.append(
                weighted_distribution(np.append(reward, 0.0), np.append(mass, 1.0 - mass.sum()))
            )
        else:
            found.append(weighted_distribution(reward, mass))
    return tuple(found)


def _grid(distribution: Distribution, alpha: float, width: float) -> np.ndarray:
    """Places of the atoms near the quantile, at most `MOST_POINTS` of them."""
    cumulative = distribution.cumulative
    low = int(np.searchsorted(cumulative, alpha - width))
    high = int(np.searchsorted(cumulative, alpha + width))
    places = np.arange(max(low - 1, 0), min(high + 2, len(cumulative)))
    if len(places) > MOST_POINTS:
        even = np.linspace(cumulative[places[0]], cumulative[places[-1]], MOST_POINTS)
        places = np.searchsorted(cumulative, even - 1e-12)
    # All candidates have the same number, so that one compiled function serves all.
    return np.append(places, np.full(MOST_POINTS - len(places), places[-1]))


def _quantiles(
    inputs: Inputs,
    entries: Entries,
    alpha: float,
    engine: tuple[np.ndarray, np.ndarray, np.ndarray],
    pilot: np.ndarray,
    mass: np.ndarray,
    price: np.ndarray,
) -> np.ndarray:
    from scipy.stats import t as student_t

    mean, sd, df = engine
    n = len(pilot)
    reward = inputs.reward
    spread = np.maximum(sd, 1.0 / len(reward))
    reach = np.minimum(student_t.isf(TAIL, df), WIDEST)
    places = [
        _grid(d, alpha, s) for d, s in zip(entries.distributions, reach * spread, strict=True)
    ]
    # The first estimate is the last point: there the engine and the closed form meet.
    points = np.stack(
        [
            np.append(d.reward[place], q)
            for d, place, q in zip(entries.distributions, places, pilot, strict=True)
        ]
    )
    width = points.shape[1]
    by_row = (reward <= points.reshape(-1, 1)).astype(np.float64)
    absorbed = (points.ravel() >= 0.0).astype(np.float64)
    candidates = jax.tree.map(lambda x: np.repeat(x, width, axis=0), inputs.candidates)
    found = value_marginals(
        inputs.cells,
        candidates,
        transformed_rewards(by_row, absorbed, inputs.cell_of_row, len(inputs.cells.count)),
        np.repeat(price, width),
        inputs.settings.form,
    )
    result = np.empty_like(mass)
    for j in range(n):
        here = slice(j * width, (j + 1) * width)
        location, scale = found.mean[here], found.sd[here]
        # The marginals know the log's rows, but not which of them move together.
        freedom = np.minimum(found.degrees_of_freedom[here], df[j])
        location = location + (mean[j] - location[-1])
        scale = scale * (sd[j] / scale[-1] if scale[-1] > 0.0 else 1.0)
        distribution, place = entries.distributions[j], places[j]
        result[:, j] = _invert(
            distribution,
            place,
            (location[:-1], scale[:-1], freedom[:-1]),
            alpha,
            1.0 - student_t.cdf((mass[:, j] - mean[j]) / (sd[j] if sd[j] > 0.0 else 1.0), df[j]),
        )
    return result


def _invert(
    distribution: Distribution,
    place: np.ndarray,
    belief: tuple[np.ndarray, np.ndarray, np.ndarray],
    alpha: float,
    uniform: np.ndarray,
) -> np.ndarray:
    """Quantiles at the given probabilities, from the belief of F at some of the atoms."""
    from scipy.stats import t as student_t

    location, scale, freedom = belief
    atoms = np.arange(place[0], place[-1] + 1)
    place, first = np.unique(place, return_index=True)
    known = distribution.cumulative[place]
    cumulative = distribution.cumulative[atoms]
    # What the belief adds to the first estimate's mass changes slowly between atoms, as its width.
    shift = np.interp(cumulative, known, (location[first] - known))
    width = np.interp(cumulative, known, scale[first])
    df = np.interp(cumulative, known, np.minimum(freedom[first], 1e6))
    excess = cumulative + shift - alpha
    certain = width <= 0.0
    probability = np.where(
        certain,
        (excess >= -1e-12).astype(np.float64),
        student_t.cdf(excess / np.where(certain, 1.0, width), df),
    )
    probability = np.sort(probability)
    chosen = np.searchsorted(probability, uniform)
    return distribution.reward[atoms[np.minimum(chosen, len(atoms) - 1)]]
