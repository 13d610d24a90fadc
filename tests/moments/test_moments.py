"""Moments against plain loops over transitions."""

import jax
import numpy as np
import polars as pl
import pytest

from bayesdice_ppl import Logs
from bayesdice_ppl.logs import usable_rows
from bayesdice_ppl.moments import (
    MomentSettings,
    build_moments,
    count_cells,
    logged_pairs,
    one_hot_features,
    reward_moments,
)

CASES = [(0.0, True), (0.9, True), (0.9, False), (1.0, True)]


@pytest.fixture(scope="module", params=CASES, ids=str)
def case(request, plain):
    """(library's moments, the plain problem) of a random log with a renormalized policy."""
    gamma, restart = request.param
    logs = plain.log(3, rewards="continuous")
    policy = plain.policies(5, 1)["p0"]
    oracle = plain.problem(logs, policy, gamma=gamma, restart=restart)
    mask = usable_rows(logs, gamma).mask
    pairs = logged_pairs(logs, np.arange(2), mask)
    cells, cell_of_row = count_cells(logs, pairs, mask, gamma)
    target = np.array([oracle.policy[s][a] for s, a in oracle.pairs])
    with jax.enable_x64(True):
        features = one_hot_features(cells, target, oracle.active, 4)
        moments = build_moments(cells, features, MomentSettings(gamma, restart=restart))
        moments = plain.numpy(moments)
    return moments, oracle, cells, cell_of_row


def test_the_log_of_these_tests_holds_what_could_go_wrong(plain):
    logs = plain.log(3, rewards="continuous")
    lengths = np.bincount(logs.episode)
    last = np.r_[logs.episode[1:] != logs.episode[:-1], True]
    assert logs.terminated.any()
    assert (last & ~logs.terminated).any()
    assert len(set(lengths.tolist())) > 3


def test_residual_equals_a_loop_over_transitions(case):
    moments, oracle, _, _ = case
    rng = np.random.default_rng(0)
    for _ in range(5):
        weights, value = rng.normal(1.0, 2.0, len(oracle.pairs)), rng.normal()
        found = moments.by_ratio @ weights + moments.offset
        found[-1] -= value
        np.testing.assert_allclose(found, oracle.residual(weights, value), rtol=0, atol=1e-12)


def test_residual_method_is_its_matrix_times_the_ratio_plus_the_offset(case):
    moments, oracle, _, _ = case
    weights = np.linspace(-1.0, 3.0, len(oracle.pairs))
    with jax.enable_x64(True):
        found = np.asarray(moments.residual(weights))
    np.testing.assert_allclose(found, oracle.residual(weights, 0.0), rtol=0, atol=1e-12)


def test_cells_lose_nothing_of_the_matrix_and_the_offset(case):
    moments, oracle, _, _ = case
    np.testing.assert_allclose(moments.by_ratio, oracle.G[:, :-1], rtol=0, atol=1e-13)
    np.testing.assert_allclose(moments.offset, oracle.c, rtol=0, atol=1e-13)


def test_a_design_row_with_its_reward_is_the_row_of_each_transition(case):
    moments, oracle, _, cell_of_row = case
    rows = moments.design[cell_of_row].copy()
    rows[:, -1] += [row["reward"] for row in oracle.rows]
    np.testing.assert_allclose(rows, oracle.terms, rtol=0, atol=1e-13)


def test_normalization_has_a_row_at_gamma_one_only(case):
    moments, oracle, _, _ = case
    extra = moments.offset.shape[0] - len(oracle.pairs) - 1
    assert extra == (1 if oracle.gamma == 1.0 else 0)


def test_rewards_have_the_logs_own_mean_and_scale(case):
    moments, oracle, _, _ = case
    mean, scale = oracle.prior(value_prior_sd=1.0)
    assert float(moments.reward_mean) == pytest.approx(mean[-1], rel=1e-12)
    assert float(moments.reward_scale) == pytest.approx(scale[-1], rel=1e-12)


def test_stationarity_rows_sum_to_the_normalization_times_one_minus_gamma(case):
    moments, oracle, _, _ = case
    p, gamma = len(oracle.pairs), oracle.gamma
    # Absorbed mass does not come back: a terminated transition loses gamma of it.
    leak = np.zeros(p)
    for row, k in zip(oracle.rows, oracle.pair_of_row, strict=True):
        leak[k] += gamma * row["terminated"] * (not oracle.restart) / oracle.n
    summed = moments.by_ratio[:p].sum(axis=0)
    np.testing.assert_allclose(summed, (gamma - 1.0) * oracle.counts / oracle.n - leak, atol=1e-12)
    np.testing.assert_allclose(moments.offset[:p].sum(), 1.0 - gamma, atol=1e-12)


def test_initial_states_count_once_per_episode_whatever_its_length():
    frame = pl.DataFrame(
        {
            "episode_id": [0] * 8 + [1],
            "state": ["long"] * 8 + ["short"],
            "action": ["go"] * 9,
            "reward": [0.0] * 9,
            "next_state": ["long"] * 8 + ["short"],
        }
    )
    logs = Logs.from_dataframe(frame)
    mask = np.ones(9, dtype=bool)
    cells, _ = count_cells(logs, logged_pairs(logs, np.arange(1), mask), mask, 0.9)
    assert dict(zip(cells.initial_state.tolist(), cells.initial_weight.tolist(), strict=True)) == {
        0: 0.5,
        1: 0.5,
    }


def test_cells_hold_the_reward_moments_of_the_log(case):
    _, oracle, cells, cell_of_row = case
    rewards = np.array([row["reward"] for row in oracle.rows])
    with jax.enable_x64(True):
        mean, sd = (float(x) for x in reward_moments(cells))
    assert mean == pytest.approx(rewards.mean(), rel=1e-12)
    assert sd == pytest.approx(rewards.std(), rel=1e-9)
    for c in range(len(cells.pair)):
        inside = rewards[cell_of_row == c]
        assert cells.count[c] == len(inside)
        assert cells.reward_sum[c] == pytest.approx(inside.sum())
        assert cells.reward_square_sum[c] == pytest.approx((inside**2).sum())
