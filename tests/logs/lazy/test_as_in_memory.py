"""A log that is counted where it lies is taken, or refused, as its rows in memory are."""

import hashlib
from datetime import date, time, timedelta
from types import SimpleNamespace

import jax
import narwhals as nw
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.fitting import counted as counted_fit
from bayesdice_ppl.fitting import grouping as held_fit
from bayesdice_ppl.logs.lazy import first
from bayesdice_ppl.logs.lazy.engines import told_by_engines


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


def from_database(database, chosen=ROWS, n=100, **options):
    return bd.Logs.from_lazy(database.sql(f"select {chosen} from range({n}) t(i)"), **options)


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


def named_by_hash(frame):
    names = {k: hashlib.md5(str(k).encode()).hexdigest() for k in range(frame.height)}
    return frame.with_columns(pl.col("episode_id").replace_strict(names))


def test_episodes_of_a_file_come_in_the_order_of_the_file(monkeypatch):
    frame = named_by_hash(play())
    held = bd.Logs.from_dataframe(frame)
    for size, n in ((1000, 200), (52, 50)):
        monkeypatch.setattr(first, "SAMPLE", size)
        logs = bd.Logs.from_lazy(frame.lazy())
        assert logs.order == "rows"
        assert logs.sample.n_transitions == n
        np.testing.assert_array_equal(logs.sample.reward, held.reward[:n])
        np.testing.assert_array_equal(logs.sample.episode_labels, held.episode_labels[: n // 5])


@pytest.mark.parametrize("size", [1000, 52])
def test_times_order_the_episodes_of_a_database(monkeypatch, database, size):
    monkeypatch.setattr(first, "SAMPLE", size)
    hours = pl.duration(hours=pl.int_range(pl.len()))
    frame = named_by_hash(play()).with_columns(step=pl.datetime(2024, 1, 1) + hours)
    database.register("given", frame.sample(fraction=1.0, shuffle=True, seed=0).to_arrow())
    logs = bd.Logs.from_lazy(database.table("given"))
    assert logs.order == "times"
    n = min(size // 5 * 5, 200)
    np.testing.assert_array_equal(logs.sample.reward, frame["reward"][:n].to_numpy())


@pytest.mark.parametrize("drop", [(), ("episode_id", "step")], ids=["episodes", "rows"])
def test_a_database_without_times_has_no_order_and_says_so(database, drop):
    database.register("given", play().drop(drop).to_arrow())
    logs = bd.Logs.from_lazy(database.table("given"))
    words = "the order in which" if drop else "the order of the names of episodes"
    assert words in " ".join(logs.source.sentences)
    facts = counted_fit.CountedFit(
        counted_fit.CountedFacts(logs),
        SimpleNamespace(settings=SimpleNamespace(gamma=0.0, cluster="transition", clusters=())),
    )
    assert any(words in note for note in facts.notes)


GROUPS = {
    "nan": [float(k % 30) if k % 7 else float("nan") for k in range(200)],
    "numbers": [float(k % 30) for k in range(200)],
    "half": [k % 30 + 0.5 for k in range(200)],
    "times": [time(k % 24) for k in range(200)],
    "spans": [timedelta(seconds=k % 5) for k in range(200)],
    "many-spans": [timedelta(seconds=k % 30) for k in range(200)],
    "days": [date(2024, 1, 1 + k % 5) for k in range(200)],
    "few": [k % 4 for k in range(200)],
}


@pytest.mark.parametrize("values", GROUPS.values(), ids=GROUPS)
def test_columns_that_may_group_rows_are_judged_alike(values):
    frame = play().with_columns(site=pl.Series(values))
    held, counted = bd.Logs.from_dataframe(frame), bd.Logs.from_lazy(frame.lazy())
    gaps = sum(isinstance(value, float) and np.isnan(value) for value in values)
    assert counted.rows.survey.nulls["site"] == gaps
    # Rows without a group are not looked at, and the notes say so.
    assert counted.looked_at == (() if gaps else held.looked_at)
    assert counted.of_few_groups == held.of_few_groups


@pytest.mark.parametrize("value", [0.1, -1e8 / 3.0, 1e-90, 0.0])
def test_equal_rewards_have_no_spread(database, value):
    frame = play().with_columns(reward=pl.lit(value))
    database.register("given", frame.to_arrow())
    expected = bd.Logs.from_dataframe(frame).reward_units()
    for table in (frame.lazy(), database.table("given")):
        logs = bd.Logs.from_lazy(table)
        assert logs.reward_units() == expected
        assert logs.mean_reward == value


def test_rewards_that_differ_in_the_last_place_keep_their_spread():
    above = np.nextafter(1e8, 2e8)
    frame = play().with_columns(reward=pl.when(pl.col("step") == 0).then(above).otherwise(1e8))
    expected = bd.Logs.from_dataframe(frame).reward_units()
    found = bd.Logs.from_lazy(frame.lazy()).reward_units()
    assert found.scale == pytest.approx(expected.scale, rel=1e-12)


BEYOND = {
    "done": ({"done": (pl.col("episode_id") > 30) & (pl.col("step") == 4)}, "'done' looks like"),
    "blank": (
        {
            "episode_id": pl.when(pl.col("episode_id") > 30)
            .then(pl.lit(" "))
            .otherwise(pl.col("episode_id").cast(pl.String))
        },
        "column 'episode_id': expected a label, and no blank text. 45 rows do not have it",
    ),
    "half": (
        {
            "episode_id": pl.col("episode_id")
            + pl.when(pl.col("episode_id") > 30).then(0.5).otherwise(0.0)
        },
        "column 'episode_id': expected an integer below 2^53, or a string. 45 rows",
    ),
    "infinite-step": (
        {"step": pl.when(pl.col("episode_id") > 30).then(float("inf")).otherwise("step")},
        "column 'step': expected a finite number. 45 rows",
    ),
}


@pytest.mark.parametrize(("columns", "words"), BEYOND.values(), ids=BEYOND)
def test_faults_beyond_the_first_rows_are_found(monkeypatch, columns, words):
    monkeypatch.setattr(first, "SAMPLE", 50)
    frame = play().with_columns(**columns)
    assert words in refusal(lambda: bd.Logs.from_lazy(frame.lazy()))
    with pytest.raises(LogsError):
        bd.Logs.from_dataframe(frame)


def test_what_was_judged_by_the_first_rows_alone_is_told(monkeypatch):
    monkeypatch.setattr(first, "SAMPLE", 50)
    frame = play().with_columns(timeout=(pl.col("episode_id") > 30) & (pl.col("step") == 4))
    logs = bd.Logs.from_lazy(frame.lazy())
    assert "'timeout' looks like 'truncated'" in " ".join(logs.source.sentences)
    silent = bd.Logs.from_lazy(frame.with_columns(timeout=False).lazy())
    assert "timeout" not in " ".join(silent.source.sentences)


KINDS = {
    "binary": ("binary", [0.0, 1.0], 0.5),
    "counts": ("counts", [0.0, 7.0], 2.5),
    "negative-counts": ("counts", [0.0, 7.0], -1.0),
    "bounded": ((0.0, 2.0), [0.0, 0.3, 2.0], 2.5),
}


@pytest.mark.parametrize(("kind", "values", "odd"), KINDS.values(), ids=KINDS)
def test_the_kind_of_rewards_is_checked_in_all_rows(monkeypatch, kind, values, odd):
    monkeypatch.setattr(first, "SAMPLE", 50)
    sound = [values[k % len(values)] for k in range(200)]
    settings = SimpleNamespace(prior=bd.Prior(rewards=kind))
    for rewards in (sound, [*sound[:-1], odd]):
        logs = bd.Logs.from_lazy(play().with_columns(reward=pl.Series(rewards)).lazy())
        if rewards is sound:
            counted_fit.check_counted_rewards(logs, settings)
        else:
            words = refusal(lambda logs=logs: counted_fit.check_counted_rewards(logs, settings))
            assert f"found {odd:g}" in words


def test_a_column_step_may_be_ignored():
    held = bd.Logs.from_dataframe(play(), ignore=["step"])
    counted = bd.Logs.from_lazy(play().lazy(), ignore=["step"])
    assert counted.missing_steps == (4,)
    np.testing.assert_array_equal(counted.sample.next_state, held.next_state)


def test_spans_of_a_database_are_left_out(database):
    logs = from_database(database, f"{ROWS}, to_seconds(i % 40) as took", ignore=["took"])
    assert logs.unused_columns == ("took",)
    assert "'took'" in " ".join(logs.source.sentences)
    assert logs.n_transitions == 100
    columns = ROWS.replace("i % 5 as step", "to_seconds(i % 5) as took")
    with pytest.raises(LogsError, match="column 'took': expected a type that duckdb hands over"):
        from_database(database, columns, columns={"step": "took"})


def test_the_head_of_a_long_episode_fills_up_the_first_rows(monkeypatch):
    monkeypatch.setattr(first, "SAMPLE", 100)
    steps = [0, *range(300)]
    frame = pl.DataFrame({"episode_id": [1] + [2] * 300, "step": steps, "state": 0})
    frame = frame.with_columns(action=pl.col("step") % 2, reward=pl.col("step") % 3)
    logs = bd.Logs.from_lazy(frame.lazy())
    assert logs.sample.step.tolist() == [0, *range(99)]


def test_a_table_of_the_database_may_have_any_name(database):
    names = ("small_table", "the_log", "small")
    for name in names:
        database.execute(f"create table {name} as select 1 as z")
    logs = from_database(database)
    sizes = logs.rows.commonest(logs.keys, np.ones(len(logs.count), bool), logs.n_transitions)
    assert sizes is None


def refused_by_an_engine(error):
    with told_by_engines():
        raise error


def test_what_engines_refuse_is_told_in_words():
    for error in (nw.exceptions.ColumnNotFoundError("no a"), pl.exceptions.ComputeError("no a")):
        with pytest.raises(LogsError, match="could not read the log: no a"):
            refused_by_an_engine(error)
    # Faults of our own stay what they are.
    with pytest.raises(TypeError):
        refused_by_an_engine(TypeError("ours"))


def test_next_states_without_a_value_are_none():
    frame = play().with_columns(next_state=pl.lit(None, dtype=pl.String))
    held, counted = bd.Logs.from_dataframe(frame), bd.Logs.from_lazy(frame.lazy())
    np.testing.assert_array_equal(counted.sample.next_state, held.next_state)
    assert counted.missing_steps == (4,)


def test_decimal_steps_are_numbers(database):
    logs = from_database(database, ROWS.replace("i % 5 as step", "(i % 5) * 0.25 as step"))
    whole = from_database(database)
    assert (logs.n_episodes, logs.missing_steps) == (whole.n_episodes, whole.missing_steps)
    np.testing.assert_array_equal(logs.sample.reward, whole.sample.reward)


@pytest.mark.parametrize("values", [["1.50", "2.00", "0.25"], ["1.00", "2.00", "3.00"]])
def test_decimals_are_labels_and_groups_as_in_memory(values):
    kind = pl.Decimal(10, 2)
    texts = pl.Series([values[k % 3] for k in range(200)])
    frame = play().with_columns(state=texts.cast(kind), price=pl.int_range(200).mod(30).cast(kind))
    held, counted = bd.Logs.from_dataframe(frame), bd.Logs.from_lazy(frame.lazy())
    np.testing.assert_array_equal(counted.state_labels, held.state_labels)
    np.testing.assert_array_equal(counted.sample.state, held.state)
    assert counted.looked_at == held.looked_at == ("price",)
