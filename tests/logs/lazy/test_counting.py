"""Counting a log where it lies: the counts by hand, on each engine, and what is refused."""

import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs import usable_rows

GOOD = {
    "episode_id": ["e", "e", "e", "f", "f"],
    "step": [0, 1, 2, 0, 1],
    "state": ["a", "b", "a", "b", "b"],
    "action": [0, 1, 0, 0, 1],
    "reward": [0.0, 1.0, 0.5, -1.0, 2.0],
    "next_state": ["b", "a", "c", "b", "c"],
    "terminated": [False, False, True, False, False],
    "propensity": [0.5, 0.5, 1.0, 0.1, 0.9],
}


def table(drop=(), **changes):
    columns = {name: values for name, values in {**GOOD, **changes}.items() if name not in drop}
    return pl.DataFrame(columns, strict=False)


def changed(column, row, value):
    values = list(GOOD[column])
    values[row - 1] = value
    return {column: values}


def count(**changes):
    return bd.Logs.from_lazy(table(**changes).lazy())


def in_duckdb(frame):
    duckdb = pytest.importorskip("duckdb")
    database = duckdb.connect()
    database.register("given", frame.to_arrow())
    # Stored in an order that is not that of the steps.
    database.execute("create table steps as select * from given order by reward")
    return database


def on_duckdb(frame):
    return in_duckdb(frame).table("steps")


def on_ibis(frame):
    ibis = pytest.importorskip("ibis")
    return ibis.duckdb.from_connection(in_duckdb(frame)).table("steps")


def on_polars(frame):
    return frame.reverse().lazy()


ENGINES = {"polars": on_polars, "duckdb": on_duckdb, "ibis": on_ibis}


