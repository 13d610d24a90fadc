from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.baselines import Estimate
from bayesdice_ppl.experiments import make_experiment, worlds_of
from bayesdice_ppl.experiments.ablation import ALIGNED, INDEPENDENT, NUMBERS, OPTIMAL, Ablation
from bayesdice_ppl.experiments.methods import BAYESDICE, queries_of
from bayesdice_ppl.experiments.ranking_methods import RankingMethod, ranking_methods
from bayesdice_ppl.experiments.selection import PolicySelection
from bayesdice_ppl.experiments.trials import PRIOR_BANDIT, Cell, deal
from tests.marks import slow

BANDIT = Cell("bandit", 0.5, 12, 1, 1)


def frame_of(experiment, trial):
    rows = experiment.rows(trial)
    frame = pl.DataFrame(rows, schema=experiment.schema, orient="row")
    cell = trial.cell
    return frame.select(
        pl.lit(cell.world).alias("world"),
        pl.lit(cell.behavior).alias("behavior"),
        pl.lit(cell.n_episodes).alias("episodes"),
        pl.lit(cell.max_steps).alias("steps"),
        pl.lit(trial.number).alias("trial"),
        pl.all(),
    )


def loss_of(frame, score, k, rule):
    found = frame.filter((pl.col("score") == score) & (pl.col("k") == k) & (pl.col("rule") == rule))
    return found["loss"].item()


@pytest.mark.parametrize("world", ["bandit", PRIOR_BANDIT])
def test_every_rule_is_judged_by_every_score(world):
    trial = deal(BANDIT._replace(world=world), 0, 0)
    frame = frame_of(Ablation((trial.cell,)), trial)
    rules = {ALIGNED, INDEPENDENT, *NUMBERS} | ({OPTIMAL} if world == PRIOR_BANDIT else set())
    names = {f"{score}@{k}" for score, k in frame.select("score", "k").unique().rows()}
    assert len(names) == 14
    assert set(frame["rule"]) == rules | {f"for {name}" for name in names}
    assert len(frame) == 14 * (len(rules) + 14)
    assert frame["loss"].null_count() == 0
    # What is aligned to the judge is aligned.
    for name in names:
        score, k = name.split("@")
        own = loss_of(frame, score, int(k), f"for {name}")
        assert own == loss_of(frame, score, int(k), ALIGNED)


def test_the_joint_belief_never_loses_at_two_of_a_line():
    # Values of candidates of a two-armed bandit lie on a line: its two ends hold the best.
    for number in range(5):
        trial = deal(BANDIT._replace(world=PRIOR_BANDIT), number, 0)
        frame = frame_of(Ablation((trial.cell,)), trial)
        assert loss_of(frame, "regret", 2, ALIGNED) == pytest.approx(0.0, abs=1e-12)


def test_the_optimal_ranking_follows_the_counts_alone():
    trial = deal(BANDIT._replace(world=PRIOR_BANDIT), 3, 0)
    logs = trial.logs
    pulls = [np.sum(logs.action_labels[logs.action] == arm) for arm in (0, 1)]
    wins = [np.sum(logs.reward[logs.action_labels[logs.action] == arm]) for arm in (0, 1)]
    means = [(wins[arm] + 1) / (pulls[arm] + 2) for arm in (0, 1)]
    frame = frame_of(Ablation((trial.cell,)), trial)
    # Regret at 1 asks for the highest posterior mean: an end of the line.
    best = max(trial.places) if means[0] > means[1] else min(trial.places)
    expected = trial.truth.max() - trial.truth[trial.places.index(best)]
    assert loss_of(frame, "regret", 1, OPTIMAL) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("world", ["bandit", slow("frozenlake")])
def test_methods_rank_by_the_rules_that_they_name(world):
    steps = 1 if world == "bandit" else 40
    trial = deal(Cell(world, 0.5, 15, steps, 1), 0, 0)
    given = [bd.scores.regret(2), bd.scores.precision(1)]
    names = []
    for method in ranking_methods():
        if not method.asked(trial) or method.most_trials is not None:
            continue
        rankings = method.rank(trial, given, queries_of(trial))
        assert tuple(rankings) == method.rules()
        names += rankings
        for by_score in rankings.values():
            for score in given:
                assert sorted(by_score[score.name].tolist()) == list(range(5))
    assert len(names) == len(set(names))
    assert names[0] == BAYESDICE


