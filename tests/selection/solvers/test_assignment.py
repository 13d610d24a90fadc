"""Assigning policies to places, against all prefixes by the definitions."""

from itertools import permutations

import numpy as np
import pytest

from bayesdice_ppl import scores
from bayesdice_ppl.scores.forms import Assignment
from bayesdice_ppl.selection.rules import Rules, no_rules
from bayesdice_ppl.selection.solvers.assignment import assign
from tests.selection.literal import random_draws
from tests.selection.solvers.brute_force import (
    SIZES,
    expected_loss,
    form,
    launches,
    random_rules,
    ranked,
)


def one_move_away(prefix, n):
    """All prefixes after a swap, an insertion, or a policy from outside."""
    found, outside = set(), [i for i in range(n) if i not in prefix]
    for i in range(len(prefix)):
        for j in range(len(prefix)):
            swapped, inserted = list(prefix), list(prefix)
            swapped[i], swapped[j] = swapped[j], swapped[i]
            inserted.insert(j, inserted.pop(i))
            found |= {tuple(swapped), tuple(inserted)}
        for u in outside:
            found |= {(*prefix[:i], u, *prefix[i + 1 :]), (*prefix[:i], u, *prefix[i:-1])}
    return found - {prefix}


def check_runner_up(found, others, n, where):
    """The runner-up is the best of the other prefixes that are one move away."""
    assert not found.runner_up_proven, where
    losses = {prefix: loss for loss, prefix in others}
    near = [losses[prefix] for prefix in one_move_away(found.prefix, n) if prefix in losses]
    assert (found.runner_up is None) == (not near), where
    if near:
        assert found.runner_up_loss == pytest.approx(min(near), abs=1e-12), where
        assert losses[found.runner_up] == pytest.approx(min(near), abs=1e-12), where


def test_equals_brute_force():
    for seed, n in enumerate(SIZES):
        values = random_draws(seed, n)
        for k in range(1, n + 1):
            found = assign(form(scores.accuracy(k), values), no_rules(n), partial=True)
            judge = expected_loss("accuracy", k, values.tolist())
            sets = launches(n, k, no_rules(n), partial=True)
            best, *others = ranked(sets, judge, ordered=True)
            where = f"accuracy@{k}, belief {seed}, {n} policies"
            assert found.prefix == best[1], where
            assert found.loss == found.bound == pytest.approx(best[0], abs=1e-12), where
            assert found.method == "assignment", where
            check_runner_up(found, others, n, where)


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
    check_runner_up(found, others, n, where)
    return found.method


def test_rules_equal_brute_force():
    methods = []
    for seed, n in enumerate(SIZES):
        values, rng = random_draws(seed, n), np.random.default_rng(seed)
        k = int(rng.integers(1, n + 1))
        rules, partial = random_rules(rng, n, k), bool(seed % 4)
        judge = expected_loss("accuracy", k, values.tolist())
        structure = form(scores.accuracy(k), values)
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
    """More policies than are looked at: the best of all triples by trying every one."""
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
            assert found.runner_up_loss >= tried[1] - 1e-12


def test_by_hand():
    # The first place is worth most to policy 1, but it is the only one that is worth the second.
    table = np.array([[0.3, 0.0], [0.4, 0.3], [0.1, 0.1]])
    found = assign(Assignment(1.0, table), no_rules(3), partial=True)
    assert found.prefix == (0, 1)
    assert found.loss == pytest.approx(0.4)
    # Better still is (1, 2), which is more than one move away.
    assert found.runner_up == (0, 2)
    assert found.runner_up_loss == pytest.approx(0.6)
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
    structure = form(scores.accuracy(4), np.zeros((3, 7)))
    found = assign(structure, no_rules(7), partial=True)
    assert found.prefix == (0, 1, 2, 3)
    assert found.runner_up_loss == found.loss


def test_2000_policies():
    rng = np.random.default_rng(1)
    n = 2000
    values = rng.normal(size=n) + rng.normal(size=(400, 1)) + rng.normal(size=(400, n))
    structure, none = form(scores.accuracy(10), values), np.zeros(n, bool)
    rules = Rules(none, none, np.round(rng.uniform(1, 10, n), 2), 30.0)
    found = assign(structure, no_rules(n), partial=True)
    assert found.bound == found.loss
    afforded = assign(structure, rules, partial=True)
    assert afforded.bound == afforded.loss > found.loss
