"""Every kind of fault is found with its rows, and its mend makes it vanish."""

import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.checking.faults import find_faults
from bayesdice_ppl.checking.running import run_steps
from tests.checking.faulty_logs import FAULTS, good, mended, plain, put


def kinds(frame):
    return {fault.kind for fault in find_faults(frame).faults}


def test_a_good_log_has_no_fault():
    found = find_faults(good())
    assert found.faults == ()
    assert found.whole
    assert found.logs.n_transitions == 240


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_with_its_rows_and_its_mend_makes_it_vanish(name):
    kind, frame, rows = FAULTS[name]
    found = [fault for fault in find_faults(frame).faults if fault.kind == kind]
    assert found, kinds(frame)
    assert sorted(row for fault in found for row in fault.rows) == rows
    for fault in found:
        left = find_faults(mended(frame, fault)).faults
        mine = [one for one in left if (one.kind, one.column) == (fault.kind, fault.column)]
        assert mine == []
    # And all mends, one after the other, leave a log that can be read.
    looked = frame
    for fault in find_faults(frame).faults:
        frame = mended(frame, fault)
        looked = run_steps(looked, fault.mend.steps)
    assert looked.equals(frame)  # what is looked at beforehand is what the code does
    after = find_faults(frame)
    assert [fault.kind for fault in after.faults] == []
    assert after.logs.n_transitions > 150


def test_all_faults_are_listed_at_once_and_all_mends_together_leave_a_good_log():
    frame = put("state", [5, 50], None)
    frame = put("action", [70], None, frame)
    frame = put("reward", [90, 91], float("inf"), frame)
    frame = put("reward", [110], None, frame)
    frame = put("propensity", [130], 0.0, frame)
    frame = put("terminated", [3], True, frame).rename({"terminated": "done"})
    copy = good()[150:156].with_columns(episode_id=pl.lit(99).cast(pl.Int64))
    frame = pl.concat([frame, frame[160:161], copy.rename({"terminated": "done"})])
    found = find_faults(frame)
    assert [(fault.kind, fault.column) for fault in found.faults] == [
        ("episodes given twice", "episode_id"),
        ("missing values", "state"),
        ("missing values", "action"),
        ("missing values", "reward"),
        ("numbers that are not finite", "reward"),
        ("numbers out of range", "propensity"),
        ("steps given twice", "step"),
        ("steps after an end", "episode_id"),
        ("columns that look like ours", "done"),
    ]
    # What can be read are the episodes without an error: 8 of 41 have one.
    assert not found.whole
    assert found.logs.n_episodes == 41 - 7
    for fault in found.faults:
        frame = mended(frame, fault)
    assert find_faults(frame).faults == ()


def test_what_no_kind_knows_is_told_in_the_words_of_the_reader():
    found = find_faults(good(), actions=[0])
    assert [fault.kind for fault in found.faults] == ["other"]
    assert "declared action space" in found.faults[0].sentence


@pytest.mark.parametrize(
    "frame",
    [pl.DataFrame(), good()[:0], good()[:1], pl.DataFrame({"x": [1, 2]})],
    ids=["nothing", "no rows", "one row", "no column of ours"],
)
def test_tables_of_nothing_are_errors_too(frame):
    assert find_faults(frame).faults
    assert find_faults(frame).logs is None


def test_short_episodes_that_are_equal_by_chance_are_no_copies():
    # Two states and one action: half of all episodes of two steps are equal.
    frame = pl.DataFrame(
        {
            "episode_id": [k // 2 for k in range(80)],
            "state": [(k // 2 + k) % 2 for k in range(80)],
            "action": [0] * 80,
            "reward": [float(k % 2) for k in range(80)],
            "terminated": [k % 2 == 1 for k in range(80)],
        }
    )
    assert kinds(frame) == set()


def test_names_of_columns_cannot_leave_their_quotes():
    name = "re'ward\"\n\x1b[31m"
    frame = put("reward", [6], float("inf")).rename({"reward": name})
    found = find_faults(frame, {"reward": name}).faults
    assert [fault.kind for fault in found] == ["numbers that are not finite"]
    assert find_faults(mended(frame, found[0]), {"reward": name}).faults == ()
    assert "\x1b" not in found[0].mend.code


def test_a_report_is_of_use_exactly_if_the_log_can_be_read():
    for name in ("missing reward", "copied episode", "copied rows", "in pieces", "done"):
        kind, frame, _ = FAULTS[name]
        report = bd.check(frame, gamma=0.0)
        try:
            bd.Logs.from_dataframe(frame)
        except bd.errors.LogsError:
            assert not report.usable, kind
        else:
            assert report.usable, kind


def test_a_set_without_the_action_that_was_taken_is_told_beside_other_faults():
    sets = [[0, 1]] * 240
    sets[6] = [1 - plain()["action"][6]]
    frame = put("reward", [90], None, plain()).with_columns(pl.Series("allowed_actions", sets))
    found = [(fault.column, fault.sentence) for fault in find_faults(frame).faults]
    assert [column for column, _ in found] == ["reward", "allowed_actions"]
    assert "does not have the action that was taken in row 7" in found[1][1]
    assert kinds(frame.with_columns(allowed_actions=pl.lit("0|1"))) == {"missing values"}
