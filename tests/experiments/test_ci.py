import numpy as np
import polars as pl
import pytest

from bayesdice_ppl.experiments.ci import PLAN, IntervalCoverage, narrowest
from bayesdice_ppl.experiments.coverage import LEVELS, coverage_of
from bayesdice_ppl.experiments.interval_methods import IntervalMethod, all_central, interval_methods
from bayesdice_ppl.experiments.methods import BAYESDICE, queries_of
from bayesdice_ppl.experiments.trials import Cell, deal
from tests.marks import slow


def test_coverage_by_hand():
    levels = np.array([0.5, 0.9])
    covered = np.array([[True, True], [False, True], [False, False], [False, True]])
    found = coverage_of(covered, levels, seed=0)
    assert found.levels.tolist() == [0.25, 0.75]
    assert found.mace == pytest.approx((0.25 + 0.15) / 2)
    assert found.mace_error > 0.0
    assert coverage_of(np.ones((4, 2), bool), levels, seed=0).mace_error == 0.0


def test_central_intervals_are_quantiles():
    ends = all_central(np.linspace(0.0, 1.0, 1001), (0.5, 0.9))
    assert ends == pytest.approx(np.array([[0.25, 0.75], [0.05, 0.95]]), abs=1e-12)


@pytest.mark.parametrize("marginal", [slow(False), True])
def test_every_method_answers_on_a_bandit(marginal):
    trial = deal(Cell("bandit", 0.5, 40, 1, 1, (0.9,)), 0, 0)
    experiment = IntervalCoverage((trial.cell,), marginal)
    frame = pl.DataFrame(experiment.rows(trial), schema=experiment.schema, orient="row")
    assert frame["error"].null_count() == len(frame)
    names = [m.name for m in interval_methods(marginal=marginal) if m.asked(trial)]
    assert frame["method"].unique(maintain_order=True).to_list() == names
    assert len(names) == len(set(names))
    for (_,), group in frame.group_by("method"):
        assert group["level"].to_list() == list(LEVELS)
        # Wider with the level, one within the other.
        assert np.all(np.diff(group["lower"].to_numpy()) <= 0.0)
        assert np.all(np.diff(group["upper"].to_numpy()) >= 0.0)
    assert frame["truth"].unique().to_list() == pytest.approx([0.9 * 0.75 + 0.1 * 0.25])


def test_the_middle_of_bayesdice_is_its_value():
    trial = deal(Cell("bandit", 0.5, 200, 1, 1, (0.9,)), 0, 0)
    query = queries_of(trial)["alpha_0.90"]
    ends = IntervalMethod(BAYESDICE).intervals(trial, "alpha_0.90", LEVELS, query)
    arm, reward = trial.logs.action, trial.logs.reward
    rates = [reward[arm == each].mean() for each in (0, 1)]
    # The truth within the log: the logged frequencies, mixed by the policy.
    spread = (ends[0, 1] - ends[0, 0]) / 1.35
    assert ends.mean(axis=1) == pytest.approx(0.9 * rates[0] + 0.1 * rates[1], abs=0.3 * spread)


def rows_of(method, widths, hits, n=10):
    """Rows of a cell in which the first `hits` of n intervals of each level hold the truth 0."""
    return [
        ("bandit", 0.5, 50, 1, trial, "alpha_0.90", method, level, *ends, 0.0, None)
        for trial in range(n)
        for level, width in zip(LEVELS, widths, strict=True)
        for ends in [(-width / 2, width / 2) if trial < hits else (1.0, 1.0 + width)]
    ]


def frame_of(*parts):
    names = ["world", "behavior", "episodes", "steps", "trial"]
    schema = [*names, *IntervalCoverage(()).schema]
    return pl.DataFrame([row for part in parts for row in part], schema=schema, orient="row")


def test_widths_are_held_against_methods_that_cover():
    widths = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    frame = frame_of(
        rows_of(BAYESDICE, widths, 10),
        rows_of("narrow and wrong", widths / 10, 1),
        rows_of("covers", widths * 2, 10),
        rows_of("covers, narrower", widths / 2, 10),
    )
    summary = IntervalCoverage(()).summarize(frame)
    by_method = {row["method"]: row for row in summary.iter_rows(named=True)}
    assert by_method["narrow and wrong"]["cov_90"] == pytest.approx(0.1)
    # Nine middles at 1 plus half the width of 50 %, and one at the truth.
    assert by_method["narrow and wrong"]["off"] == pytest.approx(0.9 * 1.05)
    assert by_method["narrow and wrong"]["off_sd"] == pytest.approx(0.3 * 1.05)
    assert by_method["covers"]["off"] == pytest.approx(0.0, abs=1e-12)
    assert by_method[BAYESDICE]["width_90"] == pytest.approx(4.0)
    assert by_method[BAYESDICE]["mace"] == pytest.approx(np.mean(1.0 - np.array(LEVELS)))
    held = narrowest(summary)
    assert held["rival"].unique().to_list() == ["covers, narrower"]
    assert held["ratio"].to_list() == pytest.approx([2.0] * 5)
    assert held["covers"].all()
    without = narrowest(summary.filter(pl.col("method") != "covers, narrower"))
    assert without["ratio"].to_list() == pytest.approx([0.5] * 5)


def test_widths_are_compared_on_the_same_trials():
    # The other method was asked in the first five trials only, where BayesDICE is twice as wide.
    own = [
        (*row[:8], row[8] * scale, row[9] * scale, *row[10:])
        for row in rows_of(BAYESDICE, np.ones(5), 10)
        for scale in [2.0 if row[4] < 5 else 0.1]
    ]
    frame = frame_of(own, rows_of("other", np.ones(5), 5, n=5))
    held = narrowest(IntervalCoverage(()).summarize(frame))
    assert held["ratio"].to_list() == pytest.approx([2.0] * 5)
    flat = frame_of(rows_of(BAYESDICE, np.ones(5), 10), rows_of("point", np.zeros(5), 10))
    ratios = narrowest(IntervalCoverage(()).summarize(flat))["ratio"].to_numpy()
    assert np.all(np.isinf(ratios))


def test_remarks_say_what_was_measured():
    frame = frame_of(rows_of(BAYESDICE, np.ones(5), 10), rows_of("covers", np.full(5, 0.5), 10))
    experiment = IntervalCoverage(())
    summary = experiment.summarize(frame)
    said = experiment.remarks(summary)[0]
    assert "is 0.2300 (standard error 0.0000) over its sizes: 0.230 at 50 x 1" in said
    assert "in 0 of 5. The widest against a rival is 2.00 times covers (level 0.5" in said
    assert list(experiment.tables(summary)) == ["Coverage and width: bandit"]
    assert len(experiment.figure(summary).axes) == 2


def test_a_trial_without_an_answer_counts_as_a_miss():
    rows = rows_of(BAYESDICE, np.ones(5), 10)
    silent = [(*row[:8], None, None, 0.0, "no answer") if row[4] < 4 else row for row in rows]
    (row,) = IntervalCoverage(()).summarize(frame_of(silent)).iter_rows(named=True)
    assert row["failed"] == 4
    assert row["cov_90"] == pytest.approx(0.6)
    assert row["width_90"] == pytest.approx(1.0)


def test_cells_have_the_trials_that_were_asked_for():
    assert {cell.n_trials for cell in PLAN.cells(["bandit", "frozenlake"])} == {1000}
    assert {cell.n_trials for cell in PLAN.cells(["taxi"])} == {50}
    assert {cell.n_trials for cell in PLAN.cells(quick=True, trials=7)} == {7}
    assert len(PLAN.cells(quick=True)) == 2
