"""Sorting by merit, against all prefixes by the definitions, and against dynamic programming."""

import numpy as np
import pytest

from bayesdice_ppl import scores
from bayesdice_ppl.scores.forms import Sorting
from bayesdice_ppl.selection.rules import Rules, no_rules
from bayesdice_ppl.selection.solvers import budget
from bayesdice_ppl.selection.solvers.sorting import sort
from tests.selection.literal import random_draws
from tests.selection.solvers.brute_force import (
    SIZES,
    expected_loss,
    form,
    launches,
    random_rules,
    ranked,
)


def make(word, k):
    return scores.spearman() if word == "spearman" else getattr(scores, word)(k)


@pytest.mark.parametrize("word", ["precision", "ndcg", "spearman"])
def test_equals_brute_force(word):
    for seed, n in enumerate(SIZES):
        values = random_draws(seed, n)
        for k in range(1, n + 1):
            if word == "spearman" and (k < n or n == 1):
                continue
            score = make(word, k)
            found = sort(
                form(score, values), no_rules(n), ordered=score.ordered, partial=score.partial
            )
            judge = expected_loss(word, k, values.tolist())
            sets = launches(n, k, no_rules(n), partial=score.partial)
            best, *others = ranked(sets, judge, ordered=score.ordered)
            where = f"{word}@{k}, belief {seed}, {n} policies"
            assert found.prefix == best[1], where
            assert found.loss == found.bound == pytest.approx(best[0], abs=1e-12), where
            assert found.runner_up_proven, where
            assert found.method == "sorting", where
            if not others:
                assert found.runner_up is None, where
                assert found.runner_up_loss is None, where
            else:
                assert found.runner_up == others[0][1], where
                assert found.runner_up_loss == pytest.approx(others[0][0], abs=1e-12), where


@pytest.mark.parametrize("word", ["precision", "ndcg"])
def test_rules_equal_brute_force(word):
    methods = {"sorting": 0, "branch and bound": 0}
    for seed, n in enumerate(SIZES):
        values, rng = random_draws(seed, n), np.random.default_rng(seed)
        k = int(rng.integers(1, n + 1))
        rules, score, partial = random_rules(rng, n, k), make(word, k), bool(seed % 4)
        judge = expected_loss(word, k, values.tolist())
        everything = ranked(launches(n, k, rules, partial=partial), judge, ordered=score.ordered)
        if not everything:
            continue
        (least, first), *others = everything
        found = sort(form(score, values), rules, ordered=score.ordered, partial=partial)
        methods[found.method] += 1
        where = f"{word}@{k}, belief {seed}, {rules}"
        assert found.prefix in [prefix for _, prefix in everything], where
        assert found.loss == pytest.approx(least, abs=1e-12), where
        assert judge(found.prefix) == pytest.approx(least, abs=1e-12), where
        assert found.bound == found.loss, where
        if found.method == "sorting":
            assert found.prefix == first, where
        assert found.runner_up_proven == (rules.budget == np.inf), where
        if found.runner_up_proven:
            assert (found.runner_up is None) == (not others), where
        if found.runner_up is not None:
            second = dict(map(reversed, others))[found.runner_up]
            assert found.runner_up_loss == pytest.approx(second, abs=1e-12), where
            if found.runner_up_proven:
                assert second == pytest.approx(others[0][0], abs=1e-12), where
    assert min(methods.values()) > 25


def best_gain(merit, weight, cost, limit):
    """Fill the places in order of merit, and keep the best gain for each count and cost."""
    best = {(0, 0): 0.0}
    for i in sorted(range(len(merit)), key=lambda i: -merit[i]):
        following = dict(best)
        for (count, spent), gain in best.items():
            if count < len(weight) and spent + cost[i] <= limit:
                state, more = (count + 1, spent + cost[i]), gain + weight[count] * merit[i]
                following[state] = max(following.get(state, 0.0), more)
        best = following
    return max(best.values())


