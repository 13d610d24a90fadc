"""The commands take the address of a log in the place of its path."""

from pathlib import Path

import polars as pl
import pytest

from bayesdice_ppl.cli.texts import read_place


def test_paths_stay_paths_and_addresses_keep_their_slashes():
    assert read_place("logs/a.csv") == Path("logs/a.csv")
    address = read_place("duckdb:///logs.duckdb?table=steps")
    assert address.name == address.resolve() == "duckdb:///logs.duckdb?table=steps"


def test_check_takes_an_address(tmp_path, run):
    duckdb = pytest.importorskip("duckdb")
    frame = pl.DataFrame({"state": [0, 0, 1, 1], "action": [0, 1, 0, 1], "reward": [0.0, 1, 2, 3]})
    with duckdb.connect(tmp_path / "logs.duckdb") as database:
        database.register("given", frame.to_arrow())
        database.execute("create table steps as select * from given")
    code, out = run("check", f"duckdb:///{tmp_path}/logs.duckdb?table=steps", "--gamma", 0)
    assert code == 0, out.err
    assert "All 4 rows were counted where they lie" in out.out
    code, out = run("check", f"duckdb:///{tmp_path}/logs.duckdb?table=other", "--gamma", 0)
    assert code == 2
    assert "expected a table of the database, found 'other'. It has 'steps'." in out.err
