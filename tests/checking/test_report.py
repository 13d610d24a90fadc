"""The report as text, HTML and JSON, from Python and from the command."""

import json

import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.plain import plain_text
from tests.checking.faulty_logs import copied_episode, good, put

NASTY = "<script>alert(1)</script>\x1b[31m\x07"


def test_the_report_fits_80_columns_but_for_code():
    report = bd.check(put("reward", [6], float("inf")), gamma=0.9)
    for line in str(report).splitlines():
        assert len(line) <= 80 or "pl.col" in line, line
    assert "df = df.filter(" in str(report)


def test_names_and_labels_cannot_steer_a_terminal_or_a_page():
    frame = put("reward", [6], float("inf")).rename({"state": NASTY, "reward": "r" + NASTY})
    frame = frame.with_columns(pl.lit(NASTY).alias("logging_policy"))
    columns = {"state": NASTY, "reward": "r" + NASTY}
    report = bd.check(frame, gamma=0.9, columns=columns)
    assert not report.usable
    for text in (str(report), report._repr_html_()):
        assert "\x1b" not in text
        assert "\x07" not in text
    assert "<script>" not in report._repr_html_()
    assert plain_text("a\x1b\u202eb\nc") == "a\\x1b\\u202eb\nc"


def test_the_dict_is_json_and_has_the_documented_keys():
    report = bd.check(put("reward", [6, 7], None), gamma=0.9)
    told = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert told == report.to_dict()
    assert list(told) == [
        "schema",
        "source",
        "read_as",
        "table_code",
        "gamma",
        "usable",
        "enough_for_candidates",
        "columns",
        "unused_columns",
        "faults",
        "figures_of_whole_log",
        "figures",
    ]
    assert told["schema"] == 1
    assert told["faults"] == [
        {
            "kind": "missing values",
            "severity": "error",
            "column": "reward",
            "sentence": "'reward' has no value in rows 6, 7.",
            "rows": [6, 7],
            "n_rows": 2,
            "mend": {
                "words": "Leave these episodes out, if values are missing by chance.",
                "code": "df = df.filter(pl.col('reward').is_not_null().all().over('episode_id'))",
            },
        }
    ]


def test_logs_that_were_read_already_are_checked_too():
    logs = bd.Logs.from_dataframe(good())
    assert bd.check(logs, gamma=0.9).usable


def test_a_setting_out_of_range_is_refused_before_anything_is_read():
    with pytest.raises(bd.errors.SettingsError, match="gamma"):
        bd.check("/no/such/file.csv", gamma=2.0)


@pytest.fixture
def file(tmp_path):
    def file(frame, name="logs.csv"):
        frame.write_csv(tmp_path / name)
        return tmp_path / name

    return file


def test_the_exit_code_says_how_the_log_is(file, run):
    fine = file(good(), "fine.csv")
    warned = file(copied_episode(), "warned.csv")
    bad = file(put("reward", [6], None), "bad.csv")
    policies = bd.Policies({"ones": {s: {1: 1.0} for s in range(4)}}).to_dataframe()
    ones = file(policies, "ones.csv")
    for words, expected in (
        ((fine,), 0),
        ((fine, "--strict"), 0),
        ((warned,), 0),
        ((warned, "--strict"), 1),
        ((bad,), 2),
        ((bad, "--strict"), 2),
        ((fine, "-p", ones, "--actions", "0,1"), 0),
    ):
        code, out = run("check", *words, "--gamma", "0.9")
        assert code == expected, (words, out)
        assert out.err == ""
    code, out = run("check", bad, "--gamma", "0.9", "--json")
    assert code == 2
    assert json.loads(out.out)["faults"][0]["rows"] == [6]
    assert json.loads(out.out)["source"] == "bad.csv"
    code, out = run("check", fine, "-p", file(policies[:1], "few.csv"), "--gamma", "0.9")
    assert code == 2
    assert "candidates cannot be used" in out.out


def test_a_file_that_cannot_be_read_is_one_sentence_on_stderr(tmp_path, run):
    code, out = run("check", tmp_path / "none.csv", "--gamma", "0.9", "--json")
    assert code == 2
    assert out.out == ""
    assert "no such file" in out.err
