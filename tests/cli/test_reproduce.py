import polars as pl
import pytest

from bayesdice_ppl.cli import reproduce
from bayesdice_ppl.cli.app import main
from bayesdice_ppl.experiments import NAMES


def run(*words, monkeypatch):
    """Run the command as the terminal does: its exit code."""
    monkeypatch.setattr("sys.argv", ["bayesdice", "reproduce", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cii"], "experiment: expected one of 'ci', 'ablation', 'selection', found 'cii'"),
        (["ci", "--worlds", "garnet"], "worlds of ci: expected some of 'bandit', 'frozenlake', "),
        (["ci", "--worlds", ""], "found none"),
        (["ci", "--worlds", "bandit,bandit"], "each at most once"),
        (["selection", "--marginal"], "marginal: expected one of 'ci', found 'selection'"),
    ],
)
def test_bad_choices_are_refused_in_one_sentence(words, said, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "out"
    assert run(*words, "-o", folder, monkeypatch=monkeypatch) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert not folder.exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path, monkeypatch, capsys):
    (tmp_path / "thesis.txt").write_text("mine")
    code = run("ci", "--quick", "--workers", 1, "-o", tmp_path, monkeypatch=monkeypatch)
    assert code == 2
    assert "not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_small_run_writes_everything_and_goes_on(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "out"
    words = ["ablation", "--quick", "--trials", 4, "--worlds", "bandit", "-o", folder]
    words += ["--workers", 1]
    assert run(*words, monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "ablation: 4 trials in 1 cells, seed 0, 1 processes." in said
    assert "wins/ties/losses of the aligned ranking" in said.replace("\n", " ")
    text = (folder / "ablation.md").read_text()
    made = "Made by `bayesdice reproduce ablation --quick --worlds bandit --trials 4 -o DIR`."
    assert made in text
    rows = pl.read_parquet(folder / "ablation.parquet")
    assert rows["trial"].unique().sort().to_list() == [0, 1, 2, 3]
    summary = pl.read_csv(folder / "ablation.csv")
    assert set(summary["trials"]) == {4}
    parts = {path: path.stat().st_mtime_ns for path in folder.rglob("parts/*/*")}
    assert run(*words, monkeypatch=monkeypatch) == 0
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("parts/*/*")} == parts
    assert run(*words, "--seed", 1, monkeypatch=monkeypatch) == 2


def test_an_interruption_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("bayesdice_ppl.experiments.reproduce", interrupted)
    folder = tmp_path / "out"
    assert run("ci", "--quick", "-o", folder, monkeypatch=monkeypatch) == reproduce.INTERRUPTED
    assert "The same command resumes the run" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "ci --marginal"])
def test_a_quick_run_leaves_its_table_and_figure(name, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    assert run(*name.split(), "--quick", "-o", folder, monkeypatch=monkeypatch) == 0
    assert len(list(folder.glob("*.md"))) == 1
    assert len(list(folder.glob("*.png"))) == 1
