import itertools

import numpy as np
import polars as pl
import pytest
from arviz_base import from_dict

import bayesdice_ppl as bd
from bayesdice_ppl.experiments.ranking_rules import (
    aligned,
    by_number,
    loss_rows,
    realized,
    shuffled,
    top_k_scores,
)
from bayesdice_ppl.experiments.rule_comparison import compare, count_verdicts, losses_table, total


def draws_of(seed, n_draws=300, n_policies=5):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_draws, 1))
    return common + rng.normal(size=(n_draws, n_policies)) * rng.uniform(0.2, 1.5, n_policies)


@pytest.mark.parametrize("seed", range(3))
def test_aligned_rankings_are_those_of_select(seed):
    draws = draws_of(seed)
    names = list("abcde")
    belief = from_dict(
        {"posterior": {"value": draws[None]}}, coords={"policy": names}, dims={"value": ["policy"]}
    )
    given = top_k_scores((1, 2, 4))
    found = aligned(draws, given)
    assert set(found) == {score.name for score in given}
    for score in given:
        chosen = bd.select(belief, score)
        assert [names[i] for i in found[score.name]] == list(chosen.order)


def test_an_aligned_ranking_has_the_least_loss_of_all():
    draws = draws_of(5, n_draws=40, n_policies=4)
    (ranking,) = aligned(draws, [bd.scores.regret(2)]).values()

    def regret(order):
        return np.mean([max(row) - max(row[order[0]], row[order[1]]) for row in draws])

    losses = [regret(order) for order in itertools.permutations(range(4))]
    assert regret(ranking) == pytest.approx(min(losses), rel=1e-12)


def test_realized_losses_by_hand():
    truth = np.array([3.0, 1.0, 2.0])
    given = top_k_scores((1, 2))
    rankings = {
        score.name: {"up": np.array([1, 2, 0]), "best": np.array([0, 2, 1])} for score in given
    }
    losses = realized(truth, rankings, given)
    # The best two are 0 and 2; "up" launches 1 first, then 2.
    assert losses["regret@1", "up"] == 2.0
    assert losses["regret@2", "up"] == 1.0
    assert losses["precision@1", "up"] == 1.0
    assert losses["precision@2", "up"] == 0.5
    assert losses["accuracy@2", "up"] == 0.5
    assert all(losses[score.name, "best"] == pytest.approx(0.0, abs=1e-12) for score in given)
    assert by_number(np.array([1.0, 3.0, 3.0])).tolist() == [1, 2, 0]


def test_rows_of_losses_by_hand():
    truth = np.array([3.0, 1.0, 2.0])
    given = [bd.scores.regret(1), bd.scores.precision(2)]
    up, best = np.array([1, 2, 0]), np.array([0, 2, 1])
    rankings = {"regret@1": {"up": up, "best": best}, "precision@2": {"best": best, "up": up}}
    assert loss_rows(truth, rankings, given, silent=("mute",)) == [
        ("regret", 1, "up", 2.0),
        ("regret", 1, "best", 0.0),
        ("regret", 1, "mute", None),
        ("precision", 2, "best", 0.0),
        ("precision", 2, "up", 0.5),
        ("precision", 2, "mute", None),
    ]


def test_shuffling_keeps_marginals_and_breaks_correlation():
    draws = draws_of(1, n_draws=4000)
    apart = shuffled(draws, np.random.default_rng(0))
    assert np.array_equal(np.sort(draws, axis=0), np.sort(apart, axis=0))
    assert np.abs(np.corrcoef(draws.T)[0, 1]) > 0.3
    off = np.corrcoef(apart.T)[np.triu_indices(5, 1)]
    assert np.all(np.abs(off) < 4.5 / np.sqrt(4000))


def frame_of(losses):
    """Rows of one cell from rule -> losses by trial."""
    rows = [
        ("bandit", 0.5, 10, 1, trial, "regret", 2, rule, loss)
        for rule, by_trial in losses.items()
        for trial, loss in enumerate(by_trial)
    ]
    names = ["world", "behavior", "episodes", "steps", "trial", "score", "k", "rule", "loss"]
    return pl.DataFrame(rows, schema=names, orient="row")


def test_differences_are_paired_and_counted():
    few = {
        "own": [0.0, 1.0, 2.0, 3.0],
        "worse": [1.0, 2.0, 3.0, 5.0],
        "better": [-1.0, 0.0, 1.0, 1.0],
        "same": [0.0, 1.0, 2.0, 3.0 + 1e-15],
        "noisy": [1.0, 0.0, 3.0, 2.0],
        "silent": [None, 2.0, 3.0, 5.0],
    }
    frame = frame_of({rule: losses * 8 for rule, losses in few.items()})
    summary = compare(frame, "own")
    by_rule = {row["rule"]: row for row in summary.iter_rows(named=True)}
    assert by_rule["worse"]["excess"] == 1.25
    # Differences 1, 1, 1, 2, eight times: sum of squares 6 about their mean.
    assert by_rule["worse"]["excess_se"] == pytest.approx(np.sqrt(6 / 31 / 32))
    assert by_rule["worse"]["loss"] == 2.75
    verdicts = {rule: row["verdict"] for rule, row in by_rule.items()}
    assert verdicts == {
        "own": None,
        "worse": "wins",
        "better": "loses",
        "same": "ties",
        "noisy": "ties",
        "silent": "wins",
    }
    assert by_rule["same"]["excess"] == 0.0
    silent = by_rule["silent"]
    assert (silent["failed"], silent["trials"]) == (8, 32)
    assert silent["excess"] == pytest.approx(4 / 3)
    assert total(summary, "worse") == (1, 0, 0)
    table = count_verdicts(summary, ("world", "rule"))
    shown = dict(zip(table["rule"], table["regret"], strict=True))
    assert shown["better"] == "0/0/1"
    assert "own" not in shown
    failed = dict(zip(table["rule"], table["failed"], strict=True))
    assert failed["silent"] == 0.25
    assert table["trials"].to_list() == [32] * 5


def test_a_few_logs_make_no_verdict():
    flat = [0.0] * 100
    rare = [[1.0] * n + [0.0] * (100 - n) for n in (4, 20)]
    summary = compare(frame_of({"own": flat, "four": rare[0], "twenty": rare[1]}), "own")
    assert dict(zip(summary["rule"], summary["verdict"], strict=True)) == {
        "own": None,
        "four": "ties",
        "twenty": "wins",
    }
    short = compare(frame_of({"own": [0.0] * 10, "worse": [1.0, 1.1] * 5}), "own")
    assert short["verdict"].to_list() == [None, "ties"]


def test_losses_are_shown_with_their_errors():
    summary = compare(frame_of({"own": [0.0, 1.0], "other": [2.0, 2.0]}), "own")
    shown = losses_table(summary, ["own", "other"], 2)
    assert shown.select("rule", "regret@2").rows() == [
        ("own", "0.5000 +- 0.5000"),
        ("other", "2.0000 +- 0.0000"),
    ]
    assert losses_table(summary, ["own"], 3).is_empty()
