"""The risk-coverage benchmark: its curve and areas by hand and by brute force."""

from itertools import permutations

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import bayesdice_ppl as bd
from bayesdice_ppl.belief import make_belief
from benchmarks import promise, risk_coverage


def test_the_curve_is_the_running_mean_from_the_surest():
    regret, claimed = np.array([0.4, 0.0, 1.0, 0.2]), np.array([0.3, 0.1, 0.9, 0.2])
    found = risk_coverage.curve(regret, claimed)
    np.testing.assert_allclose(found, [0.0, 0.1, 0.2, 0.4])


def test_the_equally_sure_are_averaged_over_their_orders():
    regret, claimed = np.array([0.4, 0.0, 1.0, 0.2]), np.array([0.3, 0.1, 0.1, 0.1])
    orders = [[*first, 0] for first in permutations([1, 2, 3])]
    every = [np.cumsum(regret[order]) / np.arange(1, 5) for order in orders]
    np.testing.assert_allclose(risk_coverage.curve(regret, claimed), np.mean(every, axis=0))


def test_reversed_pairs_by_counting():
    rng = np.random.default_rng(0)
    regret, claimed = rng.integers(3, size=40) / 2, rng.integers(4, size=40) / 4
    count = pairs = 0.0
    for i in range(40):
        for j in range(40):
            if regret[i] > regret[j]:
                pairs += 1
                count += 1.0 if claimed[i] < claimed[j] else 0.5 * (claimed[i] == claimed[j])
    assert risk_coverage.reversed_pairs(regret, claimed) == pytest.approx(count / pairs)
    assert risk_coverage.reversed_pairs(regret, regret) == 0.0
    assert risk_coverage.reversed_pairs(regret, -regret) == 1.0


def test_the_choice_of_draws_is_that_of_select():
    draws = np.random.default_rng(1).normal([0.1, 0.3, 0.2], 0.4, size=(300, 3))
    given = risk_coverage.choose(draws)
    chosen = bd.select(make_belief(draws, ["0", "1", "2"]), bd.scores.normalized_regret(k=1))
    assert str(given.candidate) == chosen.order[0]
    assert given.claimed == pytest.approx(chosen.expected_loss)


def test_draws_have_the_widths_of_the_intervals():
    value, half = np.array([1.0, -2.0]), np.array([0.5, 2.0])
    draws = risk_coverage.from_intervals(value, half)
    sd = half / norm.ppf(0.95)
    assert (np.abs(draws.mean(axis=0) - value) < 4.5 * sd / np.sqrt(len(draws))).all()
    assert (np.abs(draws.std(axis=0) / sd - 1) < 4.5 / np.sqrt(2 * len(draws))).all()


def test_abstentions_are_given_up_first_and_their_share_is_told():
    kinds = np.repeat([0, 1], 3)
    regret = np.array([0.0, 0.1, 0.2, 1.0, 1.0, 0.3])
    claimed = np.array([0.2, 0.3, 0.4, 0.0, 0.1, 0.5])
    kept = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 1.0])
    tables = {risk_coverage.BELIEF: np.stack([regret, claimed, kept], axis=1)}
    own, ruled = risk_coverage.summary(kinds, tables)
    assert own["aurcc"] == pytest.approx(
        np.mean(np.cumsum([1, 1, 0, 0.1, 0.2, 0.3]) / np.arange(1, 7))
    )
    assert ruled["aurcc"] == pytest.approx(
        np.mean(np.cumsum([0, 0.1, 0.2, 0.3, 1, 1]) / np.arange(1, 7))
    )
    assert ruled["aurcc"] == ruled["best_aurcc"]
    assert ruled["over_belief"] == pytest.approx(ruled["aurcc"] - own["aurcc"])
    assert (ruled["kept"], ruled["kept_regret"]) == (pytest.approx(4 / 6), pytest.approx(0.15))
    assert ruled["left_regret"] == 1.0
    assert own["kept"] is None
    assert own["at_100"] == ruled["at_100"] == pytest.approx(regret.mean())


def test_a_few_logs_fill_the_table(tmp_path):
    named = [kind for kind in promise.KINDS if kind.name == "bandit 20 x 8, n 200"]
    risk_coverage.main(2, tmp_path, named)
    table = pl.read_csv(tmp_path / "risk_coverage.csv", comment_prefix="#")
    expected = [risk_coverage.BELIEF, risk_coverage.RULED, *risk_coverage.PEERS]
    assert table["method"].to_list() == expected
    assert table["logs"].to_list() == [2] * len(expected)
    assert ((table["at_100"] >= 0.0) & (table["at_100"] <= 1.0)).all()