@pytest.mark.slow
def test_the_first_method_ranks_as_select_does():
    # A world whose candidates are told apart, since the two draw from one belief in two ways.
    trial = deal(Cell("garnet", 0.5, 40, 50, 1), 0, 0)
    belief = bd.fit(
        trial.logs,
        trial.candidates,
        gamma=trial.gamma,
        inference="exact",
        draws=2_000,
        rng_key=trial.rng_key,
    )
    score = bd.scores.accuracy(3)
    ranking = RankingMethod(BAYESDICE).rank(trial, [score], {})[BAYESDICE][score.name]
    names = list(trial.candidates)
    assert [names[i] for i in ranking] == list(bd.select(belief, score).order)


def test_a_method_without_an_answer_leaves_its_reason(monkeypatch):
    trial = deal(BANDIT, 0, 0)
    silent = replace(trial.logs, propensity=None)
    few = [
        RankingMethod(BAYESDICE),
        RankingMethod("WIS", bd.baselines.importance_sampling(interval="student")),
    ]
    monkeypatch.setattr("bayesdice_ppl.experiments.selection.ranking_methods", lambda: tuple(few))
    experiment = PolicySelection((trial.cell,))
    frame = frame_of(experiment, trial._replace(logs=silent))
    failed = frame.filter(pl.col("error").is_not_null())
    assert set(failed["rule"]) == {"WIS", "WIS, lower bound", "WIS, upper bound"}
    assert failed["loss"].null_count() == len(failed) == 42
    assert all("propensity" in reason for reason in failed["error"])
    summary = experiment.summarize(frame)
    shown = summary.filter(pl.col("rule") == "WIS")
    assert shown["failed"].to_list() == [1] * 14
    assert shown["verdict"].null_count() == 14


def test_a_method_that_cannot_tell_is_as_good_as_chance():
    class Silent(NamedTuple):
        gives: str = "estimate"

        def ask(self, *_):
            return Estimate(0.0)

    given, method = [bd.scores.precision(1)], RankingMethod("silent", Silent())
    hits = []
    for number in range(400):
        trial = deal(BANDIT, number, 0)
        first = method.rank(trial, given, queries_of(trial))["silent"]["precision@1"][0]
        hits.append(trial.truth[first] == trial.truth.max())
    assert abs(np.mean(hits) - 0.2) < 4.5 * np.sqrt(0.2 * 0.8 / 400)


def test_remarks_count_other_methods_alone():
    rows = []
    for rule, loss in ((BAYESDICE, 0.0), (f"{BAYESDICE}, mean", 1.0), ("a", 1.0), ("b", -1.0)):
        rows += [
            ("bandit", 0.5, 10, 1, trial, "regret", 2, rule, loss + 1e-3 * (trial % 7))
            for trial in range(30)
        ]
    names = ["world", "behavior", "episodes", "steps", "trial", "score", "k", "rule", "loss"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    experiment = PolicySelection(())
    summary = experiment.summarize(frame)
    said = experiment.remarks(summary)[0]
    assert "of 2 rules of other methods" in said
    assert "loses against 1, as many against 0, and fewer against 1 (b 0/0/1)" in said
    headings = list(experiment.tables(summary))
    assert headings == ["Wins/ties/losses: bandit", "Losses: bandit"]
    assert experiment.figure(summary).axes


def test_experiments_know_their_worlds():
    for name in ("ci", "ablation", "selection"):
        experiment = make_experiment(name)
        assert {cell.world for cell in experiment.cells} == set(worlds_of(name))
        quick = make_experiment(name, quick=True)
        assert len(quick.cells) == 2
        slugs = [cell.slug for cell in experiment.cells]
        assert len(set(slugs)) == len(slugs)
    with pytest.raises(bd.errors.SettingsError, match="trials"):
        make_experiment("ci", trials=1)
