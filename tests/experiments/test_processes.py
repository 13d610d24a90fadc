import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.experiments.processes import run_in_processes


@dataclass(frozen=True)
class Job:
    """Gives its number; at first may kill its process, or refuse."""

    number: int
    folder: Path
    deaths: int = 0
    refuses: bool = False

    def __call__(self):
        if self.refuses:
            raise LogsError("no such thing.")
        for death in range(self.deaths):
            mark = self.folder / f"{self.number}-{death}"
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return self.number, os.environ["OPENBLAS_NUM_THREADS"]


def test_jobs_of_a_lost_process_are_run_again(tmp_path):
    before = dict(os.environ)
    jobs = [Job(number, tmp_path, deaths=int(number == 2)) for number in range(5)]
    results = sorted(run_in_processes(jobs, 2))
    assert results == [(number, "1") for number in range(5)]
    assert (tmp_path / "2-0").exists()
    assert dict(os.environ) == before


@pytest.mark.slow
def test_processes_that_always_die_are_given_up(tmp_path):
    with pytest.raises(SettingsError, match="3 times in a row"):
        list(run_in_processes([Job(0, tmp_path, deaths=9)], 1))
    assert len(list(tmp_path.iterdir())) == 3


def test_an_error_of_a_job_is_raised_as_it_is(tmp_path):
    with pytest.raises(LogsError, match="no such thing"):
        list(run_in_processes([Job(0, tmp_path, refuses=True), Job(1, tmp_path)], 1))


KILLED = """
import os, sys, time
from functools import partial
from pathlib import Path
from tests.experiments.test_processes import wait_for_ever
from bayesdice_ppl.experiments.processes import run_in_processes

if __name__ == "__main__":
    jobs = [partial(wait_for_ever, Path(sys.argv[1]) / name) for name in ("one", "two")]
    list(run_in_processes(jobs, 2))
"""


def wait_for_ever(path):
    """Leave this process's number, and go on."""
    path.write_text(str(os.getpid()))
    while True:
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_processes_end_with_a_parent_that_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(KILLED)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, str(script), str(tmp_path)]
    parent = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        paths = [tmp_path / name for name in ("one", "two")]
        while parent.poll() is None and not all(p.is_file() and p.read_text() for p in paths):
            time.sleep(0.1)
        numbers = [int(path.read_text()) for path in paths]
        assert parent.poll() is None
        assert len(set(numbers)) == 2
        assert all(map(is_alive, numbers))
    finally:
        parent.kill()
        parent.wait()
    # It fails by never ending: no limit in seconds suits every machine.
    while any(map(is_alive, numbers)):
        time.sleep(0.1)
    assert not any(map(is_alive, numbers))


def is_alive(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    # A process whose parent was killed is a zombie until somebody collects it.
    state = Path(f"/proc/{number}/stat")
    return not state.is_file() or state.read_text().rpartition(")")[2].split()[0] != "Z"
