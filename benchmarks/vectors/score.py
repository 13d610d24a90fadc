"""Score a fit: a row for each log and candidate, with the truth and what the belief says.

Rows go into a CSV file as soon as their log is done, so that a run can be stopped and resumed, and
several processes can fill one file with logs of different seeds.
"""

import csv
import fcntl
import io
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl
from jaxtyping import Float

import bayesdice_ppl as bd
from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.belief.read import read_values
from bayesdice_ppl.belief.schema import BeliefView
from bayesdice_ppl.experiments.coverage import LEVELS
from bayesdice_ppl.logs import Logs
from benchmarks.vectors.play import Value
from benchmarks.vectors.truths import known_truths
from benchmarks.vectors.worlds import VectorWorld, make_world

Fit = Callable[[VectorWorld, Logs, Mapping[str, Any], int], Any]
"""(world, log, policies, seed) -> a belief, as `bayesdice_ppl.fit` gives it."""

NAME_WORDS = 8
"""Words of a warning's reason that stand for its name, where it has none."""


class Row(NamedTuple):
    """What one belief says of one candidate.

    Attributes
    ----------
    world, seed, candidate
        Which log, and who is judged.
    truth, truth_error
        The true value, and its standard error.
    mean, sd
        Of the belief's draws; reward per step, as the truth.
    below
        Share of the draws that are below the truth.
    in_50, in_70, in_80, in_90, in_95
        Whether the central interval of that level holds the truth.
    abstained
        Whether the belief abstains from this candidate.
    warnings
        Names of its warnings, joined by "; ".
    seconds
        Time of the fit of all candidates.
    """

    world: str
    seed: int
    candidate: str
    truth: float
    truth_error: float
    mean: float
    sd: float
    below: float
    in_50: bool
    in_70: bool
    in_80: bool
    in_90: bool
    in_95: bool
    abstained: bool
    warnings: str
    seconds: float


def default_fit(world: VectorWorld, log: Logs, policies: Mapping[str, Any], seed: int) -> Any:
    """Fit with default settings: only what a user must say is said."""
    return bd.fit(
        log,
        policies,
        gamma=world.gamma,
        rng_key=jax.random.key(seed),
        on_termination=world.on_termination,
    )


def covered(below: float) -> dict[str, bool]:
    """Whether the central interval of each level holds a number with this share of draws below."""
    return {f"in_{level * 100:.0f}": bool(abs(2.0 * below - 1.0) <= level) for level in LEVELS}


def judge(
    name: str,
    draws: Float[np.ndarray, " S"],
    truth: Value,
    warnings: Iterable[SupportWarning],
    *,
    world: str,
    seed: int,
    seconds: float,
) -> Row:
    """Hold one candidate's draws against its true value."""
    own = [each for each in warnings if each.policy == name]
    below = float(np.mean(draws < truth.value))
    return Row(
        world=world,
        seed=seed,
        candidate=name,
        truth=truth.value,
        truth_error=truth.standard_error,
        mean=float(np.mean(draws)),
        sd=float(np.std(draws, ddof=1)),
        below=below,
        abstained=any(each.abstain for each in own),
        warnings="; ".join(map(warning_name, own)),
        seconds=round(seconds, 2),
        **covered(below),
    )


def warning_name(warning: SupportWarning) -> str:
    """Name of a warning: its own if it has one, else the first words of its reason."""
    own = getattr(warning, "name", "")
    if own:
        return str(own)
    words = re.sub(r"[^A-Za-z<=() ]+", " ", warning.reason).split()
    return " ".join(words[:NAME_WORDS])


def score_log(fit: Fit, world: VectorWorld, seed: int) -> list[Row]:
    """Play a log, fit it, and hold every candidate against its truth, a row each."""
    truths, log = known_truths(world.name), world.make(seed)
    started = time.perf_counter()
    belief = fit(world, log, world.policies, seed)
    seconds = time.perf_counter() - started
    names, values = read_values(belief)
    warnings = BeliefView(belief).support_warnings or ()
    draws = dict(zip(names, values.reshape(-1, len(names)).T, strict=True))
    about = {"world": world.name, "seed": seed, "seconds": seconds}
    return [
        judge(name, draws[name], truths[name], warnings, **about)  # type: ignore[arg-type]
        for name in world.policies
    ]


def score_worlds(fit: Fit, names: Iterable[str], seeds: Iterable[int], path: Path) -> None:
    """Score logs that the file does not have yet, and add them to it, log by log."""
    for name in names:
        for seed in seeds:
            if (name, seed) in done(path):
                continue
            rows = score_log(fit, make_world(name), seed)
            append(rows, path)
            off = ", ".join(
                f"{row.candidate} {(row.mean - row.truth) / row.sd:+.1f}" for row in rows
            )
            print(f"{name} {seed}: {rows[0].seconds:.1f} s; off by {off} sd", flush=True)


def done(path: Path) -> set[tuple[str, int]]:
    """World and seed of the logs that a file has."""
    if not path.exists() or not path.stat().st_size:
        return set()
    return set(read_rows([path]).select("world", "seed").iter_rows())


def append(rows: Iterable[Row], path: Path) -> None:
    """Add the rows of one log to a file, at once, also while other processes write to it."""
    with path.open("a", encoding="utf-8", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not path.stat().st_size:
            writer.writerow(Row._fields)
        writer.writerows([[_plain(entry) for entry in row] for row in rows])
        file.write(text.getvalue())


def _plain(entry: Any) -> Any:
    return int(entry) if isinstance(entry, bool) else entry


def read_rows(paths: Iterable[Path]) -> pl.DataFrame:
    """Rows of files, those of one log once."""
    types = {
        name: {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Int8}[kind]
        for name, kind in Row.__annotations__.items()
    }
    frame = pl.concat([pl.read_csv(path, schema=types) for path in paths])
    flags = [pl.col(name).cast(pl.Boolean) for name, kind in types.items() if kind == pl.Int8]
    frame = frame.with_columns(*flags, pl.col("warnings").fill_null(""))
    return frame.unique(["world", "seed", "candidate"], keep="first", maintain_order=True)
