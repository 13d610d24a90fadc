"""Limits and weighted sums, against counts over the draws."""

import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.belief import make_belief
from bayesdice_ppl.errors import BeliefError, SettingsError

NAMES = ("a", "b", "c", "d")
N_DRAWS = 400


@pytest.fixture(scope="module")
def draws():
    rng = np.random.default_rng(0)
    quality = rng.normal([0.5, 0.6, 0.7, 0.8], 0.1, (N_DRAWS, 4))
    cost = 2.0 * quality + rng.normal([0.0, 0.2, 0.0, 0.4], 0.1, (N_DRAWS, 4))
    return {"quality": quality, "cost": cost}


@pytest.fixture(scope="module")
def belief(draws):
    return make_belief(draws["quality"], NAMES, statistics=draws)


def share_within(draws, limits):
    """Literal: draw by draw, candidate by candidate."""
    counts = np.zeros(len(NAMES))
    for s in range(N_DRAWS):
        for i in range(len(NAMES)):
            inside = True
            for name, (low, high) in limits.items():
                number = draws[name][s, i]
                if (low is not None and number < low) or (high is not None and number > high):
                    inside = False
            counts[i] += inside
    return counts / N_DRAWS


@pytest.mark.parametrize(
    "limits",
    [{"cost": (None, 1.4)}, {"quality": (0.5, None), "cost": (None, 1.5)}, {"cost": (1.0, 1.5)}],
    ids=["one", "two", "both sides"],
)
@pytest.mark.parametrize("confidence", [0.2, 0.4, 0.5])
def test_only_candidates_within_go_live(belief, draws, limits, confidence):
    shares = share_within(draws, limits)
    allowed = [name for name, share in zip(NAMES, shares, strict=True) if share >= confidence]
    assert 0 < len(allowed) < 4
    chosen = bd.select(belief, bd.scores.regret(k=1), limits=limits, confidence=confidence)
    others = [name for name in NAMES if name not in allowed]
    same = bd.select(belief, bd.scores.regret(k=1), must_exclude=others)
    assert chosen.launch == same.launch
    assert chosen.expected_loss == same.expected_loss
    (note,) = [note for note in chosen.notes if "outside the limits" in note]
    for name, share in zip(NAMES, shares, strict=True):
        assert (f"{name} ({share:.3g})" in note) == (name in others)


def test_limits_are_judged_jointly(draws):
    """Each alone holds in half of the draws; together they never do."""
    flat = np.tile(np.linspace(-1.0, 1.0, N_DRAWS)[:, None], 2)
    belief = make_belief(flat, ("a", "b"), statistics={"x": flat, "y": -flat})
    chosen = bd.select(
        belief,
        bd.scores.regret(k=1),
        limits={"x": (0.001, None), "y": (0.001, None)},
        confidence=0.01,
    )
    assert not chosen.limits_met
    assert "is within them in any draw" in chosen.reasons[0]


def test_a_weighted_sum_is_ranked_as_the_belief_of_the_sum(belief, draws):
    sums = make_belief(draws["quality"] - 0.4 * draws["cost"], NAMES)
    weights = {"quality": 1, "cost": -0.4}
    for score in (bd.scores.regret(k=2), bd.scores.precision(k=2), bd.scores.kendall()):
        found, own = bd.select(belief, score, statistic=weights), bd.select(sums, score)
        assert found.order == own.order
        assert found.expected_loss == pytest.approx(own.expected_loss, rel=1e-12)
    assert found.statistic == "quality - 0.4 cost"
    asked = bd.value_of_information(belief, bd.scores.regret(k=1), statistic=weights)
    assert asked.perfect == pytest.approx(
        bd.value_of_information(sums, bd.scores.regret(k=1)).perfect, rel=1e-9
    )
    np.testing.assert_allclose(
        bd.rank_probabilities(belief, weights), bd.rank_probabilities(sums), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"price": 1.0}, "expected one of value, quality, cost, found 'price'"),
        ({"cost": float("nan")}, "a finite weight"),
        ({"cost": 0.0}, "a weight that is not 0"),
        ({}, "a weight that is not 0"),
    ],
    ids=["unknown", "nan", "zero", "none"],
)
def test_weights_that_mean_nothing_are_refused(belief, weights, words):
    with pytest.raises(BeliefError, match=words):
        bd.select(belief, bd.scores.regret(k=1), statistic=weights)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"limits": 3}, "a mapping of names"),
        ({"limits": {"cost": 0.5}}, r"\(lowest, highest\) of 'cost'"),
        ({"limits": {"cost": (None, None)}}, "a number among those"),
        ({"limits": {"cost": (2, 1)}}, "lowest of 'cost' first"),
        ({"limits": {"cost": (None, 1)}, "confidence": 0.0}, "a probability above 0"),
        ({"confidence": 0.5}, "expected limits beside it"),
        ({"limits": {"cost": (None, 1.4)}, "must_include": ["d"]}, "must_include: 'd'"),
    ],
    ids=["number", "one number", "nothing", "order", "confidence", "alone", "required"],
)
def test_limits_that_cannot_be_met_are_refused(belief, given, words):
    with pytest.raises(SettingsError, match=words):
        bd.select(belief, bd.scores.regret(k=1), **given)


