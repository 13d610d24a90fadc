"""Joint draws: covariances against loops, and what a reordering must keep."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesdice_ppl as bd
from bayesdice_ppl import envs
from bayesdice_ppl.constraint import small_sample_covariance, small_sample_rule
from bayesdice_ppl.inference.copula import (
    correlation_matrix,
    influence_covariance,
    joint_ranks,
    reorder,
)
from bayesdice_ppl.inference.pilot import Pilot
from bayesdice_ppl.moments import (
    count_cells,
    logged_pairs,
    pad_cells,
    transformed_rewards,
    with_rewards,
)
from tests.marks import first_few

N = 3


def made_up_pilots(cells, n_starts, seed):
    rng = np.random.default_rng(seed)
    empty = np.zeros(N)
    by_pair = rng.gamma(2.0, 0.5, (N, len(cells.pair_state)))
    return Pilot(
        by_pair=by_pair,
        value=empty,
        covariance=empty,
        ratio=by_pair[:, cells.pair],
        error=rng.normal(size=(N, len(cells.pair))),
        start_value=rng.normal(size=(N, n_starts)),
        start_weight=rng.uniform(0.1, 1.0, N),
        slope=empty,
        degrees_of_freedom=empty,
        latent=empty,
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


# What few visits hide.


def counted(logs, *, by_episode=False, gamma=0.9):
    """Padded cells, the cell of each transition, the pair of each transition."""
    mask = np.ones(logs.n_transitions, dtype=bool)
    pairs = logged_pairs(logs, np.arange(len(logs.action_labels)), mask)
    cells, cell_of_row = count_cells(logs, pairs, mask, gamma, by_episode=by_episode)
    return pad_cells(cells), cell_of_row, pairs.of_row


def hidden_by_loops(deltas, pair_of_row, ratio_of_row, rewards):
    """(S, V) of the rule, two candidates at a time, one transition after the other."""
    n_candidates, n = deltas.shape
    pairs = sorted(set(pair_of_row.tolist()))
    shrunk, seen = np.zeros((2, n_candidates, n_candidates))
    for j in range(n_candidates):
        for k in range(n_candidates):
            visits, share = dict.fromkeys(pairs, 0), {}
            product, own, other = (dict.fromkeys(pairs, 0.0) for _ in range(3))
            for i, p in enumerate(pair_of_row.tolist()):
                visits[p] += 1
                product[p] += deltas[j, i] * deltas[k, i]
                own[p] += deltas[j, i]
                other[p] += deltas[k, i]
                share[p] = (ratio_of_row[j, i] / n, ratio_of_row[k, i] / n)
            scatter = {p: product[p] - own[p] * other[p] / visits[p] for p in pairs}
            if n > len(pairs):
                pool = sum(scatter.values()) / sum(visits[p] - 1 for p in pairs)
            else:
                pool = np.mean(rewards[j] * rewards[k]) - rewards[j].mean() * rewards[k].mean()
            for p in pairs:
                d = share[p][0] * share[p][1] * visits[p] ** 2
                shrunk[j, k] += d * (scatter[p] + 2.0 * pool) / (visits[p] + 1) / visits[p]
                seen[j, k] += d * scatter[p] / visits[p] ** 2
    return shrunk, seen


def transformed(logs, cells, cell_of_row):
    """Each candidate counts rewards of its own: as they are, above 1, squared."""
    by_row = np.stack([logs.reward, (logs.reward > 0.5) * 1.0, logs.reward**2])
    return transformed_rewards(by_row, np.zeros(N), cell_of_row, len(cells.pair))


SMALL_LOGS = {
    "few episodes": lambda plain: plain.log(31, n_episodes=12, rewards="continuous"),
    "many": lambda plain: plain.log(32, n_episodes=60, rewards="graded"),
    "no pair twice": lambda plain: plain.bandit([(0, 1.0), (1, 3.0), (2, 0.4)]),
}


@pytest.mark.parametrize("own_rewards", [False, True], ids=["logged", "transformed"])
@pytest.mark.parametrize("by_episode", [False, True], ids=["transition", "episode"])
@pytest.mark.parametrize("log", first_few([*SMALL_LOGS.values()], 1), ids=SMALL_LOGS)
def test_what_few_visits_hide_equals_loops_and_the_pilots_term(plain, log, by_episode, own_rewards):
    logs = log(plain)
    cells, cell_of_row, pair_of_row = counted(logs, by_episode=by_episode)
    pilots = made_up_pilots(cells, len(cells.initial_state), 2)
    rewards = transformed(logs, cells, cell_of_row) if own_rewards else None
    by_row = np.stack([logs.reward] * N) if rewards is None else rewards.by_row
    with jax.enable_x64(True):
        found = np.asarray(
            small_sample_covariance(cells, pilots.by_pair, pilots.error, rewards=rewards)
        )
        on, off = (
            influence_covariance(
                cells, pilots, rewards, by_episode=by_episode, small_sample=small_sample
            )
            for small_sample in (True, False)
        )
        of_pilots = []
        for j in range(N):
            own = None
            if rewards is not None:
                own = rewards._replace(total=rewards.total[j], square=rewards.square[j])
            counted_own = with_rewards(cells, own)
            extra, _ = small_sample_rule(counted_own, pilots.by_pair[j], pilots.error[j])
            of_pilots.append(float(extra))
    deltas = pilots.error[:, cell_of_row] + by_row
    shrunk, seen = hidden_by_loops(deltas, pair_of_row, pilots.ratio[:, cell_of_row], by_row)
    expected = shrunk - seen
    assert (np.diagonal(expected) > 0.0).all()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(np.diagonal(found), of_pilots, rtol=1e-9)
    np.testing.assert_allclose(np.asarray(on - off), expected, rtol=1e-9, atol=1e-14)


def test_where_the_rule_would_narrow_a_value_it_leaves_it_and_stretches_its_products(plain):
    """One arm holds all the scatter; the second candidate equals the first, the third does not."""
    logs = plain.bandit([(0, -9.0), (0, 9.0)] + [(1, 0.0), (1, 0.1)] * 20)
    cells, cell_of_row, pair_of_row = counted(logs, gamma=0.0)
    empty = np.zeros((N, len(cells.pair)))
    n_starts = len(cells.initial_state)
    pilots = made_up_pilots(cells, n_starts, 1)._replace(error=empty)
    table = np.array([[21.0, 0.0], [21.0, 0.0], [0.001, 1.0]])
    pilots = pilots._replace(by_pair=table, ratio=table[:, cells.pair], start_weight=np.zeros(N))
    with jax.enable_x64(True):
        found = np.asarray(small_sample_covariance(cells, pilots.by_pair, pilots.error))
        whole = np.asarray(influence_covariance(cells, pilots, small_sample=True))
    by_row = np.stack([logs.reward] * N)
    shrunk, seen = hidden_by_loops(by_row, pair_of_row, pilots.ratio[:, cell_of_row], by_row)
    narrowed = np.diagonal(shrunk) < np.diagonal(seen)
    np.testing.assert_array_equal(narrowed, [True, True, False])
    stretch = np.where(narrowed, np.sqrt(np.diagonal(seen) / np.diagonal(shrunk)), 1.0)
    expected = shrunk * np.outer(stretch, stretch) - seen
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * seen.max())
    assert correlation_matrix(whole)[0, 1] == pytest.approx(1.0, abs=1e-12)
    assert np.linalg.eigvalsh(whole)[0] > -1e-12 * whole.max()


@pytest.mark.parametrize("seed", range(5))
def test_with_what_few_visits_hide_it_is_still_a_covariance(plain, seed):
    logs = plain.log(seed, n_episodes=3)
    cells, _, _ = counted(logs)
    pilots = made_up_pilots(cells, len(cells.initial_state), seed)
    # Sparse ratios, so that some values rest on a pair or two.
    rng = np.random.default_rng(seed)
    by_pair = rng.gamma(0.1, 10.0, (N, len(cells.pair_state)))
    pilots = pilots._replace(by_pair=by_pair, ratio=by_pair[:, cells.pair])
    with jax.enable_x64(True):
        whole = np.asarray(influence_covariance(cells, pilots, small_sample=True))
    unit = whole / np.sqrt(np.outer(np.diagonal(whole), np.diagonal(whole)))
    assert np.linalg.eigvalsh(unit)[0] > -1e-10


def test_equal_candidates_of_a_small_log_share_every_draw():
    env = envs.Bandit((0.2, 0.5, 0.8))
    tables = {"one": [0.9, 0.1, 0.0], "other": [0.1, 0.2, 0.7], "again": [0.9, 0.1, 0.0]}
    policies = bd.Policies({k: bd.TabularPolicy(np.array([t])) for k, t in tables.items()})
    behavior = bd.TabularPolicy(np.array([[0.5, 0.3, 0.2]]))
    logs = bd.simulate(env, behavior, 30, 1, rng_key=jax.random.key(3))
    belief = bd.fit(logs, policies, gamma=0.0, inference="exact", rng_key=jax.random.key(4))
    correlation = belief["constant_data/correlation"].values
    assert correlation[0, 2] == pytest.approx(1.0, abs=1e-12)
    assert correlation[0, 1] == correlation[2, 1] < 0.99
    for name in ("posterior/value", "sample_stats/loss"):
        draws = belief[name].values
        np.testing.assert_array_equal(draws[..., 0], draws[..., 2])


# The reordering.


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
