"""What a log may not be: every refusal names the row and the column."""

import datetime

import numpy as np
import polars as pl
import pytest

from bayesdice_ppl import Logs
from bayesdice_ppl.errors import LogsError

GOOD = {
    "episode_id": [0, 0, 0, 1, 1],
    "step": [0, 1, 2, 0, 1],
    "state": ["a", "b", "a", "b", "b"],
    "action": ["x", "y", "x", "x", "y"],
    "reward": [0.0, 1.0, 0.5, -1.0, 2.0],
    "next_state": ["b", "a", "c", "b", "c"],
    "terminated": [False, False, True, False, False],
    "truncated": [False, False, False, False, True],
    "propensity": [0.5, 0.5, 1.0, 0.1, 0.9],
}


def build(drop=(), actions=None, columns=None, **changes):
    table = {key: value for key, value in {**GOOD, **changes}.items() if key not in drop}
    return Logs.from_dataframe(pl.DataFrame(table, strict=False), actions=actions, columns=columns)


def changed(column, row, value):
    values = list(GOOD[column])
    values[row - 1] = value
    return {column: values}


def refusal(**options):
    with pytest.raises(LogsError) as caught:
        build(**options)
    return str(caught.value)


def test_the_good_log_is_good():
    logs = build()
    assert (logs.n_transitions, logs.n_episodes) == (5, 2)
    assert logs.state_labels.tolist() == ["a", "b", "c"]
    assert logs.action_labels.tolist() == ["x", "y"]
    assert logs.next_state.tolist() == [1, 0, 2, 1, 2]
    assert logs.terminated.tolist() == [False, False, True, False, False]
    assert logs.propensity.tolist() == GOOD["propensity"]


@pytest.mark.parametrize("column", ["state", "action", "reward"])
def test_a_missing_column_is_named_with_those_that_are_there(column):
    message = refusal(drop=[column])
    assert f"missing column '{column}'" in message
    assert "episode_id" in message
    assert f"--columns {column}=" in message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), None])
@pytest.mark.parametrize("column", ["reward", "propensity"])
def test_numbers_that_are_not_finite_are_refused(column, value):
    assert f"row 4, column '{column}': expected a finite number" in refusal(
        **changed(column, 4, value)
    )


@pytest.mark.parametrize("column", ["state", "action", "episode_id", "step"])
def test_missing_values_are_refused(column):
    assert f"row 3, column '{column}': the value is missing" in refusal(**changed(column, 3, None))


@pytest.mark.parametrize("value", [0.0, -0.1, 1.1])
def test_propensities_out_of_range_are_refused(value):
    message = refusal(**changed("propensity", 2, value))
    assert "row 2, column 'propensity': expected a probability in (0, 1]" in message


def test_text_among_numbers_is_refused_at_its_row():
    rewards = ["0", "1", "high", "2", "3"]
    assert "row 3, column 'reward': expected a number, found the text 'high'" in refusal(
        reward=rewards
    )


def test_numbers_as_text_are_refused_too():
    assert "row 1, column 'reward': expected a number" in refusal(reward=["0"] * 5)


@pytest.mark.parametrize(
    "values",
    [
        [[1.0]] * 5,
        [datetime.date(2020, 1, 1)] * 5,
        pl.Series([object()] * 5, dtype=pl.Object),
    ],
    ids=["lists", "dates", "objects"],
)
@pytest.mark.parametrize("column", ["reward", "state", "terminated", "step", "episode_id"])
def test_columns_of_another_kind_are_refused_by_name(column, values):
    assert f"column '{column}': expected" in refusal(**{column: values})


@pytest.mark.parametrize("value", ["yes", "2", "", "truee"])
@pytest.mark.parametrize("column", ["terminated", "truncated"])
def test_flags_that_are_no_booleans_are_refused(column, value):
    flags = ["false"] * 5
    flags[1] = value
    message = refusal(**{column: flags})
    assert f"row 2, column '{column}': expected true or false" in message


@pytest.mark.parametrize("values", [[0, 2, 0, 0, 0], [0.0, 0.5, 0.0, 0.0, 0.0]])
def test_flags_that_are_other_numbers_are_refused(values):
    assert "row 2, column 'terminated': expected true or false" in refusal(terminated=values)


