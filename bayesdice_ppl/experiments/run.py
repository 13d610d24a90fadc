"""Run an experiment: trials in chunks, chunks in processes, and a file for each chunk.

A chunk that is on disk is not run again. An interrupted run loses only the chunks that were being
run, and the same command resumes it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import polars as pl

from bayesdice_ppl.checks import whole
from bayesdice_ppl.errors import BayesDiceError, OutputError
from bayesdice_ppl.experiments.experiment import Experiment
from bayesdice_ppl.experiments.processes import run_in_processes
from bayesdice_ppl.experiments.tables import as_markdown, package_versions, provenance
from bayesdice_ppl.experiments.trials import Cell, deal
from bayesdice_ppl.logs.files import read_parquet
from bayesdice_ppl.outputs import claimed_folder, staged_file, sweep, write_json

RUN_FILE, PARTS = "run.json", "parts"
_ROWS = "bayesdice_ppl_rows"
"""The key of a part's metadata that holds its number of rows."""

FEWEST_TRIALS = 30
"""With fewer trials in a cell the results carry a caution."""

CHUNKS = 40
"""The most chunks that the trials of a cell are cut into."""


@final
class Chunk(NamedTuple):
    """Trials of one cell that a process runs in sequence.

    Attributes
    ----------
    cell
        The cell.
    first, size
        Numbers of its trials: ``first`` to ``first + size - 1``.
    """

    cell: Cell
    first: int
    size: int

    @property
    def path(self) -> Path:
        """Where its rows are kept, below the run's folder."""
        last = self.first + self.size - 1
        return Path(PARTS) / self.cell.slug / f"{self.first:05d}-{last:05d}.parquet"


@final
class Progress(NamedTuple):
    """The progress of a run.

    Attributes
    ----------
    done, total
        Trials.
    cell
        Name of the cell whose chunk was finished last, or "".
    """

    done: int
    total: int
    cell: str


@final
class Written(NamedTuple):
    """The results of a run.

    Attributes
    ----------
    rows, totals, table, figure
        The tidy Parquet file, its summary as CSV, the Markdown table and the figure.
    summary
        The summary as a frame.
    markdown
        The text of the Markdown file.
    """

    rows: Path
    totals: Path
    table: Path
    figure: Path
    summary: pl.DataFrame
    markdown: str


@final
@dataclass(frozen=True)
class _Job:
    """What a process is sent: everything that a chunk's rows depend on."""

    experiment: Experiment
    chunk: Chunk
    seed: int
    folder: Path

    def __call__(self) -> Chunk:
        rows = []
        for number in range(self.chunk.first, self.chunk.first + self.chunk.size):
            where = f"{self.chunk.cell.name}, trial {number}"
            try:
                trial = deal(self.chunk.cell, number, self.seed)
                rows += [(number, *row) for row in self.experiment.rows(trial)]
            except BayesDiceError as error:
                raise type(error)(f"{where}: {error}") from error
            except Exception as error:
                error.add_note(where)
                raise
        frame = pl.DataFrame(rows, schema=_columns(self.experiment), orient="row")
        target = self.folder / self.chunk.path
        _make_folder(target.parent)
        _write_parquet(frame, target)
        return self.chunk


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise OutputError(f"{folder}: cannot be made: {cause.strerror}.") from cause


def _write_parquet(frame: pl.DataFrame, path: Path) -> None:
    # Through memory, so that a full disk raises an OSError, which has a message.
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata={_ROWS: str(frame.height)})
    with staged_file(path) as scratch:
        scratch.write_bytes(buffer.getvalue())


def _columns(experiment: Experiment) -> dict[str, Any]:
    return {"trial": pl.Int64, **experiment.schema}


def _is_complete(experiment: Experiment, chunk: Chunk, folder: Path) -> bool:
    """Whether a part was written as a whole; a crash may have cut it."""
    path = folder / chunk.path
    try:
        if not path.is_file():
            return False
        frame, added = read_parquet(path, OutputError)
        rows = int(added.get(_ROWS, -1))
    except (OSError, ValueError):
        return False
    trials = frame["trial"].unique().to_list() if "trial" in frame.columns else []
    return (
        dict(frame.schema) == _columns(experiment)
        and sorted(trials) == list(range(chunk.first, chunk.first + chunk.size))
        and frame.height == rows
    )


def reproduce(
    experiment: Experiment,
    folder: Path,
    *,
    seed: int,
    workers: int,
    command: str,
    on_progress: Callable[[Progress], None] | None = None,
) -> Written:
    """Run an experiment, or go on with it, and write its rows, table and figure.

    In a script the call stands below ``if __name__ == "__main__":``, as every process reads the
    script anew.

    Parameters
    ----------
    experiment
        What to run.
    folder
        Where everything goes; made if missing. A folder of the same run is gone on with.
    seed
        Of everything random.
    workers
        Processes; 0 runs in this one.
    command
        The command that makes all this, for the table's head.
    on_progress
        Called with a `Progress` at the start and after each chunk.

    Returns
    -------
    Written
        Files ``NAME.parquet`` (rows of all trials), ``NAME.csv`` (their summary), ``NAME.md`` and
        ``NAME.png``; ``run.json`` has the settings, the seed and the versions, and ``parts`` the
        rows chunk by chunk.

    Raises
    ------
    OutputError
        The folder holds something else, or a run with other choices, or cannot be written to.
    SettingsError
        The number of workers is negative.
    """
    whole("workers", workers, 0)
    begin_run(experiment, folder, seed)
    with claimed_folder(folder):
        return _run(experiment, folder, seed, workers, command, on_progress)


