"""Kills: `select`, `fit`, `report`, `reproduce` killed at random moments, and the disk after it.

A process that has imported the library forks one for each run, so that a run takes a second or two
and moments fall on its work. It is killed with SIGKILL: half of the times at a moment uniform over
the run, half soon after its first scratch file is there, which is where outputs are written. Then
the disk is looked at, and the same command starts again in the same place and runs to its end.
"""

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from bayesdice_ppl.belief import make_belief, save_belief
from benchmarks.fuzzing import good_log, good_table
from benchmarks.tables import RESULTS, write_table

COMMAND = "python -m benchmarks kills"
MOMENTS = 50
_FIT = "log.csv -p table.csv --gamma 0.9 --seed 1 --inference exact --draws 200"
COMMANDS = {
    "select": f"select {_FIT} -o out",
    "select --overwrite": f"select {_FIT} -o out --overwrite",
    "fit": f"fit {_FIT} -o b.nc",
    "report": "report b.nc -k 1 -o r.html",
    "report --overwrite": "report b.nc -k 1 -o r.html --overwrite",
    "reproduce": "reproduce ci --quick --worlds bandit --trials 8 --workers 1 -o run",
}
SOON = {"report": 0.05, "report --overwrite": 0.05}
"""Seconds after its first scratch file in which a command is killed that writes one short file."""
NOTES = (
    f"{MOMENTS} kills of each command. `whole`: the outputs are those of a run that was not "
    "killed, and can be read; `absent`: there are none; `resumable`: a folder of `reproduce` "
    "without its tables, which the same command goes on with; `marked`: files were being "
    "replaced, the folder says so, and the next run is asked to add --overwrite. `broken` is "
    "anything else. `scratch` counts the kills that left scratch files, and `left` those of which "
    "something was still there after the next start.",
)


def start(words: list[str], folder: Path) -> int:
    """Fork a process that runs the command in a folder, and give its number."""
    process = os.fork()
    if process:
        return process
    try:
        os.setsid()
        os.chdir(folder)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        sys.argv = ["bayesdice", *words]
        from bayesdice_ppl.cli import main

        main()
    except SystemExit as stopped:
        os._exit(int(stopped.code or 0))
    except BaseException:
        os._exit(70)
    os._exit(0)


def run_whole(words: list[str], folder: Path) -> int:
    """Run the command to its end, and give its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(start(words, folder), 0)[1])


def kill_at(words: list[str], folder: Path, moment: float, *, after_scratch: bool) -> bool:
    """Start the command and kill it; False where it ended before."""
    process = start(words, folder)
    began = time.monotonic()
    while after_scratch and not scratch_in(folder) and time.monotonic() - began < 30.0:
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        time.sleep(0.0005)
    time.sleep(moment)
    done = os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    # The processes that it started, too, as the machine's own killer may.
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return not done


def scratch_in(folder: Path) -> list[str]:
    """Scratch files and folders, anywhere below a folder."""
    return [str(path) for path in folder.rglob(".*") if path.name != ".unfinished"]


def state_of(name: str, folder: Path) -> str:
    """What is on the disk after a kill."""
    import polars as pl

    import bayesdice_ppl as bd

    try:
        if name == "fit":
            if not (folder / "b.nc").exists():
                return "absent"
            bd.load_belief(folder / "b.nc")
            return "whole"
        if name.startswith("report"):
            if not (folder / "r.html").exists():
                return "absent"
            page = (folder / "r.html").read_text(encoding="utf-8")
            parts = page.startswith("<!DOCTYPE html>"), page.rstrip().endswith("</html>")
            return "whole" if all(parts) else "broken"
        if name == "reproduce":
            run = folder / "run"
            if not run.exists():
                return "absent"
            tables = {path.name for path in run.iterdir() if path.name.startswith("ci.")}
            for path in run.rglob("[!.]*.parquet"):
                pl.read_parquet(path)
            return "whole" if len(tables) == 4 else "resumable"
        out = folder / "out"
        if not out.exists():
            return "absent"
        if (out / ".unfinished").exists():
            return "marked"
        bd.load_belief(out / "belief.nc")
        names = {path.name for path in out.iterdir()}
        return "whole" if names == {"belief.nc", "ranking.json", "forest.png"} else "broken"
    except Exception:
        return "broken"


def write_inputs(name: str, folder: Path) -> str:
    """Write a log and candidates, and for a report the belief."""
    good_log().write_csv(folder / "log.csv")
    good_table().write_csv(folder / "table.csv")
    if name.startswith("report"):
        values = np.random.default_rng(0).normal(size=(2000, 12)) + 0.1 * np.arange(12)
        save_belief(make_belief(values, [f"policy {i}" for i in range(12)]), folder / "b.nc")
    return ""


def apart(function: Callable[..., str], *arguments: Any) -> str:
    """What a function gives in a process of its own.

    A process in which polars or JAX has started its threads must not be forked.
    """
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.write(writing, function(*arguments).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    assert os.waitpid(process, 0)[1] == 0
    return said


def try_command(name: str, moments: int, seed: int) -> dict[str, object]:
    """Kill a command at random moments, each time in a new place."""
    words, rng = COMMANDS[name].split(), np.random.default_rng(seed)
    count: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as home:
        apart(write_inputs, name, Path(home))
        began = time.monotonic()
        assert run_whole(words, Path(home)) in (0, 3)
        seconds = time.monotonic() - began
    killed = 0
    while killed < moments:
        with tempfile.TemporaryDirectory() as home:
            place = Path(home)
            apart(write_inputs, name, place)
            if name.endswith("overwrite"):
                assert run_whole(words, place) in (0, 3)
            late = bool(killed % 2)
            moment = float(rng.uniform(0.0, SOON.get(name, 0.1 * seconds) if late else seconds))
            if not kill_at(words, place, moment, after_scratch=late):
                continue
            killed += 1
            state = apart(state_of, name, place)
            count[state] += 1
            count["scratch"] += bool(scratch_in(place))
            again = words
            if state in ("whole", "marked") and name in ("select", "fit", "report"):
                again = [*words, "--overwrite"]
            code = run_whole(again, place)
            whole = apart(state_of, name, place) == "whole" and code in (0, 3)
            count["left"] += bool(scratch_in(place)) or not whole
    states = ("whole", "absent", "resumable", "marked", "broken", "scratch", "left")
    return {"command": name, "kills": moments, **{state: count[state] for state in states}}


def main(
    output: Path = RESULTS, moments: int = MOMENTS, names: Iterable[str] = tuple(COMMANDS)
) -> None:
    """Kill the commands and write the table."""
    import jax  # noqa: F401
    import matplotlib as mpl

    mpl.use("Agg")
    # Imported before the fork, so that every moment of a run is one of its work.
    import bayesdice_ppl.cli
    import bayesdice_ppl.cli.check
    import bayesdice_ppl.experiments.run
    import bayesdice_ppl.fitting.fit
    import bayesdice_ppl.plots.forest
    import bayesdice_ppl.reporting.report
    import bayesdice_ppl.selection  # noqa: F401

    rows = []
    for seed, name in enumerate(COMMANDS):
        if name not in names:
            continue
        rows.append(try_command(name, moments, seed))
        print(rows[-1], flush=True)
    print(write_table("kills", rows, command=COMMAND, notes=NOTES, folder=output))


if __name__ == "__main__":
    main()
