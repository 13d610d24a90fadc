"""Going through all sets by bounds, against all sets in plain loops."""

from itertools import combinations

import numpy as np
import pytest

from bayesdice_ppl.selection.solvers import every_set
from bayesdice_ppl.selection.solvers.branch_and_bound import SetProblem
from bayesdice_ppl.selection.solvers.every_set import try_every_set

PLENTY = 10**10


def problem_of(seed, n, places, n_draws=40):
    """Regrets of policies of nearly equal means, some on a grid, so that there are ties."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_draws, n)) + 0.3 * rng.normal(size=n) * (seed % 3 > 0)
    if seed % 4 == 0:
        values = np.round(2 * values) / 2
    regret = np.ascontiguousarray((values.max(axis=1)[:, None] - values).T)
    return SetProblem(regret, np.zeros(n), np.inf, places)


def losses_of(problem, required=()):
    """The mean regrets of all sets."""
    n, n_draws = problem.regret.shape
    rows = problem.regret.tolist()
    return {
        chosen: sum(min(of_draw) for of_draw in zip(*(rows[i] for i in chosen), strict=True))
        / n_draws
        for chosen in combinations(range(n), problem.places)
        if set(required) <= set(chosen)
    }


@pytest.mark.parametrize("places", [2, 3, 4, 5])
def test_finds_the_best_set_from_the_worst(places):
    nodes = 0
    for seed in range(40):
        problem = problem_of(seed, 9, places)
        losses = losses_of(problem)
        worst = max(losses, key=losses.get)
        found = try_every_set(problem, (), worst, 1e-12, max_work=PLENTY)
        assert found.loss == pytest.approx(min(losses.values()), abs=1e-11)
        assert losses[tuple(sorted(found.chosen))] == pytest.approx(found.loss, abs=1e-11)
        assert found.bound == found.loss
        nodes += found.nodes
    assert places == 2 or nodes > 40  # the first node alone does not decide


def test_what_is_required_is_in_all_sets():
    for seed in range(40):
        problem = problem_of(seed, 9, 4)
        required = (seed % 9,) if seed % 2 else (seed % 9, (seed + 4) % 9)
        losses = losses_of(problem, required)
        worst = max(losses, key=losses.get)
        found = try_every_set(problem, required, worst, 1e-12, max_work=PLENTY)
        assert set(required) <= set(found.chosen)
        assert found.loss == pytest.approx(min(losses.values()), abs=1e-11)


@pytest.mark.parametrize("shares", [(0.01,), (0.3,), (1.0,)])
def test_prices_change_the_work_and_not_the_answer(monkeypatch, shares):
    monkeypatch.setattr(every_set, "_SHARES", shares)
    for seed in range(20):
        problem = problem_of(seed, 9, 4)
        losses = losses_of(problem)
        found = try_every_set(problem, (), (0, 1, 2, 3), 1e-12, max_work=PLENTY)
        assert found.loss == pytest.approx(min(losses.values()), abs=1e-11)


def test_regrets_of_any_size():
    problem = problem_of(1, 9, 4)
    best = try_every_set(problem, (), (0, 1, 2, 3), 1e-12, max_work=PLENTY)
    for size in (1e-200, 1e200):
        scaled = problem._replace(regret=problem.regret * size)
        found = try_every_set(scaled, (), (0, 1, 2, 3), 1e-12 * size, max_work=PLENTY)
        assert found.chosen == best.chosen
    hopeless = problem._replace(regret=np.vstack([problem.regret, np.full(40, 1e12)]))
    hopeless = hopeless._replace(cost=np.zeros(10))
    found = try_every_set(hopeless, (), (0, 1, 2, 3), 1e-12, max_work=PLENTY)
    assert sorted(found.chosen) == sorted(best.chosen)


def test_nothing_is_tried_where_it_would_take_too_long():
    problem = problem_of(1, 9, 4)
    assert try_every_set(problem, (), (0, 1, 2, 3), 1e-12, max_work=1_000) is None
    dear = problem._replace(cost=np.ones(9), limit=3.0)
    assert try_every_set(dear, (), (0, 1, 2), 1e-12, max_work=PLENTY) is None
    assert try_every_set(problem, (0, 1, 2), (0, 1, 2, 3), 1e-12, max_work=PLENTY) is None


def test_what_is_cut_short_proves_nothing(monkeypatch):
    problem = problem_of(1, 9, 4)
    table, _ = every_set._best_table(problem.regret, problem.regret.max(axis=0), 4, 1.0)
    monkeypatch.setattr(every_set, "_best_table", lambda *_: (table, 0.0))
    found = try_every_set(problem, (), (0, 1, 2, 3), 1e-12, max_work=100_000)
    assert found.bound == 0.0
    assert 0 < found.nodes < 5
