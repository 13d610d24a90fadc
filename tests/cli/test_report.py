"""`bayesdice report`: a page, or one sentence and exit code 2."""

import json

import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.cli.report import other_question
from tests.reporting.reported import Reader, belief_of


@pytest.fixture
def saved(tmp_path):
    bd.save_belief(belief_of("abcd"), tmp_path / "b.nc")
    return tmp_path / "b.nc"


def test_the_page_is_the_one_of_python(run, saved, tmp_path):
    page = tmp_path / "report.html"
    code, out = run("report", saved, "--score precision -k 2 -o", page)
    assert code == 0, out.err
    expected = bd.report(bd.load_belief(saved), bd.scores.precision(k=2))
    answer = expected.selection.answer
    assert answer in " ".join(out.out.split())
    assert "Wrote" in out.out
    read = Reader(page.read_text(encoding="utf-8"))
    assert answer in read.text
    assert "bayesdice report b.nc --score precision -k 2" in read.text
    # Their words differ in what is left out alone: options that are not given.
    assert read.elements == Reader(expected.html).elements


def test_a_ranking_that_says_something_else_is_told_on_the_terminal(run, saved, tmp_path):
    (tmp_path / "ranking.json").write_text(json.dumps({"score": "kendall", "launch": []}))
    code, out = run("report", saved, "-o", tmp_path / "r.html")
    assert code == 0, out.err
    assert "Note: ranking.json beside it has a ranking by kendall" in " ".join(out.out.split())


def test_options_are_those_of_select(run, saved, tmp_path):
    page = tmp_path / "report.html"
    words = "-k 2 --must-include d --must-exclude a --risk cvar(0.2) --limits value>=-9 -o"
    code, out = run("report", saved, words, page)
    assert code == 0, out.err
    choice = bd.select(
        bd.load_belief(saved),
        bd.scores.regret(k=2, risk=bd.risk.cvar(0.2)),
        must_include=["d"],
        must_exclude=["a"],
        limits={"value": (-9.0, None)},
    )
    assert choice.answer in Reader(page.read_text()).text
    assert {"d"} <= set(choice.launch) <= {"b", "c", "d"}


def test_a_belief_that_cannot_tell_is_reported_and_exits_3(run, tmp_path):
    warning = SupportWarning("a", "was never seen.", True, "lost mass", 0.5, 1e-3)
    bd.save_belief(belief_of("ab", support_warnings=[warning]), tmp_path / "b.nc")
    code, out = run("report", tmp_path / "b.nc", "-o", tmp_path / "r.html")
    assert code == 3, out.err
    assert "No recommendation" in Reader((tmp_path / "r.html").read_text()).text


def test_a_page_that_is_there_is_kept_unless_told_otherwise(run, saved, tmp_path):
    page = tmp_path / "r.html"
    page.write_text("before")
    code, out = run("report", saved, "-o", page)
    assert (code, page.read_text()) == (2, "before")
    assert "--overwrite" in out.err
    code, out = run("report", saved, "--overwrite -o", page)
    assert code == 0, out.err
    assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-k 9", "expected at least 9 candidates"),
        ("--score luck", "score"),
        ("--score safe_improvement", "baseline: expected one"),
        ("--limits cost<=1", "cost"),
        ("--must-include nobody", "nobody"),
        ("--statistic cvar(0.1)", "statistic: expected one of"),
        ("--weights value=1 --statistic value", "--weights: expected no --statistic"),
        ("--budget 3", "cost"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_page(words, said, run, saved, tmp_path):
    code, out = run("report", saved, words, "-o", tmp_path / "r.html")
    assert code == 2
    assert said in out.err
    assert out.err.startswith("Error: ")
    assert "Traceback" not in out.err
    assert [path.name for path in tmp_path.iterdir()] == ["b.nc"]


@pytest.mark.parametrize("content", [b"", b"no belief", b"\x89HDF\r\n\x1a\n" + bytes(200)])
def test_a_file_that_is_no_belief_is_refused(content, run, tmp_path):
    (tmp_path / "b.nc").write_bytes(content)
    code, out = run("report", tmp_path / "b.nc", "-o", tmp_path / "r.html")
    assert code == 2
    assert "expected a belief in netCDF" in out.err
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("ranking", "told"),
    [
        ({"score": "precision@2", "launch": ["a", "b"]}, "by precision@2 that launches a, b."),
        ({"score": "kendall", "launch": []}, "by kendall that launches none."),
        ({"score": "regret@1", "launch": ["a"]}, ""),
        ("no ranking", ""),
        (None, ""),
    ],
    ids=["precision", "kendall", "the-same", "text", "absent"],
)
def test_a_ranking_beside_the_belief_that_says_something_else_is_told(ranking, told, tmp_path):
    if ranking is not None:
        (tmp_path / "ranking.json").write_text(json.dumps(ranking))
    choice = bd.select(belief_of("abcd"), bd.scores.regret(k=1))
    notes = other_question(tmp_path / "b.nc", choice)
    assert [told in note for note in notes] == ([True] if told else [])


def test_a_page_is_not_written_over_its_belief(run, saved):
    before = saved.read_bytes()
    code, out = run("report", saved, "--overwrite -o", saved)
    assert code == 2
    assert "this is an input" in out.err
    assert saved.read_bytes() == before


def test_a_belief_with_odd_attributes_is_no_traceback(run, tmp_path):
    belief = belief_of("abc", moved_mass=np.array([np.nan, 0.0, 9.0]))
    belief.attrs |= {"settings": "mine", "logged_value": "x", "unit": "[", "versions": "{}"}
    belief.attrs |= {"seed": "first", "rng_key": "{", "n_episodes": "some", "rewards": "3"}
    bd.save_belief(belief, tmp_path / "b.nc")
    code, out = run("report", tmp_path / "b.nc", "-o", tmp_path / "r.html")
    assert code in (0, 2)
    assert "Traceback" not in out.err
