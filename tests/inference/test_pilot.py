"""The pilot against the model of the logged pairs."""

import jax
import numpy as np
import pytest

from bayesdice_ppl.inference.pilot import run_pilot
from bayesdice_ppl.models import linear
from bayesdice_ppl.moments import (
    MomentSettings,
    Prior,
    build_moments,
    count_cells,
    logged_pairs,
    one_hot_features,
)


def counted(logs, gamma):
    mask = np.ones(logs.n_transitions, dtype=bool)
    pairs = logged_pairs(logs, np.arange(len(logs.action_labels)), mask)
    cells, cell_of_row = count_cells(logs, pairs, mask, gamma)
    return cells, cell_of_row, pairs.of_row


@pytest.fixture(scope="module", params=[(0.0, True), (0.9, True), (0.9, False), (1.0, True)])
def pilot(request, plain):
    """A pilot under a nearly flat prior, with its problem."""
    gamma, restart = request.param
    logs = plain.log(21, rewards="continuous")
    oracle = plain.problem(logs, plain.policies(22, 1)["p0"], gamma=gamma, restart=restart)
    cells, cell_of_row, pair_of_row = counted(logs, gamma)
    target = np.array([oracle.policy[s][a] for s, a in oracle.pairs])
    settings = MomentSettings(gamma, restart=restart)
    with jax.enable_x64(True):
        features = one_hot_features(cells, target, oracle.active, 4)
        moments = build_moments(cells, features, settings)
        ratio = linear().build(cells, moments, Prior(ratio_sd=1e5, value_sd=1e5))
        run = jax.jit(run_pilot, static_argnames=("settings", "small_sample"))
        found = plain.numpy(run(cells, ratio, settings))
    return found, oracle, cell_of_row, pair_of_row


def test_pilot_value_is_that_of_the_model_of_the_logged_pairs(pilot):
    found, oracle, _, _ = pilot
    assert found.value == pytest.approx(oracle.solve()[1], abs=1e-6)


def test_pilot_ratio_balances_every_row(pilot):
    found, oracle, _, _ = pilot
    np.testing.assert_allclose(oracle.residual(found.by_pair, found.value), 0.0, atol=1e-6)


def test_pilot_errors_are_temporal_differences(pilot):
    found, oracle, cell_of_row, _ = pilot
    rewards = np.array([row["reward"] for row in oracle.rows])
    expected = oracle.td_errors()
    np.testing.assert_allclose(found.error[cell_of_row] + rewards, expected, atol=1e-5)


def test_pilot_start_weight_is_c0(pilot):
    found, oracle, _, _ = pilot
    assert found.start_weight == pytest.approx(oracle.entry(found.by_pair), rel=1e-10)


def test_pilot_sigma_is_taken_at_its_ratio_with_the_small_sample_term(plain, pilot):
    found, oracle, _, pair_of_row = pilot
    deltas = oracle.td_errors()
    extra, df = plain.few_visits(deltas, pair_of_row, found.by_pair, oracle.n)
    expected = oracle.covariance(found.by_pair)
    expected[-1, -1] += oracle.n * extra
    np.testing.assert_allclose(found.covariance, expected, atol=1e-5)
    assert found.degrees_of_freedom == pytest.approx(df, rel=1e-4)
