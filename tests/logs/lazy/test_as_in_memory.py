"""A log that is counted where it lies is taken, or refused, as its rows in memory are."""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.fitting import counted as counted_fit
from bayesdice_ppl.fitting import grouping as held_fit


def play(episodes=40, steps=5):
    """Episodes of one length, in the order of their numbers."""
    rng, n = np.random.default_rng(0), episodes * steps
    return pl.DataFrame(
        {
            "episode_id": np.arange(n) // steps,
            "step": np.arange(n) % steps,
            "state": rng.integers(3, size=n),
            "action": rng.integers(2, size=n),
            "reward": rng.normal(size=n),
        }
    )


def candidates():
    tables = {"p": [[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]}
    return {
        name: bd.TabularPolicy(np.array(table), states=[0, 1, 2], actions=[0, 1])
        for name, table in tables.items()
    }


def fit(logs, **settings):
    settings = {"gamma": 0.9, "draws": 50, "rng_key": jax.random.key(0)} | settings
    return bd.fit(logs, candidates(), **settings)


def refusal(make):
    """What a log is refused with."""
    with pytest.raises(LogsError) as caught:
        make()
    return str(caught.value)


@pytest.fixture
def database():
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        yield connection


ROWS = (
    "i // 5 as episode_id, i % 5 as step, i % 3 as state, i % 2 as action, "
    "(i % 7)::double as reward"
)


def from_database(database, columns=ROWS, n=100, **options):
    return bd.Logs.from_lazy(database.sql(f"select {columns} from range({n}) t(i)"), **options)


@pytest.mark.parametrize("path", ["logs", "logs/*/*.parquet"])
@pytest.mark.parametrize("users", [["u1", "u2", "u10"], ["1", "2", "10"]], ids=["text", "numbers"])
def test_keys_of_folders_are_columns(tmp_path, path, users):
    frame = play()
    for k, user in enumerate(users):
        folder = tmp_path / "logs" / f"user_id={user}"
        folder.mkdir(parents=True)
        frame.filter(pl.col("episode_id") % 3 == k).write_parquet(folder / "a.parquet")
    held = bd.read_logs(tmp_path / path)
    counted = bd.read_logs(f"parquet:///{tmp_path}/{path}")
    assert counted.looked_at == held.looked_at == ("user_id",)
    assert dict(counted.groups) == {"user_id": 3}
    mine, theirs = counted.sample.groups["user_id"], held.groups["user_id"]
    assert mine.dtype == theirs.dtype
    assert (
        mine.value_counts(sort=True)
        .sort("user_id")
        .equals(theirs.value_counts(sort=True).sort("user_id"))
    )


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_pieces_of_episodes_are_refused_where_no_flag_is_true(flag):
    frame = play().drop("step").with_columns(pl.lit(False).alias(flag))
    pieces = pl.concat([frame, frame])
    for make in (bd.Logs.from_dataframe, lambda frame: bd.Logs.from_lazy(frame.lazy())):
        assert "nothing says that the pieces are one" in refusal(lambda make=make: make(pieces))


class SeenError(Exception):
    """What a fit would have looked at."""


def seen_by(monkeypatch, module, logs):
    """The rows whose actions are held against their rewards."""

    def look(*columns):
        raise SeenError(*columns)

    monkeypatch.setattr(module, "follows_rewards", look)
    with pytest.raises(SeenError) as caught:
        fit(logs)
    return caught.value.args


def test_only_used_rows_tell_whether_the_policy_followed_its_rewards(monkeypatch):
    last = pl.col("step") == 4
    frame = play().with_columns(terminated=last & (pl.col("episode_id") % 2 == 0))
    held = seen_by(monkeypatch, held_fit, bd.Logs.from_dataframe(frame))
    counted = seen_by(monkeypatch, counted_fit, bd.Logs.from_lazy(frame.lazy()))
    assert len(held[0]) == 160  # the last step is left out whole
    for mine, theirs in zip(counted[:2], held[:2], strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_steps_with_the_sums_of_regular_ones_are_told_apart():
    # Their number, sum and sum of squares are those of 0, 1, ..., 7.
    steps = [0, 0, 3, 4, 4, 5, 5, 7]
    assert sum(steps) == 28
    assert sum(step**2 for step in steps) == 140
    frame = play(2, 8).with_columns(step=pl.Series([*range(8), *steps]), next_state=0)
    frame = frame.with_columns(state=pl.lit(0))
    assert "a step above" in refusal(lambda: bd.Logs.from_lazy(frame.lazy()))
    assert "a step above" in refusal(lambda: bd.Logs.from_dataframe(frame))


def test_check_of_an_address_takes_its_settings(tmp_path):
    play().write_parquet(tmp_path / "a.parquet")
    address = f"parquet:///{tmp_path}/a.parquet"
    logs = bd.read_logs(address, actions=[0, 1, 2])
    np.testing.assert_array_equal(logs.sample.declared_actions, [0, 1, 2])
    held = bd.Logs.from_dataframe(play(), actions=[0, 1, 2])
    expected = bd.check(held, gamma=0.9)
    found = bd.check(address, gamma=0.9, actions=[0, 1, 2])
    assert (str(found.sections), found.faults) == (str(expected.sections), expected.faults)
    assert bd.read_logs(address, layout="table").n_transitions == 200
    for read in (bd.read_logs, lambda path, layout: bd.check(path, gamma=0.9, layout=layout)):
        for layout in ("d4rl", "nonsense"):
            words = refusal(lambda read=read, layout=layout: read(address, layout=layout))
            assert "layout: expected" in words


def test_the_commonest_reward_is_that_of_used_rows():
    # 100 of 150 rows have 0, but of those that are used, 50 of 100 do.
    frame = play(50, 3).with_columns(
        reward=pl.when(pl.col("step") == 0).then(1.0 + pl.col("episode_id")).otherwise(0.0),
        state=pl.col("step"),
    )
    logs = bd.Logs.from_lazy(frame.lazy())
    for used, expected in ((np.ones(len(logs.count), bool), 0.0), (~logs.missing, None)):
        n = int(logs.count[used].sum())
        found = logs.rows.commonest(logs.keys, used, n)
        assert (found is None) == (expected is None)
        if expected is not None:
            assert logs.center + logs.scale * found == pytest.approx(expected, abs=1e-12)


def test_long_episodes_in_a_database(database):
    columns = "1 as episode_id, i as step, 0 as state, i % 2 as action, (i % 5)::double as reward"
    logs = from_database(database, f"{columns}, 0 as next_state", 1_700_000)
    assert (logs.n_transitions, logs.n_episodes, logs.starts.sum()) == (1_700_000, 1, 1)


def test_tables_are_found_by_schema_and_name(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "logs.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute("create schema s; create schema t")
        for name, n in (('"my.steps"', 100), ("s.inner_steps", 50), ("s.a", 20), ("t.a", 30)):
            writer.execute(f"create table {name} as select {ROWS} from range({n}) t(i)")
    found = {"my.steps": 100, "inner_steps": 50, "s.inner_steps": 50, "t.a": 30}
    for name, n in found.items():
        assert bd.read_logs(f"duckdb:///{path}?table={name}").n_transitions == n
    for name, words in {"a": "'s.a', 't.a'", "t.inner_steps": "expected a table of"}.items():
        assert words in refusal(lambda name=name: bd.read_logs(f"duckdb:///{path}?table={name}"))


@pytest.mark.parametrize("name", ["a#1", "a?1", "a%20b", "a b", "a[1]"])
def test_paths_may_hold_what_has_a_meaning_in_addresses(tmp_path, name):
    play().write_parquet(tmp_path / f"{name}.parquet")
    assert bd.read_logs(f"parquet:///{tmp_path}/{name}.parquet").n_transitions == 200
