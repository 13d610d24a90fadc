"""Outputs appear whole or not at all, and what a killed process left is swept by the next one."""

import os
import signal
import subprocess
import sys

import pytest

from bayesdice_ppl import outputs
from bayesdice_ppl.outputs import staged_file, staged_folder

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
        f".out-{mark}-{init}-abc",
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
