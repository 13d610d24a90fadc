"""The small-sample rule of one value against loops over the visits of each pair."""

import jax
import numpy as np
import pytest

from bayesdice_ppl.constraint import small_sample_rule
from bayesdice_ppl.moments import count_cells, logged_pairs


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
    expected = plain.few_visits(deltas, pair_of_row, weights, logs.n_transitions)
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
    assert plain.few_visits([r for _, r in pulls], [a for a, _ in pulls], weights, 42)[0] == 0.0
    assert float(extra) == 0.0


def test_small_sample_rule_pools_over_the_rewards_where_no_pair_came_twice(plain):
    logs = plain.bandit([(0, 1.0), (1, 3.0)])
    cells, _, _ = counted(logs, 0.0)
    with jax.enable_x64(True):
        extra, df = small_sample_rule(cells, np.ones(2), np.zeros(len(cells.pair)))
    # The pool is Var(1, 3) = 1: s2 = (0 + 2) / 2 = 1 and v = 0.25 for each arm; df = 0.25 / 0.0625.
    assert float(extra) == pytest.approx(0.5)
    assert float(df) == pytest.approx(4.0)
