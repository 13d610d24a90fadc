"""Labels are kept as they were given, or refused."""

import numpy as np
import polars as pl
import pytest

from tests.logs.good_log import GOOD, build, refusal


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


def test_unicode_labels_are_kept():
    states = ["é", "日本", "🙂", "", "é"]
    logs = build(drop=["next_state"], state=states)
    assert logs.to_dataframe()["state"].to_list() == states


def test_codes_point_into_labels():
    logs = build()
    assert logs.state_labels[logs.state].tolist() == GOOD["state"]
    assert logs.action_labels[logs.action].tolist() == GOOD["action"]
    assert np.issubdtype(logs.state.dtype, np.integer)
