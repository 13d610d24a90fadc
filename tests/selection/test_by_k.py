"""Losses by k and rank probabilities, against single selections and counts by hand."""

import math

import arviz as az
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl import risk, scores
from bayesdice_ppl.errors import BeliefError, ScoreError, SettingsError
from bayesdice_ppl.selection.by_k import loss_by_k
from bayesdice_ppl.selection.ranks import rank_probabilities


def belief_of(values, names=None):
    values = np.asarray(values, float)
    names = names or [f"p{i}" for i in range(values.shape[1])]
    return az.from_dict(
        {"posterior": {"value": values[None]}}, coords={"policy": names}, dims={"value": ["policy"]}
    )


# Three draws; the best are b, a, c, so that one policy loses 1 or 2 or 3 in the other two.
BY_HAND = belief_of([[0.0, 1.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 3.0]], ["a", "b", "c"])


def test_regret_by_hand():
    """Only c: (1 + 2) / 3. With a: 1 / 3. All: 0."""
    table = loss_by_k(BY_HAND, scores.regret)
    assert table["k"].to_list() == [1, 2, 3]
    assert table["score"].to_list() == ["regret@1", "regret@2", "regret@3"]
    assert table["expected_loss"].to_list() == pytest.approx([1.0, 1 / 3, 0.0])
    assert [sorted(launch) for launch in table["launch"]] == [["c"], ["a", "c"], ["a", "b", "c"]]
    assert table["status"].to_list() == ["optimal"] * 3
    assert table["gap"].to_list() == [0.0] * 3
    # Losses of c are 1, 2, 0 and those of the pair 1, 0, 0.
    assert table["standard_error"].to_list() == pytest.approx([1 / math.sqrt(3), 1 / 3, 0.0])


def some_belief(n_policies=4, n_draws=300):
    rng = np.random.default_rng(0)
    return belief_of(rng.normal(size=(n_draws, n_policies)) + np.linspace(1.5, 0.0, n_policies))


def test_each_row_is_a_selection():
    belief = some_belief()
    table = loss_by_k(belief, scores.precision, [3, 1], must_exclude=["p0"])
    assert table["k"].to_list() == [3, 1]
    for row in table.to_dicts():
        choice = bd.select(belief, scores.precision(row["k"]), must_exclude=["p0"])
        assert row["launch"] == choice.launch
        assert "p0" not in row["launch"]
        assert row["expected_loss"] == choice.expected_loss
        assert row["standard_error"] == choice.loss_standard_error


@pytest.mark.parametrize(
    ("make_score", "n_policies", "expected"),
    [
        (scores.correlation, 4, [2, 3, 4]),
        (scores.precision, 4, [1, 2, 3, 4]),
        (scores.precision, 13, list(range(1, 11))),
    ],
)
def test_ks_from_the_least_that_the_score_takes(make_score, n_policies, expected):
    assert loss_by_k(some_belief(n_policies), make_score)["k"].to_list() == expected


def test_unknown_gaps_are_null_and_risks_have_their_own_losses():
    belief = some_belief(9, 60)
    table = loss_by_k(
        belief, lambda k: scores.regret(k, risk=risk.cvar(0.2)), [4], max_evaluations=20
    )
    assert table["status"].to_list() == ["unproven"]
    assert table["gap"].to_list() == [None]
    assert table["score"].to_list() == ["cvar(0.2) of regret@4"]
    depths = loss_by_k(belief, lambda k: scores.custom(lambda v, r: -v[:, r[0]], depth=k), [1])
    assert depths["k"].to_list() == [1]


def test_another_statistic():
    belief = some_belief()
    belief["posterior/cvar(0.1)"] = -belief["posterior/value"]
    turned = loss_by_k(belief, scores.regret, [1], statistic="cvar(0.1)")
    assert turned["launch"].to_list() == [["p3"]]
    assert loss_by_k(belief, scores.regret, [1])["launch"].to_list() == [["p0"]]


@pytest.mark.parametrize(
    ("make_score", "ks", "error", "message"),
    [
        (scores.regret(2), None, ScoreError, "expected a function of k"),
        (scores.regret, [], ScoreError, "ks: expected at least one k"),
        (scores.regret, [0], SettingsError, "at least 1"),
        (scores.regret, [5], ScoreError, "at least 5 candidates, found 4"),
        (scores.correlation, [1], SettingsError, "k: expected a whole number of at least 2"),
        (lambda k: k, [2], ScoreError, r"make_score\(2\): expected a score"),
        (lambda k: scores.regret(1), [2], ScoreError, "with this k"),
        (lambda k: scores.regret(9), None, ScoreError, "with this k"),
    ],
)
def test_what_is_no_score_of_k(make_score, ks, error, message):
    with pytest.raises(error, match=message):
        loss_by_k(some_belief(), make_score, ks)


def test_rules_and_beliefs_are_checked_as_by_select():
    with pytest.raises(SettingsError, match="must_include: expected at most 1 candidates"):
        loss_by_k(some_belief(), scores.regret, [1], must_include=["p0", "p1"])
    with pytest.raises(BeliefError, match="no posterior/cvar"):
        loss_by_k(some_belief(), scores.regret, [1], statistic="cvar(0.1)")


def test_rank_probabilities_by_hand():
    """In the second draw all three are tied, in the third the first two are."""
    belief = belief_of([[3.0, 2.0, 1.0], [5.0, 5.0, 5.0], [2.0, 2.0, 9.0]], ["a", "b", "c"])
    found = rank_probabilities(belief)
    assert found.dims == ("policy", "place")
    assert found.name == "rank_probability"
    third = 1 / 3
    rows = {
        "a": [1 + third, third + 0.5, third + 0.5],
        "b": [third, 1 + third + 0.5, third + 0.5],
        "c": [third + 1, third, third + 1],
    }
    for name, row in rows.items():
        assert found.sel(policy=name).values == pytest.approx(np.array(row) / 3)
    assert found.place.values.tolist() == [1, 2, 3]
    assert found.to_pandas().loc["a", 1] == pytest.approx((1 + third) / 3)


def test_rank_probabilities_are_doubly_stochastic_and_count_places():
    rng = np.random.default_rng(1)
    values = rng.integers(0, 6, (500, 7)).astype(float)
    found = rank_probabilities(belief_of(values))
    assert found.sum("place").values == pytest.approx(np.ones(7))
    assert found.sum("policy").values == pytest.approx(np.ones(7))
    assert found.min() >= 0.0
    best = values == values.max(axis=1, keepdims=True)
    assert found.sel(place=1).values == pytest.approx(
        (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    )


def test_rank_probabilities_of_another_statistic():
    belief = some_belief()
    belief["posterior/other"] = -belief["posterior/value"]
    turned = rank_probabilities(belief, "other").values
    assert turned == pytest.approx(rank_probabilities(belief).values[:, ::-1])
    with pytest.raises(BeliefError, match="no posterior/missing"):
        rank_probabilities(belief, "missing")
