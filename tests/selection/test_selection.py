"""`select`: what it reads from a belief, what it returns, and when it does not recommend."""

import json
import math

import arviz as az
import numpy as np
import polars as pl
import pytest
import xarray as xr

from bayesdice_ppl import scores
from bayesdice_ppl.errors import BeliefError, ScoreError
from bayesdice_ppl.selection import Certificate, Selection, select
from bayesdice_ppl.selection.certificate import certify, judge, listing, standard_error
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.rules import no_rules
from bayesdice_ppl.selection.solvers import Found


def belief_of(values, names=None, warnings=(), constant_data=None):
    """A belief as `fit` makes it: one chain, draws (M, N)."""
    values = np.asarray(values, float)
    names = names or [f"p{i}" for i in range(values.shape[-1])]
    groups = {"posterior": {"value": values[None]}}
    dims = {"value": ["policy"]}
    if constant_data:
        groups["constant_data"] = constant_data
        dims |= {name: ["policy"] for name in constant_data}
    belief = az.from_dict(groups, coords={"policy": names}, dims=dims)
    if warnings is not None:
        belief.attrs["support_warnings"] = json.dumps(list(warnings))
    return belief


@pytest.fixture
def draws():
    rng = np.random.default_rng(0)
    return rng.normal(size=(400, 5)) + rng.normal(size=(400, 1)) + [0.0, 0.6, 0.3, 0.9, 0.2]


THIN = {"policy": "p2", "reason": "a third of its visits were never logged", "abstain": True}
SLIGHT = {"policy": "p0", "reason": "effective sample size 80", "abstain": False}


def test_by_hand():
    # p1 is best in three draws of four, and on average worse than p0.
    belief = belief_of([[0, 1], [0, 1], [0, 1], [9, 0]])
    by_regret = select(belief, scores.regret(1))
    assert by_regret.order == ["p0", "p1"]
    assert by_regret.expected_loss == 0.75
    assert by_regret.loss_standard_error == pytest.approx(math.sqrt(0.25) / 2)
    certificate = by_regret.certificate
    assert certificate.runner_up == ("p1", "p0")
    assert certificate.runner_up_loss == 2.25
    assert certificate.runner_up_better == 0.75
    assert certificate.margin == 1.5
    assert (certificate.status, certificate.method) == ("optimal", "exhaustive")
    assert (certificate.evaluated, certificate.gap) == (2, 0.0)
    assert "strictly better in 75% of the draws" in certificate.statement
    assert "tie as far as these draws can tell" in certificate.statement

    by_precision = select(belief, scores.precision(1))
    assert by_precision.order == ["p1", "p0"]
    assert by_precision.expected_loss == 0.25
    assert by_precision.table["p_best"].to_list() == [0.75, 0.25]
    assert by_precision.table["expected_rank"].to_list() == [1.25, 1.75]
    assert by_precision.answer.startswith("Try p1: expected precision@1 loss 0.25 ")


def test_past_the_depth_by_mean_then_name():
    values = [[5.0, 1.0, 2.0, 1.0, 3.0]] * 2
    belief = belief_of(values, names=["best", "zeta", "mid", "alpha", "good"])
    order = ["best", "good", "mid", "alpha", "zeta"]
    for score in (scores.precision(1), scores.regret(2), scores.accuracy(3), scores.regret(5)):
        assert select(belief, score).order == order


def test_table_starts_from_arviz_summary(draws):
    belief = belief_of(draws)
    choice = select(belief, scores.precision(2))
    summary = az.summary(
        belief, kind="stats", ci_prob=0.9, ci_kind="hdi", round_to="none", fmt="xarray"
    )["value"]
    table = choice.table
    assert isinstance(table, pl.DataFrame)
    assert table["policy"].to_list() == choice.order
    assert table["rank"].to_list() == [1, 2, 3, 4, 5]
    for column, name in zip(
        ["mean", "sd", "hdi90_lower", "hdi90_upper"],
        ["mean", "sd", "hdi90_lb", "hdi90_ub"],
        strict=True,
    ):
        expected = summary.sel(summary=name, policy=choice.order).values
        np.testing.assert_allclose(table[column], expected)
    places = (-draws).argsort(axis=1).argsort(axis=1) + 1
    order = [int(name[1]) for name in choice.order]
    np.testing.assert_allclose(table["p_best"], (places == 1).mean(axis=0)[order])
    np.testing.assert_allclose(table["p_top_k"], (places <= 2).mean(axis=0)[order])
    np.testing.assert_allclose(table["expected_rank"], places.mean(axis=0)[order])


def test_identical_candidates_share_probabilities(draws):
    twins = np.column_stack([draws, draws[:, 3]])
    table = select(belief_of(twins), scores.regret(2)).table
    shares = dict(zip(table["policy"], table["p_best"], strict=True))
    assert shares["p3"] == pytest.approx(shares["p5"])
    assert sum(shares.values()) == pytest.approx(1)
    certificate = select(belief_of(twins), scores.regret(1)).certificate
    assert certificate.runner_up[0] == "p5"
    assert certificate.margin == certificate.runner_up_better == 0.0
    assert certificate.statement.endswith("has the same loss in every draw: a tie.")


