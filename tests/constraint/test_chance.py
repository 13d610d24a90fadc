"""The price of the chance constraint, and the matrices that it is made of."""

import jax
import numpy as np
import pytest
from scipy.stats import chi2, norm

from bayesdice_ppl.constraint import chance_price, invertible, residual_rank


def test_default_epsilon_bounds_the_loss_of_a_gaussian_residual_with_probability_xi():
    n, rank = 200, 4
    price = chance_price(n, rank, xi=0.9)
    rng = np.random.default_rng(0)
    root = rng.normal(size=(rank, rank))
    residual = rng.normal(size=(100_000, rank)) @ root.T / np.sqrt(n)
    loss = 0.5 * np.einsum("ir,rs,is->i", residual, np.linalg.inv(root @ root.T), residual)
    error = np.sqrt(0.9 * 0.1 / len(loss))
    assert abs(np.mean(loss <= price.epsilon) - 0.9) < 5 * error


def test_default_price_is_n():
    price = chance_price(123.0, 7)
    assert price.lam / price.epsilon == pytest.approx(123.0)
    assert price.epsilon == pytest.approx(chi2.ppf(0.95, 7) / 246.0)


def test_a_rank_of_one_gives_the_square_of_a_normal_quantile():
    assert chance_price(50.0, 1).epsilon == pytest.approx(norm.ppf(0.975) ** 2 / 100.0)


def test_given_numbers_are_kept():
    assert chance_price(10.0, 3, lam=2.0, epsilon=0.5)[:2] == (2.0, 0.5)
    assert chance_price(10.0, 3, epsilon=0.5)[:2] == (5.0, 0.5)
    assert chance_price(10.0, 3, lam=2.0).lam == 2.0


def test_rank_counts_directions_whatever_their_units():
    u = np.array([[1.0, 0.0], [1.0, 1.0], [2.0, 1.0], [0.0, 0.0]])
    units = np.array([1e-4, 1.0, 1e5, 1.0])
    covariance = (u @ u.T) * units[:, None] * units
    assert residual_rank(covariance) == 2
    assert residual_rank(np.zeros((3, 3))) == 0


def test_invertible_sigma_differs_by_a_small_share_and_separates_dead_rows():
    sigma = np.array([[1.0, -1.0, 0.3], [-1.0, 1.0, -0.3], [0.3, -0.3, 4.0]])
    rows = np.array([1.0, 1.0, 0.0])
    with jax.enable_x64(True):
        found = np.asarray(invertible(sigma, rows, np.ones(3)))
    assert np.abs(found[:2, :2] - sigma[:2, :2]).max() <= 1e-4
    assert np.linalg.eigvalsh(found).min() > 0.0
    np.testing.assert_array_equal(found[2], [0.0, 0.0, 1.0])
