"""Own intervals: do beliefs cover in the paper's experiment as they did when its table was made.

`bayesdice reproduce ci` asks twenty methods, most of which take longer than a belief. Here the same
logs are dealt and only the belief is asked. Its coverage and width stand beside those of the table
in docs/results, so that a change of the default shows.
"""

from pathlib import Path

import polars as pl

from bayesdice_ppl.experiments import ci
from bayesdice_ppl.experiments.experiment import PLACE
from bayesdice_ppl.experiments.methods import BAYESDICE
from bayesdice_ppl.experiments.trials import Cell, deal
from benchmarks.tables import write_table

TABLE = Path(__file__).parent.parent / "docs" / "results" / "ci.csv"
WORLDS = ("bandit", "frozenlake", "taxi")
COMMAND = "python -m benchmarks own_intervals"
NOTES = (
    "Logs, seed and truth are those of `bayesdice reproduce ci`. `table_90`, `table_mace`: the "
    "belief's coverage at 90 % and mean |coverage - nominal| at 50, 70, 80, 90 and 95 % in "
    "docs/results/ci.md. `cov_90`, `mace`: today's. `width_50`, `width_90`: today's median width "
    "over the table's.",
)


class OwnIntervals:
    """The experiment with the belief as its only method."""

    def __init__(self, cells: tuple[Cell, ...]) -> None:
        self.experiment = ci.IntervalCoverage(cells)
        every = ci.interval_methods(marginal=False)
        self.method = next(method for method in every if method.name == BAYESDICE)

    def rows(self, cell: Cell) -> list[tuple[object, ...]]:
        """Intervals of one candidate in every trial of a cell."""
        place = (cell.world, cell.behavior, cell.n_episodes, cell.max_steps)
        found: list[tuple[object, ...]] = []
        for number in range(cell.n_trials):
            trial = deal(cell, number, 0)
            for policy, truth in zip(trial.candidates, trial.truth.tolist(), strict=True):
                query = ci.queries_of(trial)[policy]
                ends = self.method.intervals(trial, policy, ci.LEVELS, query).tolist()
                found += [
                    (*place, number, policy, BAYESDICE, level, lower, upper, truth, None)
                    for level, (lower, upper) in zip(ci.LEVELS, ends, strict=True)
                ]
        return found


def measure(cell: Cell, own: OwnIntervals, table: pl.DataFrame) -> dict[str, object]:
    """One cell again, beside its row of the table."""
    schema = [*PLACE, "trial", *own.experiment.schema]
    frame = pl.DataFrame(own.rows(cell), schema=schema, orient="row", infer_schema_length=None)
    now = own.experiment.summarize(frame.with_columns(pl.col("error").cast(pl.String)))
    before = table.filter(
        (pl.col("world") == cell.world)
        & (pl.col("episodes") == cell.n_episodes)
        & (pl.col("steps") == cell.max_steps)
        & (pl.col("method") == BAYESDICE)
    )
    one, other = now.row(0, named=True), before.row(0, named=True)
    return {
        "world": cell.world,
        "log": f"{cell.n_episodes} x {cell.max_steps}",
        "trials": cell.n_trials,
        "table_90": other["cov_90"],
        "cov_90": one["cov_90"],
        "table_mace": other["mace"],
        "mace": one["mace"],
        "width_50": one["width_50"] / other["width_50"],
        "width_90": one["width_90"] / other["width_90"],
    }


def main(folder: Path) -> None:
    """Redo every cell and write the table."""
    cells = ci.PLAN.cells(WORLDS)
    own, table = OwnIntervals(cells), pl.read_csv(TABLE, comment_prefix="#")
    rows = []
    for cell in cells:
        rows.append(measure(cell, own, table))
        print(rows[-1], flush=True)
    print(write_table("own_intervals", rows, command=COMMAND, notes=NOTES, folder=folder))
