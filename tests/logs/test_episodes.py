"""Episodes and their steps: what is grouped, and what is refused."""

import datetime
import itertools
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def test_steps_that_are_other_text_are_refused():
    assert "row 1, column 'step': found the text '0', expected integers, or" in refusal(
        step=list("01201")
    )
    half = ["2024-01-01", "2024-01-02", "soon", "2024-01-01", "2024-01-02"]
    assert "row 3, column 'step': found the text 'soon'" in refusal(step=half)


START = datetime.datetime(2024, 3, 31, 1, 30)
CLOCKS = {
    "datetime": lambda s: START + datetime.timedelta(seconds=s),
    "with a zone": lambda s: (START + datetime.timedelta(seconds=s)).replace(tzinfo=datetime.UTC),
    "date": lambda s: (START + datetime.timedelta(days=s)).date(),
    "duration": lambda s: datetime.timedelta(milliseconds=s),
    "text": lambda s: str(START + datetime.timedelta(seconds=s)),
    "text of ISO": lambda s: (START + datetime.timedelta(seconds=s)).isoformat() + "Z",
    "date as text": lambda s: str((START + datetime.timedelta(days=s)).date()),
    "epoch": lambda s: 1_700_000_000 + s,
    "epoch in ms": lambda s: 1_700_000_000_000 + s,
    "epoch with decimals": lambda s: 1_700_000_000.25 + s,
    "epoch as whole floats": lambda s: 1_700_000_000.0 + s,
    "seconds": lambda s: s / 7,
    "decimal": lambda s: Decimal(s) / 8,
}


@pytest.mark.parametrize("clock", CLOCKS)
@settings(max_examples=8, deadline=None)
@given(st.permutations(range(9)), st.lists(st.integers(1, 300), min_size=9, max_size=9))
def test_times_sort_the_rows_of_each_episode(clock, order, waits):
    """Any order of the rows, any pause between them: the log is that of steps 0, 1, 2."""
    at = np.cumsum(waits).tolist()
    whole = pl.DataFrame(
        {
            "episode_id": list("ppppqqqrr"),
            "step": [0, 1, 2, 3, 0, 1, 2, 0, 1],
            "state": [0, 1, 2, 0, 1, 2, 0, 1, 2],
            "action": [0, 1] * 4 + [0],
            "reward": [float(i) for i in range(9)],
        }
    )
    timed = whole.with_columns(pl.Series("step", [CLOCKS[clock](s) for s in at]))[list(order)]
    found = Logs.from_dataframe(timed).to_dataframe()
    assert found.sort("episode_id", "step").equals(Logs.from_dataframe(whole).to_dataframe())


@pytest.mark.parametrize("clock", CLOCKS)
def test_two_rows_of_one_time_are_refused(clock):
    tied = pl.Series("step", [CLOCKS[clock](s) for s in (1, 2, 2, 1, 2)])
    message = refusal(step=tied, drop=["next_state"])
    assert "row 3, column 'step': expected a time of its own, found that of row 2" in message


def test_times_without_a_date_or_without_a_value_are_refused():
    assert "start again at midnight" in refusal(step=[datetime.time(1, k) for k in range(5)])
    days = [datetime.date(2024, 1, k + 1) for k in range(4)]
    assert "row 5, column 'step': the value is missing" in refusal(step=[*days, None])


def test_a_step_without_episodes_says_how_to_go_on():
    message = refusal(drop=["episode_id", "truncated", "terminated"], step=[1, 2, 3, 4, 5])
    assert "There is no column episode_id, so each row is an episode of its own" in message
    assert "ignore=['step']" in message


PIECES = {
    "episode_id": [1, 1, 2, 2, 1, 1, 2],
    "state": [0, 1, 2, 0, 1, 2, 0],
    "action": [0] * 7,
    "reward": [0.0] * 7,
}


def pieces(**more):
    return pl.DataFrame({**PIECES, **more}, strict=False)


@pytest.mark.parametrize(
    "more",
    [{}, {"terminated": [False] * 7}, {"next_state": [None] * 7}, {"timestamp": [None] * 7}],
    ids=["nothing", "flags never set", "no successor", "no time"],
)
def test_one_id_in_two_places_is_refused_with_the_rows(more):
    with pytest.raises(LogsError) as caught:
        Logs.from_dataframe(pieces(**more))
    assert (
        "row 5, column 'episode_id': episode 1 goes on here after row 2 and rows of other "
        "episodes (2 episodes are in pieces), and nothing says" in str(caught.value)
    )


@pytest.mark.parametrize(
    "more",
    [
        {"step": [0, 1, 0, 1, 2, 3, 2]},
        {"terminated": [False] * 5 + [True] * 2},
        {"truncated": [False] * 5 + [True] * 2},
        {"timestamp": range(7)},
        {"datetime": [f"2024-01-0{k} 10:00" for k in range(1, 8)]},
        {"t": [0, 1, 0, 1, 2, 3, 2]},
    ],
    ids=["steps", "ends", "cuts", "a clock", "times as text", "steps of another name"],
)
def test_one_id_in_two_places_is_one_episode_where_something_says_so(more):
    assert Logs.from_dataframe(pieces(**more)).row.tolist() == [1, 2, 5, 6, 3, 4, 7]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=12))
def test_only_episodes_in_pieces_are_refused(ids):
    frame = pl.DataFrame({"episode_id": ids, "state": 0, "action": 0, "reward": 1.0})
    runs = 1 + sum(a != b for a, b in itertools.pairwise(ids))
    if runs == len(set(ids)):
        assert Logs.from_dataframe(frame).n_episodes == runs
    else:
        with pytest.raises(LogsError, match="nothing says that the pieces are one episode"):
            Logs.from_dataframe(frame)


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


def test_dates_of_which_no_row_says_where_the_day_stands_are_refused():
    both = [f"{k:02d}/02/2024" for k in range(1, 6)]
    assert "'01/02/2024', which may have the day or the month first" in refusal(step=both)
    # A number above 12 can only be a day; with points the day is first; with the year first too.
    assert build(step=[*both[:4], "13/02/2024"]).n_transitions == 5
    build(step=[text.replace("/", ".") for text in both])
    build(step=[f"2024/02/{k:02d}" for k in range(1, 6)])
    # With the month first, or with both, nothing is read in the other way.
    assert "with the month first" in refusal(step=[*both[:4], "02/13/2024"])
    assert "day first and second" in refusal(step=[*both[:3], "13/02/2024", "02/13/2024"])
