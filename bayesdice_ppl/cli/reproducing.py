"""The command that reruns the experiments."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesdice_ppl.cli.app import app
from bayesdice_ppl.cli.options import MAX_SEED

if TYPE_CHECKING:
    from bayesdice_ppl.experiments import Progress, Written

INTERRUPTED = 130


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(help="ci, ablation or selection.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder; one of an earlier run is gone on with.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A few small cells, in minutes.")] = False,
    marginal: Annotated[
        bool,
        typer.Option("--marginal", help="ci: against marginalized importance sampling."),
    ] = False,
    worlds: Annotated[
        str | None,
        typer.Option(help="Which worlds, such as bandit,frozenlake; all if left out."),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=2, help="Trials of each cell; the usual number if left out.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed.")] = 0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; as many as there are cores if left out.")
    ] = None,
) -> None:
    """Rerun one of the paper's experiments: writes rows, a summary, a table and a figure."""
    from bayesdice_ppl.console import make_console
    from bayesdice_ppl.experiments import make_experiment
    from bayesdice_ppl.experiments import reproduce as rerun
    from bayesdice_ppl.experiments.running import begin_run

    chosen = None if worlds is None else [one.strip() for one in worlds.split(",") if one.strip()]
    experiment = make_experiment(name, quick=quick, marginal=marginal, worlds=chosen, trials=trials)
    n_workers = workers or _cores()
    os.environ.setdefault("MPLBACKEND", "Agg")
    # Before anything is said: a folder of another run is refused.
    begin_run(experiment, output, seed)
    console = make_console()
    n_trials = sum(cell.n_trials for cell in experiment.cells)
    console.print(
        f"{experiment.name}: {n_trials:,} trials in {len(experiment.cells)} cells, seed {seed}, "
        f"{n_workers} processes."
    )
    command = _command(name, quick, marginal, chosen, trials, seed)
    try:
        with _Bar() as report:
            written = rerun(
                experiment,
                output,
                seed=seed,
                workers=n_workers,
                command=command,
                on_progress=report,
            )
    except KeyboardInterrupt:
        console.print(
            f"\nInterrupted. The same command goes on from {output}.", markup=False, soft_wrap=True
        )
        raise typer.Exit(INTERRUPTED) from None
    _show(written, output)


def _cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _command(
    name: str,
    quick: bool,
    marginal: bool,
    worlds: list[str] | None,
    trials: int | None,
    seed: int,
) -> str:
    """The command that makes the run again, for its table."""
    words = ["bayesdice", "reproduce", name]
    words += ["--quick"] * quick + ["--marginal"] * marginal
    words += [] if worlds is None else ["--worlds", ",".join(worlds)]
    words += [] if trials is None else ["--trials", str(trials)]
    words += [] if seed == 0 else ["--seed", str(seed)]
    return " ".join([*words, "-o", "DIR"])


class _Bar:
    """A progress bar with the trials done and the time left, at the terminal's error stream."""

    def __enter__(self) -> _Bar:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        from bayesdice_ppl.console import make_console

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=make_console(stderr=True),
        )
        self._cell = ""
        self._progress.start()
        self._task = self._progress.add_task("starting", total=None)
        return self

    def __call__(self, progress: Progress) -> None:
        if not self._progress.console.is_terminal and progress.cell != self._cell:
            # In a file a bar is nothing to look at: a line for each cell that is begun.
            self._progress.console.print(
                f"{progress.done:,} of {progress.total:,} trials: {progress.cell}", markup=False
            )
        self._cell = progress.cell
        self._progress.update(
            self._task,
            completed=progress.done,
            total=progress.total,
            description=progress.cell or "starting",
        )

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _show(written: Written, folder: Path) -> None:
    """Print the remarks, and where everything is."""
    from rich.markdown import Markdown

    from bayesdice_ppl.console import make_console

    console = make_console()
    said = [block for block in written.markdown.split("\n\n") if block.startswith("**")]
    console.print(Markdown("\n\n".join(said)))
    paths = (written.rows, written.totals, written.table, written.figure)
    names = ", ".join(path.name for path in paths)
    console.print(f"Wrote {names} to {folder}.", markup=False, soft_wrap=True)
