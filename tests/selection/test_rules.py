"""Rules of a launch that cannot be met or read, and what is said of them."""

import arviz as az
import numpy as np
import pytest

from bayesdice_ppl import scores
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.selection import select

NAMES = ["a", "b", "c", "d"]
COSTS = {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0}


@pytest.fixture
def belief():
    mean = np.array([1.0, 0.5, 0.2, 0.0])
    values = mean + np.random.default_rng(0).normal(size=(1, 300, 4))
    return az.from_dict(
        {"posterior": {"value": values}}, coords={"policy": NAMES}, dims={"value": ["policy"]}
    )


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"costs": COSTS}, "budget: expected it beside costs"),
        ({"budget": 3.0}, "costs: expected it beside budget"),
        (
            {"costs": {"a": 1.0}, "budget": 3.0},
            "costs: expected one for every candidate, found none for 'b'",
        ),
        (
            {"costs": COSTS | {"e": 1.0}, "budget": 3.0},
            "costs: expected names of the belief, .* found 'e'",
        ),
        (
            {"costs": COSTS | {"c": -1.0}, "budget": 3.0},
            "the cost of 'c': expected a number of at least 0, found -1",
        ),
        (
            {"costs": COSTS | {"c": np.nan}, "budget": 3.0},
            "the cost of 'c': expected a number of at least 0, found nan",
        ),
        (
            {"costs": COSTS | {"c": "3"}, "budget": 3.0},
            "the cost of 'c': expected a number of at least 0, found '3'",
        ),
        ({"costs": COSTS, "budget": np.inf}, "budget: expected a number of at least 0, found inf"),
        ({"costs": COSTS, "budget": 1.0}, "budget: expected at least 2, the cost of the cheapest"),
        (
            {"costs": COSTS, "budget": 4.5, "must_include": ["a"]},
            "at least 5, the cost of those that must be included",
        ),
        ({"costs": COSTS, "budget": 2.5, "must_exclude": ["d"]}, "at least 3, the cost of the"),
        (
            {"must_include": ["a", "b", "c"]},
            "at most 2 candidates, as many as regret@2 launches, found 3",
        ),
        (
            {"must_include": ["a"], "must_exclude": ["a"]},
            "must_include: 'a' is in must_exclude too",
        ),
        (
            {"must_include": ["z"]},
            "must_include: expected names of the belief, .* found 'z'",
        ),
        ({"must_exclude": NAMES}, "expected at least . left for regret@2 to launch, found 0"),
        ({"must_include": "a"}, "must_include: expected a list of names, found 'a'"),
    ],
)
def test_what_cannot_be_met_or_read(belief, rules, message):
    with pytest.raises(SettingsError, match=message):
        select(belief, scores.regret(2), **rules)


@pytest.mark.parametrize("score", [scores.spearman(), scores.kendall()])
def test_a_ranking_of_all_launches_nobody_in_particular(belief, score):
    with pytest.raises(SettingsError, match="expected a score that says how many go live"):
        select(belief, score, must_include=["a"])
    assert select(belief, score).launch == []


def test_correlation_launches_exactly_k(belief):
    with pytest.raises(SettingsError, match="at least 9, the cost of the cheapest 3"):
        select(belief, scores.correlation(3), costs=COSTS, budget=8.0)
    choice = select(belief, scores.correlation(3), costs=COSTS, budget=9.0)
    assert sorted(choice.launch) == ["b", "c", "d"]
    assert len(choice.order) == 4


def test_by_hand(belief):
    free = select(belief, scores.regret(2))
    assert len(free.launch) == 2
    # 5 affords a alone, c and d, or one of the others.
    choice = select(belief, scores.regret(2), costs=COSTS, budget=5.0)
    assert sum(COSTS[name] for name in choice.launch) <= 5.0
    assert choice.order[: len(choice.launch)] == choice.launch
    assert sorted(choice.order) == NAMES
    assert choice.table["launched"].to_list() == [True] * len(choice.launch) + [False] * (
        4 - len(choice.launch)
    )
    assert choice.expected_loss > free.expected_loss
    assert "allowed" in choice.certificate.statement
    only = select(belief, scores.regret(2), costs=COSTS, budget=2.0)
    assert only.launch == ["d"]
    assert only.certificate.runner_up is None
    assert "No other launch is allowed" in only.certificate.statement
    assert any("1 of 2 places are filled" in note for note in only.notes)


def test_what_is_excluded_can_still_be_the_best(belief):
    values = belief["posterior/value"].values[0]
    choice = select(belief, scores.regret(1), must_exclude=["a"])
    assert "a" not in choice.launch
    best = values.max(axis=1) - values[:, NAMES.index(choice.launch[0])]
    assert choice.expected_loss == pytest.approx(best.mean())


def test_decimals_that_add_up_to_the_budget_are_within_it(belief):
    costs = dict.fromkeys(NAMES, 0.1)
    choice = select(belief, scores.regret(3), costs=costs, budget=0.3)
    assert len(choice.launch) == 3


def test_a_budget_that_affords_everything_changes_nothing(belief):
    for score in (scores.regret(2), scores.precision(2), scores.accuracy(2), scores.ndcg(3)):
        free = select(belief, score)
        rich = select(belief, score, costs=COSTS, budget=100.0)
        assert rich.order == free.order
        assert rich.expected_loss == free.expected_loss
