"""Price: how wide the paper's form is at other prices, and why the default is what it is.

The paper leaves lambda / epsilon to the user. On the cells of the calibration table, its own form
(squared penalty, no value constraint) is held against the truth at a fifth of n, n, 5 n and 25 n,
and the default beside it, whose metric already holds the units in which n is right.
"""

from pathlib import Path
from typing import Any

import jax

from benchmarks.calibration import BAR, SEED, TRIALS, calibration_settings, summarize
from benchmarks.tables import RESULTS, write_table
from benchmarks.trials import run_trials

COMMAND = "python -m benchmarks price"
MULTIPLES = (0.2, 1.0, 5.0, 25.0)
FORMS: dict[str, dict[str, Any]] = {
    **{f"paper, {m:g} n": {"preset": "paper", "multiple": m} for m in MULTIPLES},
    **{f"default, {m:g} n": {"multiple": m} for m in MULTIPLES},
}
NOTES = (
    '`paper`: `preset="paper"` (squared penalty, no value constraint); `default`: the library\'s '
    "defaults; each at lambda / epsilon of so many times n. Same logs for all. `cov_50` to "
    "`cov_95`, `mace`, `bias_sd` and `sd_ratio` are those of the calibration table.",
    "No multiple suits the paper's form: what is right for one world is far too wide or too "
    "narrow in the next, since the squared penalty measures the residual in units that do not "
    "know how much it varies, and without the value constraint the noise of the rewards is left "
    "out. The default is right at n in every cell, and at n alone.",
)


def main(folder: Path = RESULTS) -> None:
    """Fill the table and print it."""
    rows = []
    for setting in calibration_settings():
        found = run_trials(setting, jax.random.key(SEED), TRIALS, FORMS)
        for form in FORMS:
            row = summarize(setting, form, found[form])
            rows.append({name: row[name] for name in row if name not in ("moved", "degenerate")})
    kept = f"A form suits a cell if mace <= {BAR} + 2 mace_se."
    print(write_table("price", rows, command=COMMAND, notes=(*NOTES, kept), folder=folder))