def test_no_runner_up_where_every_ranking_is_the_same(draws):
    for score in (scores.precision(5), scores.regret(5)):
        choice = select(belief_of(draws), score)
        assert choice.expected_loss == choice.loss_standard_error == 0.0
        assert choice.certificate.runner_up is None
        assert choice.certificate.statement == "There is only one choice."
    alone = select(belief_of(draws[:, :1]), scores.accuracy(1))
    assert alone.order == ["p0"]


@pytest.mark.parametrize(
    "dims", [("policy", "draw", "chain"), ("draw", "policy"), ("policy", "draw")]
)
def test_dims_in_any_order_and_without_chain(draws, dims):
    array = xr.DataArray(
        draws[None],
        dims=("chain", "draw", "policy"),
        coords={"policy": [f"p{i}" for i in range(5)]},
    )
    array = array.isel(chain=0) if "chain" not in dims else array
    belief = xr.DataTree.from_dict({"posterior": xr.Dataset({"value": array.transpose(*dims)})})
    expected = select(belief_of(draws), scores.accuracy(3))
    choice = select(belief, scores.accuracy(3))
    assert choice.order == expected.order
    assert choice.expected_loss == pytest.approx(expected.expected_loss)


def test_several_chains_and_other_variables(draws):
    belief = az.from_dict(
        {"posterior": {"value": draws.reshape(4, 100, 5), "beta": np.zeros((4, 100, 2))}},
        coords={"policy": list("abcde")},
        dims={"value": ["policy"]},
    )
    one = select(belief_of(draws, names=list("abcde")), scores.regret(2))
    four = select(belief, scores.regret(2))
    assert four.order == one.order
    assert four.n_draws == 400
    assert four.loss_standard_error >= one.loss_standard_error


