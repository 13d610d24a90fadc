"""The chance constraint as a posterior meets it, against its draws and a known chi-square."""

import math

import jax
import numpy as np
import pytest
from scipy.stats import chi2

from bayesdice_ppl import surrogates
from bayesdice_ppl.inference.achieved import MOST_ROWS, closed_form_bounds
from tests.marks import slow

DRAWS = 20_000
EXACT = {"inference": "exact"}
CASES = {
    "default": EXACT,
    "absorbing": {**EXACT, "on_termination": "absorb", "cluster": "episode"},
    "average": {**EXACT, "gamma": 1.0},
    "paper": {**EXACT, "preset": "paper"},
    "tight": {**EXACT, "epsilon": 0.02},
    "svi": {"surrogate": "cvar", "penalty": "squared"},
}
SURROGATES = (
    surrogates.markov(),
    surrogates.cvar(),
    surrogates.cvar(0.4),
    surrogates.bernstein(),
    surrogates.bernstein(0.7),
    surrogates.cdf(0.2),
)


def solved(plain, options):
    options = {"gamma": 0.9, "small_sample": False, "draws": DRAWS, **options}
    logs, policies = plain.log(41, rewards="continuous"), plain.policies(42, 2)
    prepared = plain.prepare(logs, policies, **options)
    return prepared, plain.solve(prepared, jax.random.key(0))


def bounds(prepared, solution, surrogate=None):
    """The closed form of the surrogate that was fitted, or of another."""
    chosen = prepared.inputs.settings.constraint.surrogate if surrogate is None else surrogate
    return closed_form_bounds(prepared.problem, solution, chosen, linear=True)


def cost_at(surrogate, excess, level):
    """What the surrogate's bound is a mean of."""
    if surrogate.name == "cvar":
        return np.maximum(excess - level, 0.0) / (1.0 - level)
    if surrogate.name == "bernstein":
        return np.exp((excess - 1.0) / level)
    return excess > 1.0 if surrogate.name == "cdf" else excess


@pytest.mark.parametrize(
    "options",
    [each if name in ("absorbing",) else slow(each) for name, each in CASES.items()],
    ids=CASES,
)
def test_closed_forms_agree_with_draws(plain, options):
    prepared, solution = solved(plain, options)
    problem = prepared.problem
    drawn = plain.draw(prepared, solution, jax.random.key(1))
    found = bounds(prepared, solution)
    for j, price in enumerate(problem.prices):
        loss, probability = drawn.loss[:, j], found.probability[j]
        error = math.sqrt(probability * (1.0 - probability) / DRAWS)
        assert abs(np.mean(loss <= price.epsilon) - probability) < 5 * error
        assert abs(loss.mean() - found.expected_loss[j]) < 5 * loss.std() / math.sqrt(DRAWS)
    # Whatever q was fitted for, every surrogate bounds something of it.
    for surrogate in SURROGATES:
        found = bounds(prepared, solution, surrogate)
        for j, price in enumerate(problem.prices):
            excess, bound = drawn.loss[:, j] / price.epsilon, found.bound[j]
            if bound == 1.0:
                assert surrogate.bound(excess) == 1.0
                continue
            cost = cost_at(surrogate, excess, found.level[j])
            error = cost.std() / math.sqrt(DRAWS)
            assert abs(cost.mean() - bound) < 5 * error
            assert abs(surrogate.bound(excess) - bound) < 5 * error


def test_levels_are_given_or_best_or_none(plain):
    prepared, solution = solved(plain, EXACT)
    problem = prepared.problem
    best = {}
    for surrogate in (surrogates.markov(), surrogates.cvar(), surrogates.bernstein()):
        best[surrogate.name] = bounds(prepared, solution, surrogate)
    cdf = bounds(prepared, solution, surrogates.cdf())
    assert np.isnan(best["markov"].level).all()
    assert np.isnan(cdf.level).all()
    epsilon = np.array([price.epsilon for price in problem.prices])
    np.testing.assert_allclose(best["markov"].bound, best["markov"].expected_loss / epsilon)
    np.testing.assert_allclose(cdf.bound, 1.0 - cdf.probability, rtol=1e-12)
    assert np.all(cdf.bound < best["cvar"].bound)
    assert np.all(best["cvar"].bound < best["bernstein"].bound)
    for shift in (0.97, 1.03):
        for name, make in (("cvar", surrogates.cvar), ("bernstein", surrogates.bernstein)):
            given = bounds(prepared, solution, make(0.4))
            assert np.all(given.level == 0.4)
            moved = make(shift * float(best[name].level[0]))
            assert bounds(prepared, solution, moved).bound[0] > best[name].bound[0]


def test_under_a_flat_prior_the_loss_is_half_a_chi_square(plain):
    options = {**EXACT, "prior_sd": 1e4, "value_prior_sd": 1e4, "xi": 0.9}
    prepared, solution = solved(plain, options)
    problem = prepared.problem
    found = bounds(prepared, solution)
    n = float(problem.cells.n_transitions)
    np.testing.assert_allclose(found.probability, 0.9, atol=1e-4)
    epsilon = np.array([price.epsilon for price in problem.prices])
    np.testing.assert_allclose(
        chi2.ppf(0.9, 2.0 * n * found.expected_loss), 2.0 * n * epsilon, rtol=1e-4
    )


def test_no_closed_form_is_no_answer(plain):
    prepared, solution = solved(plain, EXACT)
    problem, markov = prepared.problem, surrogates.markov()
    assert bounds(prepared, solution) is not None
    assert closed_form_bounds(problem, solution, markov, linear=False) is None
    logs, policies = plain.log(41, rewards="continuous"), plain.policies(42, 2)
    huber = plain.prepare(logs, policies, gamma=0.9, penalty="huber(0.1)")
    assert bounds(huber, solution) is None
    sampled = solution._replace(sampled=np.zeros((2, 1, 10, solution.posterior.mean.shape[1])))
    assert bounds(prepared, sampled) is None
    pilots = problem.pilots._replace(slope=np.zeros((2, MOST_ROWS + 1)))
    assert bounds(prepared._replace(problem=problem._replace(pilots=pilots)), solution) is None
