"""Selection: BayesDICE with the aligned ranking against every other way to rank candidates.

Figure 3 of Yang, Dai, Nachum, Tucker, Schuurmans, "Offline Policy Selection under Uncertainty", and
the figures of its appendix on further k: over worlds, sizes of the log and logging policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final, override

import polars as pl

from bayesdice_ppl.errors import BayesDiceError
from bayesdice_ppl.experiments.methods import BAYESDICE, queries_of
from bayesdice_ppl.experiments.ranking_methods import (
    DRAWS,
    FEWER_DRAWS,
    INDEPENDENT,
    LARGE_DRAWS,
    LEVEL,
    NETWORK_TRIALS,
    Rankings,
    ranking_methods,
)
from bayesdice_ppl.experiments.ranking_rules import KS, loss_rows, top_k_scores
from bayesdice_ppl.experiments.rule_comparison import STANDARD_ERRORS, RuleComparison, total
from bayesdice_ppl.experiments.trials import Plan, Trial

PLAN = Plan(
    logs={
        "bandit": [(alpha, n, 1) for alpha in (0.25, 0.75) for n in (10, 50)],
        "frozenlake": [(alpha, n, 100) for alpha in (0.25, 0.75) for n in (5, 25)],
        "garnet": [(alpha, n, 100) for alpha in (0.25, 0.75) for n in (5, 25)],
        "taxi": [(0.5, 200, 500)],
        "reacher": [(alpha, n, 100) for alpha in (0.25, 0.75) for n in (10, 25)],
    },
    trials={"bandit": 1000, "frozenlake": 1000, "garnet": 200, "taxi": 50, "reacher": 50},
    quick_worlds=("bandit", "frozenlake"),
    quick_trials=40,
)

DRAWN = (
    BAYESDICE,
    INDEPENDENT,
    f"{BAYESDICE}, mean",
    f"{BAYESDICE}, lower bound",
    f"{BAYESDICE}, upper bound",
    "DualDICE",
    "weighted per-step IS + student",
    "weighted per-step IS + student, lower bound",
    "CoinDICE, lower bound",
    "Dirichlet model",
)
"""Rules whose losses are shown."""


@final
@dataclass(frozen=True)
class PolicySelection(RuleComparison):
    """The experiment on methods; see `bayesdice_ppl.experiments.rule_comparison.RuleComparison`.

    Its cells are from `PLAN`.
    """

    reference: ClassVar[str] = BAYESDICE
    shown: ClassVar[tuple[str, ...]] = DRAWN

    @property
    def name(self) -> str:
        """What the command calls it."""
        return "selection"

    @property
    def settings(self) -> dict[str, Any]:
        """Draws of a belief, scores and methods."""
        return {
            "draws": DRAWS,
            "level": LEVEL,
            "scores": [score.name for score in top_k_scores(KS)],
            "methods": [str(method) for method in ranking_methods()],
        }

    @property
    @override
    def schema(self) -> dict[str, Any]:
        """Columns of `rows`."""
        return {**super().schema, "error": pl.String}

    def rows(self, trial: Trial) -> list[tuple[Any, ...]]:
        """Let every method rank from one log; one that has no answer leaves its reason."""
        given = top_k_scores(KS)
        ranked: Rankings = {}
        refused: dict[str, str] = {}
        queries = queries_of(trial)
        for method in ranking_methods():
            if not method.asked(trial):
                continue
            try:
                ranked |= method.rank(trial, given, queries)
            except BayesDiceError as refusal:
                refused |= dict.fromkeys(method.rules(), str(refusal))
        rankings = {
            score.name: {rule: by_score[score.name] for rule, by_score in ranked.items()}
            for score in given
        }
        rows = loss_rows(trial.truth, rankings, given, silent=refused)
        return [(*row, refused.get(row[2])) for row in rows]

    @override
    def remarks(self, summary: pl.DataFrame) -> tuple[str, ...]:
        """Say where BayesDICE wins, ties and loses, and what the columns are."""
        return (*super().remarks(summary), *_NOTES)

    @override
    def remark(self, summary: pl.DataFrame) -> str:
        """Count the rules of other methods that BayesDICE is ahead of, even with and behind."""
        counts = {
            rule: total(summary, rule)
            for rule in summary["rule"].unique(maintain_order=True)
            if not rule.startswith(BAYESDICE)
        }
        ahead = [rule for rule, (wins, _, losses) in counts.items() if wins > losses]
        even = [rule for rule, (wins, _, losses) in counts.items() if wins == losses]
        behind = [rule for rule in counts if rule not in (*ahead, *even)]
        independent = "/".join(map(str, total(summary, INDEPENDENT)))
        return (
            f"of {len(counts)} rules of other methods BayesDICE wins more "
            f"comparisons than it loses against {len(ahead)}, as many against {len(even)}, and "
            f"fewer against {len(behind)}{_named(behind, counts)}. Against its own independent "
            f"form it has {independent} wins/ties/losses."
        )


def _named(rules: Sequence[str], counts: dict[str, tuple[int, int, int]]) -> str:
    """Name rules with their wins, ties and losses, in brackets."""
    named = (f"{rule} {'/'.join(map(str, counts[rule]))}" for rule in rules)
    return f" ({'; '.join(named)})" if rules else ""


_NOTES = (
    "One row is one way to rank the five candidates, held against BayesDICE: its joint belief (the "
    f"library's default in closed form, {DRAWS:,} draws) and the ranking of least expected loss "
    "under the score that judges it. A column counts, for one score, in how many kinds of log and "
    f"k ({min(KS)} to {max(KS)}) BayesDICE wins, ties and loses: a difference within "
    f"{STANDARD_ERRORS:g} standard errors, paired by log, is a tie (over thousands of comparisons "
    "some fall the wrong way by chance, and they are not independent). `trials`: the fewest logs "
    f"of a cell; networks are trained in the first {NETWORK_TRIALS} logs only, too few to tell "
    "much. `failed`: share of logs on which the method had no answer; it is held against BayesDICE "
    "on the others. Candidates come in an order that is drawn for each log, so that ties fall "
    "either way.",
    "`BayesDICE, independent` has the same marginals without correlation, aligned; `mean`, `lower "
    f"bound` and `upper bound` rank by one number, bounds those of central {100 * LEVEL:.0f} % "
    "intervals. Methods that give draws rank for each score by the least expected loss, the others "
    "by their estimate or a bound. Importance sampling estimates the value of the logged steps. "
    f"The Dirichlet model has its default prior; it and the bootstrap have {FEWER_DRAWS} draws (on "
    f"Taxi the model {LARGE_DRAWS}). The file of the summary has every mean loss with its standard "
    "error.",
)
