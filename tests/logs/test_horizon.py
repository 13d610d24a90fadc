"""The horizon rule: where a successor is missing, the whole step is left out, and counted."""

import numpy as np
import polars as pl
import pytest

from bayesdice_ppl import Logs
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs import usable_rows


def log(lengths_and_ends, *, next_state=None):
    rows = []
    for episode, (length, ended) in enumerate(lengths_and_ends):
        last = length - 1
        rows += [(episode, t, t, 0, 1.0, ended and t == last) for t in range(length)]
    names = ["episode_id", "step", "state", "action", "reward", "terminated"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    if next_state is not None:
        frame = frame.with_columns(next_state=pl.Series(next_state, dtype=pl.Int64))
    return Logs.from_dataframe(frame)


def by_hand(logs):
    """Rows to keep, and the steps at which some row has no successor and did not terminate."""
    rows = range(logs.n_transitions)
    missing = [logs.next_state[i] < 0 and not logs.terminated[i] for i in rows]
    steps = {int(logs.step[i]) for i in rows if missing[i]}
    ending = {int(logs.step[i]) for i in rows if logs.terminated[i]}
    kept = [not missing[i] and int(logs.step[i]) not in steps & ending for i in rows]
    return kept, sorted(steps)


def test_the_whole_last_step_is_left_out_terminated_rows_too():
    logs = log([(3, False), (3, True), (3, False), (2, True)])
    found = usable_rows(logs, 0.9)
    assert found.steps == (2,)
    assert found.left_out == 3
    assert found.mask.tolist() == [True, True, False] * 3 + [True, True]


def test_every_step_without_a_successor_somewhere_is_left_out():
    logs = log([(2, False), (4, False), (4, True), (3, True)])
    found = usable_rows(logs, 1.0)
    mask, steps = by_hand(logs)
    assert found.steps == tuple(steps) == (1, 3)
    assert found.mask.tolist() == mask
    # One row at step 1, where nothing terminated; both at step 3, where one did.
    assert found.left_out == mask.count(False) == 3


def test_episodes_that_all_terminate_lose_nothing():
    found = usable_rows(log([(3, True), (2, True)]), 0.9)
    assert found.mask.all()
    assert found.left_out == 0
    assert found.steps == ()


def test_at_gamma_zero_every_row_counts():
    found = usable_rows(log([(1, False)] * 3), 0.0)
    assert found.mask.all()
    assert found.left_out == 0


def test_a_column_of_successors_keeps_every_row():
    found = usable_rows(log([(2, False), (1, False)], next_state=[1, 5, 6]), 0.9)
    assert found.mask.all()


def test_one_hole_in_the_column_takes_its_step_along_where_an_episode_terminated():
    found = usable_rows(log([(2, False), (2, False)], next_state=[1, 5, 1, None]), 0.9)
    assert found.mask.tolist() == [True, True, True, False]
    found = usable_rows(log([(2, True), (2, False)], next_state=[1, 5, 1, None]), 0.9)
    assert found.mask.tolist() == [True, False, True, False]
    assert found.steps == (1,)


def test_nothing_left_is_an_error_that_says_what_to_do():
    with pytest.raises(LogsError, match=r"gamma = 0\.9.*Each of the 3 rows.*next_state.*gamma = 0"):
        usable_rows(log([(1, False)] * 3), 0.9)


def test_half_terminated_episodes_of_many_lengths_say_why_and_what_keeps_all():
    lengths = [(k, ended) for k in range(1, 8) for ended in (False, True)]
    with pytest.raises(LogsError) as caught:
        usable_rows(log(lengths), 0.9)
    message = str(caught.value)
    assert (
        "7 of 14 episodes are not terminated at their last row (at steps 0, 1, 2, 3, 4 and 2 m"
        in message
    )
    assert "To keep only those would select on the outcome" in message
    assert "keeps all 56 rows: a column next_state that is filled in the 7 last rows" in message
    # The column that it asks for, and nothing else in it.
    told = [
        99 if t == length - 1 and not ended else None
        for length, ended in lengths
        for t in range(length)
    ]
    assert usable_rows(log(lengths, next_state=told), 0.9).mask.all()
    # The flags that it asks for, if they are true.
    assert usable_rows(log([(length, True) for length, _ in lengths]), 0.9).mask.all()


def test_rows_that_stand_alone_are_shown_the_columns_that_look_like_the_missing_ones():
    frame = pl.DataFrame({"state": [0, 1], "action": 0, "reward": 1.0, "done": True})
    with pytest.raises(LogsError, match=r"'done' looks like it: if it is, pass columns=\{'termin"):
        usable_rows(Logs.from_dataframe(frame), 0.9)


@pytest.mark.parametrize("seed", range(8))
def test_the_rows_that_lack_a_next_state_are_those_that_would_keep_all(seed):
    rng = np.random.default_rng(seed)
    lengths = [(int(rng.integers(1, 6)), bool(rng.integers(2))) for _ in range(9)]
    lengths.append((7, False))
    found = usable_rows(log(lengths), 0.9)
    assert found.missing == sum(not ended for _, ended in lengths)


def test_keeping_the_terminated_last_rows_would_have_selected_on_the_outcome():
    """The rule exists since episodes that end early are kept whole where others are cut."""
    rng = np.random.default_rng(0)
    logs = log([(3, bool(rng.random() < 0.5)) for _ in range(200)])
    found = usable_rows(logs, 0.9)
    assert not found.mask[logs.step == 2].any()
    assert found.mask[logs.step < 2].all()
