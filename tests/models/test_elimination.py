"""The value with its weights eliminated, against the whole Gaussian from plain loops over rows."""

import numpy as np
import pytest

from bayesdice_ppl.constraint import sparse_covariance
from bayesdice_ppl.models import elimination, flow
from bayesdice_ppl.models.elimination import conjugate_gradients, eliminate, weight_prior
from bayesdice_ppl.models.flow import PolicyFlow
from bayesdice_ppl.moments import Prior, sparse_moments

CASES = [(0.0, True), (0.9, True), (0.9, False), (1.0, True)]
"""Discount, and whether a termination restarts."""


def whole_gaussian(oracle, weights, prior):
    """Mean and covariance of (weights, value) given residual = 0, with noise Sigma / n."""
    mean, sd = oracle.prior(prior.ratio_sd, prior.value_sd, prior.rare_share)
    spread = oracle.G * sd**2
    noise = oracle.covariance(weights) / oracle.n
    system = spread @ oracle.G.T + noise
    scale = np.sqrt(np.maximum(np.diagonal(system), 1e-300))
    inverse = np.linalg.pinv(system / np.outer(scale, scale), rcond=1e-13, hermitian=True)
    gain = spread.T @ (inverse / np.outer(scale, scale))
    left = np.eye(len(mean)) - gain @ oracle.G
    covariance = (left * sd**2) @ left.T + gain @ noise @ gain.T
    return mean - gain @ (oracle.G @ mean + oracle.c), covariance


@pytest.fixture(scope="module", params=CASES, ids=str)
def case(request, plain):
    gamma, restart = request.param
    logs, policies = plain.log(8, rewards="continuous"), plain.policies(9, 1)
    options = {"gamma": gamma, "on_termination": "restart" if restart else "absorb"}
    inputs = plain.prepare(logs, policies, inference="exact", **options).inputs
    oracle = plain.problem(logs, policies["p0"], gamma=gamma, restart=restart)
    weights = np.random.default_rng(1).gamma(2.0, 0.5, len(oracle.pairs))
    # Rewards are not centered, as those of the oracle are not.
    settings = inputs.settings.form.moments._replace(centered=False)
    candidate = inputs.candidates._replace(
        target=inputs.candidates.target[0],
        active=inputs.candidates.active[0],
        kept=inputs.candidates.kept[0],
    )
    return inputs.cells, candidate, settings, oracle, weights


@pytest.mark.parametrize("searched", [False, True], ids=["factored", "searched"])
@pytest.mark.parametrize("prior", [Prior(), Prior(0.3, 0.5)], ids=["wide", "narrow"])
def test_the_value_is_that_of_the_whole_gaussian(case, prior, searched, monkeypatch):
    cells, candidate, settings, oracle, weights = case
    if not searched:
        monkeypatch.setattr(elimination, "_searched", elimination._factored)
    moments = sparse_moments(cells, candidate, settings)
    covariance = sparse_covariance(cells, moments, weights * oracle.active, settings)
    visits = np.bincount(cells.pair, cells.count)
    widths = weight_prior(moments, visits, oracle.n, prior)
    found = eliminate(PolicyFlow(moments, settings.gamma), covariance, oracle.n, widths)
    mean, expected = whole_gaussian(oracle, weights, prior)
    posterior = elimination.ValueAlone(
        *(
            np.float64(number)
            for number in (found.estimate, found.variance, 0.0, widths.mean, widths.sd, 1, 1, 1, 0)
        )
    ).posterior(np.zeros((1, 1)), np.float64(oracle.n))
    own = np.flatnonzero(oracle.active)
    np.testing.assert_allclose(found.weights, mean[own], rtol=0, atol=1e-9)
    assert found.value == pytest.approx(mean[-1], abs=1e-10)
    assert posterior.mean[0] == pytest.approx(mean[-1], abs=1e-10)
    assert posterior.factor[0, 0] == pytest.approx(np.sqrt(expected[-1, -1]), rel=1e-8)


