"""Redo the tables: ``python -m benchmarks [calibration | speed | all]``."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.tables import RESULTS


def main() -> None:
    """Parse the command line and fill the tables that it names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "table", nargs="?", default="all", choices=("calibration", "speed", "all"), metavar="TABLE"
    )
    parser.add_argument("--trials", type=int, help="trials a cell of the calibration")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the tables")
    arguments = parser.parse_args()
    if arguments.table == "all":
        # A process each, so that neither runs in what the other has loaded and set.
        for table in ("speed", "calibration"):
            again = [sys.executable, "-m", "benchmarks", table, *sys.argv[1:]]
            again = [word for word in again if word != "all"]
            subprocess.run(again, check=True)
    elif arguments.table == "speed":
        from benchmarks import speed

        speed.main(arguments.output)
    else:
        # Thousands of small factorizations: a second BLAS thread only makes them wait, ten times
        # over. It is read when the library is loaded, and so set before.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from benchmarks import calibration

        calibration.main(arguments.trials or calibration.TRIALS, arguments.output)


if __name__ == "__main__":
    main()