def test_a_score_of_the_whole_ranking_has_no_limits(belief):
    with pytest.raises(SettingsError, match="how many go live, found kendall"):
        bd.select(belief, bd.scores.kendall(), limits={"cost": (None, 1.4)})


def test_where_all_are_within_the_note_says_so(belief):
    chosen = bd.select(belief, bd.scores.regret(k=1), limits={"cost": (None, 99.0)})
    assert "every candidate has P(cost <= 99) of 0.9 or more" in chosen.notes


def test_every_reward_is_tabulated(belief, draws):
    limits = {"cost": (None, 1.5)}
    chosen = bd.select(belief, bd.scores.regret(k=1), limits=limits, confidence=0.2)
    table = chosen.rewards
    places = [NAMES.index(name) for name in chosen.order]
    np.testing.assert_allclose(table["cost"], draws["cost"].mean(axis=0)[places])
    np.testing.assert_allclose(table["cost_sd"], draws["cost"].std(axis=0, ddof=1)[places])
    np.testing.assert_allclose(table["p_within_limits"], share_within(draws, limits)[places])
    assert table["policy"].to_list() == chosen.order
    assert chosen.to_dict()["rewards"] == table.to_dicts()
    assert "p_within_limits" in str(chosen)
    assert "p_within_limits" in chosen._repr_html_()
    assert bd.select(belief, bd.scores.regret(k=1)).rewards is None


def unmet_cases():
    one, two = bd.scores.regret(k=1), bd.scores.correlation(k=2)
    costs = {name: 1.0 if name == "a" else 9.0 for name in NAMES}
    return {
        "nobody": (one, {"limits": {"cost": (None, 0.0)}}, "no candidate has P(cost <= 0)"),
        "too few": (two, {"limits": {"cost": (None, 1.3)}}, "of 2 candidates to go live 1 have"),
        "excluded": (
            one,
            {"limits": {"cost": (None, 1.3)}, "must_exclude": ["a"]},
            "The likeliest is",
        ),
        "too dear": (
            one,
            {"limits": {"cost": (1.3, None)}, "costs": costs, "budget": 2.0, "confidence": 0.5},
            "meets the other rules too",
        ),
    }


@pytest.mark.parametrize("name", list(unmet_cases()))
def test_limits_that_leave_nobody_are_an_answer_and_nobody_goes_live(belief, name):
    score, options, reason = unmet_cases()[name]
    chosen = bd.select(belief, score, **options, abstain=False)
    assert not chosen.limits_met
    assert not chosen.recommended
    assert chosen.launch == []
    assert not chosen.table["launched"].any()
    assert reason in chosen.reasons[0]
    assert "the limits leave nobody to go live" in str(chosen)
    rules = {key: each for key, each in options.items() if key not in ("limits", "confidence")}
    without = bd.select(belief, score, **rules)
    assert (chosen.order, chosen.expected_loss) == (without.order, without.expected_loss)
    assert f"Without limits one would put {', '.join(chosen.order[:1])}" in chosen.answer


def test_the_loss_is_counted_against_those_outside_too_and_a_note_says_so(belief, draws):
    chosen = bd.select(belief, bd.scores.regret(k=1), limits={"cost": (None, 1.4)})
    (best,) = chosen.launch
    quality = draws["quality"]
    regret = (quality.max(axis=1) - quality[:, NAMES.index(best)]).mean()
    np.testing.assert_allclose(chosen.expected_loss, regret, rtol=1e-12)
    assert any("those that the limits exclude too" in note for note in chosen.notes)


def test_rules_that_no_launch_meets_by_themselves_are_refused_with_limits_too(belief):
    with pytest.raises(SettingsError, match="must_exclude: expected at least 1"):
        bd.select(
            belief,
            bd.scores.regret(k=1),
            limits={"cost": (None, 99.0)},
            must_exclude=list(NAMES),
        )