def test_more_noise_of_the_value_is_noise_of_the_estimate(case):
    """What is added to the value's entry of Sigma after the elimination counts in full."""
    cells, candidate, settings, oracle, weights = case
    moments = sparse_moments(cells, candidate, settings)
    covariance = sparse_covariance(cells, moments, weights * oracle.active, settings)
    visits = np.bincount(cells.pair, cells.count)
    widths = weight_prior(moments, visits, oracle.n, Prior())
    given = PolicyFlow(moments, settings.gamma), oracle.n, widths
    less = eliminate(given[0], covariance, *given[1:])
    more = eliminate(given[0], covariance._replace(value=covariance.value + 2.0), *given[1:])
    assert more.variance - less.variance == pytest.approx(2.0 / oracle.n, rel=1e-9)
    assert more.estimate == pytest.approx(less.estimate, abs=1e-12)


def test_the_sparse_residual_and_its_covariance_are_those_of_plain_loops(case):
    cells, candidate, settings, oracle, weights = case
    moments = sparse_moments(cells, candidate, settings)
    ratio = weights * oracle.active
    rows = np.r_[np.flatnonzero(oracle.active), np.arange(len(oracle.pairs), len(oracle.c))]
    tests, value = moments.residual(ratio[moments.pairs])
    np.testing.assert_allclose(
        np.append(tests, value), oracle.residual(weights, 0.0)[rows], rtol=0, atol=1e-13
    )
    found = sparse_covariance(cells, moments, ratio, settings)
    whole = np.block(
        [[found.dense(), found.cross[:, None]], [found.cross[None], np.array([[found.value]])]]
    )
    np.testing.assert_allclose(
        whole, oracle.covariance(weights)[np.ix_(rows, rows)], rtol=0, atol=1e-13
    )
    np.testing.assert_allclose(found.diagonal, np.diagonal(whole)[:-1], rtol=0, atol=1e-13)
    x = np.random.default_rng(2).normal(size=(len(tests), 3))
    np.testing.assert_allclose(found.times(x), whole[:-1, :-1] @ x, rtol=0, atol=1e-13)
    assert found.entering == pytest.approx(oracle.entry(weights), rel=1e-12)


@pytest.mark.parametrize("swept", [False, True], ids=["dense", "swept"])
def test_the_flow_is_inverted_through_the_states(case, swept, monkeypatch):
    cells, candidate, settings, oracle, _ = case
    if swept:
        monkeypatch.setattr(flow, "_DENSE_STATES", 0)
        monkeypatch.setattr(flow, "_CLOSE", 1e-14)
        monkeypatch.setattr(flow, "_SWEPT", 0.95)
    own = PolicyFlow(sparse_moments(cells, candidate, settings), settings.gamma)
    rows = np.r_[np.flatnonzero(oracle.active), np.arange(len(oracle.pairs), len(oracle.c) - 1)]
    matrix = oracle.G[np.ix_(rows, np.flatnonzero(oracle.active))]
    np.testing.assert_allclose(own.dense(), matrix, rtol=0, atol=1e-14)
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(matrix.shape[1], 2)), rng.normal(size=(len(matrix), 2))
    np.testing.assert_allclose(own.times(x), matrix @ x, rtol=0, atol=1e-13)
    np.testing.assert_allclose(own.transposed(y), matrix.T @ y, rtol=0, atol=1e-13)
    if settings.gamma == 1.0:
        return  # It has no inverse; the one of a flow that is damped a little takes its place.
    np.testing.assert_allclose(own.solve(matrix @ x), x, rtol=0, atol=1e-10)
    np.testing.assert_allclose(own.solve(matrix.T @ x, transposed=True), x, rtol=0, atol=1e-10)


def test_conjugate_gradients_solve_any_such_system():
    """Ill-conditioned and singular systems, with any positive definite preconditioner."""
    rng = np.random.default_rng(4)
    vectors = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    values = np.r_[0.0, 0.0, np.geomspace(1e-6, 1e3, 28)]
    matrix = (vectors * values) @ vectors.T
    near = (vectors * np.r_[1.0, 1.0, values[2:] * rng.uniform(0.5, 2.0, 28)]) @ vectors.T
    inverse = np.linalg.inv(near)
    right = matrix @ rng.normal(size=(30, 3))
    right[:, 1] *= 1e6
    found = conjugate_gradients(lambda x: matrix @ x, lambda x: inverse @ x, right)
    np.testing.assert_allclose(matrix @ found, right, rtol=0, atol=1e-8 * abs(right).max())
    expected = np.linalg.pinv(matrix, rcond=1e-12) @ right
    moved = vectors[:, 2:].T @ (found - expected)
    np.testing.assert_allclose(moved, 0.0, atol=1e-6 * abs(expected).max())