def test_a_belief_read_back_from_a_file(draws, tmp_path):
    belief = belief_of(draws, warnings=[THIN], constant_data={"moved_mass": np.arange(5) / 10})
    belief.to_netcdf(tmp_path / "belief.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "belief.nc", engine="h5netcdf") as read:
        choice = select(read, scores.regret(2))
    assert choice.to_dict() == select(belief, scores.regret(2)).to_dict()


def test_is_deterministic(draws):
    for score in (scores.regret(2), scores.correlation(3)):
        first, second = (select(belief_of(draws), score) for _ in range(2))
        assert first.to_dict() == second.to_dict()


class TestSupport:
    def test_abstains(self, draws):
        belief = belief_of(draws, warnings=[THIN, SLIGHT])
        choice = select(belief, scores.regret(2))
        assert not choice.recommended
        assert choice.reasons == ["p2: a third of its visits were never logged"]
        assert choice.warnings == [*choice.reasons, "p0: effective sample size 80"]
        assert choice.answer.startswith("No recommendation")
        assert "the numbers of p2 cannot be trusted" in choice.answer
        assert f"Reason: {choice.reasons[0]}" in str(choice)
        asked = select(belief, scores.regret(2), abstain=False)
        assert asked.recommended
        assert asked.reasons == []
        assert asked.warnings == choice.warnings
        assert asked.order == choice.order

    def test_what_is_said_of_several_is_said_once(self, draws):
        warnings = [THIN, THIN | {"policy": "p0"}, SLIGHT]
        choice = select(belief_of(draws, warnings=warnings), scores.regret(2))
        assert len(choice.reasons) == 2
        assert choice.remarks[0] == "Reason: p2, p0: a third of its visits were never logged"
        assert str(choice).count("a third of its visits") == 1
        assert choice.remarks[1] == "Warning: p0: effective sample size 80"

    def test_slight_warnings_and_other_policies_do_not_matter(self, draws):
        other = THIN | {"policy": "someone else"}
        choice = select(belief_of(draws, warnings=[SLIGHT, other]), scores.regret(2))
        assert choice.recommended
        assert choice.warnings == ["p0: effective sample size 80"]
        assert "Warning: p0: effective sample size 80" in str(choice)

    def test_missing_information_is_noted(self, draws):
        choice = select(belief_of(draws, warnings=None), scores.regret(2))
        assert choice.recommended
        assert len(choice.notes) == 2
        assert "was not checked" in choice.notes[0]
        assert choice.notes[1].endswith("lost_mass, effective_sample_size, negative_mass")
        assert choice.notes[0] in str(choice)

    def test_figures_are_passed_on(self, draws):
        figures = {
            "moved_mass": np.arange(5) / 10,
            "lost_mass": np.zeros(5),
            "effective_sample_size": np.array([9.0, 8.0, np.nan, 6.0, 5.0]),
            "negative_mass": np.arange(5) / 100,
        }
        choice = select(belief_of(draws, constant_data=figures), scores.regret(2))
        assert choice.support["p3"] == {
            "moved_mass": 0.3,
            "lost_mass": 0.0,
            "effective_sample_size": 6.0,
            "negative_mass": 0.03,
        }
        assert choice.notes == [
            "the belief does not give for every candidate: effective_sample_size"
        ]
        assert choice.to_dict()["support"]["p2"]["effective_sample_size"] is None

    @pytest.mark.parametrize(
        "text",
        ["{", "3", "[3]", '[{"policy": "a"}]', '[{"policy": 1, "reason": "", "abstain": 0}]'],
    )
    def test_unreadable_warnings_are_an_error(self, draws, text):
        belief = belief_of(draws)
        belief.attrs["support_warnings"] = text
        with pytest.raises(BeliefError, match="support_warnings"):
            select(belief, scores.regret(2))


def test_json_text_and_html(draws):
    names = ["a", "<script>", "c & d", "e", "f"]
    choice = select(belief_of(draws, names=names, warnings=None), scores.correlation(3))
    read = json.loads(json.dumps(choice.to_dict(), allow_nan=False))
    assert read["order"] == choice.order
    assert read["certificate"]["runner_up"] == list(choice.certificate.runner_up)
    assert [row["policy"] for row in read["table"]] == choice.order
    assert read["expected_loss"] == choice.expected_loss
    html = choice._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<tr>") == 6
    text = str(choice)
    assert choice.certificate.statement in text
    assert choice.answer in text
    assert text.splitlines()[2].split()[:3] == ["policy", "rank", "mean"]
    assert repr(choice) == f"Selection(order={choice.order!r}, score='correlation@3')"
    assert isinstance(choice, Selection)
    assert isinstance(choice.certificate, Certificate)


class TestCustom:
    def test_cost_per_policy(self, draws):
        # Indices are those of the belief's own order of policies.
        cost = np.array([0.0, 0.0, 0.0, 100.0, 0.0])
        own = scores.custom(lambda v, r: cost[r[0]] - v[:, r[0]], name="net", depth=1)
        choice = select(belief_of(draws), own)
        assert choice.order[0] == "p1"
        assert (choice.score, choice.k) == ("net", 1)
        assert choice.certificate.evaluated == 5

    def test_a_depth_that_is_too_small_is_found_out(self, draws):
        own = scores.custom(lambda v, r: v[:, r[0]] + v[:, r[-1]], name="ends", depth=1)
        with pytest.raises(ScoreError, match="ends: expected a loss of the first 1 places"):
            select(belief_of(draws), own)

    def test_a_bare_function_is_refused(self, draws):
        with pytest.raises(ScoreError, match=r"Wrap a function of your own in scores\.custom"):
            select(belief_of(draws), lambda v, r: v[:, 0])


def test_standard_error_of_chains_that_stick():
    rng = np.random.default_rng(1)
    sticky = np.repeat(rng.normal(size=(4, 50)), 20, axis=1)  # 20 equal draws in a row
    independent = sticky.std(ddof=1) / math.sqrt(sticky.size)
    assert standard_error(sticky) > 3 * independent
    assert standard_error(sticky.reshape(1, -1)) == pytest.approx(independent)
    assert standard_error(np.ones((4, 50))) == 0.0


def test_thirty_four_candidates():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(500, 34)) + np.linspace(0, 3, 34)
    choice = select(belief_of(values), scores.regret(3))
    assert len(choice.order) == 34
    assert choice.certificate.evaluated == math.comb(34, 3)


@pytest.mark.parametrize("within", [False, True])
def test_a_gap_is_measured_by_what_the_draws_can_tell(within):
    # Of the first: 0, 0, 0 and 2, so that the mean of 0.5 has a standard error of 0.5.
    values = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    problem = RankingProblem(values, scores.regret(1), no_rules(2))
    found = Found((0,), 0.5, 0.2, 7, "branch and bound", (1,), 0.75)
    own = judge(problem, (0,), (1, 4))
    assert own.standard_error == 0.5
    tight = own._replace(influence=own.influence * (1.0 if within else 0.5))
    certificate = certify(problem, found, tight, judge(problem, (1,), (1, 4)), ("b", "a"))
    assert certificate.status == "gap"
    assert certificate.gap_in_errors == pytest.approx(0.6 if within else 1.2)
    assert ("less than these draws can tell" in certificate.statement) == within
    assert ("leaves more open" in certificate.statement) == (not within)
    assert "(7 nodes)" in certificate.statement


def test_long_lists_are_counted():
    names = [f"p{i}" for i in range(100)]
    assert listing(names) == "p0, p1, p2, p3, p4 and 95 more"
    assert listing(names[:6]) == "p0, p1, p2, p3, p4, p5"
    assert listing(names[:1]) == "p0"
    rng = np.random.default_rng(3)
    choice = select(belief_of(rng.normal(size=(50, 100))), scores.kendall())
    certificate = choice.certificate
    assert len(certificate.runner_up) == 100
    assert str(certificate) == certificate.statement
    for text in (repr(certificate), certificate.statement):
        assert " and 95 more" in text
        assert text.count(certificate.runner_up[50]) == 0
    assert " and 92 more: " in choice.answer
