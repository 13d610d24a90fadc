"""Vectors as observations and actions: every form they come in, and every way to get it wrong."""

import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from bayesdice_ppl import Logs, read_logs
from bayesdice_ppl.cli.console import show_logs
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs import usable_rows
from bayesdice_ppl.logs.logged_value import logged_value
from tests.logs.vector_log import (
    ACTION,
    NEXT,
    OBS,
    PLAIN,
    build,
    listed,
    put,
    refusal,
    same,
    spread,
    wide,
)


def test_the_good_log_is_good():
    logs = build(wide())
    assert logs.vector_states
    assert logs.vector_actions
    assert logs.row.tolist() == [1, 3, 4, 2, 5]
    grouped = [OBS[row - 1] for row in logs.row]
    assert logs.observation.tolist() == grouped
    assert logs.observation.dtype == np.float64
    assert logs.action_vector.tolist() == [ACTION[row - 1] for row in logs.row]
    assert logs.state.tolist() == logs.action.tolist() == [0, 1, 2, 3, 4]
    assert logs.next_state.tolist() == [1, 5, -1, 4, 6]
    assert logs.state_labels.tolist() == [*grouped, NEXT[2], NEXT[4]]
    assert logs.initial_state.tolist() == [0, 3]
    found = logs.next_observation
    assert np.isnan(found[2]).all()
    assert found[[0, 1, 3, 4]].tolist() == [NEXT[0], NEXT[2], NEXT[1], NEXT[4]]
    assert logs.declared_actions is None
    assert logs.unused_columns == ()


def fixed(vectors):
    return pl.Series(vectors, dtype=pl.Array(pl.Float64, len(vectors[0])))


def as_pandas(table):
    return pd.DataFrame(
        {
            k: [None if v is None else np.array(v) for v in c] if isinstance(c[0], list) else c
            for k, c in table.items()
        }
    )


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame(listed()),
        pl.DataFrame(listed(obs=fixed(OBS), action=fixed(ACTION), next_obs=fixed(NEXT))),
        pl.DataFrame({**wide(obs_0=None, obs_1=None), "obs": OBS}),
        pl.DataFrame({**listed(next_obs=None), **spread("next_obs", NEXT)}),
        as_pandas(listed()),
        pd.DataFrame(wide()),
        pa.table(listed()),
        pa.table(wide()),
        pl.DataFrame(listed(next_obs=[v or [None, None] for v in NEXT])),
        pl.DataFrame(dict(reversed(wide().items()))),
    ],
    ids=[
        "lists", "arrays", "list and columns", "columns and list", "pandas lists",
        "pandas columns", "pyarrow lists", "pyarrow columns", "lists of nothing", "other order",
    ],
)  # fmt: skip
def test_every_form_is_one_log(frame):
    assert same(Logs.from_dataframe(frame), build(wide()))


def test_integers_and_booleans_are_numbers():
    logs = build({"obs_0": [1, 2], "obs_1": [True, False], "action": [0, 1], "reward": [0, 1]})
    assert logs.observation.tolist() == [[1.0, 1.0], [2.0, 0.0]]
    logs = build({"obs": [[1, 2], [3, 4]], "action": [0, 1], "reward": [0, 1]})
    assert logs.observation.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_vector_states_go_with_labels_as_actions_and_the_other_way_round():
    logs = build(wide(action_0=None, action_1=None, action_2=None, action=list("xyxxy")))
    assert (logs.vector_states, logs.vector_actions) == (True, False)
    assert logs.action_labels[logs.action].tolist() == ["x", "x", "x", "y", "y"]
    states = spread("obs", OBS) | spread("next_obs", NEXT)
    logs = build({**wide(**dict.fromkeys(states)), "state": [3, 1, 4, 1, 5]})
    assert (logs.vector_states, logs.vector_actions) == (False, True)
    assert logs.state_labels[logs.state].tolist() == [3, 4, 1, 1, 5]
    assert logs.next_state.tolist() == [2, 0, -1, 3, -1]


def test_more_than_ten_numbers_keep_their_order():
    table = {f"obs_{k}": [float(k), -float(k)] for k in reversed(range(12))}
    logs = build({**table, "action": [0, 1], "reward": [0.0, 1.0]})
    assert logs.observation[0].tolist() == list(range(12))


