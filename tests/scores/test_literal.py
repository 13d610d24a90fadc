"""Losses, their risks and their forms on average, against definitions in plain loops."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from bayesdice_ppl import risk, scores
from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.scores.forms import Pairwise, Sorting
from tests.scores import literal

RISKS = [None, risk.mean(), risk.cvar(0.3)]


def problem(data, word, **options):
    """Draws, k and two rankings."""
    rows = data.draw(literal.tables(fewest_policies=literal.fewest(word), **options))
    n = len(rows[0])
    k = n if word in literal.WITHOUT_K else data.draw(st.integers(literal.fewest(word), n))
    ranking = data.draw(st.permutations(range(n)))
    return rows, k, np.array([ranking, ranking[::-1]])


@pytest.mark.parametrize("word", literal.WORDS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_losses_are_the_literal_ones(word, data):
    rows, k, rankings = problem(data, word)
    score = literal.make(word, k, len(rows[0]))
    expected = literal.losses(word, k, rows, rankings)
    np.testing.assert_allclose(score.losses(np.array(rows), rankings), expected, atol=1e-12)


@pytest.mark.parametrize("word", literal.WORDS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_an_objective_is_the_risk_of_the_literal_losses(word, data):
    rows, k, rankings = problem(data, word)
    expected = literal.losses(word, k, rows, rankings)
    for kind in RISKS:
        score = literal.make(word, k, len(rows[0]), kind)
        found = literal.objective(score, np.array(rows))(rankings[:, : score.depth(len(rows[0]))])
        if score.averaged:
            assert kind in (None, risk.mean())
            risks = [math.fsum(row) / len(row) for row in expected]
        else:
            risks = [literal.cvar(0.3, row) for row in expected]
        np.testing.assert_allclose(found, risks, atol=1e-12)


@pytest.mark.parametrize("word", literal.PARTIAL)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_fewer_than_k_policies(word, data):
    rows, k, rankings = problem(data, word)
    places = data.draw(st.integers(1, k))
    values, few = np.array(rows), rankings[:, :places]
    score = literal.make(word, k, values.shape[1])
    expected = literal.losses(word, k, rows, few)
    np.testing.assert_allclose(score.losses(values, few, fewer=True), expected, atol=1e-12)
    means = np.mean(expected, axis=1)
    np.testing.assert_allclose(literal.objective(score, values)(few), means, atol=1e-12)
    averse = literal.make(word, k, values.shape[1], risk.cvar(0.3))
    worst = [literal.cvar(0.3, row) for row in expected]
    np.testing.assert_allclose(literal.objective(averse, values)(few), worst, atol=1e-12)
    if places < k:
        with pytest.raises(ScoreError, match="expected rankings"):
            score.losses(values, few)


@pytest.mark.parametrize("word", [w for w in literal.WORDS if w not in literal.PARTIAL])
def test_fewer_than_the_depth_is_refused_where_it_means_nothing(word):
    score, rankings = literal.make(word, 3, 3), np.array([[0, 1]])
    assert not score.partial
    with pytest.raises(ScoreError, match="expected rankings"):
        score.losses(np.arange(6.0).reshape(2, 3), rankings, fewer=True)


def test_nothing_listed_is_refused():
    with pytest.raises(ScoreError, match="expected rankings"):
        scores.regret(2).losses(np.ones((2, 3)), np.zeros((1, 0), int), fewer=True)


@pytest.mark.parametrize("word", literal.WORDS)
@pytest.mark.parametrize("k", [2, 5, 7])
@pytest.mark.parametrize("ties", [False, True])
def test_the_form_of_the_mean_loss_is_the_mean_of_the_losses(word, k, ties):
    values = literal.random_draws(k, 7, 50, ties=ties)
    rankings = literal.random_rankings(k, 7, 40)
    score = literal.make(word, k, 7)
    mean = score.losses(values, rankings).mean(axis=1)
    assert np.ptp(mean) > 0.01 or (k == 7 and not score.ordered)
    rankings = rankings[:, : score.depth(7)]
    np.testing.assert_allclose(literal.objective(score, values)(rankings), mean, atol=1e-12)
    form = literal.form(score, values)
    assert (form is None) == (word == "custom")
    if form is None:
        return
    np.testing.assert_allclose(form.losses(rankings), mean, atol=1e-12)
    if isinstance(form, Sorting):
        assert form.merit.shape == (7,)
        assert form.weight.shape == (score.depth(7),)
        assert (form.weight >= 0).all()
        assert (np.diff(form.weight) <= 0).all()
    if isinstance(form, Pairwise):
        np.testing.assert_array_equal(form.table, -form.table.T)


@pytest.mark.parametrize("word", literal.WORDS)
def test_losses_of_many_rankings_are_those_of_each_alone(word, monkeypatch):
    values, rankings = literal.random_draws(1, 6, 30), literal.random_rankings(1, 6, 25)
    for kind in RISKS:
        score = literal.make(word, 3, 6, kind)
        rows = rankings[:, : score.depth(6)]
        alone = np.concatenate([literal.objective(score, values)(row[None]) for row in rows])
        np.testing.assert_allclose(
            literal.objective(score, values)(rows), alone, rtol=0, atol=1e-14
        )
        for module in ("score", "rank_correlations", "forms"):
            monkeypatch.setattr(f"bayesdice_ppl.scores.{module}.CHUNK", 100)
        in_parts = literal.objective(score, values)(rows)
        monkeypatch.undo()
        np.testing.assert_allclose(in_parts, alone, rtol=0, atol=1e-14)


@pytest.mark.parametrize("word", literal.WORDS)
@pytest.mark.parametrize("ties", [False, True])
def test_no_rankings_have_no_losses(word, ties):
    values = literal.random_draws(0, 4, 6, ties=ties)
    for kind in RISKS:
        score = literal.make(word, 2, 4, kind)
        none = np.zeros((0, score.depth(4)), int)
        assert score.losses(values, none).shape == (0, 6)
        assert literal.objective(score, values)(none).shape == (0,)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_rank_correlations_are_scipy_s(data):
    n = data.draw(st.integers(2, 9))
    row = data.draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))
    assume(len(set(row)) > 1)
    ranking = data.draw(st.permutations(range(n)))
    listed = [-ranking.index(i) for i in range(n)]
    values, rankings = np.array([row], float), np.array([ranking])
    # SciPy divides by what ties leave of the spread; an average over tie-breaks keeps it all.
    blocks = [row.count(v) for v in set(row)]
    pairs = math.comb(n, 2)
    untied = 1 - sum(math.comb(b, 2) for b in blocks) / pairs
    tau = stats.kendalltau(listed, row, variant="b").statistic * math.sqrt(untied)
    kept = 1 - sum(b**3 - b for b in blocks) / (n**3 - n)
    rho = stats.spearmanr(listed, row).statistic * math.sqrt(kept)
    assert scores.kendall().losses(values, rankings)[0, 0] == pytest.approx(1 - tau, abs=1e-12)
    assert scores.spearman().losses(values, rankings)[0, 0] == pytest.approx(1 - rho, abs=1e-12)
    if len(blocks) == n:
        assert (untied, kept) == (1, 1)


@settings(max_examples=20, deadline=None)
@given(rows=literal.tables(fewest_policies=2), data=st.data())
def test_scores_that_are_each_other_s_edges(rows, data):
    values, n = np.array(rows), len(rows[0])
    ranking = np.array([data.draw(st.permutations(range(n)))])

    def found(score):
        return score.losses(values, ranking)

    np.testing.assert_allclose(found(scores.precision(1)), found(scores.accuracy(1)), atol=1e-15)
    np.testing.assert_allclose(found(scores.correlation(n)), found(scores.spearman()), atol=1e-12)
    np.testing.assert_allclose(
        found(scores.ndcg(1)), found(scores.normalized_regret(1)), atol=1e-15
    )
    np.testing.assert_array_equal(found(scores.precision(n)), 0)
    np.testing.assert_array_equal(found(scores.regret(n)), 0)
    np.testing.assert_array_equal(found(scores.normalized_regret(n)), 0)
