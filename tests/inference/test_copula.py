"""Joint draws: influence covariances against loops, and what a reordering must keep."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesdice_ppl.features import logged_pairs
from bayesdice_ppl.inference.copula import (
    correlation_matrix,
    influence_covariance,
    joint_ranks,
    reorder,
)
from bayesdice_ppl.inference.pilot import Pilot
from bayesdice_ppl.moments import count_cells

N = 3


def made_up_pilots(cells, n_starts, seed):
    rng = np.random.default_rng(seed)
    empty = np.zeros(N)
    return Pilot(
        mean=empty,
        covariance=empty,
        ratio=rng.gamma(2.0, 0.5, (N, len(cells.pair))),
        error=rng.normal(size=(N, len(cells.pair))),
        start_value=rng.normal(size=(N, n_starts)),
        start_weight=rng.uniform(0.1, 1.0, N),
        degrees_of_freedom=empty,
    )


@pytest.mark.parametrize("by_episode", [False, True], ids=["transition", "episode"])
def test_influence_covariance_equals_loops_over_transitions_and_episodes(plain, by_episode):
    logs = plain.log(31, rewards="continuous")
    mask = np.ones(logs.n_transitions, dtype=bool)
    pairs = logged_pairs(logs, np.arange(2), mask)
    cells, cell_of_row = count_cells(logs, pairs, mask, 0.9, by_episode=by_episode)
    pilots = made_up_pilots(cells, len(cells.initial_state), 1)
    with jax.enable_x64(True):
        found = np.asarray(influence_covariance(cells, pilots, by_episode=by_episode))

    n, m = logs.n_transitions, logs.n_episodes
    start_of = {int(s): k for k, s in enumerate(cells.initial_state)}
    starts = np.array(
        [e if by_episode else start_of[int(s)] for e, s in enumerate(logs.initial_state)]
    )
    V = pilots.start_value[:, starts]
    entry = pilots.start_weight[:, None] * (V - V.mean(axis=1, keepdims=True))
    influence = np.zeros((N, n))
    for i in range(n):
        c = cell_of_row[i]
        influence[:, i] = pilots.ratio[:, c] * (logs.reward[i] + pilots.error[:, c])
    centered = influence - influence.mean(axis=1, keepdims=True)
    expected = np.zeros((N, N))
    if by_episode:
        psi = entry.copy()
        for i in range(n):
            psi[:, logs.episode[i]] += m / n * centered[:, i]
        psi -= psi.mean(axis=1, keepdims=True)
        for e in range(m):
            expected += np.outer(psi[:, e], psi[:, e]) / m**2
    else:
        for i in range(n):
            expected += np.outer(centered[:, i], centered[:, i]) / n**2
        for e in range(m):
            expected += np.outer(entry[:, e], entry[:, e]) / m**2
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-15)


def test_a_value_that_does_not_vary_is_correlated_with_none():
    found = correlation_matrix(np.array([[4.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]))
    np.testing.assert_allclose(found, [[1, 0, 0.5], [0, 1, 0], [0.5, 0, 1]])


CORRELATION = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.1], [-0.3, 0.1, 1.0]])


def test_ranks_of_each_column_are_a_permutation():
    ranks = joint_ranks(CORRELATION, 500, jax.random.key(0))
    for column in ranks.T:
        np.testing.assert_array_equal(np.sort(column), np.arange(500))


def test_ranks_put_the_correlation_in():
    from scipy.stats import norm

    n = 20_000
    ranks = joint_ranks(CORRELATION, n, jax.random.key(1))
    scores = norm.ppf((ranks + 0.5) / n)
    error = (1.0 - CORRELATION**2) / np.sqrt(n)
    assert (np.abs(np.corrcoef(scores.T) - CORRELATION) <= 5 * error + 1e-9).all()


def test_perfect_correlation_gives_the_same_ranks_and_its_opposite_the_reverse():
    sign = np.array([[1.0, 1.0, -1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    ranks = joint_ranks(sign, 400, jax.random.key(2))
    assert np.corrcoef(ranks.T)[0, 1] > 0.9999
    assert np.corrcoef(ranks.T)[0, 2] < -0.9999


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 40), st.integers(1, 4), st.integers(0, 2**31))
def test_reorder_gives_the_ranks_and_keeps_every_marginal(n_draws, n, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_draws, n))
    ranks = np.stack([rng.permutation(n_draws) for _ in range(n)], axis=1)
    chosen = reorder(values, ranks)
    moved = np.take_along_axis(values, chosen, axis=0)
    np.testing.assert_array_equal(np.sort(moved, axis=0), np.sort(values, axis=0))
    np.testing.assert_array_equal(np.argsort(np.argsort(moved, axis=0), axis=0), ranks)


def test_reorder_uses_every_draw_once_even_where_values_tie():
    chosen = reorder(np.zeros((5, 1)), np.array([[3], [1], [0], [4], [2]]))
    assert sorted(chosen[:, 0].tolist()) == [0, 1, 2, 3, 4]