def counts_of(logs):
    """(state, action, next state or None, terminated) -> rows, starts and sums of two powers."""
    states, actions = logs.state_labels.tolist(), logs.action_labels.tolist()
    first, second = logs.sums()[:2]
    found = {}
    for k in range(len(logs.count)):
        onward = None if logs.next_state[k] < 0 else states[logs.next_state[k]]
        key = (states[logs.state[k]], actions[logs.action[k]], onward, bool(logs.terminated[k]))
        numbers = (logs.count[k], logs.starts[k], first[k], second[k])
        found[key] = tuple(round(float(number), 12) for number in numbers)
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("engine", ENGINES)
def test_counts_by_hand(engine):
    frame = pl.concat([table(), table(episode_id=["g", "g", "g", "h", "h"])])
    logs = bd.Logs.from_lazy(ENGINES[engine](frame))
    assert counts_of(logs) == {
        ("a", 0, "b", False): (2, 2, 0.0, 0.0),
        ("a", 0, None, True): (2, 0, 1.0, 0.5),
        ("b", 1, "a", False): (2, 0, 2.0, 2.0),
        ("b", 0, "b", False): (2, 2, -2.0, 2.0),
        ("b", 1, "c", False): (2, 0, 4.0, 8.0),
    }
    assert (logs.n_transitions, logs.n_episodes) == (10, 4)
    assert (logs.n_terminated, logs.n_truncated) == (2, 2)
    assert logs.reward_ends == (-1.0, 2.0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("engine", ENGINES)
def test_the_next_row_gives_the_next_state(engine):
    logs = bd.Logs.from_lazy(ENGINES[engine](table(drop=("next_state",))))
    held = bd.Logs.from_dataframe(table(drop=("next_state",)))
    assert set(counts_of(logs)) == {
        ("a", 0, "b", False),
        ("a", 0, None, True),
        ("b", 1, "a", False),
        ("b", 0, "b", False),
        ("b", 1, None, False),
    }
    lines, rows = usable_rows(logs, 0.9), usable_rows(held, 0.9)
    assert (lines.left_out, lines.steps, lines.missing) == (rows.left_out, rows.steps, 1)


def test_a_step_with_an_unknown_next_state_is_left_out_whole():
    ends = table(drop=("next_state",), terminated=[False, True, False, False, False])
    frame = ends.filter(pl.Series([True, True, False, True, True]))
    lines = usable_rows(bd.Logs.from_lazy(frame.lazy()), 0.9)
    rows = usable_rows(bd.Logs.from_dataframe(frame), 0.9)
    assert (lines.left_out, lines.steps) == (rows.left_out, rows.steps) == (2, (1,))


def test_times_and_the_order_of_a_file_put_rows_in_order():
    days = pl.Series([20, 21, 25, 3, 9]).cast(pl.Date)
    timed = table(drop=("next_state", "step")).with_columns(step=days)
    plain = counts_of(count(drop=("next_state",)))
    assert counts_of(bd.Logs.from_lazy(timed.reverse().lazy())) == plain
    assert counts_of(count(drop=("next_state", "step"))) == plain


def test_far_rewards_keep_their_digits():
    rewards = 1e8 + np.array([0.25, 0.5, 0.75, -0.25, 1.0])
    logs = count(reward=rewards)
    units = logs.reward_units()
    assert units.scale == pytest.approx(np.std(rewards - 1e8), rel=1e-13)
    sums = logs.in_units(units).sums()
    assert sums[0].sum() == pytest.approx(0.0, abs=1e-14)
    assert sums[1].sum() == pytest.approx(5.0, rel=1e-14)


FAULTS = {
    "missing-column": ({"drop": ("action",)}, "missing column 'action'"),
    "nan": (
        changed("reward", 2, float("nan")),
        "column 'reward': expected a finite number. 1 row does not have it: episode_id 'e', step 1 "
        "(nan).",
    ),
    "nulls": ({"reward": [None] * 4 + [1.0]}, "4 rows do not have it: the first episode_id 'e'"),
    "large": (changed("reward", 1, 1e200), "whose squares fit in double precision"),
    "text-reward": ({"reward": ["0"] * 5}, "column 'reward': expected numbers, found String"),
    "propensity": (changed("propensity", 4, 1.5), "a probability in (0, 1]"),
    "flag": ({"terminated": [0, 0, 2, 0, 0]}, "column 'terminated': expected true or false"),
    "no-state": (changed("state", 3, None), "column 'state': expected a value. 1 row does not"),
    "blank": (changed("state", 1, " "), "found a blank text (rows: 1)"),
    "half-state": ({"state": [0.5, 1, 1, 1, 1], "drop": ("next_state",)}, "found 0.5"),
    "kinds": ({"next_state": [1, 2, 3, 4, 5]}, "column 'next_state': expected strings"),
    "twice": (changed("step", 2, 0), "a step above the one before in the same episode"),
    "gap": (
        {**changed("step", 3, 3), "drop": ("next_state",)},
        "the next step of the episode after each. 1 row does not have it: episode_id 'e', step 1",
    ),
    "late": ({"step": [0, 1, 2, 1, 2]}, "1 that start later: episode_id 'f' at step 1"),
    "after-end": (
        {"terminated": [False, True, True, False, False]},
        "episode_id 'e' has step 2 after step 1",
    ),
    "contradiction": (
        {"next_state": ["c", "a", None, "b", "c"], "terminated": [False] * 5},
        "the state of the episode's next row. 1 row does not have it: episode_id 'e', step 0 ('c')",
    ),
    "lookalike": ({"done": [0, 0, 1, 0, 1], "drop": ("terminated",)}, "'done' looks like"),
    "sets": ({"allowed_actions": ["0|1"] * 5}, "expected none in a log that is counted"),
    "one-row": ({name: values[:1] for name, values in GOOD.items()}, "at least two rows"),
    "vectors": ({"obs": [[0.0]] * 5, "drop": ("state", "next_state")}, "found vectors"),
}


@pytest.mark.parametrize(("changes", "words"), FAULTS.values(), ids=FAULTS)
def test_what_is_refused(changes, words):
    with pytest.raises(LogsError) as caught:
        count(**changes)
    assert words in str(caught.value)


@pytest.mark.parametrize(("value", "words"), [(np.nan, "'e', step 1"), (1e200, "1e\\+200")])
def test_faults_are_found_in_a_database_as_in_a_file(value, words):
    with pytest.raises(LogsError, match=words):
        bd.Logs.from_lazy(on_duckdb(table(**changed("reward", 2, value))))


def test_a_database_needs_steps():
    with pytest.raises(LogsError, match="expected a column step"):
        bd.Logs.from_lazy(on_duckdb(table(drop=("step",))))


def test_tables_in_memory_are_sent_to_the_other_reader():
    with pytest.raises(LogsError, match=r"Logs\.from_dataframe takes tables in memory"):
        bd.Logs.from_lazy(table().to_arrow())


def test_addresses(tmp_path, monkeypatch):
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("logs.duckdb") as database:
        database.register("given", table().to_arrow())
        database.execute("create table steps as select * from given")
    table().write_parquet("logs.parquet")
    expected = counts_of(count())
    addresses = ["duckdb:///logs.duckdb?table=steps", "parquet:///*.parquet"]
    addresses.append(f"duckdb:///{tmp_path}/logs.duckdb?table=steps")
    for address in addresses:
        assert counts_of(bd.read_logs(address)) == expected
    for address, words in {
        "duckdb:///logs.duckdb?table=other": "It has 'steps'",
        "duckdb:///none.duckdb?table=steps": "no such file",
        "parquet:///none.parquet": "no such file",
        "postgres://there/logs": "Logs.from_lazy",
    }.items():
        with pytest.raises(LogsError) as caught:
            bd.read_logs(address)
        assert words in str(caught.value)
