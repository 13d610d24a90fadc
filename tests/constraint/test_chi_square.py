"""The law of a quadratic loss under a Gaussian, against closed forms, quadrature and draws."""

import math
from itertools import pairwise

import jax
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import chi2, ncx2, norm

from bayesdice_ppl.constraint.chi_square import (
    QuadraticLoss,
    bernstein_bound,
    cvar_bound,
    exceedance,
    expected_excess,
    log_mgf,
    loss_of_gaussian,
    mean,
)
from bayesdice_ppl.constraint.penalties import Huber, Mahalanobis, Squared
from bayesdice_ppl.fitting import fit_flat, flat_settings
from bayesdice_ppl.fitting.units import in_units, units_of
from bayesdice_ppl.keys import split_key
from tests.marks import slow

MIXED = QuadraticLoss(np.array([2.0, 1.1, 0.6, 0.2, 0.05]), np.array([0.3, 0, -1, 2, 0.5]), 0.4)


def variance(loss):
    return float(np.sum(0.5 * loss.weights**2 * (1.0 + 2.0 * loss.shifts**2)))


def equal_weights(weight, terms, energy):
    """Weights that are all equal, so that 2 ell / weight is a (noncentral) chi-square."""
    shifts = np.arange(1.0, terms + 1.0)
    return QuadraticLoss(
        np.full(terms, weight), shifts * math.sqrt(energy) / np.linalg.norm(shifts), 0.0
    )


def chi_square(terms, energy):
    return chi2(terms) if energy == 0.0 else ncx2(terms, energy)


def chi_square_excess(terms, energy, x):
    """E[(Q - x)_+], by E[Q g(Q)] = k E[g(Q_{k+2})] + d E[g(Q_{k+4})]."""
    above = [chi_square(terms + more, energy).sf(x) for more in (0, 2, 4)]
    return terms * above[1] + energy * above[2] - x * above[0]


def imhof(loss, x):
    """P(ell > x) by Imhof's own integral along the imaginary axis; for five terms or more."""
    weights, energy, terms = 0.5 * loss.weights, loss.shifts**2, loss.weights.size
    # What lies past the end is at most the integral of 1 / (u prod sqrt(w u)), here 1e-9.
    end = (2e9 / terms / math.sqrt(np.prod(weights))) ** (2.0 / terms)
    nodes, node_weights = np.polynomial.legendre.leggauss(8)
    edges = np.linspace(0.0, end, math.ceil(end / 0.25))
    half = 0.5 * np.diff(edges)[:, None]
    u = (edges[:-1, None] + half * (1.0 + nodes)).ravel()
    wu = weights * u[:, None]
    angle = np.sum(np.arctan(wu) + energy * wu / (1.0 + wu**2), axis=1) - u * (x - loss.constant)
    size = np.sum(0.25 * np.log1p(wu**2) + 0.5 * energy * wu**2 / (1.0 + wu**2), axis=1)
    values = np.sin(0.5 * angle) * np.exp(-size) / u
    return 0.5 + np.sum(values * (half * node_weights).ravel()) / math.pi


def two_terms(loss, x):
    """P(ell > x) of two weights, the lighter one's variable integrated by quadrature."""
    (heavy, light), (a, b) = 0.5 * loss.weights, loss.shifts

    def given_light(z):
        left = x - light * (z + b) ** 2
        if left <= 0.0:
            return norm.pdf(z)
        edge = math.sqrt(left / heavy)
        return norm.pdf(z) * (norm.sf(edge - a) + norm.cdf(-edge - a))

    edge = math.sqrt(x / light)
    points = np.unique(np.clip([-12.0, -edge - b, -4.0, 0.0, 4.0, edge - b, 12.0], -12.0, 12.0))
    parts = [
        quad(given_light, low, high, epsabs=1e-11, epsrel=1e-11, limit=2000)[0]
        for low, high in pairwise(points)
    ]
    return sum(parts)


@pytest.mark.parametrize("terms", [1, 2, 3, 40])
@pytest.mark.parametrize("energy", [0.0, 0.3, 30.0])
@pytest.mark.parametrize("weight", [1e-9, 1.0, 1e7])
def test_equal_weights_give_the_noncentral_chi_square(terms, energy, weight):
    loss = equal_weights(weight, terms, energy)
    law = chi_square(terms, energy)
    at = np.concatenate([law.mean() * np.geomspace(1e-3, 1.0, 6), law.isf([0.3, 1e-2, 1e-6])])
    for x in at:
        point = 0.5 * weight * x
        assert exceedance(loss, point) == pytest.approx(law.sf(x), abs=1e-11)
        excess = expected_excess(loss, point) / (0.5 * weight)
        assert excess == pytest.approx(chi_square_excess(terms, energy, x), abs=1e-9 * law.mean())


