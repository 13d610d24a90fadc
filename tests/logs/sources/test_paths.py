"""Several files as one log: patterns, folders, and folders named by Hive's keys."""

from pathlib import Path

import polars as pl
import pytest

from bayesdice_ppl import Logs, read_logs
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.sources.layouts import LAYOUTS
from tests.logs.sources.world import differences, own_log, own_rows, play

PLAYED = play()
ROWS = pl.DataFrame(own_rows(PLAYED))


def parts():
    """The rows of each episode."""
    return [ROWS.filter(pl.col("episode_id") == k) for k in range(len(PLAYED))]


def refused(path, **options):
    with pytest.raises(LogsError) as caught:
        read_logs(path, **options)
    return str(caught.value)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_files_that_fit_a_pattern_are_read_in_the_order_of_their_numbers(ending, tmp_path):
    for k, part in enumerate(parts()):
        getattr(part, f"write_{ending}")(tmp_path / f"part-{k}.{ending}")
    logs = read_logs(f"{tmp_path}/part-*.{ending}")
    assert differences(logs, own_log(PLAYED)) == []
    assert "14 files" in logs.source.sentences[1]
    assert "part-0" in logs.source.sentences[1]
    assert differences(read_logs(tmp_path), logs) == []


def test_keys_of_folders_are_columns(tmp_path):
    for k, part in enumerate(parts()):
        folder = tmp_path / f"day={k // 3}" / f"site=s{k % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        part.write_parquet(folder / f"{k}.parquet")
    (tmp_path / "_SUCCESS").touch()
    logs = read_logs(tmp_path)
    assert logs.n_transitions == len(ROWS)
    day = dict(zip(logs.to_dataframe()["episode_id"], logs.groups["day"], strict=True))
    assert day == {k: k // 3 for k in range(len(PLAYED))}
    assert set(logs.groups["site"]) == {"s0", "s1"}
    both = parts()[0].with_columns(pl.lit(9).alias("day"))
    both.write_parquet(tmp_path / "day=0" / "site=s0" / "0.parquet")
    assert "one meaning of 'day'" in refused(tmp_path)


def test_files_that_differ_are_refused(tmp_path):
    first, second, *_ = parts()
    first.write_parquet(tmp_path / "1.parquet")
    second.drop("truncated").write_parquet(tmp_path / "2.parquet")
    assert "'truncated' are in one of them only" in refused(tmp_path)
    second.with_columns(pl.col("reward").cast(pl.String)).write_parquet(tmp_path / "2.parquet")
    assert "column 'reward': expected Float64" in refused(tmp_path)
    second.write_csv(tmp_path / "3.csv")
    assert "files of one kind" in refused(tmp_path)
    assert "fit the pattern" in refused(f"{tmp_path}/*.pq")
    (tmp_path / "1.parquet").write_bytes(b"PAR1 not PAR1")
    (tmp_path / "3.csv").unlink()
    assert "1.parquet: cannot be read as Parquet" in refused(tmp_path)


def test_episodes_that_two_files_number_alike_are_refused(tmp_path):
    one = ROWS.drop("step", "terminated", "truncated", "next_state")
    for name in "ab":
        one.write_parquet(tmp_path / f"{name}.parquet")
    assert "nothing says that the pieces are one episode" in refused(tmp_path)


def test_a_column_of_vectors_among_the_entries_can_be_the_observation():
    lines = [
        {"_label_cost": float(k), "_label_Action": 1, "a": [1], "p": [1.0], "c": {"x": [k, 1.5]}}
        for k in range(3)
    ]
    logs = Logs.from_vw(lines, columns={"obs": "c.x"})
    assert logs.observation.tolist() == [[0.0, 1.5], [1.0, 1.5], [2.0, 1.5]]
    assert "state" not in logs.source.taken


def test_the_page_about_sources_names_every_reader_and_every_layout():
    page = (Path(__file__).parents[3] / "docs" / "sources.md").read_text(encoding="utf-8")
    readers = [name for name in dir(Logs) if name.startswith("from_")]
    assert len(readers) > 10
    own = ("from_dataframe", "from_source", "from_lazy")
    assert [name for name in readers if name not in own and f"Logs.{name}(" not in page] == []
    assert [name for name in LAYOUTS if f"`{name}`" not in page and f'"{name}"' not in page] == []
