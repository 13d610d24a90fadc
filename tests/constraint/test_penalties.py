"""Penalties, their conjugates and maximizers against numerical maximization."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from bayesdice_ppl import penalties
from bayesdice_ppl.constraint.penalties import (
    Huber,
    Mahalanobis,
    Power,
    Squared,
    penalty_choice,
)
from bayesdice_ppl.errors import SettingsError

R = 3
ROOT = np.array([[1.5, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.7, 0.3, 1.1]])
QUADRATIC = {
    "squared": Squared(np.ones(R)),
    "mahalanobis": Mahalanobis(ROOT, np.linalg.inv(ROOT), np.ones(R)),
}
BOUND = 1.3
PENALTIES = {
    **QUADRATIC,
    "power_1.5": Power(np.ones(R), np.array(1.5)),
    "power_2": Power(np.ones(R), np.array(2.0)),
    "power_4": Power(np.ones(R), np.array(4.0)),
    "huber": Huber(np.ones(R), np.array(BOUND)),
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


def largest(objective, bound=None):
    """Numerical maximum of a concave function, in a box if there is one; two searches in turn."""
    box = None if bound is None else [(-bound, bound)] * R
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 20_000, "maxfev": 20_000}
    rough = minimize(
        lambda x: -objective(x), np.full(R, 0.1), method="Nelder-Mead", bounds=box, options=options
    )
    fine = minimize(lambda x: -objective(x), rough.x, method="L-BFGS-B", bounds=box)
    return -min(rough.fun, fine.fun)


def f_by_hand(name, x):
    size = np.abs(x)
    if name == "huber":
        return np.sum(np.where(size <= BOUND, x**2 / 2, BOUND * size - BOUND**2 / 2))
    if name.startswith("power"):
        p = float(name.removeprefix("power_"))
        return np.sum(size**p / p)
    metric = np.eye(R) if name == "squared" else ROOT @ ROOT.T
    return 0.5 * x @ np.linalg.inv(metric) @ x


def conjugate_by_hand(name, beta):
    if name == "huber":
        return beta @ beta / 2
    if name.startswith("power"):
        p = float(name.removeprefix("power_"))
        q = p / (p - 1)
        return np.sum(np.abs(beta) ** q) / q
    metric = np.eye(R) if name == "squared" else ROOT @ ROOT.T
    return 0.5 * beta @ metric @ beta


@pytest.mark.parametrize("name", PENALTIES)
@settings(max_examples=15, deadline=None)
@given(residuals)
def test_conjugate_is_the_numerical_maximum_of_beta_x_minus_f(name, beta):
    if name == "huber":
        # Beyond the bound it is infinite, and no search ends; see below.
        beta = np.clip(beta, -0.99 * BOUND, 0.99 * BOUND)
    by_search = largest(lambda x: beta @ x - f_by_hand(name, x))
    assert number(PENALTIES[name].conjugate, beta) == pytest.approx(by_search, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", PENALTIES)
@settings(max_examples=15, deadline=None)
@given(residuals)
def test_value_is_the_numerical_maximum_over_the_multipliers(name, x):
    bound = BOUND if name == "huber" else None
    by_search = largest(lambda beta: beta @ x - conjugate_by_hand(name, beta), bound)
    assert number(PENALTIES[name].value, x) == pytest.approx(by_search, rel=1e-5, abs=1e-7)


def test_hubers_conjugate_is_infinite_beyond_its_bound():
    huber = PENALTIES["huber"]
    assert number(huber.conjugate, [BOUND, -BOUND, 0.0]) == pytest.approx(BOUND**2)
    assert number(huber.conjugate, [1.01 * BOUND, 0.0, 0.0]) == np.inf


def test_gradients_are_finite_where_a_residual_is_zero():
    x = np.array([0.0, 1.0, -2.0])
    for penalty in PENALTIES.values():
        with jax.enable_x64(True):
            gradient = np.asarray(jax.grad(penalty.value)(x))
        # The derivative of f is the maximizing multiplier (Danskin).
        np.testing.assert_allclose(gradient, vector(penalty.maximizer, x), atol=1e-12)


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


@pytest.mark.parametrize("penalty", QUADRATIC.values(), ids=QUADRATIC)
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
        Power(np.array([1.0, 0.0, 1.0]), np.array(1.5)),
        Huber(np.array([1.0, 0.0, 1.0]), np.array(BOUND)),
    ],
    ids=["squared", "mahalanobis", "power", "huber"],
)
def test_rows_that_do_not_count_have_no_say(penalty):
    one, other = np.array([0.3, 7.0, -1.0]), np.array([0.3, -2.0, -1.0])
    assert number(penalty.value, one) == number(penalty.value, other)
    assert vector(penalty.maximizer, one)[1] == 0.0
    assert vector(penalty.unwhiten, one)[1] == 0.0


def test_factors_are_those_of_the_matrix():
    metric = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.5]])
    with jax.enable_x64(True):
        found = Mahalanobis(*(np.asarray(field) for field in Mahalanobis.of(metric, np.ones(R))))
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


# Penalties as a user chooses them.


@pytest.mark.parametrize(
    ("choice", "text", "kind", "quadratic"),
    [
        (penalties.squared(), "squared", Squared, True),
        (penalties.mahalanobis(), "mahalanobis", Mahalanobis, True),
        (penalties.power(1.5), "power(1.5)", Power, False),
        (penalties.huber(0.02), "huber(0.02)", Huber, False),
    ],
)
def test_a_choice_is_its_text_and_makes_its_penalty(choice, text, kind, quadratic):
    assert str(choice) == text
    assert penalty_choice(text) == choice
    assert penalty_choice(choice) is choice
    assert hash(penalty_choice(text)) == hash(choice)
    assert choice.quadratic is quadratic
    with jax.enable_x64(True):
        made = choice.build(jnp.eye(3), jnp.ones(3))
        assert isinstance(made, kind)
        assert float(made.value(jnp.zeros(3))) == 0.0


@pytest.mark.parametrize(
    "text", ["cubed", "power", "power(1)", "power(inf)", "huber(0)", "huber(x)", "squared(2)", None]
)
def test_what_is_no_penalty_is_refused(text):
    with pytest.raises(SettingsError, match="penalty"):
        penalty_choice(text)


@pytest.mark.parametrize("make", [penalties.power, penalties.huber])
@pytest.mark.parametrize("number", [-1.0, float("nan"), True])
def test_impossible_numbers(make, number):
    with pytest.raises(SettingsError, match="expected a number above"):
        make(number)