@pytest.mark.parametrize("terms", [1, 2, 5, 300])
def test_far_tails_keep_their_relative_accuracy(terms):
    loss = equal_weights(1.0, terms, 0.0)
    for tail in (1e-10, 1e-30, 1e-200):
        x = chi2.isf(tail, terms)
        assert exceedance(loss, 0.5 * x) == pytest.approx(chi2.sf(x, terms), rel=1e-9)
    assert exceedance(loss, 1e6) == 0.0
    assert exceedance(loss, 1e-9 / terms) == pytest.approx(chi2.sf(2e-9 / terms, terms), abs=1e-11)


@pytest.mark.parametrize("at", [0.05, 0.4, 0.8, 1.0, 1.3, 2.5, 4.0])
def test_unequal_weights_agree_with_imhofs_integral(at):
    x = MIXED.constant + at * (mean(MIXED) - MIXED.constant)
    assert exceedance(MIXED, x) == pytest.approx(imhof(MIXED, x), abs=1e-8)


@pytest.mark.parametrize("ratio", [1.5, 1e3, 1e6, 1e12])
@pytest.mark.parametrize("shifts", [(0.0, 0.0), (2.0, 0.5), (0.1, 30.0)], ids=str)
@pytest.mark.parametrize("at", [0.02, 0.3, 1.0, 1.7, 5.0])
def test_heavy_ratios_of_weights_agree_with_quadrature(ratio, shifts, at):
    loss = QuadraticLoss(np.array([1.0, 1.0 / ratio]), np.array(shifts), 0.0)
    x = at * mean(loss)
    assert exceedance(loss, x) == pytest.approx(two_terms(loss, x), abs=1e-8)


def whitening(penalty):
    with jax.enable_x64(True):
        return np.asarray(penalty.whitening())


def random_gaussian(seed):
    """A Gaussian, an affine residual and a penalty: of low rank every second time."""
    rng = np.random.default_rng(seed)
    latent, rows = 4, int(rng.integers(2, 7))
    factor = rng.normal(size=(latent, 2 if seed % 2 else latent)) * 10.0 ** rng.uniform(-1, 1)
    matrix, offset = rng.normal(size=(rows, latent)), rng.normal(size=rows)
    live = (rng.random(rows) < 0.8).astype(float)
    live[0] = 1.0
    if seed % 3:
        lower = np.tril(rng.normal(size=(rows, rows))) + 2.0 * np.eye(rows)
        # A factor is the identity in rows that do not count.
        lower[live == 0.0], lower[:, live == 0.0] = 0.0, 0.0
        lower += np.diag(1.0 - live)
        penalty = Mahalanobis(lower, np.linalg.inv(lower), live)
    else:
        penalty = Squared(live)
    return rng.normal(size=latent), factor, matrix, offset, penalty


@pytest.mark.parametrize("seed", range(12))
def test_the_law_is_that_of_draws_through_the_penalty(seed):
    center, factor, matrix, offset, penalty = random_gaussian(seed)
    loss = loss_of_gaussian(center, factor, matrix, offset, whitening(penalty))
    n = 200_000
    normal = np.random.default_rng(seed + 100).normal(size=(n, factor.shape[1]))
    with jax.enable_x64(True):
        drawn = np.asarray(penalty.value((center + normal @ factor.T) @ matrix.T + offset))
    assert abs(drawn.mean() - mean(loss)) < 5 * drawn.std() / math.sqrt(n)
    assert drawn.min() >= loss.constant * (1.0 - 1e-9)
    for x in np.quantile(drawn, [0.03, 0.3, 0.7, 0.99]):
        probability = exceedance(loss, x)
        error = math.sqrt(probability * (1.0 - probability) / n)
        assert abs(np.mean(drawn > x) - probability) < 5 * error
        excess = np.maximum(drawn - x, 0.0)
        assert abs(excess.mean() - expected_excess(loss, x)) < 5 * excess.std() / math.sqrt(n)


laws = st.integers(1, 8).flatmap(
    lambda terms: st.builds(
        lambda logs, shifts, constant: QuadraticLoss(
            np.sort(10.0 ** np.array(logs))[::-1], np.array(shifts), constant
        ),
        st.lists(st.floats(-9.0, 2.0), min_size=terms, max_size=terms),
        st.lists(st.floats(-30.0, 30.0), min_size=terms, max_size=terms),
        st.sampled_from([0.0, 0.7]),
    )
)


