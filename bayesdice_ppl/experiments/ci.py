"""Interval coverage: how often central intervals hold the true value, and how wide they are.

Figure 1 of Yang, Dai, Nachum, Tucker, Schuurmans, "Offline Policy Selection under Uncertainty"
(its section on confidence intervals), over sizes of the log, and its appendix version with
marginalized importance sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import polars as pl
import polars.selectors as cs

from bayesdice_ppl.errors import BayesDiceError
from bayesdice_ppl.experiments.coverage import LEVELS, coverage_of
from bayesdice_ppl.experiments.experiment import PLACE
from bayesdice_ppl.experiments.interval_methods import (
    DRAWS,
    FEWER_DRAWS,
    NETWORK_TRIALS,
    interval_methods,
)
from bayesdice_ppl.experiments.methods import BAYESDICE, queries_of
from bayesdice_ppl.experiments.rule_comparison import by_world
from bayesdice_ppl.experiments.trials import Cell, Plan, Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEHAVIOR, TARGET = 0.5, 0.9
SHORTFALL, SLACK = 0.03, 1.05
"""How far below nominal a coverage may be, and how much wider than the narrowest is as good."""

_SIZES: dict[str, tuple[tuple[int, int], ...]] = {
    "bandit": ((25, 1), (50, 1), (100, 1), (200, 1)),
    "frozenlake": ((5, 100), (10, 100), (25, 100), (50, 100), (100, 100)),
    "taxi": ((200, 500), (400, 500)),
    "reacher": ((10, 100), (25, 100), (50, 100)),
}
PLAN = Plan(
    logs={world: [(BEHAVIOR, *size) for size in sizes] for world, sizes in _SIZES.items()},
    trials={"bandit": 1000, "frozenlake": 1000, "taxi": 50, "reacher": 50},
    quick_worlds=("bandit", "frozenlake"),
    quick_trials=60,
    candidates=(TARGET,),
)

_SEED = 0


@final
@dataclass(frozen=True)
class IntervalCoverage:
    """The experiment on intervals; see `bayesdice_ppl.experiments.experiment.Experiment`.

    Attributes
    ----------
    cells
        From `PLAN`.
    marginal
        Compare with marginalized importance sampling, as in the paper's appendix.
    """

    cells: tuple[Cell, ...]
    marginal: bool = False

    @property
    def name(self) -> str:
        """What the command calls it."""
        return "ci_marginal" if self.marginal else "ci"

    @property
    def settings(self) -> dict[str, Any]:
        """Levels and methods."""
        methods = [str(method) for method in interval_methods(marginal=self.marginal)]
        return {"levels": LEVELS, "draws": DRAWS, "methods": methods}

    @property
    def schema(self) -> dict[str, Any]:
        """Columns of `rows`."""
        return {
            "policy": pl.String,
            "method": pl.String,
            "level": pl.Float64,
            "lower": pl.Float64,
            "upper": pl.Float64,
            "truth": pl.Float64,
            "error": pl.String,
        }

    def rows(self, trial: Trial) -> list[tuple[Any, ...]]:
        """Ask every method for its intervals; one that has no answer leaves its reason."""
        rows: list[tuple[Any, ...]] = []
        queries = queries_of(trial)
        for (policy, truth), method in (
            (known, method)
            for known in zip(trial.candidates, trial.truth.tolist(), strict=True)
            for method in interval_methods(marginal=self.marginal)
            if method.asked(trial)
        ):
            try:
                ends = method.intervals(trial, policy, LEVELS, queries[policy]).tolist()
                error = None
            except BayesDiceError as refusal:
                ends, error = [(None, None)] * len(LEVELS), str(refusal)
            rows += [
                (policy, method.name, level, lower, upper, truth, error)
                for level, (lower, upper) in zip(LEVELS, ends, strict=True)
            ]
        return rows

    def summarize(self, frame: pl.DataFrame) -> pl.DataFrame:
        """One row a cell and method; a trial without an answer counts as one that misses."""
        found = []
        own: dict[tuple[Any, ...], np.ndarray] = {}
        for place, group in frame.group_by([*PLACE, "method"], maintain_order=True):
            shape = (-1, len(LEVELS))
            lower, upper, truth = (
                group[name].fill_null(np.nan).to_numpy().reshape(shape)
                for name in ("lower", "upper", "truth")
            )
            # BayesDICE comes first, and is asked in every trial, in their order.
            same = own.setdefault(place[:-1], upper - lower)[: len(lower)]
            covered = (lower <= truth) & (truth <= upper)
            coverage = coverage_of(covered, np.array(LEVELS), seed=_SEED)
            answered = ~np.isnan(lower[:, 0])
            widths = (
                np.median((upper - lower)[answered], axis=0)
                if answered.any()
                else np.full(len(LEVELS), np.nan)
            )
            # The narrowest interval's middle, for the others may end where values do.
            middle = (0.5 * (lower + upper) - truth)[answered, 0]
            with np.errstate(divide="ignore", invalid="ignore"):
                relative = widths / np.median(same[answered], axis=0)
            found.append(
                {
                    **dict(zip((*PLACE, "method"), place, strict=True)),
                    "trials": len(covered),
                    "failed": int(np.sum(~answered)),
                    **_by_level("cov", coverage.levels),
                    "mace": coverage.mace,
                    "mace_se": coverage.mace_error,
                    "off": float(np.mean(middle)) if len(middle) else float("nan"),
                    "off_sd": float(np.std(middle)) if len(middle) else float("nan"),
                    **_by_level("width", widths),
                    **_by_level("relative", relative),
                }
            )
        return pl.DataFrame(found)

    def tables(self, summary: pl.DataFrame) -> dict[str, pl.DataFrame]:
        """All of the summary, world by world."""
        return by_world("Coverage and width", summary.drop(cs.starts_with("relative")))

    def remarks(self, summary: pl.DataFrame) -> tuple[str, ...]:
        """Say how BayesDICE fares in each world, and what the columns are."""
        return (*(_verdict(world, summary) for world in _worlds(summary)), *_NOTES)

    def figure(self, summary: pl.DataFrame) -> Figure:
        """Coverage and width against the nominal level, a column for each size of log."""
        from bayesdice_ppl.experiments.coverage_figure import draw_curves

        return draw_curves(summary, LEVELS)


def narrowest(summary: pl.DataFrame) -> pl.DataFrame:
    """Hold BayesDICE's widths against those of the methods that cover.

    Parameters
    ----------
    summary
        From `IntervalCoverage.summarize`.

    Returns
    -------
    polars.DataFrame
        One row a cell and level: ``covers``, whether BayesDICE's coverage is at least nominal -
        0.03; ``rival``, the narrowest of the other methods that cover so, or None; ``ratio``,
        BayesDICE's median width over that method's in the trials that both were asked about, or
        None where no other method covers.
    """
    rows = []
    for place, group in summary.group_by(PLACE, maintain_order=True):
        for level in LEVELS:
            cover, relative = f"cov_{100 * level:.0f}", f"relative_{100 * level:.0f}"
            covering = group.filter(pl.col(cover) >= level - SHORTFALL)
            own = group.filter(pl.col("method") == BAYESDICE).row(0, named=True)
            others = covering.filter(~pl.col("method").str.starts_with(BAYESDICE)).sort(relative)
            best = others.row(0, named=True) if len(others) else None
            ratio = None
            if best is not None:
                ratio = 1.0 / best[relative] if best[relative] > 0.0 else float("inf")
            rows.append(
                {
                    **dict(zip(PLACE, place, strict=True)),
                    "level": level,
                    "covers": own[cover] >= level - SHORTFALL,
                    "rival": best and best["method"],
                    "ratio": ratio,
                }
            )
    return pl.DataFrame(rows, schema_overrides={"rival": pl.String, "ratio": pl.Float64})


def _by_level(name: str, values: np.ndarray) -> dict[str, float]:
    return {f"{name}_{100 * level:.0f}": float(x) for level, x in zip(LEVELS, values, strict=True)}


def _worlds(summary: pl.DataFrame) -> list[str]:
    return summary["world"].unique(maintain_order=True).to_list()


def _verdict(world: str, summary: pl.DataFrame) -> str:
    """One paragraph about a world."""
    here = summary.filter(pl.col("world") == world)
    own = here.filter(pl.col("method") == BAYESDICE)
    mace = float(np.mean(own["mace"].to_numpy()))
    error = np.sqrt(np.sum(own["mace_se"].to_numpy() ** 2)) / len(own)
    by_size = ", ".join(
        f"{row['mace']:.3f} at {row['episodes']} x {row['steps']}"
        for row in own.iter_rows(named=True)
    )
    held = narrowest(here)
    ratios = held.filter(pl.col("ratio").is_not_null() & pl.col("covers"))
    within = int((ratios["ratio"] <= SLACK).sum())
    sentences = [
        f"**{world}**: BayesDICE's mean |coverage - nominal| is {mace:.4f} (standard error "
        f"{error:.4f}) over its sizes: {by_size}.",
        f"It covers within {SHORTFALL} of nominal or more in {int(held['covers'].sum())} of "
        f"{len(held)} sizes and levels. Where another method does too, BayesDICE's median width is "
        f"the smallest or within 5 % of it in {within} of {len(ratios)}.",
    ]
    wide = ratios.filter(pl.col("ratio") > SLACK).sort("ratio", descending=True)
    if len(wide):
        row = wide.row(0, named=True)
        sentences.append(
            f"The widest against a rival is {row['ratio']:.2f} times {row['rival']} (level "
            f"{row['level']:g}, {row['episodes']} x {row['steps']})."
        )
    return " ".join(sentences)


_NOTES = (
    f"One row is one size of log (`episodes` of `steps` steps, logged at alpha {BEHAVIOR:g}) and "
    f"one method; all methods see the same logs, and judge the policy of alpha {TARGET:g}. "
    f"`trials`: logs (BDQN is asked in the first {NETWORK_TRIALS} of them only); `failed`: logs on "
    "which the method had no answer, which count as not covered. `cov_50` to `cov_95`: share of "
    "logs whose central interval of that level holds the exact true value (Reacher: a value "
    "simulated to a standard error below 0.001); `mace`: mean over the five levels of |coverage - "
    "nominal|, `mace_se` its standard error by the bootstrap over logs. `off`: mean distance of "
    "the middle of 50 % intervals from the truth, where there is an answer, and `off_sd` its sd "
    "over logs, which a normal's 50 % interval is 1.35 times as wide as. `width_50` to `width_95`: "
    "median width, in reward per step; widths of two methods are compared on the logs that both "
    "were asked about.",
    "BayesDICE is the library's default in closed form; the paper's form is `preset=\"paper\"`: "
    "squared penalty, no value constraint, in small worlds only. Intervals come from "
    f"{DRAWS:,} draws, on Taxi and Reacher {FEWER_DRAWS} of the Dirichlet model and the bootstrap. "
    "Weighted IS is per-step and self-normalized, on the logged propensities: it estimates the "
    "value of the logged steps (beyond 100 steps lies a weight of 0.37 at discount 0.99), its "
    "per-trajectory numbers keep the spread that normalizing takes from their mean (which is why "
    "they cover more than they say on bandits), and the range for Hoeffding and Bernstein is that "
    "seen in the log, as in published comparisons. CoinDICE, the bootstrap of LSTDQ and "
    "marginalized IS move probability off actions that were never logged, as BayesDICE does. The "
    "Dirichlet model has its default prior, of one row of the log for each pair. BDQN's spread is "
    "that of its last regression: what its targets err by is not in it.",
)
