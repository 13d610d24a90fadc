"""Ablation of the ranking rule: the belief held fixed, which rule ranks best for which score.

Figure 2 of Yang, Dai, Nachum, Tucker, Schuurmans, "Offline Policy Selection under Uncertainty".
From one belief, candidates are ranked for each score, by the mean, by the mean plus or minus a
standard deviation, and by bounds; every ranking is judged by every score. In bandits whose arms are
drawn from the prior, the Bayes-optimal ranking is the least loss that any rule can have on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final, override

import numpy as np
import polars as pl

from bayesdice_ppl.baselines.bayesian.bayes_optimal import bayes_optimal_ranking
from bayesdice_ppl.experiments.ranking_rules import (
    KS,
    NUMBERS,
    aligned,
    by_number,
    loss_rows,
    shuffled,
    sorting_numbers,
    top_k_scores,
)
from bayesdice_ppl.experiments.rule_comparison import STANDARD_ERRORS, RuleComparison, total
from bayesdice_ppl.experiments.trials import PRIOR_BANDIT, Plan, Trial
from bayesdice_ppl.experiments.value_draws import draw_values
from bayesdice_ppl.keys import seed_sequence

ALIGNED, INDEPENDENT, OPTIMAL = "aligned", "aligned, independent", "Bayes-optimal"
DRAWS = 2_000
BEHAVIOR = 0.5

_SIZES: dict[str, tuple[tuple[int, int], ...]] = {
    "bandit": ((10, 1), (25, 1), (50, 1), (100, 1)),
    PRIOR_BANDIT: ((10, 1), (25, 1), (50, 1), (100, 1)),
    "reacher": ((10, 100), (25, 100), (50, 100)),
}
PLAN = Plan(
    logs={world: [(BEHAVIOR, *size) for size in sizes] for world, sizes in _SIZES.items()},
    trials={"bandit": 1000, PRIOR_BANDIT: 1000, "reacher": 50},
    quick_worlds=("bandit", PRIOR_BANDIT),
    quick_trials=100,
)


@final
@dataclass(frozen=True)
class Ablation(RuleComparison):
    """The experiment on rules; see `bayesdice_ppl.experiments.rule_comparison.RuleComparison`.

    Its cells are from `PLAN`.
    """

    reference: ClassVar[str] = ALIGNED
    shown: ClassVar[tuple[str, ...]] = (ALIGNED, INDEPENDENT, *NUMBERS, OPTIMAL)

    @property
    def name(self) -> str:
        """What the command calls it."""
        return "ablation"

    @property
    def settings(self) -> dict[str, Any]:
        """Draws of a belief, and the scores."""
        return {
            "draws": DRAWS,
            "rules": NUMBERS,
            "scores": [score.name for score in top_k_scores(KS)],
        }

    def rows(self, trial: Trial) -> list[tuple[Any, ...]]:
        """Let every rule rank from one belief, and judge each ranking by every score."""
        given = top_k_scores(KS)
        draws = draw_values(
            trial.logs,
            trial.candidates,
            gamma=trial.gamma,
            rng_key=trial.rng_key,
            draws=DRAWS,
        )
        rng = np.random.default_rng(seed_sequence(trial.rng_key))
        joint, independent = aligned(draws, given), aligned(shuffled(draws, rng), given)
        plain = {rule: by_number(number) for rule, number in sorting_numbers(draws).items()}
        plain |= {f"for {name}": ranking for name, ranking in joint.items()}
        rankings = {}
        for score in given:
            rankings[score.name] = {
                ALIGNED: joint[score.name],
                INDEPENDENT: independent[score.name],
                **plain,
            }
            if trial.cell.world == PRIOR_BANDIT:
                rankings[score.name][OPTIMAL] = optimal(trial, score)
        return loss_rows(trial.truth, rankings, given)

    @override
    def remarks(self, summary: pl.DataFrame) -> tuple[str, ...]:
        """Say where the aligned ranking wins, ties and loses, and what the columns are."""
        return (*super().remarks(summary), *_NOTES)

    @override
    def remark(self, summary: pl.DataFrame) -> str:
        """Count wins, ties and losses against sorting by a number, independence and Bayes."""
        counts = {rule: total(summary, rule) for rule in (*NUMBERS, INDEPENDENT, OPTIMAL)}
        told = "; ".join(
            f"{rule} {wins}/{ties}/{losses}"
            for rule, (wins, ties, losses) in counts.items()
            if wins + ties + losses
        )
        return f"wins/ties/losses of the aligned ranking over all sizes, scores and k: {told}."


def optimal(trial: Trial, score: Any) -> np.ndarray:
    """Rank a bandit's candidates for a score as Bayes does from the prior of its arms."""
    logs = trial.logs
    arm = logs.action_labels[logs.action]
    pulls = np.bincount(arm, minlength=2).tolist()
    wins = np.bincount(arm, logs.reward, minlength=2).tolist()
    shares = np.array(trial.places)
    return np.asarray(bayes_optimal_ranking(wins, pulls, shares, score).ranking)


_NOTES = (
    "One row is one rule of ranking, held against the ranking that is aligned: that of least "
    "expected loss, under the score that judges it, over the same joint belief (the library's "
    f"default in closed form, {DRAWS:,} draws). A column counts, for one score, in how many sizes "
    f"and k ({min(KS)} to {max(KS)}) the aligned ranking wins, ties and loses: a difference within "
    f"{STANDARD_ERRORS:g} standard errors, paired by log, is a tie (over as many comparisons as "
    "there are some fall the wrong way by chance, and they are not independent). `for regret@2` "
    "and so on is the ranking aligned to that score, judged by another. `aligned, independent` "
    "does without the correlations of the belief; `mean` and the others sort by one number a "
    "candidate. `Bayes-optimal` knows the prior that the arms of `bandit-prior` are drawn from, "
    "and has the least loss on average that any rule can have there; in `bandit` the arms are "
    "fixed, and no prior is the right one.",
    f"Logs are of a policy of alpha {BEHAVIOR:g}. In `bandit` the arms pay with probability 0.75 "
    "and 0.25 and alpha is the share of the better one; in `bandit-prior` both are drawn from "
    "Beta(1, 1) in each trial and alpha is the share of the first. Candidates come in an order "
    "that is drawn for each log, so that ties fall either way. The file of the summary has every "
    "mean loss with its standard error.",
)
