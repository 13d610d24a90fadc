"""Labels are kept as they were given, or refused."""

import datetime
import enum
import itertools
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesdice_ppl import Logs, Policies, read_logs
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.policies import align_policies
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
    states = ["é", "日本", "🙂", "ß", "é"]
    logs = build(drop=["next_state"], state=states)
    assert logs.to_dataframe()["state"].to_list() == states


def test_codes_point_into_labels():
    logs = build()
    assert logs.state_labels[logs.state].tolist() == GOOD["state"]
    assert logs.action_labels[logs.action].tolist() == GOOD["action"]
    assert np.issubdtype(logs.state.dtype, np.integer)


class Color(enum.Enum):
    RED, BLUE = "red", "blue"


class Number(enum.IntEnum):
    THREE, FOUR = 3, 4


class Text(str, enum.Enum):  # noqa: UP042
    RED, BLUE = "red", "blue"


class Pair(enum.Enum):
    LEFT, RIGHT = object(), object()


ONE_TEXT = {
    "uuid": ([UUID(int=1), UUID(int=2)], [str(UUID(int=1)), str(UUID(int=2))]),
    "enum of text": ([Color.RED, Color.BLUE], ["red", "blue"]),
    "enum of integers": ([Number.THREE, Number.FOUR], [3, 4]),
    "enum that is text": ([Text.RED, Text.BLUE], ["red", "blue"]),
    "enum of objects": ([Pair.LEFT, Pair.RIGHT], ["LEFT", "RIGHT"]),
    "decimal": ([Decimal("1.50"), Decimal("-2")], ["1.5", "-2"]),
    "whole decimal": ([Decimal("7"), Decimal("100")], [7, 100]),
    "date": ([datetime.date(2024, 1, 31), datetime.date(2024, 2, 1)], ["2024-01-31", "2024-02-01"]),
    "month": ([*pd.period_range("2024-01", periods=2, freq="M")], ["2024-01", "2024-02"]),
    "interval": ([*pd.interval_range(0, 2)], ["(0, 1]", "(1, 2]"]),
}
MAKERS = {
    "polars": lambda **data: pl.DataFrame(data),
    "pandas": lambda **data: pd.DataFrame({k: pd.Series(v) for k, v in data.items()}),
    "objects": lambda **data: pd.DataFrame(
        {k: pd.Series(v, dtype=object if k != "reward" else float) for k, v in data.items()}
    ),
}


@pytest.mark.parametrize(
    ("kind", "library"),
    # Polars keeps what is inside of a member of an Enum, and not its name.
    sorted({*itertools.product(ONE_TEXT, MAKERS)} - {("enum of objects", "polars")}),
)
def test_what_has_one_text_is_a_label_everywhere(kind, library):
    """As states, actions, episodes and next states; in a table of candidates, a dict and a list."""
    (one, other), labels = ONE_TEXT[kind]
    make = MAKERS[library]
    table = {"state": [one, other], "action": [other, one], "reward": [0.0, 1.0]}
    logs = Logs.from_dataframe(
        make(**table, next_state=[other, one], episode_id=[one, one]), actions=[one, other]
    )
    found = logs.to_dataframe()
    assert found["state"].to_list() == labels
    assert found["action"].to_list() == labels[::-1]
    assert found["episode_id"].to_list() == labels[:1] * 2
    assert found["next_state"].to_list() == labels[::-1]
    assert logs.declared_actions.tolist() == labels
    frame = make(policy=["p"] * 2, state=[one, other], action=[one, one], prob=[1.0, 1.0])
    candidates = {"dict": {one: one, other: one}, "table": frame}
    if library != "polars":
        candidates["wide"] = pd.DataFrame(
            [[1.0, 0.0]] * 2, index=[one, other], columns=[one, other]
        )
    aligned = align_policies(logs, candidates)
    assert (aligned.probabilities[:, :, aligned.actions.tolist().index(labels[0])] == 1.0).all()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.decimals(-1000, 1000, places=3) | st.decimals(-10, 10, places=1), min_size=2, max_size=8
    )
)
def test_decimals_that_are_equal_are_one_label(values):
    table = {"action": [0] * len(values), "reward": [1.0] * len(values)}
    found = Logs.from_dataframe(pl.DataFrame({"state": pl.Series(values), **table}))
    assert [Decimal(label) for label in found.to_dataframe()["state"]] == values
    assert len(found.state_labels) == len(set(values))
    policy = Policies({"p": dict.fromkeys(values, "act")})["p"]
    assert set(policy.states.tolist()) == set(map(str, found.state_labels.tolist()))


def test_uuids_of_arrow_and_of_parquet_are_their_texts(tmp_path):
    import pyarrow.parquet as pq

    ids = [UUID(int=k).bytes for k in (1, 2)]
    table = pa.table({"state": pa.array(ids, pa.uuid()), "action": [0, 1], "reward": [0.0, 1.0]})
    pq.write_table(table, tmp_path / "log.parquet")
    for logs in (Logs.from_dataframe(table), read_logs(tmp_path / "log.parquet")):
        assert logs.state_labels.tolist() == [str(UUID(int=1)), str(UUID(int=2))]


@pytest.mark.parametrize(
    "values", [[b"a", b"b"], [{"a": 1}, {"a": 2}], [1, "a"], [UUID(int=1), 3], [object(), object()]]
)
def test_what_has_no_text_of_its_own_is_refused(values):
    frame = pd.DataFrame({"state": values, "action": [0, 1], "reward": [0.0, 1.0]})
    with pytest.raises(LogsError, match="column 'state': expected"):
        Logs.from_dataframe(frame)