def test_equal_observations_are_not_merged():
    logs = build({"obs": [[1.0], [1.0]], "action": [[2.0], [2.0]], "reward": [0.0, 1.0]})
    assert logs.state_labels.tolist() == [[1.0], [1.0]]
    assert logs.action_labels.tolist() == [[2.0], [2.0]]


def test_without_next_observations_the_next_row_of_the_episode_follows():
    logs = build(wide(following=False))
    assert logs.next_state.tolist() == [1, 2, -1, 4, -1]
    assert logs.state_labels.tolist() == logs.observation.tolist()
    assert np.isnan(logs.next_observation[[2, 4]]).all()


@pytest.mark.parametrize(
    "empty",
    [
        {"next_obs_0": pl.Series([None] * 5, dtype=pl.Float64), "next_obs_1": [None] * 5},
        {"next_obs_0": pl.Series([None] * 5, dtype=pl.String), "next_obs_1": [None] * 5},
    ],
    ids=["numbers", "text, as a CSV has it"],
)
def test_next_observations_that_are_all_empty_are_as_good_as_none(empty):
    assert same(build(wide(**empty)), build(wide(following=False)))
    nothing = pl.Series([None] * 5, dtype=pl.Null)
    assert same(build(listed(next_obs=nothing)), build(wide(following=False)))


def by_hand(episode, obs, following):
    """Code of each row's successor, one row at a time; new states are numbered as they come."""
    n, fresh, codes = len(episode), len(episode), []
    for i in range(n):
        after = i + 1 if i + 1 < n and episode[i + 1] == episode[i] else None
        if following[i] is None:
            codes.append(-1 if after is None else after)
        elif after is not None and following[i] == obs[after]:
            codes.append(after)
        else:
            codes.append(fresh)
            fresh += 1
    return codes


number = st.sampled_from([0.0, 1.0, -2.5]) | st.floats(-1e300, 1e300)


@st.composite
def tables(draw):
    size, width = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    vector = st.lists(number, min_size=size, max_size=size)
    act = st.lists(number, min_size=width, max_size=width)
    rows = []
    for name in range(draw(st.integers(2, 4))):
        length = draw(st.integers(1, 4))
        path = [draw(vector) for _ in range(length + 1)]
        ended = draw(st.booleans())
        for t in range(length):
            last = t == length - 1
            rows.append(
                {
                    "episode_id": name,
                    "step": t,
                    "obs": path[t],
                    "action": draw(act),
                    "reward": draw(st.floats(-10, 10).map(lambda r: round(r, 3))),
                    "next_obs": draw(st.sampled_from([path[t + 1], None]) | vector),
                    "terminated": ended and last,
                    "truncated": last and not ended,
                    "propensity": draw(st.floats(1e-6, 50.0)),
                }
            )
    kind = {"obs": pl.List(pl.Float64), "next_obs": pl.List(pl.Float64)}
    return pl.DataFrame(rows, schema_overrides=kind)


@settings(max_examples=60, deadline=None)
@given(tables())
def test_successors_are_those_of_a_plain_loop(frame):
    logs = Logs.from_dataframe(frame)
    obs, following = frame["obs"].to_list(), frame["next_obs"].to_list()
    codes = by_hand(frame["episode_id"].to_list(), obs, following)
    assert logs.next_state.tolist() == codes
    for i, code in enumerate(codes):
        if following[i] is not None:
            assert logs.state_labels[code].tolist() == following[i]


@settings(max_examples=60, deadline=None)
@given(tables())
def test_a_log_gives_back_what_it_was_built_from(frame):
    logs = Logs.from_dataframe(frame)
    written = logs.to_dataframe()
    assert same(Logs.from_dataframe(written), logs)
    assert Logs.from_dataframe(written).to_dataframe().equals(written)
    width = len(frame["action"][0])
    assert np.array_equal(written.select(f"action_{k}" for k in range(width)), logs.action_vector)


@settings(max_examples=30, deadline=None)
@given(tables(), st.randoms(use_true_random=False))
def test_episodes_may_be_interleaved_in_any_way(frame, random):
    names = frame["episode_id"].to_list()
    order = sorted(range(len(names)), key=lambda _: random.random())
    places = {name: [i for i in range(len(names)) if names[i] == name] for name in names}
    shuffled = [places[names[i]].pop(0) for i in order]
    found = Logs.from_dataframe(frame[shuffled]).to_dataframe()
    expected = Logs.from_dataframe(frame).to_dataframe()
    assert found.sort("episode_id", "step").equals(expected)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("following", [True, False])
