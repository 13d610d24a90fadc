"""The command that reruns the experiments."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, final

import typer

from bayesdice_ppl.cli.app import app
from bayesdice_ppl.cli.console import make_console
from bayesdice_ppl.cli.groups import MAX_SEED
from bayesdice_ppl.cli.options import with_options
from bayesdice_ppl.progress import stage

if TYPE_CHECKING:
    from bayesdice_ppl.experiments import Experiment, Progress, Written

INTERRUPTED = 130


@final
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Size of the experiment.

    Attributes
    ----------
    quick
        A few small cells, in minutes.
    marginal
        With ci: compare with marginalized importance sampling.
    worlds
        Worlds, such as bandit,frozenlake. Default: all.
    trials
        Trials of each cell. Default: as many as the experiment has.
    seed
        Random seed.
    """

    quick: Annotated[bool, typer.Option("--quick")] = False
    marginal: Annotated[bool, typer.Option("--marginal")] = False
    worlds: str | None = None
    trials: Annotated[int | None, typer.Option(min=2)] = None
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED)] = 0

    @property
    def _worlds(self) -> list[str] | None:
        names = None if self.worlds is None else self.worlds.split(",")
        return None if names is None else [name.strip() for name in names if name.strip()]

    def make(self, name: str) -> Experiment:
        """Make the experiment."""
        from bayesdice_ppl.experiments import make_experiment

        return make_experiment(
            name,
            quick=self.quick,
            marginal=self.marginal,
            worlds=self._worlds,
            trials=self.trials,
        )

    def command(self, name: str) -> str:
        """The command that makes the run again."""
        words = ["bayesdice", "reproduce", name]
        words += ["--quick"] * self.quick + ["--marginal"] * self.marginal
        words += ["--worlds", ",".join(self._worlds)] if self._worlds else []
        words += ["--trials", str(self.trials)] if self.trials else []
        words += ["--seed", str(self.seed)] if self.seed else []
        return " ".join([*words, "-o", "DIR"])


@app.command()
@with_options
def reproduce(
    name: Annotated[str, typer.Argument(help="ci, ablation or selection.")],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="Folder. A run that was interrupted there is resumed."),
    ],
    choices: RunOptions,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes. Default: one for each core.")
    ] = None,
) -> None:
    """Rerun one of the paper's experiments. Writes rows, a summary, a table and a figure."""
    from bayesdice_ppl.experiments import reproduce as rerun
    from bayesdice_ppl.experiments.run import begin_run

    experiment = choices.make(name)
    n_workers = workers or _cores()
    os.environ.setdefault("MPLBACKEND", "Agg")
    # Before anything is shown: a folder of another run is refused.
    begin_run(experiment, output, choices.seed)
    console = make_console()
    n_trials = sum(cell.n_trials for cell in experiment.cells)
    console.print(
        f"{experiment.name}: {n_trials:,} trials in {len(experiment.cells)} cells, seed "
        f"{choices.seed}, {n_workers} processes."
    )
    try:
        with _reporting() as report:
            written = rerun(
                experiment,
                output,
                seed=choices.seed,
                workers=n_workers,
                command=choices.command(name),
                on_progress=report,
            )
    except KeyboardInterrupt:
        console.print(
            f"\nInterrupted. The same command resumes the run in {output}.",
            markup=False,
            soft_wrap=True,
        )
        raise typer.Exit(INTERRUPTED) from None
    _show(written, output)


def _cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _reporting() -> Iterator[Callable[[Progress], None]]:
    """Show the trials done and the time left; in a file, a line for each cell."""
    console, cell = make_console(stderr=True), ""
    with stage("starting") as shown:

        def report(now: Progress) -> None:
            nonlocal cell
            if not console.is_terminal and now.cell != cell:
                console.print(f"{now.done:,} of {now.total:,} trials: {now.cell}", markup=False)
            cell = now.cell
            shown.tell(now.done, now.total, cell or "starting")

        yield report


def _show(written: Written, folder: Path) -> None:
    """Print the findings, and where the files are."""
    from rich.markdown import Markdown

    console = make_console()
    said = [block for block in written.markdown.split("\n\n") if block.startswith("**")]
    console.print(Markdown("\n\n".join(said)))
    paths = (written.rows, written.totals, written.table, written.figure)
    names = ", ".join(path.name for path in paths)
    console.print(f"Wrote {names} to {folder}.", markup=False, soft_wrap=True)
