"""What followed each row, from the next row or from a column of its own."""

import polars as pl

from bayesdice_ppl import Logs
from tests.logs.good_log import build, changed, refusal


def test_a_successor_that_contradicts_the_next_row_is_refused():
    message = refusal(**changed("next_state", 1, "c"))
    assert "row 1, column 'next_state': expected 'b'" in message
    assert "next row (row 2), found 'c'" in message


def test_a_missing_successor_is_read_off_the_next_row():
    logs = build(**changed("next_state", 1, None))
    assert logs.next_state.tolist() == [1, 0, 2, 1, 2]


def test_successors_of_another_kind_than_states_are_refused():
    message = refusal(next_state=[1, 0, 2, 1, 2])
    assert (
        "column 'next_state': expected strings, as in the column 'state', found integers" in message
    )


def test_initial_states_are_the_first_of_each_episode():
    logs = build()
    assert logs.state_labels[logs.initial_state].tolist() == ["a", "b"]


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
