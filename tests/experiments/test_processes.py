import os
import signal
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


def test_processes_that_always_die_are_given_up(tmp_path):
    with pytest.raises(SettingsError, match="3 times in a row"):
        list(run_in_processes([Job(0, tmp_path, deaths=9)], 1))
    assert len(list(tmp_path.iterdir())) == 3


def test_an_error_of_a_job_is_raised_as_it_is(tmp_path):
    with pytest.raises(LogsError, match="no such thing"):
        list(run_in_processes([Job(0, tmp_path, refuses=True), Job(1, tmp_path)], 1))
