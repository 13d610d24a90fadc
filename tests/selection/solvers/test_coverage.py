"""Top-k regret by branch and bound, against all sets of policies in plain loops."""

from itertools import combinations

import numpy as np
import pytest

from bayesdice_ppl.scores.forms import Coverage
from bayesdice_ppl.selection.rules import Rules, no_rules
from bayesdice_ppl.selection.solvers import coverage
from bayesdice_ppl.selection.solvers.branch_and_bound import Node, SetProblem, search
from bayesdice_ppl.selection.solvers.coverage_bound import Part, ascend, bound
from tests.selection.solvers.linear_relaxation import linear_relaxation


def cover(values, k, rules, **options):
    return coverage.cover(Coverage(np.ascontiguousarray(values.T)), k, rules, **options)


# Sizes of 200 random beliefs.
SIZES = [1] * 6 + [2] * 14 + [3] * 30 + [4] * 40 + [5] * 45 + [6] * 40 + [7] * 25


def random_belief(seed, n, n_draws=12):
    """Correlated draws: some on a coarse grid, so that ties are real, some with duplicates."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(2, n))
    values = rng.normal(size=(n_draws, 2)) @ loadings + rng.normal(size=(n_draws, n))
    values += rng.choice([0.0, 0.5, 2.0]) * rng.normal(size=n)
    if seed % 2:
        values = np.round(2 * values) / 2
    if seed % 3 == 0 and n > 2:
        values[:, n - 1] = values[:, 0]
        values[:, 1] = values[:, n // 2]
    return values


def random_rules(seed, n, k):
    """Any mix of policies that must and must not be launched, and a budget that some set meets."""
    rng = np.random.default_rng(10_000 + seed)
    order = rng.permutation(n)
    n_required = int(rng.integers(0, min(k, n - 1, 2) + 1))
    n_excluded = int(rng.integers(0, (n - n_required) // 2 + 1))
    required, excluded = np.zeros(n, bool), np.zeros(n, bool)
    required[order[:n_required]] = True
    excluded[order[n_required : n_required + n_excluded]] = True
    cost = rng.integers(0, 6, size=n) / 10.0
    if seed % 4 == 0:
        return Rules(required, excluded, np.zeros(n), np.inf)
    least = cost[required].sum() if n_required else cost[~excluded].min()
    return Rules(required, excluded, cost, least + float(rng.integers(0, 10)) / 10.0)


def allowed_sets(n, k, rules):
    """List all sets that may be launched, under a budget also those that leave places empty."""
    open_to = [i for i in range(n) if not rules.excluded[i]]
    most = min(k, len(open_to))
    sizes = range(1, most + 1) if rules.budget < np.inf else [most]
    return [
        chosen
        for size in sizes
        for chosen in combinations(open_to, size)
        if all(i in chosen for i in range(n) if rules.required[i])
        and sum(rules.cost[i] for i in chosen) <= rules.budget + 1e-7
    ]


def regret_of(rows, chosen):
    return sum(max(row) - max(row[i] for i in chosen) for row in rows) / len(rows)


def check_against_all_sets(values, k, rules, found, where):
    """Compare with all allowed sets; losses of rows on a grid are exact, others are rounded."""
    n, rows = values.shape[1], values.tolist()
    losses = {chosen: regret_of(rows, chosen) for chosen in allowed_sets(n, k, rules)}
    assert found.prefix in losses, where
    assert found.loss == pytest.approx(min(losses.values()), abs=1e-11), where
    assert losses[found.prefix] == pytest.approx(found.loss, abs=1e-11), where
    assert found.bound == found.loss, where
    spent = sum(rules.cost[i] for i in found.prefix)
    left = [rules.cost[i] for i in range(n) if i not in found.prefix and not rules.excluded[i]]
    assert len(found.prefix) == k or all(spent + c > rules.budget + 1e-7 for c in left), where
    assert not found.runner_up_proven, where
    near = [
        loss
        for chosen, loss in losses.items()
        if len(chosen) == len(found.prefix) and len({*chosen} - {*found.prefix}) == 1
    ]
    assert (found.runner_up is None) == (not near), where
    if near:
        assert found.runner_up != found.prefix, where
        assert losses[found.runner_up] == pytest.approx(found.runner_up_loss, abs=1e-11), where
        assert found.runner_up_loss <= min(near) + 1e-11, where


def test_equals_brute_force_with_all_sets_allowed():
    for seed, n in enumerate(SIZES):
        values = random_belief(seed, n)
        for k in range(1, n + 1):
            found = cover(values, k, no_rules(n))
            check_against_all_sets(values, k, no_rules(n), found, f"belief {seed}, {n}, k {k}")
            assert found.method == "branch and bound"
            assert len(found.prefix) == k
            assert list(found.prefix) == sorted(found.prefix)


def test_equals_brute_force_under_rules():
    budgets = required = excluded = 0
    for seed, n in enumerate(SIZES):
        if n == 1:
            continue
        values = random_belief(seed, n)
        for k in range(1, n + 1):
            rules = random_rules(31 * seed + k, n, k)
            found = cover(values, k, rules)
            check_against_all_sets(values, k, rules, found, f"belief {seed}, {n}, k {k}, {rules}")
            budgets += rules.budget < np.inf
            required += rules.required.any()
            excluded += rules.excluded.any()
    assert min(budgets, required, excluded) > 100


def flat_belief(seed, n, n_draws=300):
    """Independent policies of equal means, where bounds are far from tight."""
    return np.random.default_rng(seed).normal(size=(n_draws, n))


def lowest_regret(values, sets):
    """Give the least mean regret among sets, with one pass over the draws for each."""
    best = [max(row) for row in values.tolist()]
    columns = values.T.tolist()
    lowest = float("inf")
    for chosen in sets:
        covered = [max(of_draw) for of_draw in zip(*(columns[i] for i in chosen), strict=True)]
        lowest = min(lowest, sum(b - c for b, c in zip(best, covered, strict=True)) / len(best))
    return lowest


@pytest.mark.parametrize("seed", range(3))
def test_a_tree_that_is_needed_finds_the_lowest_of_all(seed):
    values = flat_belief(seed, 10)
    found = cover(values, 4, no_rules(10))
    assert found.evaluated > 10
    assert found.bound == found.loss
    assert found.loss == pytest.approx(lowest_regret(values, combinations(range(10), 4)), abs=1e-12)


@pytest.mark.parametrize("budget", [np.inf, 1.5, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_search_that_is_cut_short_gives_a_valid_bound(seed, budget):
    n, k = 12, 4
    values = flat_belief(seed, n)
    cost = np.random.default_rng(seed).uniform(0.1, 1.5, size=n)
    rules = no_rules(n)._replace(cost=cost if budget < np.inf else np.zeros(n), budget=budget)
    lowest = lowest_regret(values, allowed_sets(n, k, rules))
    bounds = []
    for max_nodes in (0, 1, 3, 10_000):
        found = cover(values, k, rules, max_nodes=max_nodes)
        assert 0.0 <= found.bound <= lowest + 1e-12
        assert found.loss >= lowest - 1e-12
        assert rules.allow(np.array([found.prefix]))[0]
        assert found.evaluated <= max_nodes
        bounds.append(found.bound)
    assert bounds == sorted(bounds)
    assert bounds[0] == 0.0
    assert 0.0 < bounds[1] < bounds[-1]
    assert bounds[-1] == pytest.approx(lowest, abs=1e-12)


def test_work_is_limited_too(monkeypatch):
    values = flat_belief(0, 12)
    monkeypatch.setattr(coverage, "_MOST_WORK", 1)
    found = cover(values, 4, no_rules(12))
    assert found.evaluated == 1
    assert found.bound < found.loss


def random_problem(seed):
    """A table of regrets, with a budget in two of three, and the mean regrets of all its sets."""
    rng = np.random.default_rng(seed)
    n, places = 8, int(rng.integers(2, 5))
    values = flat_belief(seed, n, n_draws=40) + 0.5 * rng.normal(size=n)
    regret = (values.max(axis=1)[:, None] - values).T.copy()
    cost = rng.uniform(0.0, 1.0, size=n) * (seed % 3 > 0)
    if seed % 2:  # the same for less
        regret[-1], regret[-2], cost[-2:] = regret[0], regret[1], 0.6 * cost[:2]
    limit = float(rng.uniform(0.8, 2.0)) if seed % 3 else np.inf
    losses = {
        chosen: sum(min(of_draw) for of_draw in regret[list(chosen)].T.tolist()) / 40
        for size in range(1, places + 1)
        for chosen in combinations(range(n), size)
        if sum(cost[i] for i in chosen) <= limit
    }
    return SetProblem(regret, cost, limit, places), losses


def whole_part(problem):
    everyone, worst = np.arange(len(problem.cost)), problem.regret.max(axis=0)
    return Part(everyone, worst, problem.places, problem.cost, problem.limit).affordable()


def test_bounds_hold_at_any_prices():
    rng = np.random.default_rng(0)
    loose = 0
    for seed in range(60):
        problem, losses = random_problem(seed)
        part = whole_part(problem)
        for _ in range(5):
            prices = rng.uniform(0.0, 1.0, size=40) * np.quantile(problem.regret, 0.5, axis=0)
            dual = bound(problem.regret, part, prices)
            assert dual.value <= min(losses.values()) + 1e-12
            with_each, without_each = (
                dual.with_each(part.places),
                dual.without_each(part.places),
            )
            for position, i in enumerate(part.policies.tolist()):
                with_i = min(loss for chosen, loss in losses.items() if i in chosen)
                without_i = min(loss for chosen, loss in losses.items() if i not in chosen)
                assert with_each[position] <= with_i + 1e-12
                assert without_each[position] <= without_i + 1e-12
            loose += (with_each > dual.value + 1e-3).any() and (without_each > dual.value).any()
            assert tuple(part.policies[dual.chosen].tolist()) in [*losses, ()]
    assert loose > 200


def test_steps_reach_the_linear_relaxation():
    for seed in range(12):
        problem, losses = random_problem(seed)
        best = linear_relaxation(problem)
        prices = np.sort(problem.regret, axis=0)[1]
        run = ascend(problem.regret, whole_part(problem), prices, min(losses.values()), 0)
        assert run.dual.value <= best + 1e-9
        # Ruling out what reaches the target may lift the bound past the relaxation.
        target = best + 0.5 * (min(losses.values()) - best) + 1e-4
        run = ascend(problem.regret, whole_part(problem), prices, target, 1500)
        reached = run.part.cap.mean() if run.part.decided else run.dual.value
        assert reached >= best - 5e-3 * best


def test_search_from_a_poor_set_finds_the_best():
    several = 0
    for seed in range(150):
        problem, losses = random_problem(seed)
        worst = max(losses, key=lambda chosen: losses[chosen])
        everyone = np.arange(len(problem.cost))
        root = Node(0.0, (), everyone, np.zeros(40), 5)
        found = search(problem, root, worst, 1e-12, max_nodes=10_000, max_work=10**10)
        assert found.loss == pytest.approx(min(losses.values()), abs=1e-11)
        assert losses[tuple(sorted(found.chosen))] == pytest.approx(found.loss, abs=1e-11)
        assert found.bound == found.loss
        several += found.nodes > 3
    assert several > 50


def test_the_runner_up_is_the_best_neighbor():
    for seed in range(20):
        values = random_belief(2 * seed, 7, n_draws=30)
        found = cover(values, 3, no_rules(7), max_nodes=0)
        neighbors = [
            tuple(sorted({*found.prefix, i} - {j}))
            for i in range(7)
            for j in found.prefix
            if i not in found.prefix
        ]
        assert found.runner_up in neighbors
        assert found.runner_up_loss == pytest.approx(lowest_regret(values, neighbors), abs=1e-12)
        assert found.loss <= found.runner_up_loss


def test_of_equal_sets_the_fuller_is_taken():
    rules = no_rules(4)._replace(cost=np.array([3.0, 1.0, 2.0, 1.0]), budget=3.0)
    assert cover(np.zeros((2, 4)), 3, rules).prefix == (1, 2)
    assert cover(np.zeros((2, 4)), 3, rules._replace(budget=4.0)).prefix == (1, 2, 3)
    assert cover(np.zeros((2, 4)), 2, rules._replace(budget=4.0)).prefix == (0, 1)


def test_relabeling_gives_the_same_set():
    rng = np.random.default_rng(7)
    for seed in range(0, 40, 2):  # not on the grid, where several sets may tie
        n = 5 + seed % 3
        values = rng.normal(size=(40, n)) + rng.normal(size=(40, 1))
        for k in (1, 2, 3):
            rules = random_rules(seed + k, n, k)
            order = rng.permutation(n)
            found = cover(values, k, rules)
            moved = cover(values[:, order], k, rules.permuted(order))
            assert sorted(order[list(moved.prefix)]) == list(found.prefix)
            assert moved.loss == pytest.approx(found.loss, abs=1e-12)
            assert moved.runner_up_loss == pytest.approx(found.runner_up_loss, abs=1e-12)


def test_adding_a_constant_changes_nothing():
    for seed, n in enumerate(SIZES[60:100]):
        values = np.round(random_belief(seed, n) * 64) / 64  # so that sums are exact
        for k in range(1, n + 1):
            found = cover(values, k, no_rules(n))
            assert cover(values + 1024.0, k, no_rules(n)) == found


def test_duplicates_tie_and_the_preferred_is_taken():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(50, 4))
    twice = np.concatenate([values, values], axis=1)
    for k in (1, 2, 3):
        once, found = cover(values, k, no_rules(4)), cover(twice, k, no_rules(8))
        assert found.prefix == once.prefix
        assert found.loss == once.loss
        assert found.runner_up_loss == pytest.approx(found.loss, abs=1e-12)
    # With all four there, nothing is lost, and the first of the others fill the places.
    assert cover(twice, 6, no_rules(8)).prefix == (0, 1, 2, 3, 4, 5)
    assert cover(twice, 6, no_rules(8)).loss == 0.0


def test_policies_that_are_all_equal_are_listed_by_preference():
    found = cover(np.zeros((3, 5)), 3, no_rules(5))
    assert found.prefix == (0, 1, 2)
    assert (found.loss, found.bound, found.runner_up_loss) == (0.0, 0.0, 0.0)
    assert found.runner_up == (0, 1, 3)


def test_what_must_not_be_launched_still_counts_as_the_best():
    values = np.array([[3.0, 1.0, 0.0], [3.0, 0.0, 2.0]])
    rules = no_rules(3)._replace(excluded=np.array([True, False, False]))
    found = cover(values, 1, rules)
    assert found.prefix == (2,)
    assert found.loss == 2.0
    assert (found.runner_up, found.runner_up_loss) == ((1,), 2.5)


def test_a_budget_buys_the_set_and_not_the_single_best():
    # The first is worth most alone; for its price the other two serve every draw.
    values = np.array([[2.0, 3.0, 0.0], [2.0, 0.0, 3.0]])
    rules = no_rules(3)._replace(cost=np.array([2.0, 1.0, 1.0]), budget=2.0)
    found = cover(values, 3, rules)
    assert found.prefix == (1, 2)
    assert found.loss == found.bound == 0.0
    assert found.runner_up is None  # no exchange of one policy is within the budget


@pytest.mark.parametrize(("n", "k"), [(100, 5), (2000, 10)])
def test_many_policies_are_proven(n, k):
    rng = np.random.default_rng(1)
    loadings = rng.normal(size=(5, n)) / np.sqrt(5)
    values = rng.normal(size=(4000, 5)) @ loadings + 0.5 * rng.normal(size=(4000, n))
    values += 0.3 * rng.normal(size=n)
    found = cover(values, k, no_rules(n))
    assert found.bound == found.loss
    best = values.max(axis=1)
    assert found.loss == pytest.approx((best - values[:, found.prefix].max(axis=1)).mean())
    others = rng.permuted(np.tile(np.arange(n), (200, 1)), axis=1)[:, :k]
    assert all((best - values[:, s].max(axis=1)).mean() > found.loss for s in others)
