"""The alignment table compares the rules that it names, in worlds drawn as it says."""

import statistics
from itertools import permutations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from benchmarks import alignment
from benchmarks.alignment import INDEPENDENT, JOINT, MEAN, N_TESTS, RULES, SCORES

NAMES = [score.name for score in SCORES]


def test_eleven_scores_and_seven_rules():
    words = ("precision", "accuracy", "correlation", "regret")
    every = [f"{word}@{k}" for word in words for k in (1, 2, 3)]
    every.remove("correlation@1")
    assert every == NAMES
    assert len(RULES) == len(set(RULES)) == 7
    assert N_TESTS == 66


def test_a_belief_is_the_exact_posterior():
    world = alignment.draw_world(3)
    assert world.pulls.sum() == 60
    assert (world.wins <= world.pulls).all()
    np.testing.assert_allclose(world.policies.sum(axis=1), 1.0)
    arms = stats.beta(1 + world.wins, 1 + world.pulls - world.wins)
    mean, covariance = (
        world.policies @ arms.mean(),
        (world.policies * arms.var()) @ world.policies.T,
    )
    sd = np.sqrt(np.diag(covariance))
    n = len(world.joint)
    for draws in (world.joint, world.independent):
        assert (np.abs(draws.mean(axis=0) - mean) <= 5 * sd / np.sqrt(n)).all()
    assert (np.sort(world.joint, axis=0) == np.sort(world.independent, axis=0)).all()
    # Standard error of a correlation r, for normal draws: (1 - r^2) / sqrt(n).
    together = covariance / np.outer(sd, sd)
    for draws, expected in ((world.joint, together), (world.independent, np.eye(5))):
        off = np.abs(np.corrcoef(draws.T) - expected)
        assert (off <= 5 * (1 - expected**2) / np.sqrt(n) + 1e-12).all()
    assert np.abs(together - np.eye(5)).max() > 0.3


def test_worlds_are_drawn_from_the_prior():
    worlds = [alignment.draw_world(index) for index in range(100)]
    rates = np.concatenate([world.arm_rates for world in worlds])
    assert stats.kstest(rates, "uniform").pvalue > 1e-4
    # An entry of a Dirichlet of concentration 0.3 on six arms: Beta(0.3, 1.5).
    entries = np.concatenate([world.policies[:, 0] for world in worlds])
    assert stats.kstest(entries, stats.beta(0.3, 1.5).cdf).pvalue > 1e-4
    pulls = np.array([world.pulls for world in worlds])
    assert stats.chisquare(pulls.sum(axis=0)).pvalue > 1e-4
    # Where a belief is exact, the true values' places among its draws are uniform.
    places = [(world.joint[:, 0] < world.true_values[0]).mean() for world in worlds]
    assert stats.kstest(places, "uniform").pvalue > 1e-4


def literal_loss(name, row, ranking):
    """Loss of a ranking in one draw without ties."""
    word, k = name.split("@")[0], int(name.split("@")[1])
    truth = sorted(range(len(row)), key=lambda i: -row[i])
    if word == "precision":
        return 1 - len(set(ranking[:k]) & set(truth[:k])) / k
    if word == "accuracy":
        return 1 - sum(a == b for a, b in zip(ranking[:k], truth[:k], strict=True)) / k
    if word == "regret":
        return max(row) - max(row[i] for i in ranking[:k])
    places = [list(ranking).index(i) for i in truth[:k]]
    return 1 - statistics.correlation(list(range(k)), places)


@pytest.mark.parametrize("name", NAMES)
def test_rankings_by_trying_all(name):
    world = alignment.draw_world(5)
    world = world._replace(joint=world.joint[:30], independent=world.independent[:30])
    rankings = alignment.rank(world)
    for rule, draws in ((JOINT, world.joint), (INDEPENDENT, world.independent)):
        rows = draws.tolist()
        expected = {
            ranking: statistics.fmean(literal_loss(name, row, ranking) for row in rows)
            for ranking in permutations(range(5))
        }
        found = rankings[name, rule].tolist()
        whole = tuple(found + [i for i in range(5) if i not in found])
        assert expected[whole] == pytest.approx(min(expected.values()), abs=1e-12)

    columns = world.joint.T.tolist()
    means = [statistics.fmean(c) for c in columns]
    sds = [statistics.stdev(c) for c in columns]
    numbers = {
        MEAN: means,
        "mean + sd": [m + s for m, s in zip(means, sds, strict=True)],
        "mean - sd": [m - s for m, s in zip(means, sds, strict=True)],
        "5 % lower bound": [np.percentile(c, 5) for c in columns],
        "95 % upper bound": [np.percentile(c, 95) for c in columns],
    }
    for rule, by in numbers.items():
        order = rankings[name, rule].tolist()
        assert order == sorted(range(5), key=lambda i: -by[i]), rule


