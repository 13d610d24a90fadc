"""Outputs appear whole or not at all, and what a killed process left is swept by the next one."""

import os
import signal
import subprocess
import sys

import pytest

from bayesdice_ppl import outputs
from bayesdice_ppl.errors import OutputError
from bayesdice_ppl.outputs import check_file, claimed_folder, staged_file, staged_folder

KILLED = """
import os, signal, sys
from pathlib import Path
from bayesdice_ppl.outputs import staged_file, staged_folder
place = Path(sys.argv[1])
with staged_folder(place / "out", overwrite=True) as folder, staged_file(place / "b.nc") as file:
    (folder / "belief.nc").write_text("half")
    file.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def write_both(place, text):
    with staged_folder(place / "out", overwrite=True) as folder, staged_file(place / "b.nc") as f:
        (folder / "belief.nc").write_text(text)
        f.write_text(text)


def test_what_a_killed_process_left_is_swept_by_the_next(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) == 2
    assert all(name.startswith(".") for name in left)
    write_both(tmp_path, "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.nc", "out"]
    assert (tmp_path / "b.nc").read_text() == (tmp_path / "out/belief.nc").read_text() == "whole"


def test_a_run_that_goes_on_keeps_its_scratch(tmp_path):
    """Another process of this machine, a process of another machine, and files of the user."""
    mark = outputs._HERE
    init = os.getppid()
    kept = [
        f".{mark}-{init}-b.nc",
        f".{mark}-{init}-other.nc",
        ".123abc-999999999-b.nc",
        ".out-mine",
        f".elsewhere-{mark}-{init}-abc",
        ".b.nc",
        f".{mark}-x-b.nc",
    ]
    for name in kept:
        (tmp_path / name).write_text("theirs")
    gone = [f".{mark}-999999999-b.nc", f".out-{mark}-999999999-abc"]
    for name in gone:
        (tmp_path / name).write_text("left")
    write_both(tmp_path, "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "b.nc", "out"])


def test_a_link_is_removed_and_not_followed(tmp_path):
    inside = tmp_path / "precious"
    inside.mkdir()
    (inside / "data.csv").write_text("x")
    link = tmp_path / f".out-{outputs._HERE}-999999999-abc"
    link.symlink_to(inside)
    write_both(tmp_path, "whole")
    assert not link.is_symlink()
    assert (inside / "data.csv").read_text() == "x"


def fail_in(staged):
    with staged as place:
        (place / "half" if place.is_dir() else place).write_text("half")
        raise ZeroDivisionError


def test_an_error_leaves_nothing(tmp_path):
    for staged in (
        staged_file(tmp_path / "a.nc"),
        staged_folder(tmp_path / "out", overwrite=False),
    ):
        with pytest.raises(ZeroDivisionError):
            fail_in(staged)
    assert list(tmp_path.iterdir()) == []


def test_two_runs_into_one_folder_at_a_time_are_refused(tmp_path):
    other = tmp_path / f".out-{outputs._HERE}-{os.getppid()}-abc"
    other.mkdir()
    with (
        pytest.raises(OutputError, match=f"another run.*process {os.getppid()}"),
        staged_folder(tmp_path / "out", overwrite=True),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [other.name]
    with staged_folder(tmp_path / "elsewhere", overwrite=False) as scratch:
        (scratch / "a").write_text("a")
    (tmp_path / "run").mkdir()
    mark = tmp_path / "run" / f".run-{outputs._HERE}-{os.getppid()}"
    mark.touch()
    with pytest.raises(OutputError, match="another run"), claimed_folder(tmp_path / "run"):
        pass
    mark.unlink()
    with claimed_folder(tmp_path / "run"):
        assert len(list((tmp_path / "run").iterdir())) == 1
    assert list((tmp_path / "run").iterdir()) == []


def test_a_new_folder_appears_in_one_step_with_the_usual_rights(tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("moved one by one")

    monkeypatch.setattr(os, "replace", refuse)
    with staged_folder(tmp_path / "deep" / "out", overwrite=False) as scratch:
        (scratch / "a").write_text("a")
    (tmp_path / "usual").mkdir()
    assert (tmp_path / "deep" / "out" / "a").read_text() == "a"
    assert (tmp_path / "deep/out").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_folder_whose_files_were_half_replaced_is_marked(tmp_path, monkeypatch):
    folder = tmp_path / "out"

    def write(text):
        with staged_folder(folder, overwrite=True) as scratch:
            for name in ("a", "b"):
                (scratch / name).write_text(text)

    write("old")
    replace = os.replace

    def killed(source, target):
        if target.name == "b":
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            write("new")
    assert ((folder / "a").read_text(), (folder / "b").read_text()) == ("new", "old")
    with (
        pytest.raises(OutputError, match="killed while it replaced"),
        staged_folder(folder, overwrite=False),
    ):
        pass
    write("newer")
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b"]


def test_what_was_left_is_swept_when_a_run_starts(tmp_path):
    left = tmp_path / f".{outputs._HERE}-999999999-another.nc"
    left.write_text("half")
    check_file(tmp_path / "b.nc", overwrite=False)
    assert not left.exists()
