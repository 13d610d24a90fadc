"""The promise in other kinds of logs, by a second pair of eyes: does a belief cover or say so.

Written from the outside, with no look at the library's code. The kinds are what logs do in
practice: rewards that drift, feedback that is late, rows that are lost or doubled, one long
episode, a thousand candidates. Truths are closed forms of the population, by linear algebra and
with no code of the library. `benchmarks.promise` has the form, and what a kind is measured by.
"""

import json
from collections import Counter
from pathlib import Path

import jax
import numpy as np
import polars as pl

import bayesdice_ppl as bd
from benchmarks.other_worlds import KINDS, arms, table_of
from benchmarks.promise import (
    ABSTAINED,
    BAR,
    DRAWS,
    LEVELS,
    WARNED,
    WORLDS,
    World,
    measure,
    normal,
)
from benchmarks.tables import RESULTS, write_table

TRIALS = 160
FIRST = 100
"""Number of the first kind, so that no seed is one of `benchmarks.promise`."""
ENOUGH = 0.8
FAMILY = "1,000 candidates of one family, bandit 5 x 4, n 1,000"
FEWER = 5
"""A fit of 1,000 candidates takes fifty times as long as one of three: a fifth of the logs."""
COMMAND = "python -m benchmarks others"
NOTES = (
    "One row is a kind of log. `healthy`: there is nothing to warn of. `cov_50` to `cov_95`: share "
    "of central intervals that hold the true value, of the candidates that are not abstained from; "
    "`mace`: mean of |coverage - nominal| over these (its Monte Carlo error is about 0.01, more "
    "where few are left). `all_90`, `all_mace`: the same with those that are abstained from. "
    "`spread`: sd of errors over mean sd, over all and in the worst of 8 worlds; a bias is no part "
    "of it. `warned`, `abstained`: shares of candidates. `says`: the gauges that warn of 5 % of "
    "the candidates and more, with their shares.",
    f"`kept`: whether the promise is kept. It is if `mace` is at most {BAR}; or if "
    f"{ENOUGH:.0%} are abstained from and the rest is right, up to two standard errors of the few "
    f"that are left. In healthy kinds at most {WARNED:.0%} may be warned of and {ABSTAINED:.0%} "
    "abstained from besides.",
    f'The kinds that open with "{FAMILY}" are three views of the same logs. "Three fixed" judges '
    "candidates that were named in advance. The best-looking one has the highest posterior mean; "
    "its own interval is no longer one of a candidate named in advance, so that a miss there is "
    "the winner's curse, and is not counted against the promise (`kept` is empty). What has to "
    "hold is the band: the mean of each candidate, give or take c of its sds, where c is the "
    "smallest number for which all 1,000 hold at once in the asked share of the joint draws. Its "
    "row says how often it holds the best-looking one, which is at least the asked share: only "
    "too little counts. These rows have a fifth of the logs, as such a fit takes seconds: a "
    "coverage of 90 % has a standard error of 5 %, and the bar is wider by two standard errors.",
    "Log i of a kind is drawn by `default_rng([100 + number of the kind, 1, i])`, its world by "
    "`default_rng([100 + number of the kind, 0, i mod 8])`.",
)

type Play = Callable[[np.random.Generator], pl.DataFrame]
"""From a generator to the table of a log."""


def judge(row: dict[str, object], shares: dict[str, float]) -> dict[str, object]:
    """A row of `benchmarks.promise.measure` by the rule of this table."""
    mace, abstained, logs = (float(row[name]) for name in ("mace", "abstained", "logs"))  # type: ignore[arg-type]
    left = (1.0 - abstained) * logs
    bar = BAR
    if left and (abstained >= ENOUGH or str(row["kind"]).startswith(FAMILY)):
        bar += 2.0 * 0.3 / np.sqrt(left)
    kept = not left or mace <= bar
    if row["healthy"]:
        kept = kept and float(row["warned"]) <= WARNED and abstained <= ABSTAINED  # type: ignore[arg-type]
    said = sorted(shares.items(), key=lambda item: -item[1])
    spoken = ", ".join(f"{name} {share:.2f}" for name, share in said if share >= 0.05)
    # Where all are abstained from there is no share.
    shown = {name: None if value != value else value for name, value in row.items()}
    return {**shown, "kept": bool(kept), "says": spoken}


