"""Laws: the library's quantiles beside Student's, empirical likelihood, and known kinds of reward.

Four beliefs from the same logs: the default, Student's t without skewness, empirical likelihood,
and, where rewards are 0 or 1, counts or bounded, the one that is told so. Which covers, and which
is narrower?
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bayesdice_ppl.experiments.value_beliefs import ValueBelief, value_belief
from bayesdice_ppl.fitting import flat_settings
from bayesdice_ppl.moments import KnownMeans, pair_rewards
from bayesdice_ppl.moments.known_rewards import reward_kind
from benchmarks.tables import RESULTS, write_table
from benchmarks.tails import LAWS, LEVELS, Log, World, count, make_world, on_log, play, true_values

TRIALS = 300
FORMS = ("skewed", "student", "empirical")
KNOWN = "known kind"
COMMAND = "python -m benchmarks laws"
NOTES = (
    "One row is one world, size of the log and form of belief, over three candidates; the worlds "
    "are those of `python -m benchmarks tails`. `skewed` is the default, `student` and `empirical` "
    "are `bd.Constraint(value_law=...)`, and `known kind` is `bd.Prior(rewards=...)` with the kind "
    "that stands beside it. `cov_50` to `cov_95`: coverage of central intervals; `mace`: the mean "
    "over the four of |coverage - nominal|; `below`, `above`: shares of true values below the 5 % "
    "and above the 95 % quantile; `width_50`, `width_90`: median ratio of the interval's width to "
    "the default's.",
    "Rows are taken as independent, and nobody is abstained from. Log i of world k is drawn by "
    "`default_rng([k, i])`, the same for every form. 300 logs leave a standard error of 0.01 to "
    "0.03 in a coverage, less than that between two forms.",
)


class Cell(NamedTuple):
    """One world: rewards, shape, size of the logs, and what may be told of the rewards."""

    law: str
    shape: str
    n: int
    kind: str | tuple[float, float] | None


CELLS = (
    Cell("1 in 200", "1x2", 1_000, "binary"),
    Cell("1 in 200", "1x2", 5_000, "binary"),
    Cell("1 in 200", "1x8", 1_000, "binary"),
    Cell("1 in 200", "1x8", 5_000, "binary"),
    Cell("1 in 200", "10x3", 5_000, "binary"),
    *(Cell("Bernoulli(0.5)", "1x2", n, "binary") for n in (12, 25, 50)),
    Cell("Bernoulli(0.5)", "1x8", 100, "binary"),
    Cell("Bernoulli(0.5)", "10x3", 400, "binary"),
    Cell("Poisson(0.05)", "1x8", 1_000, "counts"),
    Cell("Poisson(0.05)", "10x3", 1_000, "counts"),
    *(Cell("uniform", "1x2", n, (-0.5, 2.5)) for n in (12, 25, 50)),
    *(Cell("lognormal(1)", "1x2", n, None) for n in (25, 50)),
    Cell("lognormal(1)", "1x8", 1_000, None),
    Cell("lognormal(1)", "10x3", 1_000, None),
    Cell("normal", "1x2", 25, None),
)


def beliefs(world: World, log: Log, kind: object) -> Iterator[tuple[str, ValueBelief]]:
    """The belief of each form from one log."""
    cells, pair, rows = count(world, log)
    candidates = on_log(world, cells)
    settings = flat_settings(
        gamma=world.gamma, inference="exact", joint=False, value_law="empirical"
    )
    found = value_belief(cells, candidates, settings, rows)
    # They have one location and one width, and differ in what bends their quantiles.
    skewed = found.tails._replace(curves=())
    student = skewed._replace(skewness=np.zeros_like(skewed.skewness))
    for form, tails in zip(FORMS, (skewed, student, found.tails), strict=True):
        yield form, found._replace(tails=tails)
    told = reward_kind(kind)
    if told is None:
        return
    known = KnownMeans(told, pair_rewards(pair, log.reward, len(cells.pair_state)))
    settings = flat_settings(gamma=world.gamma, inference="exact", joint=False)
    yield KNOWN, value_belief(cells, candidates, settings, rows, known=known)


def measure(number: int, cell: Cell, trials: int) -> list[dict[str, object]]:
    """Believe many logs of one world in every form, and compare with the truth."""
    world, law = make_world(cell.shape), LAWS[cell.law]
    truth = true_values(world, law)
    tails = np.concatenate([(1.0 - LEVELS) / 2.0, (1.0 + LEVELS) / 2.0])
    score = np.repeat(ndtri(tails)[:, None], len(truth), axis=1)
    ends: dict[str, list[np.ndarray]] = {}
    for i in range(trials):
        log = play(world, law, cell.n, np.random.default_rng([number, i]))
        with np.errstate(all="ignore"):
            for form, belief in beliefs(world, log, cell.kind):
                ends.setdefault(form, []).append(belief.at(score))
    usual = np.array(ends[FORMS[0]])
    rows: list[dict[str, object]] = []
    for form, found in ends.items():
        each = np.array(found)
        low, high = np.split(each, 2, axis=1)
        covered = ((low <= truth) & (truth <= high)).mean(axis=(0, 2))
        row: dict[str, object] = {
            "rewards": cell.law,
            "world": cell.shape,
            "n": cell.n,
            "form": form if form != KNOWN else f"{KNOWN}: {cell.kind}",
        }
        row |= {
            f"cov_{level:.0%}".rstrip("%"): float(x)
            for level, x in zip(LEVELS, covered, strict=True)
        }
        width = {}
        for name, k in (("width_50", 0), ("width_90", 2)):
            own, default = (x[:, k + len(LEVELS)] - x[:, k] for x in (each, usual))
            width[name] = float(np.median(own / np.where(default > 0.0, default, 1.0)))
        rows.append(
            {
                **row,
                "mace": float(np.abs(covered - LEVELS).mean()),
                "below": float((truth < each[:, 2]).mean()),
                "above": float((truth > each[:, 2 + len(LEVELS)]).mean()),
                **width,
            }
        )
    return rows


def main(trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Measure every world and write the table."""
    rows = []
    for number, cell in enumerate(CELLS):
        rows += measure(number, cell, trials)
        for row in rows[-len(FORMS) - (cell.kind is not None) :]:
            print(row, flush=True)
    command = COMMAND if trials == TRIALS else f"{COMMAND} --trials {trials}"
    print(write_table("laws", rows, command=command, notes=NOTES, folder=folder))