def test_a_log_survives_a_file(tmp_path, kind, following):
    logs = build({**wide(following), "propensity": [0.5, 3.0, 1e-3, 40.0, 1.0]})
    path = tmp_path / f"logs.{kind}"
    getattr(logs.to_dataframe(), f"write_{kind}")(path)
    assert same(read_logs(path), Logs.from_dataframe(logs.to_dataframe()))
    assert read_logs(path).to_dataframe().equals(logs.to_dataframe())


def test_lists_are_read_from_parquet(tmp_path):
    pl.DataFrame(listed()).write_parquet(tmp_path / "logs.parquet")
    assert same(read_logs(tmp_path / "logs.parquet"), build(wide()))


def test_the_written_table_has_a_column_for_each_number():
    frame = build(wide()).to_dataframe()
    assert frame.columns == [
        "episode_id", "step", "obs_0", "obs_1", "action_0", "action_1", "action_2", "reward",
        "next_obs_0", "next_obs_1", "terminated", "truncated",
    ]  # fmt: skip
    assert frame["next_obs_0"].to_list() == [0.25, 9.0, None, -0.5, 7.0]


@pytest.mark.parametrize(
    ("value", "found"),
    [(float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf"), (None, "nothing")],
)
def test_numbers_that_are_not_finite_are_refused(value, found):
    for name, vectors in (("obs", OBS), ("action", ACTION)):
        broken = put(vectors, 4, 1, value)
        message = refusal(wide(**spread(name, broken)))
        assert message.startswith(f"row 4, column '{name}_1': expected a finite number")
        assert f"found {found}" in message
        message = refusal(listed(**{name: broken}))
        assert message.startswith(f"row 4, column '{name}', entry 1 (from 0): expected a finite")
        assert f"found {found}" in message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_next_observations_are_whole_or_empty(value):
    broken = put(NEXT, 5, 1, value)
    message = refusal(wide(**spread("next_obs", broken)))
    assert message.startswith("row 5, column 'next_obs_1': expected a finite number")
    message = refusal(listed(next_obs=broken))
    assert message.startswith("row 5, column 'next_obs', entry 1 (from 0): expected a finite")
    assert ("empty as a whole" in message) == (value is None)


def test_rows_are_those_of_the_table_also_past_empty_ones():
    """Row 4 holds nothing and is skipped; row 5 must still be called row 5."""
    message = refusal(listed(next_obs=[*NEXT[:4], [1.0, float("inf")]]))
    assert message.startswith("row 5, column 'next_obs', entry 1 (from 0)")


@pytest.mark.parametrize("name", ["obs", "action"])
def test_missing_vectors_are_refused(name):
    vectors = [*listed()[name][:2], None, *listed()[name][3:]]
    assert f"row 3, column '{name}': the value is missing" in refusal(listed(**{name: vectors}))
    message = refusal(wide(**spread(name, vectors)))
    assert f"row 3, column '{name}_0': expected a finite number, found nothing" in message


@pytest.mark.parametrize("name", ["obs", "action"])
def test_ragged_lists_are_refused(name):
    vectors = listed()[name]
    message = refusal(listed(**{name: [*vectors[:3], vectors[3][:-1], vectors[4]]}))
    size = len(vectors[0])
    assert f"row 4, column '{name}': expected {size} numbers" in message
    assert f"found {size - 1}" in message
    assert "row 1" in message


@pytest.mark.parametrize("name", ["obs", "action"])
def test_empty_lists_are_refused(name):
    message = refusal(listed(**{name: [[]] * 5}))
    assert f"row 1, column '{name}': expected at least one number" in message
    message = refusal(listed(**{name: pl.Series([[]] * 5, dtype=pl.List(pl.Float64))}))
    assert f"row 1, column '{name}': expected at least one number" in message


def test_one_number_is_said_in_the_singular():
    message = refusal({**PLAIN, "obs": [[1.0]] * 4 + [[1.0, 2.0]], "action": [0] * 5})
    assert "row 5, column 'obs': expected 1 number, as in row 1, found 2" in message


def test_next_observations_are_as_long_as_observations():
    message = refusal(listed(next_obs=[*NEXT[:4], [1.0, 2.0, 3.0]]))
    assert "row 5, column 'next_obs': expected 2 numbers" in message
    assert "found 3" in message
    message = refusal(listed(next_obs=[[], *NEXT[1:]]))
    assert "row 1, column 'next_obs': expected 2 numbers" in message
    message = refusal(wide(next_obs_2=[0.0] * 5))
    assert "next_obs_0 .. next_obs_2" in message
    assert "expected 2" in message
    message = refusal(wide(next_obs_1=None))
    assert "column next_obs_0" in message
    assert "expected 2" in message


def test_text_among_the_numbers_is_refused():
    message = refusal(wide(obs_1=["0", "1", "far", "2", "3"]))
    assert "row 3, column 'obs_1': expected a number, found the text 'far'" in message
    message = refusal(wide(next_obs_1=["0", "1", "far", None, "3"]))
    assert "row 3, column 'next_obs_1': expected a number, found the text 'far'" in message
    message = refusal(listed(obs=[["a", "b"]] * 5))
    assert "column 'obs': expected lists of numbers, found List(String)" in message


@pytest.mark.parametrize("value", [0.0, -0.5, float("inf"), float("nan"), None])
def test_densities_are_positive_and_finite(value):
    message = refusal({**wide(), "propensity": [1.0, value, 30.0, 1.0, 1.0]})
    assert "row 2, column 'propensity': expected a" in message


def test_densities_may_exceed_one_and_probabilities_may_not():
    propensity = [1.0, 2.0, 30.0, 1.0, 1.0]
    logs = build({**wide(), "propensity": propensity})
    assert logs.propensity.tolist() == [1.0, 30.0, 1.0, 2.0, 1.0]
    message = refusal({**listed(action=[0] * 5), "propensity": propensity})
    assert "row 2, column 'propensity': expected a probability in (0, 1]" in message


def test_vectors_cannot_be_declared():
    message = refusal(wide(), actions=[0, 1])
    assert message.startswith("actions: ")
    assert "vectors of 3 numbers" in message
    assert "--actions" in message


def test_a_gap_in_the_steps_needs_next_observations():
    message = refusal({**wide(following=False), "step": [0, 0, 2, 3, 1]})
    assert "row 3, column 'step': expected step 1 after step 0, found step 2" in message
    assert "next_obs" in message
    assert build({**wide(), "step": [0, 0, 2, 3, 1]}).step.tolist() == [0, 1, 2, 0, 1]


def test_tabular_logs_have_no_vectors():
    table = {**PLAIN, "state": list("abcde"), "action": [0, 1, 0, 1, 0]}
    logs = build(table)
    assert not logs.vector_states
    assert not logs.vector_actions
    for name, words in (
        ("observation", "states that are vectors, found labels"),
        ("next_observation", "states that are vectors, found labels"),
        ("action_vector", "actions that are vectors, found labels"),
    ):
        with pytest.raises(LogsError, match=words):
            getattr(logs, name)


def test_rows_without_a_successor_are_left_out_as_ever():
    logs = build(wide(following=False))
    found = usable_rows(logs, 0.9)
    # Rows 4 and 5 end their episodes: the one without a successor, the other terminated.
    assert found.mask.tolist() == [True, True, False, True, True]
    assert found.steps == (2,)
    assert usable_rows(logs, 0.0).mask.all()
    assert usable_rows(build(wide(next_obs_0=[0.0] * 5, next_obs_1=[0.0] * 5)), 0.9).mask.all()
    alone = build(wide(following=False, episode_id=None, terminated=None))
    with pytest.raises(LogsError, match="column next_obs"):
        usable_rows(alone, 0.9)


def test_the_value_of_the_logging_policy_needs_no_table():
    table = {**PLAIN, "state": list("abcde"), "action": [0, 1, 0, 1, 0]}
    assert logged_value(build(wide()), 0.9) == logged_value(build(table), 0.9)


def test_a_log_says_what_it_holds():
    logs = build(wide())
    assert repr(logs) == (
        "Logs(5 transitions in 2 episodes, 2-dimensional observations, 3-dimensional actions)"
    )
    assert repr(build(listed(action=list("xyxxy")))) == (
        "Logs(5 transitions in 2 episodes, 2-dimensional observations, 2 actions)"
    )


def test_the_command_line_says_what_it_holds():
    def printed(logs):
        out = io.StringIO()
        show_logs(Console(file=out, width=400), logs)
        return out.getvalue()

    assert "2-dimensional observations, 3-dimensional actions; 1 terminated" in printed(
        build(wide())
    )
    assert "2-dimensional observations, 2 logged actions; 1 terminated" in printed(
        build(listed(action=list("xyxxy")))
    )
