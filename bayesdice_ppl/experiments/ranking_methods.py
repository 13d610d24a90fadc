"""Methods that rank candidates, each by the rules that its answers allow.

Draws are a belief, and rank for each score by the least expected loss, as BayesDICE's do; intervals
rank by their middle or by either end; a number ranks by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np
from jaxtyping import Int

from bayesdice_ppl import baselines
from bayesdice_ppl.baselines import Estimate
from bayesdice_ppl.baselines.interface import Query
from bayesdice_ppl.experiments.methods import BANDITS, BAYESDICE, LABELS, SMALL, Method
from bayesdice_ppl.experiments.ranking_rules import aligned, by_number, shuffled
from bayesdice_ppl.experiments.trials import Trial
from bayesdice_ppl.experiments.value_draws import draw_values
from bayesdice_ppl.keys import seed_sequence
from bayesdice_ppl.scores import Score

DRAWS = 2_000
LEVEL = 0.9
"""Of intervals whose ends are ranked by: each end leaves out 5 %."""

LARGE_DRAWS, FEWER_DRAWS = 200, 500
"""Draws of methods that solve a large world for each, and that solve a small one or refit."""

NETWORK_TRIALS = 20
"""Trials of a cell in which networks are trained, five at a time."""

INDEPENDENT = "BayesDICE, independent"

Rankings = dict[str, dict[str, Int[np.ndarray, " N"]]]
"""Rule -> name of the score -> ranking."""


@final
@dataclass(frozen=True)
class RankingMethod(Method):
    """A method that ranks; see `bayesdice_ppl.experiments.methods.Method`.

    To its name in tables a rule such as "lower bound" may be added.
    """

    def rules(self) -> tuple[str, ...]:
        """Names of the rules by which the method ranks, as in the keys of `rank`."""
        if self.baseline is None:
            if self.form:
                return (self.name,)
            return (self.name, INDEPENDENT, *(f"{self.name}, {end}" for end in _ENDS))
        if self.baseline.gives == "interval":
            return (self.name, f"{self.name}, lower bound", f"{self.name}, upper bound")
        return (self.name,)

    def rank(self, trial: Trial, given: Sequence[Score], queries: Mapping[str, Query]) -> Rankings:
        """Rank the candidates from one log; baselines by their answers to the queries.

        Raises
        ------
        LogsError, PoliciesError, SettingsError
            The method has no answer for this log.
        """
        if self.baseline is None:
            draws = draw_values(
                trial.logs,
                trial.candidates,
                gamma=trial.gamma,
                rng_key=trial.rng_key,
                draws=DRAWS,
                **self.form,
            )
            return self._own(draws, trial, given)
        found = [self.baseline.ask(queries[name], LEVEL) for name in trial.candidates]
        if self.baseline.gives == "draws":
            draws = np.stack([np.asarray(one.draws) for one in found], axis=1)
            return {self.name: aligned(draws, given)}
        return self._numbers(found, given)

    def _own(self, draws: np.ndarray, trial: Trial, given: Sequence[Score]) -> Rankings:
        rankings: Rankings = {self.name: aligned(draws, given)}
        if self.form:
            return rankings
        rng = np.random.default_rng(seed_sequence(jax.random.fold_in(trial.rng_key, 1)))
        rankings[INDEPENDENT] = aligned(shuffled(draws, rng), given)
        lower, upper = np.quantile(draws, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=0)
        for end, number in zip(_ENDS, (draws.mean(axis=0), lower, upper), strict=True):
            rankings[f"{self.name}, {end}"] = _same(number, given)
        return rankings

    def _numbers(self, found: Sequence[Estimate], given: Sequence[Score]) -> Rankings:
        by_rule = dict(
            zip(
                self.rules(),
                zip(*[(one.value, one.lower, one.upper) for one in found], strict=True),
                strict=False,
            )
        )
        return {rule: _same(np.array(values), given) for rule, values in by_rule.items()}


_ENDS = ("mean", "lower bound", "upper bound")


def _same(number: np.ndarray, given: Sequence[Score]) -> dict[str, Int[np.ndarray, " N"]]:
    """One ranking for all scores."""
    ranking = by_number(number)
    return {score.name: ranking for score in given}


def ranking_methods() -> tuple[RankingMethod, ...]:
    """List the methods of the experiment on selection, BayesDICE first."""
    sampling = baselines.importance_sampling
    return (
        RankingMethod(BAYESDICE),
        RankingMethod(f"{BAYESDICE}, paper's form", form={"preset": "paper"}, worlds=SMALL),
        RankingMethod("IS", sampling("trajectory", normalized=False)),
        RankingMethod("weighted IS", sampling("trajectory")),
        RankingMethod("per-step IS", sampling(normalized=False)),
        RankingMethod("weighted per-step IS + student", sampling(interval="student")),
        RankingMethod("weighted per-step IS + bca", sampling(interval="bca")),
        RankingMethod("weighted per-step IS + bernstein", sampling(interval="bernstein")),
        RankingMethod("DR", baselines.doubly_robust(weighted=False), worlds=LABELS),
        RankingMethod("weighted DR", baselines.doubly_robust(), worlds=LABELS),
        RankingMethod("marginalized IS + student", baselines.marginalized(interval="student")),
        *_on_rows("LSTDQ", "lstdq"),
        *_on_rows("FQE", "fqe"),
        *_on_rows("minimax weight", "mwl"),
        *_on_rows("DualDICE", "dual_dice"),
        *_on_rows("GenDICE", "gen_dice", labels=SMALL),
        *_on_rows("GradientDICE", "gradient_dice"),
        *_on_rows("BestDICE", "best_dice", labels=SMALL),
        *_on_rows("CoinDICE", "coin_dice"),
        RankingMethod(
            "Dirichlet model", baselines.dirichlet_model(draws=FEWER_DRAWS), worlds=SMALL
        ),
        # Each draw is a world of 400 states to be solved.
        RankingMethod(
            "Dirichlet model", baselines.dirichlet_model(draws=LARGE_DRAWS), worlds=("taxi",)
        ),
        RankingMethod("Beta", baselines.beta_bandit(draws=DRAWS), worlds=BANDITS),
        *_on_rows("bootstrap of LSTDQ", "lstdq_bootstrap", draws=FEWER_DRAWS),
        # A network for each candidate.
        RankingMethod("BDQN", baselines.bdqn(), most_trials=NETWORK_TRIALS),
        RankingMethod("FQE, network", baselines.fitted_q("mlp"), most_trials=NETWORK_TRIALS),
    )


def _on_rows(
    name: str, method: str, *, labels: tuple[str, ...] = LABELS, **given: Any
) -> tuple[RankingMethod, RankingMethod]:
    """A method on the Bellman equation's rows: renormalized on labels, on features elsewhere."""
    on_labels = baselines.make(method, renormalize=True, **given)
    return (
        RankingMethod(name, on_labels, worlds=labels),
        RankingMethod(name, baselines.make(method, **given), worlds=("reacher",)),
    )
