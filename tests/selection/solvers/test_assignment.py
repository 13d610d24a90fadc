"""Assigning policies to places, against all prefixes by the definitions."""

import time
from itertools import permutations

import numpy as np
import pytest

from bayesdice_ppl import scores
from bayesdice_ppl.losses.structure import Assignment
from bayesdice_ppl.selection.rules import Rules, no_rules
from bayesdice_ppl.selection.solvers import assignment
from bayesdice_ppl.selection.solvers.assignment import assign
from tests.selection.literal import random_draws
from tests.selection.solvers.brute_force import SIZES, expected_loss, launches, random_rules, ranked


def test_equals_brute_force():
    for seed, n in enumerate(SIZES):
        values = random_draws(seed, n)
        for k in range(1, n + 1):
            found = assign(scores.accuracy(k).structure(values), no_rules(n), partial=True)
            judge = expected_loss("accuracy", k, values.tolist())
            sets = launches(n, k, no_rules(n), partial=True)
            best, *others = ranked(sets, judge, ordered=True)
            where = f"accuracy@{k}, belief {seed}, {n} policies"
            assert found.prefix == best[1], where
            assert found.loss == found.bound == pytest.approx(best[0], abs=1e-12), where
            assert found.runner_up_proven, where
            assert found.method == "assignment", where
            if not others:
                assert found.runner_up is None, where
                assert found.runner_up_loss is None, where
            else:
                assert found.runner_up != found.prefix, where
                assert found.runner_up_loss == pytest.approx(others[0][0], abs=1e-12), where
                assert judge(found.runner_up) == pytest.approx(others[0][0], abs=1e-12), where


def check_rules(structure, judge, rules, *, partial, where):
    """Compare with all that the rules allow; give the method, or None if nothing is allowed."""
    n, k = structure.table.shape
    everything = ranked(launches(n, k, rules, partial=partial), judge, ordered=True)
    if not everything:
        return None
    (least, first), *others = everything
    found = assign(structure, rules, partial=partial)
    assert found.prefix in [prefix for _, prefix in everything], where
    assert found.loss == pytest.approx(least, abs=1e-12), where
    assert judge(found.prefix) == pytest.approx(least, abs=1e-12), where
    assert found.bound == found.loss, where
    if found.method == "assignment":
        assert found.prefix == first, where
    assert found.runner_up_proven, where
    assert (found.runner_up is None) == (not others), where
    if others:
        assert found.runner_up != found.prefix, where
        assert found.runner_up in [prefix for _, prefix in everything], where
        assert found.runner_up_loss == pytest.approx(others[0][0], abs=1e-12), where
        assert judge(found.runner_up) == pytest.approx(others[0][0], abs=1e-12), where
    return found.method


def test_rules_equal_brute_force():
    methods = []
    for seed, n in enumerate(SIZES):
        values, rng = random_draws(seed, n), np.random.default_rng(seed)
        k = int(rng.integers(1, n + 1))
        rules, partial = random_rules(rng, n, k), bool(seed % 4)
        judge = expected_loss("accuracy", k, values.tolist())
        structure = scores.accuracy(k).structure(values)
        where = f"accuracy@{k}, belief {seed}, {rules}"
        methods.append(check_rules(structure, judge, rules, partial=partial, where=where))
    assert min(methods.count("assignment"), methods.count("branch and bound")) > 25


def test_any_table_equals_brute_force():
    """Tables that no belief has: with many equal gains, and with later places worth more."""
    methods = []
    for seed in range(250):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 6))
        k = int(rng.integers(1, n + 1))
        table = rng.integers(0, [3, 1000][seed % 2], (n, k)) / 1000
        rules = random_rules(rng, n, k) if seed % 3 else no_rules(n)

        def judge(prefix, table=table):
            return 1.0 - sum(table[i, j] for j, i in enumerate(prefix))

        where = f"table {seed}: {table.tolist()}, {rules}"
        structure = Assignment(1.0, table)
        methods.append(check_rules(structure, judge, rules, partial=bool(seed % 4), where=where))
    assert min(methods.count("assignment"), methods.count("branch and bound")) > 25


def test_rows_that_are_left_out_do_not_matter():
    """More policies than are looked at: the two best of all triples by trying every one."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        table = rng.integers(0, 40, (22, 3)) / 120
        none = np.zeros(22, bool)
        required = none.copy()
        required[rng.integers(22)] = seed % 2
        cost = rng.integers(1, 10, 22).astype(float)
        for budget in (np.inf, 12.0):
            tried = sorted(
                1.0 - sum(table[i, j] for j, i in enumerate(order))
                for order in permutations(range(22), 3)
                if sum(cost[i] for i in order) <= budget and {*np.flatnonzero(required)} <= {*order}
            )
            rules = Rules(required, none, cost, budget)
            found = assign(Assignment(1.0, table), rules, partial=False)
            assert found.loss == found.bound == pytest.approx(tried[0], abs=1e-12)
            assert found.runner_up_proven
            assert found.runner_up_loss == pytest.approx(tried[1], abs=1e-12)


def test_by_hand():
    # The first place is worth most to policy 1, but it is the only one that is worth the second.
    table = np.array([[0.3, 0.0], [0.4, 0.3], [0.1, 0.1]])
    found = assign(Assignment(1.0, table), no_rules(3), partial=True)
    assert found.prefix == (0, 1)
    assert found.loss == pytest.approx(0.4)
    assert found.runner_up == (1, 2)
    assert found.runner_up_loss == pytest.approx(0.5)
    # One place is filled before the next: policy 2 alone goes first, though it is worth nothing.
    none = np.zeros(3, bool)
    alone = assign(
        Assignment(1.0, np.array([[0.3, 0.3], [0.3, 0.3], [0.0, 0.6]])),
        Rules(none, none, np.array([2.0, 2.0, 1.0]), 2.0),
        partial=True,
    )
    assert alone.prefix == (0,)
    assert alone.loss == pytest.approx(0.7)


def test_policies_that_are_all_equal_are_listed_by_preference():
    structure = scores.accuracy(4).structure(np.zeros((3, 7)))
    found = assign(structure, no_rules(7), partial=True)
    assert found.prefix == (0, 1, 2, 3)
    assert found.runner_up_loss == found.loss


def test_past_many_places_the_runner_up_is_an_exchange(monkeypatch):
    values = random_draws(5, 6)
    structure = scores.accuracy(6).structure(values)
    proven = assign(structure, no_rules(6), partial=True)
    monkeypatch.setattr(assignment, "_MOST_PLACES", 5)
    found = assign(structure, no_rules(6), partial=True)
    assert found.prefix == proven.prefix
    assert found.bound == found.loss
    assert not found.runner_up_proven
    assert found.runner_up_loss >= proven.runner_up_loss
    changed = [a != b for a, b in zip(found.prefix, found.runner_up, strict=True)]
    assert sum(changed) == 2


def test_2000_policies_take_a_moment():
    rng = np.random.default_rng(1)
    n = 2000
    values = rng.normal(size=n) + rng.normal(size=(400, 1)) + rng.normal(size=(400, n))
    structure, none = scores.accuracy(10).structure(values), np.zeros(n, bool)
    rules = Rules(none, none, np.round(rng.uniform(1, 10, n), 2), 30.0)
    start = time.perf_counter()
    found = assign(structure, no_rules(n), partial=True)
    assert time.perf_counter() - start < 1.0
    assert found.bound == found.loss
    assert found.runner_up_proven
    start = time.perf_counter()
    afforded = assign(structure, rules, partial=True)
    assert time.perf_counter() - start < 10.0
    assert afforded.bound == afforded.loss > found.loss
