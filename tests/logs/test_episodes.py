"""Episodes and their steps: what is grouped, and what is refused."""

import polars as pl
import pytest

from bayesdice_ppl import Logs
from bayesdice_ppl.errors import LogsError
from tests.logs.good_log import build, refusal


def test_repeated_steps_are_refused():
    message = refusal(step=[0, 1, 1, 0, 1])
    assert (
        "row 3, column 'step': expected a step above 1, that of row 2 in the same episode, found 1"
        in message
    )


def test_unsorted_steps_are_refused():
    message = refusal(step=[0, 2, 1, 0, 1])
    assert (
        "row 3, column 'step': expected a step above 2, that of row 2 in the same episode, found 1"
        in message
    )


def test_episodes_that_start_late_are_refused():
    message = refusal(step=[0, 1, 2, 3, 4])
    assert "row 4, column 'step': expected every episode to start at the same step" in message
    assert "starts at step 3 and another at step 0" in message


def test_steps_may_count_from_any_number():
    assert build(step=[7, 8, 9, 7, 8]).step.tolist() == [0, 1, 2, 0, 1]


def test_steps_that_are_text_or_fractions_are_refused():
    assert "column 'step': expected integers" in refusal(step=list("01201"))
    assert "row 2, column 'step': expected an integer" in refusal(step=[0, 0.5, 1, 0, 1])


def test_a_gap_in_the_steps_needs_successors():
    gap = [0, 2, 3, 0, 1]
    message = refusal(drop=["next_state"], step=gap)
    assert "row 2, column 'step': expected step 1 after step 0, found step 2" in message
    assert build(step=gap).next_state.tolist() == [1, 0, 2, 1, 2]


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_a_step_after_the_end_is_refused(flag):
    flags = [False, True, False, False, False]
    other = "truncated" if flag == "terminated" else "terminated"
    message = refusal(drop=[other], **{flag: flags})
    assert f"row 3: expected no step after row 2, where the column '{flag}' ends" in message


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
    with pytest.raises(
        LogsError, match="row 3: expected no step after row 1, where the column 'term"
    ):
        Logs.from_dataframe(pl.DataFrame(table))


def test_a_last_row_without_a_flag_is_truncated_unless_it_terminated():
    logs = build(drop=["truncated"])
    assert logs.truncated.tolist() == [False, False, False, False, True]
