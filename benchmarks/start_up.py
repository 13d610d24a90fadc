"""Start-up: how long an import and the help take, as multiples of a bare interpreter with NumPy.

The multiple hardly depends on the machine or on what else runs there, as seconds do. All commands
take turns, so that a busy moment falls on each of them alike.
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.tables import RESULTS, write_table

COMMAND = "python -m benchmarks start_up"
RUNS = 15
BARE = "python, import numpy"
PROCESSES = {
    BARE: [sys.executable, "-c", "import numpy"],
    "import bayesdice_ppl": [sys.executable, "-c", "import bayesdice_ppl"],
    "bayesdice --help": [str(Path(sys.executable).with_name("bayesdice")), "--help"],
}
BARS = {"import bayesdice_ppl": 1.0, "bayesdice --help": 6.0}
NOTES = (
    f"Each is a process of its own; `seconds` is the median of {RUNS} runs after a first one that "
    f"is not counted, and `multiple` the median of its seconds over those of `{BARE}` in the same "
    "round. `bar` is the multiple that it is held against.",
)


def time_rounds(runs: int) -> dict[str, np.ndarray]:
    """Seconds of every process in every round, after one round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in PROCESSES}
    for _ in range(1 + runs):
        for name, words in PROCESSES.items():
            started = time.perf_counter()
            subprocess.run(words, check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - started)
    return {name: np.array(each[1:]) for name, each in seconds.items()}


def main(output: Path = RESULTS) -> None:
    """Time all processes and write the table."""
    seconds = time_rounds(RUNS)
    rows = []
    for name, each in seconds.items():
        multiple = float(np.median(each / seconds[BARE]))
        bar = BARS.get(name)
        rows.append(
            {
                "measurement": name,
                "seconds": float(np.median(each)),
                "multiple": multiple,
                "bar": bar,
                "within": None if bar is None else multiple <= bar,
            }
        )
    print(write_table("start_up", rows, command=COMMAND, notes=NOTES, folder=output))


if __name__ == "__main__":
    main()
