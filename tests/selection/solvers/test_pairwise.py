"""Ordering by pairs, against all orders by the definitions."""

from itertools import permutations

import numpy as np
import pytest

from bayesdice_ppl import scores
from bayesdice_ppl.scores.forms import Pairwise
from bayesdice_ppl.selection.solvers import pairwise
from bayesdice_ppl.selection.solvers.pairwise import order_pairs
from tests.selection.literal import random_draws
from tests.selection.solvers.brute_force import SIZES, expected_loss, form, ranked


def sum_of_pairs(table, order):
    n = len(order)
    return 1.0 + sum(table[order[a], order[b]] for a in range(n) for b in range(a + 1, n))


def in_circles(table):
    """Whether three policies are each better listed before the next."""
    n = len(table)
    better = [[table[i, j] < table[j, i] for j in range(n)] for i in range(n)]
    return any(
        better[i][j] and better[j][k] and better[k][i] for i, j, k in permutations(range(n), 3)
    )


def check(found, everything, where, *, circular):
    best, *others = everything
    assert found.prefix == best[1], where
    assert found.loss == found.bound == pytest.approx(best[0], abs=1e-12), where
    assert found.method == "pairwise ordering", where
    assert found.runner_up != found.prefix, where
    loss = {prefix: loss for loss, prefix in others}[found.runner_up]
    assert found.runner_up_loss == pytest.approx(loss, abs=1e-12), where
    assert found.runner_up_proven == (not circular), where
    if not circular:
        assert loss == pytest.approx(others[0][0], abs=1e-12), where


def test_equals_brute_force():
    for seed, n in enumerate(SIZES):
        if n > 1:
            values = random_draws(seed, n)
            judge = expected_loss("kendall", n, values.tolist())
            everything = ranked([tuple(range(n))], judge, ordered=True)
            found = order_pairs(form(scores.kendall(), values))
            assert found.loss == pytest.approx(everything[0][0], abs=1e-12), f"belief {seed}"
            circular = in_circles(form(scores.kendall(), values).table)
            check(found, everything, f"belief {seed}", circular=circular)


def circular_tables():
    """Relations of three draws, or of none at all, which often run in circles."""
    for seed in range(150):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 7))
        if seed % 2:
            yield rng.integers(0, 8, size=(n, n)) / 64
        else:
            draws = rng.normal(size=(3, n))
            yield sum(np.sign(draw - draw[:, None]) for draw in draws) / 64


def test_circles_equal_brute_force():
    n_circular = 0
    for number, table in enumerate(circular_tables()):
        circular = in_circles(table)
        n_circular += circular
        everything = ranked(
            [tuple(range(len(table)))], lambda order, t=table: sum_of_pairs(t, order), ordered=True
        )
        found = order_pairs(Pairwise(1.0, table))
        check(found, everything, f"table {number}", circular=circular)
    assert n_circular > 40


def test_large_groups_are_bounded(monkeypatch):
    """As if 3 policies were too many for dynamic programming."""
    monkeypatch.setattr(pairwise, "_MOST_EXACT", 2)
    outcomes = {"proven": 0, "bounded": 0, "optimal": 0}
    for number, table in enumerate(circular_tables()):
        if not in_circles(table):
            continue
        n = len(table)
        least = min(sum_of_pairs(table, order) for order in permutations(range(n)))
        found = order_pairs(Pairwise(1.0, table))
        assert found.loss == pytest.approx(sum_of_pairs(table, found.prefix), abs=1e-12), number
        assert found.bound <= least + 1e-12, number
        assert found.bound <= found.loss, number
        assert not found.runner_up_proven, number
        outcomes["bounded"] += found.bound < found.loss
        outcomes["optimal"] += found.loss <= least + 1e-12
        if found.bound == found.loss:
            outcomes["proven"] += 1
            assert found.loss == pytest.approx(least, abs=1e-12), number
    assert outcomes["optimal"] >= outcomes["proven"] > outcomes["bounded"] > 0


def test_no_insertion_improves_a_large_group():
    rng = np.random.default_rng(4)
    table = rng.normal(size=(30, 30)) / 900
    found = order_pairs(Pairwise(1.0, table))
    assert found.bound < found.loss
    assert found.loss == pytest.approx(sum_of_pairs(table, found.prefix), abs=1e-12)
    for policy in range(30):
        others = [i for i in found.prefix if i != policy]
        for place in range(30):
            order = [*others[:place], policy, *others[place:]]
            assert sum_of_pairs(table, order) >= found.loss - 1e-12


def test_by_hand():
    # 0 before 1 before 2 before 0, by 3, 2 and 1: the last is given up. 3 is best after all.
    table = np.zeros((4, 4))
    table[1, 0], table[2, 1], table[0, 2] = 3.0, 2.0, 1.0
    table[3, :3] = 5.0
    found = order_pairs(Pairwise(0.0, table))
    assert found.prefix == (0, 1, 2, 3)
    assert found.loss == found.bound == 1.0
    # An exchange of neighbors gives up 2 instead of 1, and the last pair too.
    assert found.runner_up == (0, 2, 1, 3)
    assert found.runner_up_loss == 3.0
    assert not found.runner_up_proven


def test_one_policy_and_equal_policies():
    alone = order_pairs(Pairwise(1.0, np.zeros((1, 1))))
    assert alone.prefix == (0,)
    assert alone.runner_up is None
    equal = order_pairs(form(scores.kendall(), np.zeros((3, 6))))
    assert equal.prefix == tuple(range(6))
    assert equal.loss == equal.bound == 1.0
    assert equal.runner_up == (0, 1, 2, 3, 5, 4)
    assert equal.runner_up_loss == 1.0


def test_many_small_groups_are_exact():
    """Ten circles of three, one behind the other: each gives up its least pair."""
    table = np.triu(np.full((30, 30), -1.0), 1)
    for first in range(0, 30, 3):
        table[first, first + 2], table[first + 2, first] = 0.5, 0.0
    found = order_pairs(Pairwise(0.0, table))
    pairs = np.minimum(table, table.T)[np.triu_indices(30, 1)].sum()
    assert found.loss == found.bound == pytest.approx(pairs + 10 * 0.5)
    assert found.prefix == tuple(range(30))


def test_2000_policies():
    rng = np.random.default_rng(1)
    means = rng.normal(size=2000)
    table = np.clip(means - means[:, None], -1.0, 1.0) / (2000 * 1999 / 2)
    table += np.triu(rng.normal(size=(2000, 2000)), 1) * 1e-8  # circles among those that are near
    table = (table - table.T) / 2
    found = order_pairs(Pairwise(1.0, table))
    assert found.bound <= found.loss < 1.0
    assert found.loss == Pairwise(1.0, table).loss(found.prefix)
