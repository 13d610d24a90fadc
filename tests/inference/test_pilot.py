"""The pilot against the model of the logged pairs, and the small-sample rule against loops."""

import jax
import numpy as np
import pytest

from bayesdice_ppl.inference.pilot import run_pilot, small_sample_rule
from bayesdice_ppl.moments import (
    MomentSettings,
    build_moments,
    count_cells,
    logged_pairs,
    one_hot_features,
)


def rule_by_hand(deltas, pair_of_row, ratio, n):
    """The rule, one pair at a time; deltas are the TD errors of the transitions."""
    groups = {}
    for delta, pair in zip(deltas, pair_of_row, strict=True):
        groups.setdefault(int(pair), []).append(delta)
    scatter = {k: sum((d - sum(g) / len(g)) ** 2 for d in g) for k, g in groups.items()}
    pool = sum(scatter.values()) / sum(len(g) - 1 for g in groups.values())
    total = plain = heavy = 0.0
    for k, group in groups.items():
        visits = len(group)
        share = ratio[k] * visits / n
        s2 = (scatter[k] + 2.0 * pool) / (visits + 1)
        v = share**2 * s2 / visits
        total += v
        plain += share**2 * scatter[k] / visits**2
        heavy += v**2 / (visits + 1)
    return max(0.0, total - plain), total**2 / heavy


def counted(logs, gamma):
    mask = np.ones(logs.n_transitions, dtype=bool)
    pairs = logged_pairs(logs, np.arange(len(logs.action_labels)), mask)
    cells, cell_of_row = count_cells(logs, pairs, mask, gamma)
    return cells, cell_of_row, pairs.of_row


@pytest.mark.parametrize("seed", range(3))
def test_small_sample_rule_equals_a_loop_over_pairs(plain, seed):
    logs = plain.log(seed, n_episodes=12)
    cells, cell_of_row, pair_of_row = counted(logs, 0.9)
    rng = np.random.default_rng(seed)
    weights = rng.gamma(2.0, 0.5, len(cells.pair_state))
    error = rng.normal(size=len(cells.pair))
    with jax.enable_x64(True):
        extra, df = (float(x) for x in small_sample_rule(cells, weights, error))
    deltas = error[cell_of_row] + logs.reward
    expected = rule_by_hand(deltas, pair_of_row, weights, logs.n_transitions)
    assert expected[0] > 0.0
    assert (extra, df) == pytest.approx(expected, rel=1e-10)


def test_small_sample_rule_never_narrows(plain):
    """One arm holds nearly all the scatter: shrinking it would take variance away."""
    pulls = [(0, r) for r in (-9.0, 9.0)] + [(1, 0.0)] * 40
    logs = plain.bandit(pulls)
    cells, _, _ = counted(logs, 0.0)
    weights = np.array([21.0, 0.0])
    with jax.enable_x64(True):
        extra, _ = small_sample_rule(cells, weights, np.zeros(len(cells.pair)))
    assert rule_by_hand([r for _, r in pulls], [a for a, _ in pulls], weights, 42)[0] == 0.0
    assert float(extra) == 0.0


def test_small_sample_rule_pools_over_the_rewards_where_no_pair_came_twice(plain):
    logs = plain.bandit([(0, 1.0), (1, 3.0)])
    cells, _, _ = counted(logs, 0.0)
    with jax.enable_x64(True):
        extra, df = small_sample_rule(cells, np.ones(2), np.zeros(len(cells.pair)))
    # The pool is Var(1, 3) = 1: s2 = (0 + 2) / 2 = 1 and v = 0.25 for each arm; df = 0.25 / 0.0625.
    assert float(extra) == pytest.approx(0.5)
    assert float(df) == pytest.approx(4.0)


@pytest.fixture(scope="module", params=[(0.0, True), (0.9, True), (0.9, False), (1.0, True)])
def pilot(request, plain):
    """A pilot under a nearly flat prior, with its problem."""
    gamma, restart = request.param
    logs = plain.log(21, rewards="continuous")
    oracle = plain.problem(logs, plain.policies(22, 1)["p0"], gamma=gamma, restart=restart)
    cells, cell_of_row, pair_of_row = counted(logs, gamma)
    target = np.array([oracle.policy[s][a] for s, a in oracle.pairs])
    settings = MomentSettings(gamma, restart=restart, prior_sd=1e5, value_prior_sd=1e5)
    with jax.enable_x64(True):
        features = one_hot_features(cells, target, oracle.active, 4)
        moments = build_moments(cells, features, settings)
        run = jax.jit(run_pilot, static_argnames=("settings", "small_sample"))
        found = plain.numpy(run(cells, moments, settings))
    return found, oracle, cell_of_row, pair_of_row


def test_pilot_value_is_that_of_the_model_of_the_logged_pairs(pilot):
    found, oracle, _, _ = pilot
    assert found.mean[-1] == pytest.approx(oracle.solve()[1], abs=1e-6)


def test_pilot_ratio_balances_every_row(pilot):
    found, oracle, _, _ = pilot
    np.testing.assert_allclose(oracle.residual(found.mean[:-1], found.mean[-1]), 0.0, atol=1e-6)


def test_pilot_errors_are_temporal_differences(pilot):
    found, oracle, cell_of_row, _ = pilot
    rewards = np.array([row["reward"] for row in oracle.rows])
    expected = oracle.td_errors()
    np.testing.assert_allclose(found.error[cell_of_row] + rewards, expected, atol=1e-5)


def test_pilot_start_weight_is_c0(pilot):
    found, oracle, _, _ = pilot
    assert found.start_weight == pytest.approx(oracle.entry(found.mean[:-1]), rel=1e-10)


def test_pilot_sigma_is_taken_at_its_ratio_with_the_small_sample_term(pilot):
    found, oracle, _, pair_of_row = pilot
    deltas = oracle.td_errors()
    extra, df = rule_by_hand(deltas, pair_of_row, found.mean[:-1], oracle.n)
    expected = oracle.covariance(found.mean[:-1])
    expected[-1, -1] += oracle.n * extra
    np.testing.assert_allclose(found.covariance, expected, atol=1e-5)
    assert found.degrees_of_freedom == pytest.approx(df, rel=1e-4)
