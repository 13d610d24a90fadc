"""Values with too few degrees of freedom for a mean or an sd, in every table that has these."""

import io

import numpy as np
import pandas as pd
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.belief import make_belief, read_moments
from bayesdice_ppl.digits import ABSENT, written_alike

FREEDOM = {"none": 1.0, "mean": 2.0, "both": 5.0}


@pytest.fixture(scope="module")
def belief():
    rng = np.random.default_rng(0)
    values = np.stack([rng.standard_t(df, size=2_000) for df in FREEDOM.values()], axis=1)
    return make_belief(
        values, list(FREEDOM), degrees_of_freedom=np.array([*FREEDOM.values()]), support_warnings=[]
    )


def test_students_t_has_a_mean_past_one_degree_of_freedom_and_an_sd_past_two(belief):
    found = read_moments(belief, list(FREEDOM))
    assert found.mean.tolist() == [False, True, True]
    assert found.sd.tolist() == [False, False, True]
    assert found.note.startswith("none, mean: ")
    plain = make_belief(np.zeros((3, 1)), ["a"])
    assert read_moments(plain, ["a"]).note == ""


def test_the_ranking_has_medians_where_there_is_no_mean(belief):
    found = bd.select(belief, bd.scores.regret(k=1))
    table = {row["policy"]: row for row in found.table.iter_rows(named=True)}
    values = belief["posterior/value"].to_numpy()[0]
    for j, name in enumerate(FREEDOM):
        assert table[name]["median"] == pytest.approx(np.median(values[:, j]))
        assert table[name]["mean"] == (None if j == 0 else pytest.approx(values[:, j].mean()))
        assert (table[name]["sd"] is None) == (j < 2)
    assert any("no mean" in note for note in found.notes)
    row = next(line for line in str(found).splitlines() if line.startswith("none "))
    assert row.split()[2:4] == [ABSENT, ABSENT]


def test_a_ranking_of_values_that_have_both_is_as_it_was(belief):
    values = belief["posterior/value"].to_numpy()[0][:, 2:]
    found = bd.select(make_belief(values, ["both"]), bd.scores.regret(k=1))
    assert "median" not in found.table.columns
    assert not any("no mean" in note for note in found.notes)


def test_the_summary_leaves_them_out_and_says_why(belief):
    table = bd.summary(belief)
    assert table["mean"].isna().tolist() == [True, False, False]
    assert table["sd"].isna().tolist() == [True, True, False]
    assert table["mcse_mean"].isna().tolist() == [True, True, False]
    assert "median" in table.columns
    assert "no mean" in table.attrs["moments"]
    assert isinstance(table, pd.DataFrame)


def test_the_terminal_and_the_report_have_the_medians(belief):
    from rich.console import Console

    from bayesdice_ppl.belief import read_values
    from bayesdice_ppl.cli.console import show_selection
    from bayesdice_ppl.reporting.forest import draw_forest
    from bayesdice_ppl.reporting.ranking import tabulate

    found = bd.select(belief, bd.scores.regret(k=1))
    ranking = tabulate(found, {})
    assert ranking.headings[:3] == ("mean", "sd", "median")
    cells = {row.name: row.cells for row in ranking.rows}
    assert cells["none"][:2] == (ABSENT, ABSENT)
    assert cells["none"][2] != ABSENT
    figure = draw_forest(found, read_values(belief), None)
    words = {row.name: row.words for row in figure.rows}
    assert words["none"].startswith("median ")
    assert words["both"].startswith("mean ")
    assert "median" in figure.caption
    page = io.StringIO()
    show_selection(Console(file=page, width=120), found)
    assert "median" in page.getvalue()


def test_what_is_not_there_takes_no_part_in_how_numbers_are_written():
    assert written_alike([None, 1.0], [None, 0.1]) == written_alike([1.0], [0.1])
    assert written_alike([1.0], [0.1]).cell(None) == ABSENT


def test_a_figure_leaves_the_far_tails_out_of_view_and_says_so(belief):
    both = make_belief(belief["posterior/value"].to_numpy()[0][:, 2:], ["both"])
    for shown, clipped in ((belief, True), (both, False)):
        axes = bd.plots.ridge(shown).get_target(None, {"column": "ridge"})
        assert ("central 90 %" in axes.get_xlabel()) == clipped
        low, high = axes.get_xlim()
        values = shown["posterior/value"].to_numpy()
        assert (high - low < 0.1 * np.ptp(values)) == clipped
    forest = bd.plots.forest(belief).get_target(None, {"column": "forest"})
    assert forest.get_title(loc="left").startswith("median")
