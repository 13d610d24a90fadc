import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from bayesdice_ppl.errors import LogsError, OutputError, SettingsError
from bayesdice_ppl.experiments import make_experiment, reproduce
from bayesdice_ppl.experiments.run import cut
from bayesdice_ppl.experiments.trials import Cell


@dataclass(frozen=True)
class Counting:
    """An experiment that writes down which trials it was asked about."""

    cells: tuple
    diary: Path
    refuses: int = -1

    @property
    def name(self):
        return "counting"

    @property
    def settings(self):
        return {"choice": 1}

    @property
    def schema(self):
        return {"number": pl.Int64, "reward": pl.Float64}

    def rows(self, trial):
        if trial.number == self.refuses:
            raise LogsError("no such thing.")
        with self.diary.open("a") as file:
            file.write(f"{trial.number}\n")
        return [(trial.number, float(trial.logs.reward.sum()))]

    def summarize(self, frame):
        return frame.group_by("world", "episodes", maintain_order=True).agg(
            pl.col("number").sum(), pl.len()
        )

    def tables(self, summary):
        return {"A heading": summary}

    def remarks(self, summary):
        return ("**A remark.**",)

    def figure(self, summary):
        from matplotlib.figure import Figure

        return Figure()


def run(experiment, folder, seed=0, **given):
    return reproduce(experiment, folder, seed=seed, workers=0, command="redo", **given)


CELLS = (Cell("bandit", 0.5, 10, 1, 90), Cell("bandit", 0.5, 20, 1, 3))


def test_chunks_cover_every_trial_once():
    for n_trials in (1, 2, 39, 40, 41, 90, 1000):
        cell = Cell("bandit", 0.5, 10, 1, n_trials)
        chunks = cut(cell)
        numbers = [c.first + i for c in chunks for i in range(c.size)]
        assert numbers == list(range(n_trials))
        assert len(chunks) <= 40
        assert len({chunk.path for chunk in chunks}) == len(chunks)


def test_everything_is_written_and_a_second_run_plays_nothing(tmp_path):
    diary, folder = tmp_path / "diary", tmp_path / "out"
    seen = []
    written = run(Counting(CELLS, diary), folder, on_progress=seen.append)
    assert written.summary.rows() == [("bandit", 10, 89 * 90 // 2, 90), ("bandit", 20, 3, 3)]
    assert [seen[0].done, seen[-1].done, seen[-1].total] == [0, 93, 93]
    frame = pl.read_parquet(written.rows)
    assert frame.columns == ["world", "behavior", "episodes", "steps", "trial", "number", "reward"]
    assert frame["trial"].to_list() == frame["number"].to_list()
    text = written.table.read_text()
    for part in ("Made by `redo`.", "**A remark.**", "## A heading", "| bandit | 20 | 3 | 3 |"):
        assert part in text
    assert written.figure.read_bytes()[:4] == b"\x89PNG"
    record = json.loads((folder / "run.json").read_text())
    assert record["seed"] == 0
    assert "jax" in record["versions"]
    assert len(diary.read_text().split()) == 93
    again = run(Counting(CELLS, diary), folder)
    assert len(diary.read_text().split()) == 93
    assert again.summary.equals(written.summary)


def test_an_interrupted_run_goes_on(tmp_path):
    diary, folder = tmp_path / "diary", tmp_path / "out"

    def stop(progress):
        if progress.done >= 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Counting(CELLS, diary), folder, on_progress=stop)
    assert not (folder / "counting.md").exists()
    written = run(Counting(CELLS, diary), folder)
    # No trial twice, and the same rows as of a run in one go.
    assert len(diary.read_text().split()) == 93
    whole = run(Counting(CELLS, tmp_path / "other"), tmp_path / "whole")
    assert pl.read_parquet(written.rows).equals(pl.read_parquet(whole.rows))


def test_another_run_is_not_gone_on_with(tmp_path):
    diary, folder = tmp_path / "diary", tmp_path / "out"
    run(Counting(CELLS[1:], diary), folder)
    with pytest.raises(OutputError, match=r"another choice of seed \(0, now 1\)"):
        run(Counting(CELLS[1:], diary), folder, seed=1)
    with pytest.raises(OutputError, match="another choice of cells"):
        run(Counting(CELLS, diary), folder)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="not empty"):
        run(Counting(CELLS, diary), other)
    with pytest.raises(OutputError, match="found a file"):
        run(Counting(CELLS, diary), other / "thesis.txt")


