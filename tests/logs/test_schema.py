"""Which columns of a table are a log's, and which are vectors."""

import numpy as np
import polars as pl
import pytest

from bayesdice_ppl.errors import LogsError
from tests.logs import good_log
from tests.logs.vector_log import (
    ACTION,
    NEXT,
    OBS,
    PLAIN,
    build,
    listed,
    refusal,
    same,
    spread,
    wide,
)


@pytest.mark.parametrize("column", ["state", "action", "reward"])
def test_a_missing_column_is_named_with_those_that_are_there(column):
    message = good_log.refusal(drop=[column])
    assert f"missing column '{column}'" in message
    assert "episode_id" in message
    assert f"--columns {column}=" in message


def test_columns_without_a_meaning_are_listed_and_left_alone():
    assert good_log.build(weather=["sun"] * 5).unused_columns == ("weather",)


def test_columns_are_mapped_by_name_and_by_prefix():
    theirs = {f"t_{k}" if k[0] in "on" else k: v for k, v in listed().items()}
    columns = {"obs": "t_obs", "next_obs": "t_next_obs"}
    assert same(build(theirs, columns=columns), build(wide()))
    theirs = {f"t_{k}" if k[0] in "on" else k: v for k, v in wide().items()}
    assert same(build(theirs, columns=columns), build(wide()))
    renamed = {k.replace("action", "torque"): v for k, v in wide().items()}
    assert same(build(renamed, columns={"action": "torque"}), build(wide()))


def test_a_mapped_column_is_a_choice():
    both = {**wide(following=False), "state": list("abcde"), "action": list("xyxyx")}
    logs = build(both, columns={"state": "state", "action": "action"})
    assert not logs.vector_states
    assert not logs.vector_actions
    assert logs.unused_columns == ("obs_0", "obs_1", "action_0", "action_1", "action_2")
    both = {**listed(), "state": list("abcde"), "next_state": list("bcdef")}
    logs = build(both, columns={"obs": "obs"})
    assert same(logs, build(wide()))
    assert logs.unused_columns == ("state", "next_state")
    torque = {f"torque_{k}": values for k, values in enumerate(zip(*ACTION, strict=True))}
    both = {**listed(action=list("xyxyx")), **torque}
    assert same(build(both, columns={"action": "torque"}), build(wide()))


def test_a_number_given_to_another_column_is_not_part_of_the_vector():
    logs = build(wide(reward=None, obs_2=PLAIN["reward"]), columns={"reward": "obs_2"})
    assert logs.observation.shape == (5, 2)
    assert logs.reward.tolist() == [0.0, 0.5, -1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"state": [0] * 5}, ["'state'", "'obs_0'", "Keep one", "columns={'state': 'state'}"]),
        ({"obs": OBS}, ["'obs'", "'obs_0'", "Keep one"]),
        ({"next_obs": NEXT}, ["'next_obs'", "'next_obs_0'", "Keep one"]),
        ({"action": [0] * 5}, ["'action'", "'action_0'", "Keep one"]),
        ({"action": ACTION}, ["'action'", "'action_0'", "Keep one"]),
        ({"next_state": [0] * 5}, ["'next_state'", "'obs_0'", "next_obs"]),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_two_columns_of_one_meaning_are_refused(extra, words):
    message = refusal({**wide(), **extra})
    assert all(word in message for word in words), message


def test_labels_with_vectors_as_successors_are_refused():
    table = {**PLAIN, "state": list("abcde"), "action": [0] * 5, **spread("next_obs", NEXT)}
    message = refusal(table)
    assert "'next_obs_0'" in message
    assert "'state'" in message
    assert "next_state" in message


def test_a_list_column_beside_a_label_is_refused():
    message = refusal({**listed(), "state": [0] * 5})
    assert "'state'" in message
    assert "'obs'" in message
    assert "Keep one" in message


@pytest.mark.parametrize("prefix", ["obs", "next_obs", "action"])
@pytest.mark.parametrize("k", [0, 1])
def test_a_gap_in_the_numbering_names_what_is_missing(prefix, k):
    table = {**wide(), f"{prefix}_3": [0.0] * 5}
    del table[f"{prefix}_{k}"]
    message = refusal(table)
    assert f"missing column '{prefix}_{k}'" in message
    assert f"{prefix}_3" in message


def test_numbering_with_leading_zeros_is_a_gap():
    table = {"obs_00": [0.0] * 5, "obs_01": [1.0] * 5, **PLAIN, "action": [0] * 5}
    message = refusal(table)
    assert "missing column 'obs_0'" in message
    assert "obs_00" in message


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.5] * 5, ["found Float64", "obs_0", "state"]),
        (["[0.1, 0.2]"] * 5, ["found String", "CSV", "obs_0"]),
        ([[[1.0], [2.0]]] * 5, ["found List(List(Float64))"]),
        (pl.Series(np.zeros((5, 2, 2))), ["found Array(Float64, shape=(2, 2))"]),
        ([{"x": 1.0, "y": 2.0}] * 5, ["found Struct"]),
        ([None] * 5, ["found Null"]),
        (pl.Series([object()] * 5, dtype=pl.Object), ["found Object"]),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_list_of_numbers_is_no_observation(values, words):
    message = refusal(listed(following=False, obs=values))
    assert "column 'obs': expected" in message
    assert all(word in message for word in words), message


def test_a_list_column_called_state_is_told_its_name():
    message = refusal({**PLAIN, "state": OBS, "action": [0] * 5})
    assert "column 'state': expected integer or string labels, found List(Float64)" in message
    assert "--columns obs=" in message


def test_structs_are_no_actions():
    message = refusal(listed(action=[{"x": 1.0}] * 5))
    assert "column 'action': expected integer or string labels, found Struct" in message


def test_without_states_and_observations_both_names_are_said():
    message = refusal({**PLAIN, "action": [0] * 5})
    assert "missing column 'state'" in message
    assert "'obs'" in message
    assert "obs_0" in message
    message = refusal({**PLAIN, "obs": OBS})
    assert "missing column 'action'" in message
    assert "action_0" in message


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"obs": "nowhere"}, "'nowhere', which the table does not have"),
        ({"next_obs": "nowhere"}, "'nowhere', which the table does not have"),
        ({"obs": "obs", "next_obs": "obs"}, "'obs' and 'next_obs' are both mapped"),
        ({"obs": "obs", "reward": "nothing"}, r"'nothing', which.*obs_0 \.\. obs_1"),
        ({"sight": "obs"}, "expected one of.*next_obs.*found 'sight'"),
    ],
    ids=str,
)
def test_mappings_that_make_no_sense_are_refused(columns, words):
    with pytest.raises(LogsError, match=words):
        build(wide(), columns=columns)
