"""Vectors: score a fit on worlds of vectors, log by log, and sum it up.

    python -m benchmarks vectors --worlds pendulum,reacher_05 --logs 10 -o rows.csv

A file that exists is gone on with: logs that it has are not fitted again. Several processes may
write to one file if their seeds differ (--first-seed). --summary sums up files and fits nothing;
--compare default=ROWS.csv other=ROWS.csv puts methods side by side into results/vectors.md, and
--whole ROWS.csv shows ten logs of each world in results/vector_logs.md.
"""

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path

from benchmarks.vectors.worlds import WORLDS

DEFAULT_FIT = "benchmarks.vectors.score:default_fit"


def main(words: Sequence[str]) -> None:
    """Parse the command line, score, and print the summary."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks vectors",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--worlds", default=",".join(WORLDS), help="names, joined by commas")
    parser.add_argument("--logs", type=int, default=10, help="logs of each world")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first log")
    parser.add_argument("-o", "--output", type=Path, help="CSV file of the rows")
    parser.add_argument("--fit", default=DEFAULT_FIT, help="MODULE:FUNCTION that makes a belief")
    parser.add_argument("--summary", type=Path, nargs="+", metavar="FILE", help="files to sum up")
    parser.add_argument("--compare", nargs="+", metavar="NAME=FILE", help="methods to compare")
    parser.add_argument("--whole", type=Path, nargs="+", metavar="FILE", help="show ten logs each")
    parser.add_argument("--truths", action="store_true", help="find the true values anew")
    given = parser.parse_args(words)
    worlds = given.worlds.split(",")
    unknown = [name for name in worlds if name not in WORLDS]
    if unknown:
        parser.error(f"--worlds: expected some of {', '.join(WORLDS)}, found {unknown[0]!r}.")
    if given.truths:
        from benchmarks.vectors.truths import write_truths

        write_truths(worlds)
        return
    if given.whole is not None:
        from benchmarks.vectors.whole import write_whole

        print(write_whole(given.whole, worlds))
        return
    if given.compare is not None:
        from benchmarks.vectors.comparison import write_comparison

        parts = [word.partition("=") for word in given.compare]
        if not all(name and path for name, _, path in parts):
            parser.error(f"--compare: expected NAME=FILE, found {' '.join(given.compare)}.")
        print(write_comparison({name: Path(path) for name, _, path in parts}))
        return
    if given.summary is None and given.output is None:
        parser.error(
            "expected a file of rows (-o), files to sum up (--summary) or to compare (--compare), "
            "or --truths."
        )
    from benchmarks.vectors.score import read_rows, score_worlds
    from benchmarks.vectors.summary import as_text

    if given.summary is None:
        module, _, function = given.fit.partition(":")
        fit = getattr(importlib.import_module(module), function)
        seeds = range(given.first_seed, given.first_seed + given.logs)
        score_worlds(fit, worlds, seeds, given.output)
    print(as_text(read_rows(given.summary or [given.output])))
