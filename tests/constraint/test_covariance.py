"""The residual's sampling covariance against plain loops over transitions and episodes."""

import jax
import numpy as np
import pytest

from bayesdice_ppl.constraint import residual_covariance, start_weight
from bayesdice_ppl.moments import (
    MomentSettings,
    build_moments,
    count_cells,
    logged_pairs,
    one_hot_features,
)

CASES = [(0.0, True), (0.9, True), (0.9, False), (1.0, True)]


@pytest.fixture(scope="module", params=CASES, ids=str)
def case(request, plain):
    gamma, restart = request.param
    logs = plain.log(8, rewards="continuous")
    oracle = plain.problem(logs, plain.policies(9, 1)["p0"], gamma=gamma, restart=restart)
    target = np.array([oracle.policy[s][a] for s, a in oracle.pairs])
    weights = np.random.default_rng(1).gamma(2.0, 0.5, len(oracle.pairs))
    return logs, oracle, target, weights, MomentSettings(gamma, restart=restart)


@pytest.mark.parametrize("by_episode", [False, True], ids=["transition", "episode"])
def test_cells_lose_nothing_of_the_covariance(case, by_episode):
    logs, oracle, target, weights, settings = case
    mask = np.ones(logs.n_transitions, dtype=bool)
    pairs = logged_pairs(logs, np.arange(2), mask)
    cells, _ = count_cells(logs, pairs, mask, settings.gamma, by_episode=by_episode)
    with jax.enable_x64(True):
        features = one_hot_features(cells, target, oracle.active, 4)
        moments = build_moments(cells, features, settings)
        ratio = (weights * oracle.active)[cells.pair]
        found = residual_covariance(cells, moments, ratio, settings, by_episode=by_episode)
        entry = float(start_weight(cells, ratio, settings))
        found = np.asarray(found)
    expected = oracle.covariance(weights, by_episode=by_episode)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert entry == pytest.approx(oracle.entry(weights), rel=1e-12)


def test_starts_enter_with_c0_squared_and_once_per_episode(plain):
    """Two states that are never left: the starts are the only noise of the stationarity rows."""
    import polars as pl

    from bayesdice_ppl import Logs

    states = [0] * 6 + [1] * 2 + [1] * 2
    frame = pl.DataFrame(
        {
            "episode_id": [0] * 6 + [1] * 2 + [2] * 2,
            "state": states,
            "action": [0] * 10,
            "reward": [0.0] * 10,
            "next_state": states,
        }
    )
    logs = Logs.from_dataframe(frame)
    mask = np.ones(10, dtype=bool)
    cells, _ = count_cells(logs, logged_pairs(logs, np.arange(1), mask), mask, 0.5)
    settings = MomentSettings(0.5)
    with jax.enable_x64(True):
        features = one_hot_features(cells, np.ones(2), np.ones(2), 2)
        moments = build_moments(cells, features, settings)
        found = np.asarray(residual_covariance(cells, moments, np.zeros(2), settings))
    # At zero ratio only (n / m) c0^2 Cov_e is left, with shares 1/3 and 2/3 of three episodes.
    variance = 10 / 3 * 0.5**2 * (1 / 3) * (2 / 3)
    np.testing.assert_allclose(
        found, [[variance, -variance, 0], [-variance, variance, 0], [0, 0, 0]], atol=1e-14
    )