@settings(max_examples=200, deadline=None)
@given(laws, st.floats(-1.5, 1.5))
@example(QuadraticLoss(np.ones(1), np.zeros(1), 0.0), 0.001953125)
def test_the_bounds_are_in_order(loss, log_ratio):
    epsilon = mean(loss) * 10.0**log_ratio
    probability = exceedance(loss, epsilon)
    cvar, bernstein = cvar_bound(loss, epsilon), bernstein_bound(loss, epsilon)
    assert 0.0 <= probability <= 1.0
    assert probability <= cvar.value * (1.0 + 1e-9)
    assert cvar.value <= min(1.0, mean(loss) / epsilon, bernstein.value) * (1.0 + 1e-9)
    for level in (0.0, 0.2, 0.9):
        assert cvar.value <= cvar_bound(loss, epsilon, level=level).value * (1.0 + 1e-9)
    for level in (0.1, 1.0, 10.0):
        assert bernstein.value <= bernstein_bound(loss, epsilon, level=level).value * (1.0 + 1e-9)


@settings(max_examples=100, deadline=None)
@given(laws)
def test_the_probability_falls_as_epsilon_rises(loss):
    spread = math.sqrt(variance(loss))
    at = mean(loss) + spread * np.array([-3.0, -1.0, -0.1, 0.0, 0.1, 1.0, 3.0, 9.0])
    found = [exceedance(loss, x) for x in at]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(found))


def test_moment_generating_function_by_quadrature_and_differences():
    loss = QuadraticLoss(np.array([1.3, 0.4]), np.array([0.7, -2.0]), 0.25)

    def density(z, s, weight, shift):
        return math.exp(0.5 * s * weight * (z + shift) ** 2) * norm.pdf(z)

    for s in (-3.0, -0.2, 0.3, 0.6):
        factors = [
            quad(density, -30.0, 30.0, args=(s, *term), points=[-5.0, 0.0, 5.0], limit=500)[0]
            for term in zip(loss.weights, loss.shifts, strict=True)
        ]
        by_hand = s * loss.constant + sum(math.log(factor) for factor in factors)
        assert log_mgf(loss, s) == pytest.approx(by_hand, abs=1e-8)
    assert log_mgf(loss, 0.0) == 0.0
    step = 1e-4
    up, down = log_mgf(loss, step), log_mgf(loss, -step)
    assert (up - down) / (2 * step) == pytest.approx(mean(loss), rel=1e-6)
    assert (up + down) / step**2 == pytest.approx(variance(loss), rel=1e-5)
    pole = 1.0 / 1.3
    assert math.isfinite(log_mgf(loss, pole * (1.0 - 1e-9)))
    assert log_mgf(loss, pole) == log_mgf(loss, 10.0) == math.inf