def test_losses_are_against_the_true_values():
    found = alignment.realized_losses(3)
    assert set(found) == {(name, rule) for name in NAMES for rule in RULES}
    for index in range(3):
        world = alignment.draw_world(index)
        truth = (world.policies @ world.arm_rates).tolist()
        for (name, rule), ranking in alignment.rank(world).items():
            whole = ranking.tolist() + [i for i in range(5) if i not in ranking]
            expected = literal_loss(name, truth, whole)
            assert found[name, rule][index] == pytest.approx(expected, abs=1e-12)


def test_no_rule_is_better_under_the_belief_itself():
    for index in range(5):
        world = alignment.draw_world(index)
        rankings = alignment.rank(world)
        for score in SCORES:
            believed = {
                rule: score.losses(world.joint, rankings[score.name, rule][None]).mean()
                for rule in RULES
            }
            assert min(believed.values()) >= believed[JOINT] - 1e-12


def handmade(n, joint, others):
    """The same losses for every score: those of aligned joint, and those of the others."""
    rng = np.random.default_rng(0)
    losses = {(name, rule): others + rng.normal(size=n) for name in NAMES for rule in RULES}
    return losses | {(name, JOINT): joint + rng.normal(size=n) for name in NAMES}


def test_tests_are_paired_and_one_sided():
    n = 50
    losses = handmade(n, 1.0, 1.5)
    losses["regret@2", MEAN] = losses["regret@2", JOINT].copy()
    rows = alignment.summarize(losses)
    assert [(f"{row.score}@{row.k}", row.rule) for row in rows] == list(losses)
    for row in rows:
        key = f"{row.score}@{row.k}", row.rule
        joint, loss = losses[key[0], JOINT], losses[key]
        assert row.loss == pytest.approx(sum(loss) / n)
        assert row.loss_se == pytest.approx(statistics.stdev(loss) / n**0.5)
        if row.rule == JOINT:
            assert row.excess is row.excess_se is row.p_value is None
        elif key == ("regret@2", MEAN):
            assert (row.excess, row.excess_se, row.p_value) == (0.0, 0.0, None)
        else:
            error = statistics.stdev(loss - joint) / n**0.5
            assert row.excess == pytest.approx(sum(loss - joint) / n)
            assert row.excess_se == pytest.approx(error)
            # Small where aligned joint loses more.
            assert row.p_value == pytest.approx(stats.t.sf(-row.excess / error, n - 1))


@pytest.mark.parametrize(
    ("joint", "worse", "better", "lowest"), [(0.0, 0, 66, 11), (1.5, 0, 0, None), (3.0, 66, 0, 0)]
)
def test_verdicts(joint, worse, better, lowest):
    losses = handmade(400, joint, 1.5)
    ranks, top_2 = alignment.verdicts(alignment.summarize(losses))
    assert f"significantly worse in {worse} of 66 comparisons" in ranks
    assert f"significantly better in {better} (" in ranks
    assert "0.05 / 66 = 0.00076" in ranks
    assert lowest is None or f"lowest loss of all rules at {lowest} of 11" in ranks
    ratio = losses["regret@2", JOINT].mean() / losses["regret@2", MEAN].mean()
    assert f"a ratio of {ratio:.2f}." in top_2


def test_a_tiny_table(tmp_path):
    alignment.main(4, tmp_path)
    text = (tmp_path / "alignment.csv").read_text()
    assert text.startswith("# Made by `python -m benchmarks alignment --trials 4`.")
    table = pl.read_csv(tmp_path / "alignment.csv", comment_prefix="#")
    assert len(table) == 77
    losses = alignment.realized_losses(4)
    for row in table.iter_rows(named=True):
        expected = losses[f"{row['score']}@{row['k']}", row["rule"]].mean()
        assert row["loss"] == pytest.approx(expected, rel=1e-4, abs=1e-12)
    notes = (tmp_path / "alignment.md").read_text()
    assert "At regret@2 it loses" in notes


@pytest.mark.slow
def test_aligned_joint_is_never_significantly_worse():
    losses = alignment.realized_losses(alignment.TRIALS)
    for row in alignment.summarize(losses):
        assert row.p_value is None or row.p_value >= 0.05 / 66, row
    assert losses["regret@2", JOINT].mean() <= 0.75 * losses["regret@2", MEAN].mean()
