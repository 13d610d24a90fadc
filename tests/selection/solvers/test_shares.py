"""Prices from shares, against the linear program that they solve."""

import numpy as np
import pytest

from bayesdice_ppl.selection.solvers.branch_and_bound import SetProblem
from bayesdice_ppl.selection.solvers.shares import _filled_up, relax
from tests.selection.solvers.linear_relaxation import linear_relaxation


def problem_of(seed, n, places, n_draws=60, spread=0.0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_draws, n)) + spread * rng.normal(size=n)
    regret = np.ascontiguousarray((values.max(axis=1)[:, None] - values).T)
    return SetProblem(regret, np.zeros(n), np.inf, places)


@pytest.mark.parametrize("spread", [0.0, 0.5, 3.0])
def test_the_linear_program_lies_between_the_two_bounds(spread):
    for seed in range(6):
        problem = problem_of(seed, 10, 2 + seed % 3, spread=spread)
        best = linear_relaxation(problem)
        relaxed = relax(problem, ())
        assert relaxed.bound <= best + 1e-9
        assert relaxed.limit >= best - 1e-9
        # Shares of 0 and 1 are never quite reached, which are the best where few policies are good.
        assert spread > 0.5 or relaxed.limit - relaxed.bound <= 0.03


def test_what_is_required_serves_too():
    problem = problem_of(0, 9, 4)
    relaxed = relax(problem, (2, 5))
    cap = problem.regret[[2, 5]].min(axis=0)
    # The rest is the same problem with regrets that never pass those of the required.
    others = np.minimum(np.delete(problem.regret, [2, 5], axis=0), cap)
    # One more policy stands for the required: it takes a place and serves every draw.
    same = SetProblem(np.vstack([others, cap]), np.zeros(8), np.inf, 3)
    assert relaxed.bound <= linear_relaxation(same, full=(7,)) + 1e-9
    assert relaxed.limit >= linear_relaxation(same, full=(7,)) - 1e-9


def test_nothing_lost_is_no_trouble():
    problem = SetProblem(np.zeros((5, 8)), np.zeros(5), np.inf, 2)
    assert relax(problem, ())[1:] == (0.0, 0.0)


def test_more_candidates_alike_leave_the_relaxation_no_better():
    # Shares of 100 alike serve a draw by the mean of the best fifth; five of them by the best.
    problem = problem_of(1, 100, 5, n_draws=1_000)
    relaxed = relax(problem, ())
    alone = problem.loss((0, 1, 2, 3, 4))
    # For normal numbers the two are 1.400 and 1.163 sd above the mean.
    assert alone - relaxed.bound > 0.2
    assert relaxed.limit - relaxed.bound < 0.01


def test_shares_add_up_and_none_is_above_one():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(1, 9))
        places = int(rng.integers(1, n + 1))
        shares = rng.exponential(size=n) ** 4 + 1e-9
        filled = _filled_up(shares, places)
        assert filled.sum() == pytest.approx(places)
        assert filled.max() <= 1.0 + 1e-12
        below = filled < 1.0 - 1e-9
        if below.any():  # those below 1 keep their proportions, and were the smallest
            ratio = filled[below] / shares[below]
            np.testing.assert_allclose(ratio, ratio[0])
            assert shares[below].max() <= shares[~below].min(initial=np.inf)
