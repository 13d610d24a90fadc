"""Rows that are not in the order of their times are said."""

from datetime import datetime, timedelta

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.logs.clock import note_on_order


def log(order, text=False, name="timestamp"):
    n = 60
    times = [datetime(2024, 1, 1) + timedelta(minutes=i) for i in range(n)]
    frame = pl.DataFrame(
        {"state": [0] * n, "action": np.arange(n) % 2, "reward": np.arange(n) / n, name: times}
    )
    frame = frame.with_columns(pl.col(name).cast(pl.String)) if text else frame
    return bd.Logs.from_dataframe(frame[order])


@pytest.mark.parametrize("text", [False, True], ids=["times", "texts"])
def test_order_newest_first_and_none(text):
    order = np.arange(60)
    assert note_on_order(log(order, text)) is None
    assert "newest rows come first" in note_on_order(log(order[::-1], text))
    mixed = np.random.default_rng(0).permutation(60)
    assert "not in its order" in note_on_order(log(mixed, text))


def test_times_of_another_name_count_where_they_are_times():
    order = np.arange(60)[::-1]
    assert "when" in note_on_order(log(order, name="when"))
    assert note_on_order(log(order, text=True, name="when")) is None


def test_the_belief_and_the_choice_say_so():
    belief = bd.fit(
        log(np.arange(60)[::-1]), {"a": {0: 0}, "b": {0: 1}}, gamma=0.0, rng_key=jax.random.key(0)
    )
    notes = bd.select(belief, bd.scores.regret(k=1)).notes
    assert any("sort the log by timestamp" in note for note in notes)
