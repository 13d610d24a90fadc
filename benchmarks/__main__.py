"""Redo the tables: ``python -m benchmarks [TABLE]``.

A table is one of speed, start_up, simulation, worlds, calibration, skewness, price, garnet, taxi,
statistics, wide, selection and alignment, or all of them.
``python -m benchmarks reacher`` finds Reacher's true values anew, which takes half an hour and is
not part of ``all``.
"""

import argparse
import importlib
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.tables import RESULTS

TABLES = (
    "speed",
    "start_up",
    "simulation",
    "worlds",
    "calibration",
    "skewness",
    "price",
    "garnet",
    "taxi",
    "statistics",
    "wide",
    "selection",
    "alignment",
)
COVERAGE = ("calibration", "skewness", "garnet", "taxi", "statistics", "alignment")


def main() -> None:
    """Parse the command line and fill the tables that it names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "table", nargs="?", default="all", choices=(*TABLES, "reacher", "all"), metavar="TABLE"
    )
    parser.add_argument("--trials", type=int, help="trials of the tables that have them")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the tables")
    arguments = parser.parse_args()
    if arguments.table == "all":
        # A process each, so that none runs in what another has loaded and set.
        for table in TABLES:
            again = [sys.executable, "-m", "benchmarks", table, *sys.argv[1:]]
            again = [word for word in again if word != "all"]
            subprocess.run(again, check=True)
    elif arguments.table in (*COVERAGE, "price"):
        # Thousands of small factorizations: a second BLAS thread only makes them wait, ten times
        # over. It is read when the library is loaded, and so set before.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        module = importlib.import_module(f"benchmarks.{arguments.table}")
        if arguments.table in COVERAGE:
            module.main(arguments.trials or module.TRIALS, arguments.output)
        else:
            module.main(arguments.output)
    elif arguments.table == "reacher":
        from benchmarks import reacher_values

        reacher_values.main()
    else:
        importlib.import_module(f"benchmarks.{arguments.table}").main(arguments.output)


if __name__ == "__main__":
    main()