def family(rng: np.random.Generator) -> World:
    """A bandit of 5 contexts and 4 actions, and 1,000 softmax policies of four shared scores."""
    world = arms(rng, 5, 4)
    scores = rng.normal(size=(4, 5, 4))
    weights = rng.normal(size=(1_000, 4))
    power = np.exp(np.einsum("kf,fsa->ksa", weights, scores))
    tables = list(power / power.sum(axis=2, keepdims=True))
    world = world._replace(tables=tables)

    def play(rng: np.random.Generator) -> pl.DataFrame:
        state, action, mean = world.rows(rng, 1_000)
        return table_of(state, action, normal(rng, mean))

    return World(play, tables, world.values())


def measure_family(number: int, trials: int) -> list[dict[str, object]]:
    """The three views of logs with a thousand candidates."""
    levels = np.array(LEVELS)
    worlds = [family(np.random.default_rng([number, 0, i])) for i in range(WORLDS)]
    fixed = np.arange(3)
    views = ("three fixed", "the best-looking one", "the best-looking one, band of all")
    inside: dict[str, list[np.ndarray]] = {view: [] for view in views}
    error: dict[str, list[np.ndarray]] = {view: [] for view in views}
    warned: dict[str, list[np.ndarray]] = {view: [] for view in views}
    silent: dict[str, list[np.ndarray]] = {view: [] for view in views}
    gauges: dict[str, Counter[str]] = {view: Counter() for view in views}
    for i in range(trials):
        world = worlds[i % WORLDS]
        frame = world.play(np.random.default_rng([number, 1, i]))
        logs = bd.Logs.from_dataframe(frame, actions=list(range(4)))
        policies = {str(j): bd.TabularPolicy(table) for j, table in enumerate(world.tables)}
        belief = bd.fit(logs, policies, gamma=0.0, rng_key=jax.random.key(i), draws=DRAWS)
        values = belief["posterior/value"].to_numpy()[0]
        said = json.loads(belief.attrs["support_warnings"])
        about, abstained = (
            {int(w["policy"]) for w in said if w["abstain"] or every} for every in (True, False)
        )
        center, sd = values.mean(axis=0), values.std(axis=0)
        off = (center - world.truth) / sd
        best = np.array([center.argmax()])
        # How far the worst of all 1,000 is off, draw by draw, in sds of its own.
        worst = np.abs((values - center) / sd).max(axis=1)
        hold = np.abs((values < world.truth).mean(axis=0) - 0.5)[:, None] < levels / 2.0
        band = np.abs(off)[:, None] <= np.quantile(worst, levels)
        for view, chosen, covers in zip(
            views, (fixed, best, best), (hold, hold, band), strict=True
        ):
            inside[view].append(covers[chosen])
            error[view].append(off[chosen])
            warned[view].append(np.array([j in about for j in chosen]))
            silent[view].append(np.array([j in abstained for j in chosen]))
            gauges[view].update(
                {(w["name"], w["policy"]) for w in said if int(w["policy"]) in chosen}
            )
    rows = []
    for view in views:
        covers, kept = np.array(inside[view]), ~np.array(silent[view])
        share, everything = covers[kept].mean(axis=0), covers.mean(axis=(0, 1))
        off = np.array(error[view])
        by_world = [float(off[i::WORLDS].std(axis=0).mean()) for i in range(WORLDS)]
        count: Counter[str] = Counter()
        for (name, _), times in gauges[view].items():
            count[name] += times / kept.size
        miss = levels - share if "band" in view else np.abs(share - levels)
        all_miss = levels - everything if "band" in view else np.abs(everything - levels)
        row: dict[str, object] = {
            "kind": f"{FAMILY}: {view}",
            "healthy": True,
            "logs": trials,
            **{f"cov_{100 * level:.0f}": float(c) for level, c in zip(LEVELS, share, strict=True)},
            "mace": float(miss.clip(min=0.0).mean()),
            "all_90": float(everything[2]),
            "spread": float(np.mean(by_world)),
            "worst": float(np.max(by_world)),
            "warned": float(np.mean(warned[view])),
            "abstained": float(1.0 - kept.mean()),
            "all_mace": float(all_miss.clip(min=0.0).mean()),
        }
        row = judge(row, dict(count))
        if view == "the best-looking one":
            row["kept"] = None
        rows.append(row)
    return rows


def main(trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Measure every kind and write the table."""
    rows = []
    for number, kind in enumerate(KINDS, FIRST):
        rows.append(judge(*measure(number, kind, trials)))
        print(rows[-1], flush=True)
    for row in measure_family(FIRST + len(KINDS), max(trials // FEWER, WORLDS)):
        rows.append(row)
        print(row, flush=True)
    command = COMMAND if trials == TRIALS else f"{COMMAND} --trials {trials}"
    print(write_table("others", rows, command=command, notes=NOTES, folder=folder))