def test_a_damaged_part_is_played_again(tmp_path):
    diary, folder = tmp_path / "diary", tmp_path / "out[1]"
    first = run(Counting(CELLS[1:], diary), folder)
    whole = pl.read_parquet(first.rows, glob=False)
    empty, cut_off = sorted((folder / "parts" / CELLS[1].slug).iterdir())[:2]
    empty.write_bytes(b"")
    cut_off.write_bytes(cut_off.read_bytes()[:50])
    again = run(Counting(CELLS[1:], diary), folder)
    assert pl.read_parquet(again.rows, glob=False).equals(whole)
    assert len(diary.read_text().split()) == 5


def test_a_part_of_another_making_is_played_again(tmp_path):
    diary, folder = tmp_path / "diary", tmp_path / "out"
    first = run(Counting(CELLS, diary), folder)
    whole = pl.read_parquet(first.rows)
    played = len(diary.read_text().split())
    one, two, three, four = sorted((folder / "parts" / CELLS[0].slug).iterdir())[:4]
    # Another table, rows left out, another part's, and a column renamed: all of them can be read.
    pl.DataFrame({"a": [1]}).write_parquet(one)
    pl.read_parquet(two).head(1).write_parquet(two)
    three.write_bytes(four.read_bytes())
    frame = pl.read_parquet(four)
    frame.rename({frame.columns[-1]: "other"}).write_parquet(four)
    again = run(Counting(CELLS, diary), folder)
    assert pl.read_parquet(again.rows).equals(whole)
    redone = sum(len(range(*bounds_of(path))) for path in (one, two, three, four))
    assert len(diary.read_text().split()) == played + redone


def bounds_of(path):
    """First trial of a part and the one after its last, from its file's name."""
    first, last = map(int, path.stem.split("-"))
    return first, last + 1


def test_a_record_that_is_none_is_refused(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    for text in ("[]", '"run"', "{"):
        (folder / "run.json").write_text(text)
        with pytest.raises(OutputError, match=r"run\.json"):
            run(Counting(CELLS[1:], tmp_path), folder)
    (folder / "run.json").unlink()
    folder.rmdir()
    run(Counting(CELLS[1:], tmp_path / "diary"), folder)
    record = json.loads((folder / "run.json").read_text())
    record["versions"]["numpy"] = "1.0"
    (folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(OutputError, match=r"versions \(numpy 1\.0, now"):
        run(Counting(CELLS[1:], tmp_path / "diary"), folder)


def test_a_part_that_cannot_be_written_is_an_error_with_a_sentence(tmp_path):
    folder = tmp_path / "out"
    run(Counting(CELLS[1:], tmp_path / "diary"), folder)
    shutil.rmtree(folder / "parts")
    (folder / "parts").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be made"):
        run(Counting(CELLS[1:], tmp_path / "diary"), folder)


def test_a_fault_is_told_with_its_trial(tmp_path, monkeypatch):
    def fault(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(Counting, "rows", fault)
    with pytest.raises(ZeroDivisionError) as raised:
        run(Counting(CELLS[1:], tmp_path / "diary"), tmp_path / "out")
    assert raised.value.__notes__ == ["bandit, behavior 0.5, 20 x 1, trial 0"]


def test_an_error_names_cell_and_trial(tmp_path):
    with pytest.raises(LogsError, match=r"bandit, behavior 0\.5, 20 x 1, trial 2: no such thing"):
        run(Counting(CELLS[1:], tmp_path / "diary", refuses=2), tmp_path / "out")


@pytest.mark.slow
def test_processes_give_the_same_rows(tmp_path):
    experiment = make_experiment("ablation", worlds=["bandit"], quick=True, trials=4)
    one = reproduce(experiment, tmp_path / "one", seed=3, workers=0, command="redo")
    two = reproduce(experiment, tmp_path / "two", seed=3, workers=2, command="redo")
    assert pl.read_parquet(one.rows).equals(pl.read_parquet(two.rows))
    assert one.summary["trials"].to_list()[0] == 4


def test_numbers_of_processes_are_checked(tmp_path):
    with pytest.raises(SettingsError, match="workers"):
        reproduce(Counting(CELLS, tmp_path), tmp_path / "out", seed=0, workers=-1, command="")
