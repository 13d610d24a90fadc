"""Standard errors of held-out losses by leaving episodes out, and weights with a closed form."""

import numpy as np
import pytest

from bayesdice_ppl.comparison import pseudo_values, stacking_weights


def mean_of_pairs(psi):
    """Mean over pairs of psi_e' psi_o / 2, by two loops."""
    m = len(psi)
    return sum(psi[a] @ psi[b] for a in range(m) for b in range(m) if a != b) / (2 * m * (m - 1))


def terms_of(psi):
    others = (psi.sum(axis=0) - psi) / (len(psi) - 1)
    return 0.5 * np.sum(psi * others, axis=1)


def test_pseudo_values_are_those_of_episodes_left_out_one_by_one():
    rng = np.random.default_rng(0)
    psi = rng.normal(size=(11, 3)) + 0.4
    held_out = np.zeros((2, 11), dtype=bool)
    held_out[0, ::2], held_out[1, 1::2] = True, True
    terms, expected = np.empty(11), np.empty(11)
    for fold in held_out:
        own = psi[fold]
        terms[fold] = terms_of(own)
        k, whole = len(own), mean_of_pairs(own)
        without = [mean_of_pairs(np.delete(own, e, axis=0)) for e in range(k)]
        expected[fold] = k * whole - (k - 1) * np.array(without)
    found = pseudo_values(terms, held_out)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    for fold in held_out:
        np.testing.assert_allclose(found[fold].mean(), terms[fold].mean(), rtol=1e-10)


def test_their_standard_error_is_that_of_the_statistic():
    # psi is normal around mu: U has variance mu'mu / m to first order.
    rng = np.random.default_rng(1)
    m, mu, trials = 200, np.array([1.0, 0.5]), 2000
    statistic, claimed, plain = [], [], []
    everyone = np.ones((1, m), dtype=bool)
    for _ in range(trials):
        terms = terms_of(mu + rng.normal(size=(m, 2)))
        found = pseudo_values(terms, everyone)
        statistic.append(terms.mean())
        claimed.append(found.std(ddof=1) / np.sqrt(m))
        plain.append(terms.std(ddof=1) / np.sqrt(m))
    spread = np.std(statistic, ddof=1)
    exact = np.sqrt(mu @ mu / m + 2 * 2 / (4 * m * (m - 1)))
    error = spread / np.sqrt(2 * trials)
    assert abs(spread - exact) < 5 * error
    assert abs(np.mean(claimed) - spread) < 5 * error
    # The terms' own spread would be half of it.
    assert np.mean(plain) < 0.6 * spread


def test_two_opposite_biases_are_weighted_to_cancel():
    # Residuals u and -c u: w u - (1 - w) c u = 0 at w = c / (1 + c).
    u, c = np.array([1.0, 2.0]), 3.0
    both = np.stack([u, -c * u])
    np.testing.assert_allclose(stacking_weights(both @ both.T), [0.75, 0.25], atol=1e-6)


def test_weights_are_the_minimum_over_a_grid():
    rng = np.random.default_rng(2)
    grid = np.array([(a, b, 20 - a - b) for a in range(21) for b in range(21 - a)]) / 20
    for _ in range(20):
        root = rng.normal(size=(3, 3))
        # Half of them are indefinite, as noise makes them.
        matrix = root @ root.T - rng.integers(2) * np.diag(rng.random(3))
        weights = stacking_weights(matrix)
        assert np.isclose(weights.sum(), 1.0)
        assert weights.min() >= 0.0
        least = np.einsum("gi,ij,gj->g", grid, matrix, grid).min()
        assert weights @ matrix @ weights <= least + 1e-6


@pytest.mark.parametrize("size", [1, 2, 4])
def test_equal_fits_have_equal_weights(size):
    np.testing.assert_allclose(stacking_weights(np.full((size, size), 3.0)), 1 / size)
