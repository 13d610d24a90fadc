"""Redo the tables: ``python -m benchmarks TABLE``, or ``all``; without a table, list them.

``reacher`` finds Reacher's true values anew, which takes half an hour, and ``vectors`` scores a fit
on worlds of vectors, with options of its own (``vectors --help``). Neither is part of ``all``.
"""

import argparse
import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

TABLES = (
    "speed",
    "start_up",
    "simulation",
    "worlds",
    "calibration",
    "own_intervals",
    "skewness",
    "tails",
    "laws",
    "price",
    "checks",
    "garnet",
    "taxi",
    "statistics",
    "size",
    "large_logs",
    "selection",
    "networks",
    "alignment",
    "cloning",
    "dependence",
    "few_groups",
    "adaptive",
    "far",
    "promise",
    "calibrate",
    "policy",
    "overidentification",
    "comparison",
    "others",
    "risk_coverage",
    "fuzzing",
    "kills",
    "exploration",
    "exploration_features",
    "gauge_cases",
)
UNCOUNTED = (
    "own_intervals",
    "speed",
    "start_up",
    "simulation",
    "worlds",
    "price",
    "size",
    "large_logs",
    "selection",
    "networks",
    "fuzzing",
    "kills",
    "gauge_cases",
)
"""Tables whose number of trials is theirs."""
COVERAGE = tuple(name for name in TABLES if name not in UNCOUNTED)
"""Tables of trials, whose number can be chosen."""
WITH_THREADS = ("speed", "start_up", "all")
"""Tables that measure what a user meets, and what starts a process for each."""
OTHERS = {"reacher": "reacher_values", "vectors": "vectors.command"}


def list_tables() -> None:
    """Print every table with the first line of its module."""
    for name in (*TABLES, *OTHERS):
        module = OTHERS.get(name, name).replace(".", "/")
        path = Path(__file__).parent / f"{module}.py"
        first = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[
            0
        ]
        print(f"{name:18} {first.partition(': ')[2] or first}")


def main() -> None:
    """Parse the command line and fill the tables that it names."""
    if sys.argv[1:2] not in ([name] for name in WITH_THREADS):
        # Thousands of small factorizations, for which a second BLAS thread is a tenth as fast. It
        # is read when NumPy is loaded, and so set before.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from benchmarks.tables import RESULTS

    if sys.argv[1:2] == ["vectors"]:
        importlib.import_module("benchmarks.vectors.command").main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = (*TABLES, *OTHERS, "all")
    parser.add_argument("table", nargs="?", choices=names, metavar="TABLE")
    parser.add_argument("--trials", type=int, help="number of trials, for tables that have them")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the tables")
    arguments = parser.parse_args()
    table = arguments.table
    if table is None:
        list_tables()
    elif table == "all":
        # A process each, so that none runs in what another has loaded and set.
        rest = [word for word in sys.argv[1:] if word != "all"]
        for each in TABLES:
            subprocess.run([sys.executable, "-m", "benchmarks", each, *rest], check=True)
    else:
        module = importlib.import_module(f"benchmarks.{OTHERS.get(table, table)}")
        given = [arguments.trials or module.TRIALS] if table in COVERAGE else []
        module.main(*given, *([] if table in OTHERS else [arguments.output]))


if __name__ == "__main__":
    main()
