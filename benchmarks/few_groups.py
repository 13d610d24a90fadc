"""Few groups: are intervals right where the unit of independence has few of them, with a judge.

Rows of one site share an effect, and there are 3 to 40 sites. The belief has Student's t with Bell
and McCaffrey's degrees of freedom. Beside it stands the wild cluster bootstrap, which draws the
sign and size of each site's error anew: on the same logs, from its own influences, with no code of
the library.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import polars as pl

import bayesdice_ppl as bd
from benchmarks.tables import RESULTS, write_table

TRIALS = 300
LEVELS = np.array([0.5, 0.8, 0.9, 0.95])
DRAWS, REPEATS = 400, 599
N_STATES, N_ACTIONS = 2, 3
COMMAND = "python -m benchmarks few_groups"
WEBB = np.sqrt([1.5, 1.0, 0.5])
NOTES = (
    "A bandit of 2 states and 3 actions, 900 rows, one candidate; a site's effect has sd 1, as the "
    "noise of a row. `cov_90`, `mace`: coverage of central 90 % intervals, and the mean over 50, "
    "80, 90 and 95 % of |coverage - nominal|, of the belief with `cluster='site'`. `wild_90`, "
    "`wild_mace`: of the wild cluster bootstrap-t with Webb's six weights, 599 repeats. `width`: "
    "median width of the 90 % interval of the belief over the bootstrap's. `default_90`: of the "
    "default, which finds the unit in the log, where it does not abstain; `abstained`: where it "
    "does. Standard errors of a coverage of 90 % are .017.",
    "Log i of a row is drawn by `default_rng([number of the row, i])`. The bootstrap: Cameron, "
    "Gelbach and Miller (2008); Webb (2023).",
)


class Cell(NamedTuple):
    """A row of the table: how many sites, and how rows are spread over them."""

    sites: int
    sizes: str

    def site_of_rows(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """The site of each row."""
        share = SIZES[self.sizes](self.sites)
        return np.r_[np.arange(self.sites), rng.choice(self.sites, size=n - self.sites, p=share)]


SIZES: dict[str, Callable[[int], np.ndarray]] = {
    "equal": lambda sites: np.full(sites, 1.0 / sites),
    "one has half": lambda sites: np.r_[0.5, np.full(sites - 1, 0.5 / (sites - 1))],
    "falling": lambda sites: (
        (1.0 / np.arange(1, sites + 1)) / (1.0 / np.arange(1, sites + 1)).sum()
    ),
}
CELLS = (
    *(Cell(sites, "equal") for sites in (3, 5, 8, 12, 20, 40)),
    *(Cell(sites, sizes) for sizes in ("falling", "one has half") for sites in (8, 20)),
)


def play(
    cell: Cell, rng: np.random.Generator, n: int = 900
) -> tuple[pl.DataFrame, np.ndarray, float]:
    """A log, the candidate's table and its true value."""
    fixed = np.random.default_rng(7)
    mean = fixed.normal(size=(N_STATES, N_ACTIONS))
    table = fixed.dirichlet(np.ones(N_ACTIONS), size=N_STATES)
    state, action = rng.integers(N_STATES, size=n), rng.integers(N_ACTIONS, size=n)
    site = cell.site_of_rows(rng, n)
    effect = rng.normal(size=cell.sites)
    reward = mean[state, action] + effect[site] + rng.normal(size=n)
    columns = {"state": state, "action": action, "reward": reward, "site": site}
    return pl.DataFrame(columns), table, float((table * mean).sum(axis=1).mean())


def wild(
    frame: pl.DataFrame, table: np.ndarray, rng: np.random.Generator
) -> tuple[float, np.ndarray]:
    """Estimate of the value, and half widths of the bootstrap's intervals at the levels."""
    state, action, reward, site = (frame[name].to_numpy() for name in frame.columns)
    n, sites = len(reward), int(site.max()) + 1
    pair = state * N_ACTIONS + action
    count = np.bincount(pair, minlength=N_STATES * N_ACTIONS)
    mean = np.bincount(pair, reward, len(count)) / count
    share = np.bincount(state, minlength=N_STATES) / n
    in_state = (table * mean.reshape(N_STATES, N_ACTIONS)).sum(axis=1)
    value = float(share @ in_state)
    weight = (share[:, None] * table).ravel() / count
    influence = weight[pair] * (reward - mean[pair]) + (in_state[state] - value) / n
    error = np.bincount(site, influence, sites)
    part = np.bincount(site, minlength=sites) / n
    drawn = rng.choice(np.r_[-WEBB, WEBB], size=(REPEATS, sites)) * error
    off = drawn.sum(axis=1)
    spread = np.sqrt(((drawn - part * off[:, None]) ** 2).sum(axis=1))
    ratio = np.abs(off) / spread
    own = np.sqrt((error**2).sum())
    return value, np.quantile(ratio, LEVELS) * own


def measure(number: int, cell: Cell, trials: int) -> dict[str, object]:
    """Fit many logs, and compare with the truth."""
    found: dict[str, list[np.ndarray]] = {"asked": [], "default": [], "wild": []}
    widths, silent = [], []
    for i in range(trials):
        rng = np.random.default_rng([number, i])
        frame, table, truth = play(cell, rng)
        logs = bd.Logs.from_dataframe(frame, actions=list(range(N_ACTIONS)))
        for name, options in (("asked", {"cluster": "site"}), ("default", {})):
            belief = bd.fit(
                logs,
                {"candidate": bd.TabularPolicy(table)},
                gamma=0.0,
                rng_key=jax.random.key(i),
                draws=DRAWS,
                **options,
            )
            values = belief["posterior/value"].to_numpy().ravel()
            found[name].append(np.abs((values < truth).mean() - 0.5) < LEVELS / 2.0)
            if name == "asked":
                width = np.ptp(np.quantile(values, [0.05, 0.95]))
            else:
                said = json.loads(belief.attrs["support_warnings"])
                silent.append(any(warning["abstain"] for warning in said))
        value, half = wild(frame, table, rng)
        found["wild"].append(np.abs(value - truth) < half)
        widths.append(width / (2.0 * half[2]))
    asked, judged = (np.mean(found[name], axis=0) for name in ("asked", "wild"))
    kept = ~np.array(silent)
    return {
        "sites": cell.sites,
        "sizes": cell.sizes,
        "logs": trials,
        "cov_90": float(asked[2]),
        "mace": float(np.abs(asked - LEVELS).mean()),
        "wild_90": float(judged[2]),
        "wild_mace": float(np.abs(judged - LEVELS).mean()),
        "width": float(np.median(widths)),
        "default_90": float(np.array(found["default"])[kept, 2].mean()) if kept.any() else None,
        "abstained": float(1.0 - kept.mean()),
    }


def main(trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Measure every row and write the table."""
    rows = []
    for number, cell in enumerate(CELLS):
        rows.append(measure(number, cell, trials))
        print(rows[-1], flush=True)
    command = COMMAND if trials == TRIALS else f"{COMMAND} --trials {trials}"
    print(write_table("few_groups", rows, command=command, notes=NOTES, folder=folder))
