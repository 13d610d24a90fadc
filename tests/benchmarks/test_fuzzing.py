"""Fuzzing: some mutated files of each kind; the benchmark has ten thousand."""

import pytest

from benchmarks import fuzzing


@pytest.fixture(scope="module")
def base():
    return fuzzing.make_base()


def test_mutated_files_are_refused_or_read_as_they_say(base, tmp_path):
    outcomes = fuzzing.run_chunk(base, 10**4, 6 * len(fuzzing.KINDS), tmp_path)
    assert [each for each in outcomes if each.result == "finding"] == []
    assert {each.result for each in outcomes} == {"refused", "accepted"}


def test_good_files_are_accepted(base, tmp_path):
    for kind in fuzzing.KINDS:
        (tmp_path / kind).write_bytes(base.content[kind])
        assert fuzzing.try_file(tmp_path / kind, kind) == (kind, "accepted", "")


def test_what_is_read_otherwise_is_a_finding(base, tmp_path):
    """The harness can fail: a log that is held against another file."""
    kind = "log.csv"
    (tmp_path / kind).write_bytes(base.content[kind])
    found = fuzzing.read(tmp_path / kind, kind)
    assert fuzzing.disagreement(found, tmp_path / kind, kind) == ""
    (tmp_path / kind).write_bytes(base.content[kind].replace(b",0.5", b",0.6"))
    assert "was read as" in fuzzing.disagreement(found, tmp_path / kind, kind)


def test_a_cost_without_a_policy_is_refused(tmp_path):
    from bayesdice_ppl.cli.texts import read_costs
    from bayesdice_ppl.errors import SettingsError

    path = tmp_path / "costs.csv"
    path.write_text("policy,cost\na,1.5\n,2\n")
    with pytest.raises(SettingsError, match="row 2: the policy is missing"):
        read_costs(str(path))


def test_json_that_names_a_column_twice_is_refused(tmp_path):
    from bayesdice_ppl import read_logs
    from bayesdice_ppl.errors import LogsError

    path = tmp_path / "logs.jsonl"
    good = '{"state": 0, "action": 1, "reward": 0.5}\n'
    path.write_text(good + '{"state": 0, "action": 1, "reward": 0.5, "state": 1}\n' + good)
    with pytest.raises(LogsError, match="line 2: 'state' is given twice"):
        read_logs(path)
    path.write_text(good + '{"state" : 0, "state": 1, "reward": 0.5}\n' + good)
    with pytest.raises(LogsError, match="line 2: 'state' is given twice"):
        read_logs(path)