def _run(
    experiment: Experiment,
    folder: Path,
    seed: int,
    workers: int,
    command: str,
    on_progress: Callable[[Progress], None] | None,
) -> Written:
    """Make the parts that are missing, and all that is made of them."""
    chunks = [chunk for cell in experiment.cells for chunk in cut(cell)]
    for place in {(folder / chunk.path).parent for chunk in chunks}:
        sweep(place)
    missing = [chunk for chunk in chunks if not _is_complete(experiment, chunk, folder)]
    total = sum(chunk.size for chunk in chunks)
    done = total - sum(chunk.size for chunk in missing)
    report = on_progress or (lambda progress: None)
    report(Progress(done, total, ""))
    jobs = [_Job(experiment, chunk, seed, folder) for chunk in missing]
    for chunk in run_in_processes(jobs, workers) if workers else (job() for job in jobs):
        done += chunk.size
        report(Progress(done, total, chunk.cell.name))
    return _write(experiment, folder, chunks, command)


def cut(cell: Cell) -> list[Chunk]:
    """Cut a cell's trials into chunks of about equal size."""
    size = -(-cell.n_trials // CHUNKS)
    return [
        Chunk(cell, first, min(size, cell.n_trials - first))
        for first in range(0, cell.n_trials, size)
    ]


def begin_run(experiment: Experiment, folder: Path, seed: int) -> None:
    """Begin a run in a folder, or check that the run in it has the same choices.

    Raises
    ------
    OutputError
        The folder holds something else, or a run with other choices.
    """
    asked = {
        "experiment": experiment.name,
        "seed": seed,
        "settings": experiment.settings,
        "cells": [cell._asdict() for cell in experiment.cells],
        "versions": package_versions(),
    }
    asked = json.loads(json.dumps(asked))
    record = folder / RUN_FILE
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: expected a folder to write to, found a file.")
    if record.is_file():
        try:
            found = json.loads(record.read_text(encoding="utf-8"))
        except (OSError, ValueError) as cause:
            raise OutputError(f"{record}: cannot be read. Name another folder with -o.") from cause
        if not isinstance(found, dict):
            raise OutputError(f"{record}: holds no run. Name another folder with -o.")
        differing = [_difference(name, found.get(name), asked[name]) for name in asked]
        if any(differing):
            raise OutputError(
                f"{folder} holds a run with another choice of {', '.join(filter(None, differing))}."
                " Name another folder with -o, or remove this one."
            )
        return
    sweep(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise OutputError(
            f"{folder}: the folder is not empty and holds no run to resume. Name another folder "
            "with -o."
        )
    _make_folder(folder)
    write_json(asked, record)


def _difference(name: str, found: Any, asked: Any) -> str:
    """What differs from a run's record, with both values where they are short, or ""."""
    if found == asked:
        return ""
    if name == "cells" and isinstance(found, list) and len(found) == len(asked):
        pairs = [(one, other) for one, other in zip(found, asked, strict=True) if one != other]
        one, other = pairs[0]
        if all({**one, "n_trials": 0} == {**other, "n_trials": 0} for one, other in pairs):
            return f"trials ({one['n_trials']}, now {other['n_trials']})"
    if not (isinstance(found, dict) and isinstance(asked, dict)):
        return name if isinstance(asked, list) else f"{name} ({found}, now {asked})"
    parts = [key for key in asked if found.get(key) != asked[key]]
    if name != "versions":
        return f"{name} ({', '.join(parts)})"
    return f"{name} ({', '.join(f'{key} {found.get(key)}, now {asked[key]}' for key in parts)})"


def read_rows(folder: Path, chunks: Sequence[Chunk]) -> pl.DataFrame:
    """Read the rows of all trials, with the columns of their cell in front."""
    parts = []
    for chunk in chunks:
        cell = chunk.cell
        parts.append(
            read_parquet(folder / chunk.path, OutputError)[0].select(
                pl.lit(cell.world).alias("world"),
                pl.lit(cell.behavior).alias("behavior"),
                pl.lit(cell.n_episodes).alias("episodes"),
                pl.lit(cell.max_steps).alias("steps"),
                pl.all(),
            )
        )
    return pl.concat(parts)


def _caution(experiment: Experiment) -> list[str]:
    """A caution where there are too few trials to conclude anything."""
    fewest = min(cell.n_trials for cell in experiment.cells)
    if fewest >= FEWEST_TRIALS:
        return []
    return [f"**Caution**: {fewest} trials of a cell are too few to conclude anything from."]


def _write(experiment: Experiment, folder: Path, chunks: Sequence[Chunk], command: str) -> Written:
    from bayesdice_ppl.plots import save

    frame = read_rows(folder, chunks)
    summary = experiment.summarize(frame)
    name = experiment.name
    endings = ("parquet", "csv", "md", "png")
    rows, totals, table, figure = (folder / f"{name}.{ending}" for ending in endings)
    blocks = [
        f"# {name}",
        "\n".join(provenance(command)),
        *_caution(experiment),
        *experiment.remarks(summary),
        *(
            f"## {heading}\n\n{as_markdown(table)}"
            for heading, table in experiment.tables(summary).items()
        ),
    ]
    markdown = "\n\n".join(blocks) + "\n"
    _write_parquet(frame, rows)
    with staged_file(totals) as scratch:
        summary.with_columns(pl.col(pl.Float64).round_sig_figs(6)).write_csv(scratch)
    save(experiment.figure(summary), figure)
    with staged_file(table) as scratch:
        scratch.write_text(markdown, encoding="utf-8")
    return Written(rows, totals, table, figure, summary, markdown)


__all__ = ["Chunk", "Progress", "Written", "begin_run", "cut", "read_rows", "reproduce"]
