"""What a report says, against what the library says by itself."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import bayesdice_ppl as bd
from bayesdice_ppl.belief import SupportWarning, make_belief, with_groups
from bayesdice_ppl.digits import exact, written_alike
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.reporting import put_together
from bayesdice_ppl.reporting.axis import axis_of
from bayesdice_ppl.reporting.places import _starts, draw_places
from bayesdice_ppl.reporting.ranking import tabulate
from tests.reporting.reported import Reader, belief_of

NAMES = ["a", "b", "c", "d"]
UNITS = written_alike([0.0, 1.0], [0.01])


def content_of(belief, score=None, logs=None, policies=None, **options):
    score = score or bd.scores.regret(k=2)
    choice = bd.select(belief, score, **options)
    return put_together(belief, score, choice, options, source="b.nc", logs=logs, policies=policies)


@pytest.fixture(scope="module")
def fitted(plain):
    logs, policies = plain.log(0), plain.policies(1, 4)
    import jax

    return bd.fit(logs, policies, gamma=0.9, rng_key=jax.random.key(0), draws=500), logs, policies


@pytest.fixture(scope="module")
def own():
    return content_of(belief_of(NAMES)), belief_of(NAMES)


def test_an_axis_has_round_numbers_at_their_places():
    axis = axis_of(0.0, 1.0, "value", UNITS, room=0.0)
    assert [tick.text for tick in axis.ticks] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert [tick.at for tick in axis.ticks] == [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    assert axis.at(0.25) == 25.0
    assert (axis.at(-3.0), axis.at(3.0)) == (0.0, 100.0)


@pytest.mark.parametrize(
    ("low", "high"), [(-3.0, 5e4), (1e-9, 3e-9), (0.3, 0.3), (0.0, 0.0), (1e6 + 0.1, 1e6 + 0.2)]
)
def test_every_axis_has_numbers_that_differ(low, high):
    numbers = written_alike([low, high], [(high - low) / 50])
    axis = axis_of(low, high, "value", numbers)
    texts = [tick.text for tick in axis.ticks]
    assert 2 <= len(texts) <= 6
    assert len(set(texts)) == len(texts)
    for tick in axis.ticks:
        value = float(tick.text) * numbers.unit + numbers.base
        assert math.isclose(axis.at(value), tick.at, abs_tol=0.02)
    assert 0.0 < axis.at(low) <= axis.at(high) < 100.0


def test_the_forest_has_the_intervals_of_the_table(own):
    content, belief = own
    table = bd.select(belief, bd.scores.regret(k=2)).table
    axis = content.forest.axis
    for row, known in zip(content.forest.rows, table.iter_rows(named=True), strict=True):
        assert (row.name, row.launched) == (known["policy"], known["launched"])
        assert row.mean == axis.at(known["mean"])
        assert row.outer == (axis.at(known["hdi90_lower"]), axis.at(known["hdi90_upper"]))
        assert row.outer[0] < row.inner[0] < row.inner[1] < row.outer[1]
        values = belief["posterior/value"].sel(policy=row.name).values.ravel()
        low, high = (axis.low + at * (axis.high - axis.low) / 100 for at in row.inner)
        inside = ((values >= low) & (values <= high)).mean()
        assert abs(inside - 0.5) <= 0.01
    assert content.forest.logged is None


def test_densities_have_the_shape_of_the_draws():
    # A normal law on a fine grid: its density is known at every point.
    values = norm.ppf((np.arange(4000) + 0.5) / 4000)
    belief = belief_of(["a"], n_draws=4000)
    belief["posterior"]["value"].values[0, :, 0] = values
    figure = content_of(belief, bd.scores.regret(k=1)).forest
    points = figure.rows[0].density.split("L")[1].split(" Z")[0].split()[:-1]
    x, y = np.array([point.split(",") for point in points if "," in point], float).T
    place = figure.axis.low + x * (figure.axis.high - figure.axis.low) / 100.0
    np.testing.assert_allclose(1.0 - y / 100.0, np.exp(-(place**2) / 2.0), atol=0.04)


def test_draws_that_are_all_equal_have_no_density():
    belief = belief_of(["a", "b"])
    belief["posterior"]["value"].values[..., 0] = 0.5
    content = content_of(belief, bd.scores.regret(k=1))
    by_name = {row.name: row for row in content.forest.rows}
    assert by_name["a"].density == ""
    assert by_name["b"].density
    assert {cell.text for cell in content.dependence.cells[0]} == {"?"}


def test_chances_and_places_are_those_of_the_ranks(own):
    content, belief = own
    shares = bd.rank_probabilities(belief)
    for row in content.chances.rows:
        places = shares.sel(policy=row.name).values
        assert row.best == round(100.0 * places[0], 2)
        np.testing.assert_allclose(row.top, 100.0 * places[:2].sum(), atol=0.006)
    highest = float(shares.max())
    for name, cells in zip(content.places.names, content.places.cells, strict=True):
        places = shares.sel(policy=name).values
        assert [cell.color for cell in cells] == [round(100 * p / highest) for p in places.tolist()]


@pytest.mark.parametrize("n", [1, 20, 21, 60, 500, 1000])
def test_places_are_put_together_into_few_columns_that_leave_none_out(n):
    starts = _starts(n)
    assert starts == sorted(set(starts))
    assert starts[0] == 0
    assert starts[-1] < n
    assert len(starts) <= 20
    if n > 20:
        assert starts[:7] == [0, 1, 2, 3, 4, 5, 10]


def test_shares_of_columns_sum_to_one():
    belief = belief_of([f"p{i}" for i in range(30)])
    places = draw_places(bd.select(belief, bd.scores.precision(k=2)), belief, "value")
    assert places.columns == ("1", "2", "3", "4", "5", "6–10", "11–20", "21–30")  # noqa: RUF001
    for cells in places.cells:
        percents = [float(cell.words.split(": ")[1].removesuffix(" %")) for cell in cells]
        assert abs(sum(percents) - 100.0) <= 0.5


def test_losses_are_those_of_every_k(own):
    content, belief = own
    table = bd.loss_by_k(belief, bd.scores.regret)
    assert [point.k for point in content.losses.points] == table["k"].to_list()
    for point, row in zip(content.losses.points, table.iter_rows(named=True), strict=True):
        assert point.at == content.losses.axis.at(row["expected_loss"])
        assert list(point.launch) == row["launch"]
        assert point.asked == (row["k"] == 2)


@pytest.mark.parametrize(
    ("score", "label"),
    [
        (bd.scores.precision(k=2), "expected precision@k (lower is better)"),
        (bd.scores.regret(k=2, risk=bd.risk.cvar(0.1)), "cvar(0.1) regret@k (reward per step)"),
        (bd.scores.correlation(k=2), "expected regret@k (reward per step)"),
        (bd.scores.kendall(), "expected regret@k (reward per step)"),
    ],
    ids=["precision", "cvar", "correlation", "kendall"],
)
def test_a_score_without_such_k_has_the_regret_of_each(score, label):
    content = content_of(belief_of(NAMES), score)
    assert content.losses.axis.label == label


def test_k_that_the_rules_refuse_are_named():
    content = content_of(belief_of(NAMES), bd.scores.regret(k=3), must_include=["a", "d"])
    assert [point.k for point in content.losses.points] == [2, 3, 4]
    assert "The rules allow no launch of k = 1." in content.losses.caption
    assert ("must go live", "a, d.") in content.question.parts


def test_dependence_is_the_correlation_of_the_draws(own):
    content, belief = own
    values = belief["posterior/value"].sel(policy=list(content.dependence.names)).values[0]
    expected = np.corrcoef(values.T)
    for cells, row in zip(content.dependence.cells, expected, strict=True):
        for cell, number in zip(cells, row, strict=True):
            assert cell.color == round(100.0 * abs(number))
            assert cell.negative == (number < 0.0)
            np.testing.assert_allclose(float(cell.text), number, atol=0.0051)


def test_verdicts_are_those_of_diagnose(fitted):
    belief, logs, policies = fitted
    content = content_of(belief, logs=logs, policies=policies)
    found = bd.diagnose(belief, logs, policies)
    assert content.judgment.words == {v.policy: v.word for v in found.verdicts}
    shown = {v.policy: v for v in content.judgment.verdicts}
    assert shown == {v.policy: v for v in found.verdicts if v.reasons}
    told = [check for check in found.checks if check.name != "support" or check.passed]
    assert list(content.judgment.checks) == told
    assert "self-check" in [check.name for check in content.judgment.checks]
    assert [row.verdict for row in content.ranking.rows] == [
        found.verdict(row.name).word for row in content.ranking.rows
    ]


def test_what_is_past_a_gauge_in_the_figure_is_what_the_belief_warns_of(plain):
    import jax

    logs, policies = plain.log(3, n_episodes=4, n_states=6), plain.policies(2, 5, n_states=6)
    belief = bd.fit(logs, policies, gamma=0.9, rng_key=jax.random.key(0), draws=100)
    content = content_of(belief)
    gauges = ["effective transitions", "unseen share", "influential episode"]
    assert content.support.headings[1] == "variance from pairs never logged"
    told = {v.policy: {r.check for r in v.reasons} for v in bd.diagnose(belief).verdicts}
    seen = set()
    for name, bars in zip(content.support.names, content.support.rows, strict=True):
        for gauge, bar in zip(gauges, bars, strict=True):
            assert bar.past == (gauge in told[name]), (name, gauge)
            seen.add(bar.past)
    assert seen == {True, False}


def test_the_prior_is_that_of_the_belief(fitted):
    belief, _, _ = fitted
    content = content_of(belief)
    axis, data = content.priors.axis, belief["constant_data"]
    for row in content.priors.rows:
        mean, sd = (float(data[key].sel(policy=row.name)) for key in ("prior_mean", "prior_sd"))
        ends = norm.ppf([0.05, 0.95], mean, sd)
        np.testing.assert_allclose(row.prior, [axis.at(end) for end in ends], atol=0.011)


def test_draws_of_the_prior_go_before_its_law(fitted):
    belief, _, _ = fitted
    names = belief["posterior"]["policy"].values.tolist()
    drawn = np.linspace(-2.0, 3.0, 101)[:, None] + np.arange(4)
    group = {"prior": {"value": (drawn[None], ["policy"])}}
    content = content_of(with_groups(belief, group, {"policy": names}))
    for row in content.priors.rows:
        start = -2.0 + names.index(row.name)
        expected = [content.priors.axis.at(start + end) for end in (0.25, 4.75)]
        np.testing.assert_allclose(row.prior, expected, atol=0.011)


def test_a_belief_of_another_program_has_what_it_has():
    belief = belief_of(NAMES)
    belief.attrs |= {"settings": "mine", "n_transitions": "many", "logged_value": "none"}
    content = content_of(belief)
    assert content.support is content.priors is None
    assert content.judgment.words == {}
    assert content.judgment.summary.startswith("No verdicts.")
    assert not content.ranking.judged
    assert content.choices.rows == ()
    assert "The belief does not say how it was made." in content.rerun.remarks
    assert any("was not checked" in remark for remark in content.remarks)


def test_a_belief_of_a_baseline_says_so(plain):
    import jax

    from bayesdice_ppl.baselines import estimate_all, make

    logs, policies = plain.log(0), plain.policies(1, 3)
    found = estimate_all(
        make("dirichlet", draws=100), logs, policies, gamma=0.9, rng_key=jax.random.key(0)
    )
    content = content_of(found.belief())
    assert content.method == "dirichlet"
    assert "the method dirichlet" in content.judgment.summary
    assert [each.what for each in content.citations] == ["This library"]
    assert content.rerun.command[0].startswith("bayesdice select")
    assert "--method dirichlet" in content.rerun.command[0]


def several():
    rng = np.random.default_rng(0)
    quality, cost = rng.normal(size=(2, 300, 4))
    cost[:, 3] -= 9.0
    return make_belief(
        quality,
        NAMES,
        statistics={"quality": quality, "cost": cost},
        rewards=["quality", "cost"],
    )


def test_several_rewards_and_their_limits_have_a_table():
    options = {"limits": {"cost": (None, -3.0)}, "confidence": 0.8, "statistic": "cost"}
    content = content_of(several(), bd.scores.regret(k=1), **options)
    assert content.rewards.headings == ("quality", "cost", "P(within limits)")
    assert content.rewards.rows[0].name == "d"
    assert content.rewards.rows[0].cells[-1] == "1.000"
    assert ("limits", "cost <= -3, with a probability of 0.8.") in content.question.parts
    assert content.forest.axis.label == "cost (per step)"
    assert content.forest.logged is content.priors is None


def test_a_weighted_sum_is_ranked_and_named():
    weights = {"quality": 1.0, "cost": -0.5}
    content = content_of(several(), statistic=weights)
    assert ("value", "quality - 0.5 cost, per step; higher is better.") in content.question.parts
    assert "--weights quality=1.0,cost=-0.5" in content.rerun.command[-1]


@pytest.mark.parametrize(
    ("score", "tops"),
    [
        (bd.scores.regret(k=1), []),
        (bd.scores.regret(k=3), ["P(top 3)"]),
        (bd.scores.regret(k=4), []),
        (bd.scores.kendall(), []),
    ],
    ids=["one", "three", "all", "kendall"],
)
def test_the_top_is_told_where_it_is_neither_one_nor_all(score, tops):
    found = tabulate(bd.select(belief_of(NAMES), score), {})
    assert [heading for heading in found.headings if "top" in heading] == tops
    assert {len(row.cells) for row in found.rows} == {len(found.headings)}


def test_what_select_refuses_a_report_refuses():
    with pytest.raises(SettingsError, match="limits"):
        bd.report(belief_of(NAMES), bd.scores.regret(k=1), limits={"value": (2.0, 1.0)})


def test_a_report_is_made_where_the_limits_leave_nobody():
    page = bd.report(belief_of(NAMES), bd.scores.regret(k=1), limits={"value": (99.0, None)})
    assert page.selection.launch == []
    text = Reader(page.html).text
    assert "No recommendation: the limits leave nobody to go live." in text
    assert "no candidate has P(value >= 99) of 0.9 or more" in text
    assert "goes live" not in text.replace("would go live", "")


def test_reasons_stand_beside_the_answer_alone_and_numbers_to_the_last_digit():
    warning = SupportWarning("b", "goes where the log has not been.", True, "lost mass", 0.5, 1e-3)
    belief = belief_of(["a", "b", "c"], support_warnings=[warning])
    text = Reader(bd.report(belief, bd.scores.regret(k=1)).html).text
    assert "goes where the log has not been" in text
    assert "Reason:" not in text
    assert (exact(0.95), exact(0.9999999), exact(1), exact(617283.25)) == (
        "0.95",
        "0.9999999",
        "1",
        "617283.25",
    )
