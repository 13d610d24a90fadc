"""Whitened features against plain linear algebra: what they span, and in which units."""

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features import Points, Space, principal_map, ratio_basis, whitened_map

RNG = np.random.default_rng(5)
POINTS = Points(RNG.normal(size=(300, 2)), RNG.normal(size=(300, 1)))
WEIGHT = RNG.integers(1, 5, size=300).astype(float)
MAPS = {
    "fourier": bd.features.fourier(30),
    "polynomial": bd.features.polynomial(3),
}


@pytest.fixture(params=sorted(MAPS))
def inner(request):
    return MAPS[request.param].build(Space(POINTS, None, None), jax.random.key(2))


def test_mean_zero_and_unit_second_moment_in_every_direction(inner):
    found = whitened_map(inner, POINTS, WEIGHT)(POINTS)
    share = WEIGHT / WEIGHT.sum()
    np.testing.assert_allclose(share @ found, 0.0, atol=1e-7)
    covariance = np.cov(found.T, aweights=share, ddof=0)
    np.testing.assert_allclose(covariance, np.eye(found.shape[1]), atol=1e-6)


def test_with_a_constant_they_span_what_the_map_spans(inner):
    raw = inner(POINTS)
    basis = ratio_basis(whitened_map(inner, POINTS)(POINTS))
    target = RNG.normal(size=len(raw))
    with_constant = np.column_stack([np.ones(len(raw)), raw])
    expected = with_constant @ np.linalg.lstsq(with_constant, target, rcond=1e-12)[0]
    found = basis @ np.linalg.lstsq(basis, target, rcond=None)[0]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_direction_beyond_the_digits_is_left_out():
    def almost_twice(points):
        x = points.state[:, :1]
        return np.column_stack([x, x + 1e-7 * points.action, np.ones(len(x))])

    found = whitened_map(almost_twice, POINTS)(POINTS)
    assert found.shape[1] == 1
    x = POINTS.state[:, 0]
    standard = (x - x.mean()) / x.std()
    np.testing.assert_allclose(np.abs(found[:, 0] @ standard) / len(x), 1.0, rtol=1e-9)


def test_features_that_never_vary_leave_only_the_constant():
    found = whitened_map(lambda points: np.ones((len(points.state), 2)), POINTS)(POINTS)
    assert found.shape == (300, 0)
    np.testing.assert_array_equal(ratio_basis(found), np.ones((300, 1)))


@pytest.mark.parametrize("make", [whitened_map, principal_map])
def test_zeros_are_refused(make):
    with pytest.raises(SettingsError, match="a feature that is not zero"):
        make(lambda points: np.zeros((len(points.state), 3)), POINTS)
