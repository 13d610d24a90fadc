"""Numbers and flags: every message names the row and the column."""

import datetime

import polars as pl
import pytest

from tests.logs.good_log import build, changed, refusal


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
        [datetime.datetime(2020, 1, 1)] * 5,
        pl.Series([object()] * 5, dtype=pl.Object),
    ],
    ids=["lists", "times", "objects"],
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


def test_boolean_rewards_are_zeros_and_ones():
    assert build(reward=[True, False, True, True, False]).reward.tolist() == [1, 0, 1, 1, 0]
