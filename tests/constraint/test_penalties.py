"""Penalties, their conjugates and maximizers against numerical maximization."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from bayesdice_ppl.constraint import Mahalanobis, Squared, mahalanobis

R = 3
ROOT = np.array([[1.5, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.7, 0.3, 1.1]])
PENALTIES = {
    "squared": Squared(np.ones(R)),
    "mahalanobis": Mahalanobis(ROOT, np.linalg.inv(ROOT), np.ones(R)),
}
GAPPED = np.linalg.cholesky(np.array([[2.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.0, 1.0]]))
residuals = arrays(np.float64, R, elements=st.floats(-5.0, 5.0, allow_subnormal=False))
each = pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)


def number(function, x):
    with jax.enable_x64(True):
        return float(function(np.asarray(x, dtype=np.float64)))


def vector(function, x):
    with jax.enable_x64(True):
        return np.asarray(function(np.asarray(x, dtype=np.float64)))


def largest(objective):
    found = minimize(lambda x: -objective(x), np.zeros(R), method="BFGS", options={"gtol": 1e-9})
    return -found.fun


def f_by_hand(name, x):
    metric = np.eye(R) if name == "squared" else ROOT @ ROOT.T
    return 0.5 * x @ np.linalg.inv(metric) @ x


def conjugate_by_hand(name, beta):
    metric = np.eye(R) if name == "squared" else ROOT @ ROOT.T
    return 0.5 * beta @ metric @ beta


@pytest.mark.parametrize("name", PENALTIES)
@settings(max_examples=15, deadline=None)
@given(residuals)
def test_conjugate_is_the_numerical_maximum_of_beta_x_minus_f(name, beta):
    by_search = largest(lambda x: beta @ x - f_by_hand(name, x))
    assert number(PENALTIES[name].conjugate, beta) == pytest.approx(by_search, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", PENALTIES)
@settings(max_examples=15, deadline=None)
@given(residuals)
def test_value_is_the_numerical_maximum_over_the_multipliers(name, x):
    by_search = largest(lambda beta: beta @ x - conjugate_by_hand(name, beta))
    assert number(PENALTIES[name].value, x) == pytest.approx(by_search, rel=1e-6, abs=1e-8)


@each
@settings(max_examples=40, deadline=None)
@given(residuals)
def test_maximizer_attains_the_value(penalty, x):
    beta = vector(penalty.maximizer, x)
    attained = beta @ x - number(penalty.conjugate, beta)
    assert attained == pytest.approx(number(penalty.value, x), rel=1e-10, abs=1e-12)


@each
@settings(max_examples=40, deadline=None)
@given(residuals, residuals)
def test_no_multiplier_beats_the_value(penalty, x, beta):
    assert beta @ x - number(penalty.conjugate, beta) <= number(penalty.value, x) + 1e-9


@each
@settings(max_examples=40, deadline=None)
@given(residuals)
def test_loss_is_never_negative_and_zero_at_zero(penalty, x):
    assert number(penalty.value, x) >= 0.0
    assert number(penalty.value, np.zeros(R)) == 0.0


@each
@settings(max_examples=40, deadline=None)
@given(residuals)
def test_in_whitened_coordinates_the_conjugate_is_half_a_square(penalty, whitened):
    beta = vector(penalty.unwhiten, whitened)
    half = 0.5 * whitened @ whitened
    assert number(penalty.conjugate, beta) == pytest.approx(half, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize(
    "penalty",
    [
        Squared(np.array([1.0, 0.0, 1.0])),
        Mahalanobis(GAPPED, np.linalg.inv(GAPPED), np.array([1.0, 0.0, 1.0])),
    ],
    ids=PENALTIES,
)
def test_rows_that_do_not_count_have_no_say(penalty):
    one, other = np.array([0.3, 7.0, -1.0]), np.array([0.3, -2.0, -1.0])
    assert number(penalty.value, one) == number(penalty.value, other)
    assert vector(penalty.maximizer, one)[1] == 0.0
    assert vector(penalty.unwhiten, one)[1] == 0.0


def test_factors_are_those_of_the_matrix():
    metric = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.5]])
    with jax.enable_x64(True):
        found = Mahalanobis(*(np.asarray(field) for field in mahalanobis(metric, np.ones(R))))
    np.testing.assert_allclose(found.factor @ found.factor.T, metric, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.inverse @ found.factor, np.eye(R), rtol=0, atol=1e-12)


@each
def test_batches_give_what_rows_give_one_by_one(penalty):
    batch = np.random.default_rng(0).normal(size=(2, 5, R))
    with jax.enable_x64(True):
        for function in (penalty.value, penalty.conjugate, penalty.maximizer, penalty.unwhiten):
            together = np.asarray(function(batch))
            one = np.array([[np.asarray(function(x)) for x in block] for block in batch])
            np.testing.assert_allclose(together, one, rtol=1e-12)