@pytest.mark.parametrize("ordered", [False, True])
def test_budgets_equal_dynamic_programming(ordered):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, k, limit = 60, int(rng.integers(2, 8)), int(rng.integers(10, 50))
        merit = rng.integers(0, 1000, n) / 1000
        # Every other time what is good is dear.
        cost = rng.integers(1, 20, n) if seed % 2 else (19 * merit).astype(int) + 1
        weight = 1 / np.log2(np.arange(2, k + 2)) if ordered else np.ones(k)
        none = np.zeros(n, bool)
        rules = Rules(none, none, cost.astype(float), float(limit))
        found = sort(Sorting(1.0, merit, weight), rules, ordered=ordered, partial=True)
        best = best_gain(merit, weight.tolist(), cost.tolist(), limit)
        assert found.loss == found.bound == pytest.approx(1.0 - best, abs=1e-12)
        assert cost[list(found.prefix)].sum() <= limit
        assert found.runner_up_loss >= found.loss


def test_by_hand():
    structure = Sorting(1.0, np.array([0.2, 0.5, 0.3, 0.5]), np.array([1.0, 0.5]))
    found = sort(structure, no_rules(4), ordered=True, partial=True)
    assert found.prefix == (1, 3)
    assert found.loss == pytest.approx(1 - 0.5 - 0.25)
    assert found.runner_up == (3, 1)
    assert found.runner_up_loss == found.loss
    # 0.4 affords policies 0 and 2, or 1 alone.
    none = np.zeros(4, bool)
    rules = Rules(none, none, np.array([0.1, 0.4, 0.3, 0.5]), 0.4)
    afforded = sort(structure, rules, ordered=True, partial=True)
    assert afforded.prefix == (1,)
    assert afforded.loss == pytest.approx(0.5)
    assert (afforded.runner_up, afforded.runner_up_loss) == ((2,), pytest.approx(0.7))
    both = sort(structure, rules, ordered=True, partial=False)
    assert both.prefix == (2, 0)


def test_equal_merits_are_listed_by_preference():
    for word, k in [("precision", 3), ("ndcg", 3), ("spearman", None)]:
        score = make(word, k)
        structure = form(score, np.zeros((4, 6)))
        found = sort(structure, no_rules(6), ordered=score.ordered, partial=score.partial)
        assert found.prefix == tuple(range(len(found.prefix)))
        assert found.runner_up_loss == found.loss


def test_a_set_just_over_the_budget_is_not_launched(monkeypatch):
    """The integer program meets a budget up to a tolerance, here as if that were far larger."""
    monkeypatch.setattr(budget, "_COST_UNITS", 1e-4)
    none = np.zeros(4, bool)
    cost = np.array([1.0 + 1e-6, 1.0, 1.0, 0.9])
    structure = Sorting(1.0, np.array([0.4, 0.3, 0.2, 0.1]), np.ones(2))
    found = sort(structure, Rules(none, none, cost, 2.0), ordered=False, partial=True)
    assert found.prefix in [(0, 3), (1, 2)]
    assert found.runner_up in [(1, 3), (2, 3)]
    assert found.loss == pytest.approx(0.5)


def test_a_search_that_is_cut_short_says_so(monkeypatch):
    rng = np.random.default_rng(0)
    n = 80
    merit = rng.integers(1, 1000, n) / 1000
    none = np.zeros(n, bool)
    rules = Rules(none, none, 20 * merit + rng.integers(0, 3, n), 61.3)
    structure = Sorting(1.0, merit / 8, np.ones(8))
    whole = sort(structure, rules, ordered=False, partial=True)
    monkeypatch.setattr(budget, "_MOST_NODES", 0)
    cut = sort(structure, rules, ordered=False, partial=True)
    assert rules.allow(np.array([cut.prefix]))[0]
    assert cut.bound < cut.loss
    assert cut.bound <= whole.loss <= cut.loss
    assert not cut.runner_up_proven


@pytest.mark.parametrize("word", ["precision", "ndcg"])
def test_2000_policies(word):
    rng = np.random.default_rng(1)
    n, score = 2000, make(word, 10)
    values = rng.normal(size=n) + rng.normal(size=(400, 1)) + rng.normal(size=(400, n))
    structure, none = form(score, values), np.zeros(n, bool)
    rules = Rules(none, none, np.round(rng.uniform(1, 10, n), 2), 30.0)
    found = sort(structure, no_rules(n), ordered=score.ordered, partial=True)
    assert found.bound == found.loss
    afforded = sort(structure, rules, ordered=score.ordered, partial=True)
    assert afforded.bound == afforded.loss > found.loss
