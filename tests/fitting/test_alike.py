"""Errors that are alike after like pasts: the statistic by brute force, and its mean by chance."""

import numpy as np
import pytest

from bayesdice_ppl.fitting.alike import alike, centered_errors, combine_chances, lay_past, predicted


def test_the_excess_is_the_sum_over_pairs_of_different_units():
    rng = np.random.default_rng(0)
    n = 90
    pair, past, unit = rng.integers(3, size=n), rng.integers(4, size=n), rng.integers(7, size=n)
    error = rng.normal(size=n)
    laid = lay_past("", past, pair, unit)
    known = past > 0
    # Among the rows whose past is known, from the mean of their pair.
    centered = np.zeros(n)
    for p in range(3):
        rows = known & (pair == p)
        centered[rows] = error[rows] - error[rows].mean()
    excess, lost = 0.0, 0.0
    for i in np.flatnonzero(known):
        for k in np.flatnonzero(known):
            if past[i] == past[k]:
                size = (past == past[i]).sum()
                excess += (unit[i] != unit[k]) * centered[i] * centered[k] / size
                if i != k and pair[i] == pair[k]:
                    rows = known & (pair == pair[i])
                    variance = centered[rows] @ centered[rows] / (rows.sum() - 1)
                    lost += variance / rows.sum() / size
    found = predicted(error, laid)
    assert found.variance == pytest.approx((excess + lost) / known.sum(), rel=1e-10)


def test_independent_errors_have_no_excess_on_average():
    rng = np.random.default_rng(1)
    n, trials = 240, 1_500
    pair = rng.integers(4, size=n)
    # Pasts go with pairs, so that taking off the pairs' means matters.
    past = np.where(rng.random(n) < 0.7, pair, rng.integers(4, size=n)) + 1
    laid = lay_past("", past, pair, np.arange(n))
    found = [predicted(rng.normal(size=n), laid) for _ in range(trials)]
    excess = np.array([each.variance for each in found])
    assert abs(excess.mean()) < 4.5 * excess.std() / np.sqrt(trials)
    # What is added again is more than the error of this check.
    assert laid.meeting.sum() / n > 20.0 * excess.std() / np.sqrt(trials)
    chance = np.array([each.chance for each in found])
    for level in (0.01, 0.05):
        assert (chance < level).mean() < level + 4.5 * np.sqrt(level / trials)


def test_errors_that_a_unit_shares_are_not_taken_for_the_past():
    rng = np.random.default_rng(2)
    unit = np.repeat(np.arange(60), 20)
    # Each unit has one past in most of its rows.
    past = np.where(rng.random(1_200) < 0.8, unit % 3, rng.integers(3, size=1_200)) + 1
    pair = np.zeros(1_200, dtype=int)
    small = 0
    for _ in range(300):
        error = centered_errors(rng.normal(size=60)[unit] + rng.normal(size=1_200), pair)
        assert predicted(error, lay_past("", past, pair, np.arange(1_200))).chance < 1.0
        small += predicted(error, lay_past("", past, pair, unit)).chance < 0.05
    assert small / 300 < 0.05 + 4.5 * np.sqrt(0.05 / 300)


def test_nothing_is_said_of_few_rows_of_one_past_or_of_one_unit():
    rng = np.random.default_rng(3)
    pair, many = np.zeros(100, dtype=int), np.arange(100)
    error = rng.normal(size=100)
    assert predicted(error, lay_past("", (many < 40) + many % 2, pair, many)).chance < 1.0
    assert predicted(error, lay_past("", np.where(many < 40, 1 + many % 2, 0), pair, many)) == (
        1,
        0,
    )
    assert predicted(error, lay_past("", np.ones(100, dtype=int), pair, many)) == (1, 0)
    assert alike(np.ones((1, 3)), 0.0, 3) == (1.0, 0.0)


@pytest.mark.parametrize("chance", [0.5, 0.01, 1e-9])
def test_tests_that_are_all_alike_keep_their_probability(chance):
    assert combine_chances(np.full(7, chance)) == pytest.approx(chance, rel=1e-5)
    # One of many that say nothing counts as by Bonferroni's rule.
    assert combine_chances(np.r_[chance / 100.0, np.full(9, 0.5)]) == pytest.approx(
        chance / 10.0, rel=0.02
    )
