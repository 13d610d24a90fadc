"""Kernels against their textbook formulas, and low-rank features against the kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.kernels import (
    Matern,
    linear,
    matern,
    product_of,
    squared_exponential,
    sum_of,
)
from bayesdice_ppl.features.low_rank import gram_root, nystrom


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def points(seed, n, p=3):
    return np.random.default_rng(seed).normal(size=(n, p))


X, Y = points(0, 7), points(1, 5)


def bessel_matern(nu, distance):
    """Matern's kernel by its Bessel function, for distances above 0."""
    scaled = np.sqrt(2 * nu) * distance
    return 2 ** (1 - nu) / gamma(nu) * scaled**nu * kv(nu, scaled)


def test_squared_exponential_is_its_formula():
    expected = 4.0 * np.exp(-cdist(X, Y, "sqeuclidean") / (2 * 0.7**2))
    np.testing.assert_allclose(squared_exponential(0.7, sd=2.0)(X, Y), expected, rtol=1e-12)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_matern_is_the_bessel_formula(nu):
    expected = 9.0 * bessel_matern(nu, cdist(X, Y) / 1.3)
    np.testing.assert_allclose(matern(nu, 1.3, sd=3.0)(X, Y), expected, rtol=1e-10)


@pytest.mark.parametrize("make", [squared_exponential, lambda scale: matern(1.5, scale)])
def test_each_coordinate_has_its_length_scale(make):
    scales = (0.5, 1.0, 2.0)
    expected = make(1.0)(X / np.array(scales), Y / np.array(scales))
    np.testing.assert_allclose(make(scales)(X, Y), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "kernel", [squared_exponential(1.0, 2.0), *(matern(nu, 1.0, 2.0) for nu in (0.5, 1.5, 2.5))]
)
def test_a_point_far_from_the_origin_is_no_distance_from_itself(kernel):
    far = X + 1e6
    np.testing.assert_array_equal(np.diagonal(kernel(far, far)), 4.0)


def test_linear_is_the_product_of_features():
    features = lambda x: jnp.concatenate([x, x**2], axis=1)  # noqa: E731
    expected = 0.25 * (X @ Y.T + X**2 @ (Y**2).T)
    np.testing.assert_allclose(linear(features, sd=0.5)(X, Y), expected, rtol=1e-12)


def test_sums_and_products_take_any_function():
    def own(x, y):
        return (1.0 + x @ y.T) ** 2

    smooth = squared_exponential(1.0)
    first, second = np.asarray(smooth(X, Y)), (1.0 + X @ Y.T) ** 2
    np.testing.assert_allclose(sum_of(smooth, own, own)(X, Y), first + 2 * second, rtol=1e-12)
    np.testing.assert_allclose(product_of(own, smooth, own)(X, Y), first * second**2, rtol=1e-12)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_the_slope_in_the_length_scale_is_finite_where_points_meet(nu):
    def total(scale):
        return jnp.sum(jnp.cos(Matern(nu, scale)(jnp.asarray(X), jnp.asarray(X))))

    step = 1e-6
    by_difference = (total(1.0 + step) - total(1.0 - step)) / (2 * step)
    assert float(jax.grad(total)(1.0)) == pytest.approx(float(by_difference), rel=1e-6)


def test_kernels_are_values():
    assert hash(squared_exponential(1.0)) == hash(squared_exponential(1.0))
    assert matern(0.5, (1.0, 2.0)) == matern(0.5, (1.0, 2.0))
    assert matern(0.5, 1.0) != matern(1.5, 1.0)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: squared_exponential(0.0), "length_scale"),
        (lambda: squared_exponential((1.0, -1.0)), "length_scale"),
        (lambda: matern(1.0, 1.0), "nu"),
        (lambda: matern(0.5, 1.0, sd=float("nan")), "sd"),
        (lambda: linear(jnp.cos, sd=-1.0), "sd"),
        (lambda: sum_of(), "one or more"),
    ],
)
def test_impossible_kernels_are_refused(make, word):
    with pytest.raises(SettingsError, match=word):
        make()


def test_nystrom_is_exact_between_inducing_points():
    kernel = matern(1.5, 1.0, sd=2.0)
    features = np.asarray(nystrom(kernel, X)(X))
    np.testing.assert_allclose(features @ features.T, kernel(X, X), rtol=1e-10)


def test_nystrom_elsewhere_is_the_projection_onto_the_inducing_points():
    kernel = matern(0.5, 1.0)
    phi = nystrom(kernel, X)
    across = np.asarray(kernel(Y, X))
    expected = across @ np.linalg.solve(np.asarray(kernel(X, X)), across.T)
    np.testing.assert_allclose(phi(Y) @ phi(Y).T, expected, rtol=1e-10)


def test_inducing_points_given_twice_add_nothing():
    kernel = squared_exponential(1.0)
    phi = nystrom(kernel, np.concatenate([X, X[:3]]))
    assert phi(Y).shape == (5, 7)
    once = nystrom(kernel, X)(Y)
    np.testing.assert_allclose(phi(Y) @ phi(Y).T, once @ once.T, rtol=1e-9)


def test_root_is_rank_revealing_and_pivots_determine_the_rest():
    thin = points(3, 9, 4)
    root, pivots = gram_root(thin @ thin.T)
    assert root.shape == (9, 4)
    np.testing.assert_allclose(root @ root.T, thin @ thin.T, atol=1e-12)
    np.testing.assert_array_equal(np.triu(root[pivots], 1), 0.0)
    assert (np.diagonal(root[pivots]) > 0).all()