@pytest.mark.parametrize(
    "flags",
    [
        [0, 0, 1, 0, 0],
        [0.0, 0.0, 1.0, 0.0, 0.0],
        ["0", "0", "1", "0", "0"],
        ["False", "false", " TRUE ", "FALSE", "false"],
        pl.Series(["false", "false", "true", "false", "false"], dtype=pl.Categorical),
    ],
    ids=str,
)
def test_flags_come_in_many_spellings(flags):
    assert build(terminated=flags).terminated.tolist() == [False, False, True, False, False]


def test_a_missing_flag_is_not_false():
    assert "row 2, column 'terminated'" in refusal(terminated=[False, None, True, False, False])


def test_repeated_steps_are_refused():
    message = refusal(step=[0, 1, 1, 0, 1])
    assert "row 3, column 'step': step 1 of its episode is repeated (row 2)" in message


def test_unsorted_steps_are_refused():
    message = refusal(step=[0, 2, 1, 0, 1])
    assert "row 3, column 'step': step 1 of its episode comes after step 2 (row 2)" in message


def test_episodes_that_start_late_are_refused():
    message = refusal(step=[0, 1, 2, 3, 4])
    assert "row 4, column 'step': this episode starts at step 3, another at step 0" in message


def test_steps_may_count_from_any_number():
    assert build(step=[7, 8, 9, 7, 8]).step.tolist() == [0, 1, 2, 0, 1]


def test_steps_that_are_text_or_fractions_are_refused():
    assert "column 'step': expected integers" in refusal(step=list("01201"))
    assert "row 2, column 'step': expected an integer" in refusal(step=[0, 0.5, 1, 0, 1])


def test_a_gap_in_the_steps_needs_successors():
    gap = [0, 2, 3, 0, 1]
    message = refusal(drop=["next_state"], step=gap)
    assert "row 2, column 'step': step 2 follows step 0" in message
    assert build(step=gap).next_state.tolist() == [1, 0, 2, 1, 2]


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_a_step_after_the_end_is_refused(flag):
    flags = [False, True, False, False, False]
    other = "truncated" if flag == "terminated" else "terminated"
    message = refusal(drop=[other], **{flag: flags})
    assert f"row 3: a step after the episode {flag} at row 2" in message


def test_rows_of_interleaved_episodes_are_checked_within_their_own():
    table = {
        "episode_id": ["p", "q", "p", "q"],
        "state": [0, 1, 2, 3],
        "action": [0, 0, 0, 0],
        "reward": [1.0, 2.0, 3.0, 4.0],
        "terminated": [False, False, True, False],
    }
    logs = Logs.from_dataframe(pl.DataFrame(table))
    assert logs.episode_labels.tolist() == ["p", "q"]
    assert logs.reward.tolist() == [1.0, 3.0, 2.0, 4.0]
    assert logs.next_state.tolist() == [2, -1, 3, -1]
    table["terminated"] = [True, False, False, False]
    with pytest.raises(LogsError, match="row 3: a step after the episode terminated at row 1"):
        Logs.from_dataframe(pl.DataFrame(table))


def test_a_successor_that_contradicts_the_next_row_is_refused():
    message = refusal(**changed("next_state", 1, "c"))
    assert "row 1, column 'next_state': 'c'" in message
    assert "next row (2) is in state 'b'" in message


def test_a_missing_successor_is_read_off_the_next_row():
    logs = build(**changed("next_state", 1, None))
    assert logs.next_state.tolist() == [1, 0, 2, 1, 2]


def test_successors_of_another_kind_than_states_are_refused():
    message = refusal(next_state=[1, 0, 2, 1, 2])
    assert "column 'next_state' holds integers and column 'state' strings" in message


def test_floats_that_are_no_integers_are_no_labels():
    message = refusal(drop=["next_state"], state=[0.0, 1.0, 0.5, 0.0, 1.0])
    assert "row 3, column 'state': expected an integer or a string label, found 0.5" in message


@pytest.mark.parametrize(
    "values",
    [[2.0**60, 1.0, 2.0, 3.0, 4.0], pl.Series([2**70, 1, 2, 3, 4], dtype=pl.Int128)],
    ids=["float", "int128"],
)
def test_labels_too_large_to_be_kept_apart_are_refused(values):
    message = refusal(drop=["next_state"], state=values)
    assert "row 1, column 'state': expected an integer below" in message


