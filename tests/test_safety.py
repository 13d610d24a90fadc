"""What comes from elsewhere runs nothing, steers nothing, and fills no memory."""

import ast
import gzip
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl import cli
from bayesdice_ppl.cli.console import make_console, show_rows
from bayesdice_ppl.errors import LogsError, PoliciesError
from bayesdice_ppl.logs.limits import VARIABLE
from bayesdice_ppl.plain import plain_text, shell_word

ROOT = Path(__file__).parent.parent
NASTY = "x'; touch owned; $(id) \x1b[31m\x9b2J\u202e<b>"
HEADER = b"episode_id,state,action,reward\n"


def calls(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield (
                ast.unparse(node.func),
                {each.arg: ast.unparse(each.value) for each in node.keywords},
            )


def test_nothing_is_evaluated_unpickled_or_given_to_a_shell():
    never = {"eval", "exec", "os.system", "os.popen"}
    words = ("eval(", "exec(", "pickle", "shell=", "load(", "os.system", "popen")
    for folder in ("bayesdice_ppl", "models", "envs"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            assert "import pickle" not in text, path
            if not any(word in text for word in words):
                continue
            for name, options in calls(path):
                assert name not in never, path
                assert "pickle" not in name, path
                assert options.get("shell", "False") == "False", path
                if name in ("np.load", "numpy.load"):
                    assert options["allow_pickle"] == "False", path


def test_a_gzip_bomb_is_refused_before_it_is_read_whole(tmp_path, monkeypatch):
    path = tmp_path / "logs.csv.gz"
    rows = b"0,1,1,0.5\n" * 2_000_000
    path.write_bytes(gzip.compress(HEADER + rows))
    monkeypatch.setattr("bayesdice_ppl.logs.limits.ALWAYS", 1_000_000)
    with pytest.raises(LogsError, match=r"unpacks to more than [\d,]+ bytes.*BAYESDICE_MAX_BYTES"):
        bd.read_logs(path)
    small = tmp_path / "small.csv.gz"
    small.write_bytes(gzip.compress(HEADER + rows[:1000]))
    assert bd.read_logs(small).n_transitions == 100
    monkeypatch.setenv(VARIABLE, "100")
    with pytest.raises(LogsError, match="unpacks to more than 100 bytes"):
        bd.read_logs(small)
    monkeypatch.setenv(VARIABLE, "1e9")
    with pytest.raises(LogsError, match="expected a whole number of bytes, found '1e9'"):
        bd.read_logs(small)
    monkeypatch.setenv(VARIABLE, "30000000")
    assert bd.read_logs(small).n_transitions == 100


def test_parquet_that_claims_more_than_is_allowed_is_refused_by_its_metadata(tmp_path, monkeypatch):
    # Equal rows are stored once, and so a small file can claim as many as it likes.
    monkeypatch.setattr("bayesdice_ppl.logs.limits.ALWAYS", 1_000_000)
    path = tmp_path / "logs.parquet"
    one = pa.array(np.zeros(1_000_000, dtype=np.int64))
    table = pa.table(dict.fromkeys(("state", "action", "reward"), one))
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(2):
            writer.write_table(table)
    assert path.stat().st_size < 2**16
    with pytest.raises(LogsError, match="claims 2,000,000 rows of 3 columns, 48,000,000 bytes"):
        bd.read_logs(path)


@pytest.mark.parametrize("opening", ["[", '{"a":'], ids=["lists", "objects"])
def test_json_that_is_nested_too_deep_is_refused_with_its_line(opening, tmp_path):
    path = tmp_path / "logs.jsonl"
    deep = opening * 100_000
    good = '{"state": 0, "action": 1, "reward": 0.5}\n'
    path.write_text(good * 3 + '{"state": ' + deep + "\n")
    with pytest.raises(LogsError, match=r"line 4: expected at most 64 levels"):
        bd.read_logs(path)
    # Brackets inside text open nothing.
    text = '{"state": "' + "[{" * 100 + '", "action": 1, "reward": 0.5}\n'
    path.write_text(text * 3)
    assert bd.read_logs(path).n_transitions == 3


def test_a_table_of_candidates_that_would_fill_the_memory_is_refused():
    names = [str(k) for k in range(2000)]
    frame = pl.DataFrame({"policy": names, "state": names, "action": names, "prob": [1.0] * 2000})
    with pytest.raises(PoliciesError, match="at most 1,000,000,000 probabilities"):
        bd.Policies.from_dataframe(frame)


def test_what_is_proposed_for_a_shell_is_one_word():
    frame = pl.DataFrame({"state": [0, 1], "action": [0, 1], NASTY: [1.0, 2.0]})
    with pytest.raises(LogsError) as caught:
        bd.Logs.from_dataframe(frame.rename({NASTY: "rewards"}).rename({"state": "States"}))
    assert "(--columns state=States,reward=rewards)" in str(caught.value)
    done = frame.rename({NASTY: "reward"}).with_columns(
        pl.Series("Episode ID; rm -rf .", [0, 0]), done=pl.Series([False, True])
    )
    with pytest.raises(LogsError) as caught:
        bd.Logs.from_dataframe(done.rename({"Episode ID; rm -rf .": "Episode; ID"}))
    words = str(caught.value).split("--columns ")[1].split(")")[0]
    assert len(shlex.split(words)) == 1
    assert shlex.split(shell_word(NASTY)) == [plain_text(NASTY)]


def test_the_console_and_errors_show_control_characters_and_obey_none(capsys, monkeypatch):
    console = make_console()
    console.print(f"plain {NASTY}", markup=False)
    show_rows(console, NASTY, ["policy", NASTY], [[NASTY, "1"]])
    monkeypatch.setattr("sys.argv", ["bayesdice", "check", f"/none/{NASTY}.csv", "--gamma", "0"])
    with pytest.raises(SystemExit):
        cli.main()
    shown = capsys.readouterr()
    assert "no such file" in shown.err
    for text in (shown.out, shown.err):
        assert "\\x1b" in text
        for steering in "\x1b\x9b\u202e":
            assert steering not in text


def test_labels_of_any_text_reach_the_page_and_the_terminal_as_text():
    frame = pl.DataFrame({"state": [NASTY, "a"], "action": [0, 1], "reward": [0.0, 1.0]})
    report = bd.check(frame, bd.Policies({"b": {NASTY: {1: 1.0}}}), gamma=0.0, actions=[0, 1])
    assert not report.usable  # it names no probabilities in the state "a"
    assert "\x1b" not in str(report) + report._repr_html_()
    with pytest.raises(PoliciesError, match="printable"):
        bd.Policies({NASTY: {0: {0: 1.0}}})
