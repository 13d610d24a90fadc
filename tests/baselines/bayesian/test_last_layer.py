"""The last layer's regression against augmented least squares, loops, and a pair that diverges."""

import numpy as np
import pytest

from bayesdice_ppl.baselines.bayesian.last_layer import (
    LastLayer,
    draw_products,
    fitted_rows,
    gram_spectrum,
    iterate_regression,
    regress,
    start_features,
    state_values,
)
from bayesdice_ppl.baselines.value.q_network import PaddedLog
from bayesdice_ppl.errors import LogsError


def random_layer(seed, *, n=60, n_cells=7, size=5, n_outputs=3):
    """Rows of the first outputs only, so that the last one has none."""
    rng = np.random.default_rng(seed)
    policy = rng.dirichlet(np.ones(n_outputs), size=n_cells)
    logged = rng.normal(size=(n_cells, size))
    return LastLayer(
        logged,
        rng.integers(n_cells, size=n),
        rng.integers(n_outputs - 1, size=n),
        logged,
        policy,
        rng.dirichlet(np.ones(n_cells)),
    ), rng.normal(size=n)


@pytest.mark.parametrize(("noise", "prior"), [(0.3, 2.0), (5.0, 0.1), (0.01, 100.0)])
def test_the_posterior_is_that_of_augmented_least_squares(noise, prior):
    layer, targets = random_layer(0)
    found = regress(layer, gram_spectrum(layer), targets, noise=noise, prior=prior)
    fitted_variance = 0.0
    for k in range(3):
        rows = [layer.logged[layer.cell[i]] for i in range(60) if layer.output[i] == k]
        right = [targets[i] for i in range(60) if layer.output[i] == k]
        # The prior is five more rows, of target 0.
        stacked = np.vstack([np.reshape(rows, (-1, 5)) / noise**0.5, np.eye(5) / prior**0.5])
        expected = np.linalg.lstsq(stacked, np.append(np.array(right) / noise**0.5, np.zeros(5)))
        half = np.linalg.pinv(stacked)
        np.testing.assert_allclose(found.mean[k], expected[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.covariance[k], half @ half.T, rtol=1e-9, atol=1e-12)
        fitted_variance += sum(x @ half @ half.T @ x for x in rows)
    np.testing.assert_allclose(found.mean[2], 0.0)
    assert found.fitted_variance == pytest.approx(fitted_variance, rel=1e-9)


def test_rows_and_starts_are_valued_as_one_by_one():
    layer, _ = random_layer(1)
    weights = np.random.default_rng(2).normal(size=(3, 5))
    rows = [layer.logged[c] @ weights[k] for c, k in zip(layer.cell, layer.output, strict=True)]
    np.testing.assert_allclose(fitted_rows(layer, weights), rows)
    states = [
        sum(layer.policy[s, k] * layer.at_state[s] @ weights[k] for k in range(3)) for s in range(7)
    ]
    np.testing.assert_allclose(state_values(layer, weights), states)
    assert (start_features(layer) * weights).sum() == pytest.approx(layer.start @ states)


def test_draws_have_the_moments_of_the_product():
    layer, targets = random_layer(3)
    posterior = regress(layer, gram_spectrum(layer), targets, noise=0.5, prior=2.0)
    features, size = np.random.default_rng(4).normal(size=(3, 5)), 100_000
    drawn = draw_products(posterior, features, size, np.random.default_rng(5))
    mean = sum(posterior.mean[k] @ features[k] for k in range(3))
    sd = sum(features[k] @ posterior.covariance[k] @ features[k] for k in range(3)) ** 0.5
    assert abs(drawn.mean() - mean) < 5 * sd / size**0.5
    assert abs(drawn.std() / sd - 1.0) < 5 / (2 * size) ** 0.5


def test_diverging_regressions_are_an_error():
    # Tsitsiklis and Van Roy's two states, w and 2 w, of which only the way up is logged. Under a
    # narrow prior the weights stay finite.
    features, ones = np.array([[1.0], [2.0]]), np.ones((2, 1))
    layer = LastLayer(features, np.array([0]), np.array([0]), features, ones, np.array([1.0, 0.0]))
    numbers = {"onward": 1.0, "ended": 0.0, "reward": 1.0}
    log = PaddedLog(
        n=np.int32(1),
        state=np.array([0]),
        following=np.array([1]),
        action=np.array([0]),
        inputs=None,
        policy=ones,
        start=layer.start,
        absorbed=np.float64(0.0),
        gamma=np.float64(0.9),
        **{name: np.array([number]) for name, number in numbers.items()},
    )
    with pytest.raises(LogsError, match="diverge"):
        iterate_regression(layer, np.ones((1, 1)), log, restart=True, prior=1e12, regressions=100)