@pytest.mark.parametrize("at", [1.01, 1.3, 2.0, 6.0])
def test_bernsteins_best_level(at):
    epsilon = at * mean(MIXED)
    found = bernstein_bound(MIXED, epsilon)
    pole = 1.0 / MIXED.weights.max()
    by_search = minimize_scalar(
        lambda s: log_mgf(MIXED, s) - s * epsilon,
        bounds=(0.0, pole),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert found.value == pytest.approx(math.exp(by_search.fun), rel=1e-9)
    assert found.level == pytest.approx(1.0 / (by_search.x * epsilon), rel=1e-4)
    assert bernstein_bound(MIXED, epsilon, level=found.level).value == pytest.approx(
        found.value, rel=1e-9
    )


def test_bernsteins_mean_is_infinite_at_small_levels():
    epsilon = 4.0 * mean(MIXED)
    pole = MIXED.weights.max() / epsilon
    assert bernstein_bound(MIXED, epsilon, level=0.99 * pole).value == 1.0
    assert bernstein_bound(MIXED, 0.9 * mean(MIXED)) == (1.0, math.inf)


@settings(max_examples=50, deadline=None)
@given(laws, st.integers(-3, 3))
def test_epsilon_at_the_mean_itself(loss, steps):
    epsilon = mean(loss) * (1.0 + steps * 2.0**-52)
    assert bernstein_bound(loss, epsilon).value == pytest.approx(1.0, abs=1e-9)
    assert cvar_bound(loss, epsilon).value == pytest.approx(1.0, abs=1e-9)
    assert 0.0 < exceedance(loss, epsilon) < 1.0


@pytest.mark.parametrize(("terms", "energy"), [(1, 0.0), (3, 0.0), (2, 4.0)])
@pytest.mark.parametrize("tail", [0.2, 0.05, 1e-8])
def test_the_best_level_of_the_conditional_value_at_risk(terms, energy, tail):
    loss = equal_weights(1.0, terms, energy)
    x = chi_square(terms, energy).isf(tail)

    def by_hand(t):
        return chi_square_excess(terms, energy, t * x) / x / (1.0 - t)

    found = cvar_bound(loss, 0.5 * x)
    best = minimize_scalar(by_hand, bounds=(0.0, 0.999), method="bounded", options={"xatol": 1e-9})
    if terms + energy < x:
        assert found.value == pytest.approx(best.fun, rel=1e-6)
        assert found.level == pytest.approx(best.x, abs=1e-4)
    else:
        assert found == (1.0, 0.0)
    for level in (0.0, 0.3, 0.8):
        given_level = cvar_bound(loss, 0.5 * x, level=level)
        assert given_level.value == pytest.approx(min(by_hand(level), 1.0), rel=1e-6)


def test_what_the_covariance_does_not_reach_is_constant():
    direction, across = np.array([3.0, 4.0]) / 5.0, np.array([-4.0, 3.0]) / 5.0
    offset = 0.8 * direction + 1.5 * across
    loss = loss_of_gaussian(np.zeros(1), np.array([[2.0]]), direction[:, None], offset, np.eye(2))
    np.testing.assert_allclose(loss.weights, [4.0])
    np.testing.assert_allclose(np.abs(loss.shifts), [0.4])
    assert loss.constant == pytest.approx(1.125)
    assert exceedance(loss, 1.12) == 1.0
    assert exceedance(loss, 1.125 + 2.0 * 3.0) == pytest.approx(ncx2.sf(3.0, 1, 0.16), abs=1e-11)


def test_a_gaussian_without_spread_has_one_loss():
    loss = loss_of_gaussian(
        np.array([1.0, 2.0]), np.zeros((2, 3)), np.eye(2), np.array([0.0, -1.0]), np.eye(2)
    )
    assert loss.weights.size == 0
    assert mean(loss) == 1.0
    assert [exceedance(loss, x) for x in (0.5, 1.0, 1.5)] == [1.0, 0.0, 0.0]
    assert expected_excess(loss, 0.25) == 0.75
    assert cvar_bound(loss, 2.0) == (0.0, 0.5)
    assert bernstein_bound(loss, 2.0) == (0.0, 0.0)
    assert cvar_bound(loss, 0.5) == (1.0, 0.0)
    assert bernstein_bound(loss, 0.5) == (1.0, math.inf)
    assert log_mgf(loss, 3.0) == 3.0


@pytest.mark.parametrize("log_shift", [4, 7, 10, 13])
def test_a_loss_that_hardly_varies_is_nearly_normal(log_shift):
    loss = QuadraticLoss(np.array([1e-3]), np.array([10.0**log_shift]), 0.0)
    spread = math.sqrt(variance(loss))
    # The digits of epsilon set a limit of their own.
    error = 1e-15 * mean(loss) / spread + 1.0 / 10.0**log_shift
    for z in (-40.0, -2.0, 0.0, 2.0, 40.0, 1e4):
        x = mean(loss) + z * spread
        if x > 0.0:
            assert exceedance(loss, x) == pytest.approx(norm.sf(z), abs=error)
            assert 0.0 <= cvar_bound(loss, x).value <= 1.0


def test_only_quadratic_penalties_have_a_whitening():
    assert Huber(np.ones(2), np.array(1.0)).whitening() is None
    squared = Squared(np.array([1.0, 0.0]))
    np.testing.assert_array_equal(squared.whitening(), [[1.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize("penalty", ["mahalanobis", slow("squared")])
def test_a_fitted_beliefs_monte_carlo_numbers(plain, penalty):
    logs, policies = plain.log(41, rewards="continuous"), plain.policies(42, 3)
    options = {
        "gamma": 0.9,
        "inference": "exact",
        "penalty": penalty,
        "small_sample": False,
        "draws": 20_000,
    }
    key = jax.random.key(8)
    belief = fit_flat(logs, policies, rng_key=key, **options)
    # A fit sees rewards from their mean, in their sd.
    seen = in_units(logs, units_of(logs, flat_settings(**options)))
    prepared = plain.prepare(seen, policies, **options)
    problem = prepared.problem
    posterior = plain.solve(prepared, split_key(key)[0]).posterior
    found, draws = belief["constant_data"], belief["sample_stats/loss"].values[0]
    for j in range(3):
        ratio, constraint, _ = plain.numpy(problem.of(j))
        loss = loss_of_gaussian(
            posterior.mean[j],
            posterior.factor[j],
            ratio.matrix,
            ratio.moments.offset,
            whitening(constraint.penalty),
        )
        epsilon = problem.prices[j].epsilon
        probability = 1.0 - exceedance(loss, epsilon)
        error = math.sqrt(probability * (1.0 - probability) / 20_000)
        assert abs(np.mean(draws[:, j] <= epsilon) - probability) < 5 * error
        assert float(found.constraint_probability[j]) == pytest.approx(probability, abs=1e-9)
        error = math.sqrt(variance(loss) / 20_000) / epsilon
        assert abs(draws[:, j].mean() - mean(loss)) / epsilon < 5 * error
        expected = min(1.0, mean(loss) / epsilon)
        assert float(found.surrogate_bound[j]) == pytest.approx(expected, rel=1e-9)
