from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.experiments import make_experiment, worlds_of
from bayesdice_ppl.experiments.ablation import ALIGNED, INDEPENDENT, NUMBERS, OPTIMAL, Ablation
from bayesdice_ppl.experiments.cells import PRIOR_BANDIT, Cell, deal
from bayesdice_ppl.experiments.ranking_methods import BAYESDICE, RankingMethod, ranking_methods
from bayesdice_ppl.experiments.selection import PolicySelection

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
    assert len(names) == 15
    assert set(frame["rule"]) == rules | {f"for {name}" for name in names}
    assert len(frame) == 15 * (len(rules) + 15)
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
    best = -1 if means[0] > means[1] else 0
    expected = trial.truth.max() - trial.truth[best]
    assert loss_of(frame, "regret", 1, OPTIMAL) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("world", ["bandit", "frozenlake"])
def test_methods_rank_by_the_rules_that_they_name(world):
    steps = 1 if world == "bandit" else 40
    trial = deal(Cell(world, 0.5, 15, steps, 1), 0, 0)
    given = [bd.scores.regret(2), bd.scores.precision(1)]
    names = []
    for method in ranking_methods():
        if not method.asked(trial) or method.most_trials is not None:
            continue
        rankings = method.rank(trial, given)
        assert tuple(rankings) == method.rules()
        names += rankings
        for by_score in rankings.values():
            for score in given:
                assert sorted(by_score[score.name].tolist()) == list(range(5))
    assert len(names) == len(set(names))
    assert names[0] == BAYESDICE


def test_the_first_method_ranks_as_select_does():
    trial = deal(Cell("frozenlake", 0.5, 15, 40, 1), 0, 0)
    belief = bd.fit(
        trial.logs,
        trial.candidates,
        gamma=trial.gamma,
        inference="exact",
        draws=2_000,
        rng_key=trial.rng_key,
    )
    score = bd.scores.accuracy(3)
    ranking = RankingMethod(BAYESDICE).rank(trial, [score])[BAYESDICE][score.name]
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
    assert failed["loss"].null_count() == len(failed) == 45
    assert all("propensity" in reason for reason in failed["error"])
    summary = experiment.summarize(frame)
    shown = summary.filter(pl.col("rule") == "WIS")
    assert shown["failed"].to_list() == [1] * 15
    assert shown["verdict"].null_count() == 15


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