def test_the_largest_integer_labels_are_kept_exactly():
    labels = [2**63 - 1, 2**63 - 2, -(2**63), 0, 1]
    logs = build(drop=["next_state"], state=labels)
    assert logs.to_dataframe()["state"].to_list() == labels


def test_an_action_outside_the_declared_space_is_refused():
    message = refusal(actions=["x", "z"])
    assert "row 2, column 'action': 'y' is outside the declared action space" in message
    assert "--actions" in message


def test_a_declared_space_of_another_kind_is_refused():
    assert "holds integers and the column 'action' strings" in refusal(actions=[0, 1])


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        (["x", "y", "x"], "'x' is given twice"),
        (["x", 1], "all integers or all strings"),
        ("xy", "expected a list"),
        (5, "expected a list"),
    ],
    ids=str,
)
def test_declared_spaces_that_make_no_sense_are_refused(actions, words):
    message = refusal(actions=actions)
    assert message.startswith("actions: ")
    assert words in message


def test_a_declared_space_is_kept_in_its_order():
    assert build(actions=["z", "y", "x"]).declared_actions.tolist() == ["z", "y", "x"]


@pytest.mark.parametrize(("rows", "words"), [(0, "no rows"), (1, "one row")])
def test_logs_too_short_to_show_a_spread_are_refused(rows, words):
    frame = pl.DataFrame(GOOD).head(rows)
    with pytest.raises(LogsError, match=f"found {words}; expected at least two"):
        Logs.from_dataframe(frame)


def test_absent_columns_have_stated_defaults():
    frame = pl.DataFrame({"state": [0, 1, 0], "action": [1, 1, 0], "reward": [1, 0, 2]})
    logs = Logs.from_dataframe(frame)
    assert logs.episode.tolist() == [0, 1, 2]
    assert logs.step.tolist() == [0, 0, 0]
    assert not logs.terminated.any()
    assert logs.truncated.all()
    assert logs.next_state.tolist() == [-1, -1, -1]
    assert logs.propensity is None
    assert logs.declared_actions is None


def test_a_last_row_without_a_flag_is_truncated_unless_it_terminated():
    logs = build(drop=["truncated"])
    assert logs.truncated.tolist() == [False, False, False, False, True]


def test_columns_without_a_meaning_are_listed_and_left_alone():
    assert build(weather=["sun"] * 5).unused_columns == ("weather",)


def test_boolean_rewards_are_zeros_and_ones():
    assert build(reward=[True, False, True, True, False]).reward.tolist() == [1, 0, 1, 1, 0]


def test_unicode_labels_are_kept():
    states = ["é", "日本", "🙂", "", "é"]
    logs = build(drop=["next_state"], state=states)
    assert logs.to_dataframe()["state"].to_list() == states


def test_initial_states_are_the_first_of_each_episode():
    logs = build()
    assert logs.state_labels[logs.initial_state].tolist() == ["a", "b"]


def test_codes_point_into_labels():
    logs = build()
    assert logs.state_labels[logs.state].tolist() == GOOD["state"]
    assert logs.action_labels[logs.action].tolist() == GOOD["action"]
    assert np.issubdtype(logs.state.dtype, np.integer)


def test_a_step_after_a_gap_is_no_successor():
    """Steps 0, 1, 4: what followed step 1 is known by its next_state alone."""
    frame = pl.DataFrame(
        {
            "episode_id": [0, 0, 0, 1, 1],
            "step": [0, 1, 4, 0, 1],
            "state": [1, 2, 5, 1, 3],
            "action": [0, 0, 0, 0, 0],
            "reward": [0.0, 1.0, 2.0, 3.0, 4.0],
            "next_state": [2, 9, 6, None, None],
        }
    )
    logs = Logs.from_dataframe(frame)
    following = logs.to_dataframe()["next_state"].to_list()
    assert following == [2, 9, 6, 3, None]
    unknown = frame.with_columns(next_state=pl.Series([2, None, 6, 3, 7]))
    assert Logs.from_dataframe(unknown).to_dataframe()["next_state"][1] is None
