"""Scores by numbers worked by hand, and what they refuse."""

import math

import numpy as np
import pytest

from bayesdice_ppl import scores
from bayesdice_ppl.errors import ScoreError, SettingsError
from bayesdice_ppl.scores import ties
from tests.scores import literal

MAKERS = {
    word: getattr(scores, word)
    for word in ("precision", "accuracy", "regret", "normalized_regret", "ndcg", "correlation")
}


def loss(score, values, ranking):
    return score.losses(np.array([values], float), np.array([ranking]))[0, 0]


@pytest.mark.parametrize(
    ("score", "values", "ranking", "expected"),
    [
        (scores.precision(1), [3, 2, 1, 0], [1, 0, 2, 3], 1),
        (scores.precision(2), [3, 2, 1, 0], [1, 0, 2, 3], 0),
        (scores.precision(2), [3, 2, 1, 0], [1, 2, 0, 3], 0.5),
        (scores.precision(4), [3, 2, 1, 0], [1, 2, 0, 3], 0),
        (scores.accuracy(2), [3, 2, 1, 0], [1, 0, 2, 3], 1),
        (scores.accuracy(4), [3, 2, 1, 0], [1, 0, 2, 3], 0.5),
        (scores.regret(1), [3, 2, 1, 0], [1, 0, 2, 3], 1),
        (scores.regret(2), [3, 2, 1, 0.5], [3, 2, 1, 0], 2),
        (scores.regret(4), [3, 2, 1, 0], [3, 2, 1, 0], 0),
        (scores.correlation(2), [3, 2, 1, 0], [1, 0, 2, 3], 2),
        (scores.correlation(4), [3, 2, 1, 0], [1, 0, 2, 3], 0.2),
        # The truly best three stand at places 1, 3 and 4.
        (scores.correlation(3), [3, 2, 1, 0], [0, 3, 1, 2], 1 - 3 / math.sqrt(2 * 42 / 9)),
        # Ties: two policies share the first place, or the last.
        (scores.precision(1), [1, 1, 0], [0, 1, 2], 0.5),
        (scores.precision(1), [1, 1, 0], [2, 0, 1], 1),
        (scores.accuracy(2), [1, 1, 0], [0, 1, 2], 0.5),
        (scores.accuracy(3), [1, 1, 0], [0, 1, 2], 1 / 3),
        (scores.regret(1), [1, 1, 0], [0, 1, 2], 0),
        (scores.correlation(2), [1, 1, 0], [0, 1, 2], 1),
        # {0, 1} is listed at (2, 1), {0, 2} at (2, 3): correlations -1 and 1.
        (scores.correlation(2), [2, 1, 1], [1, 0, 2], 1),
        (scores.correlation(2), [2, 1, 1], [0, 1, 2], 0),
        # All equal.
        (scores.precision(2), [5, 5, 5, 5], [3, 1, 2, 0], 0.5),
        (scores.accuracy(2), [5, 5, 5, 5], [3, 1, 2, 0], 0.75),
        (scores.correlation(3), [5, 5, 5, 5], [3, 1, 2, 0], 1),
        (scores.spearman(), [5, 5, 5, 5], [3, 1, 2, 0], 1),
        (scores.kendall(), [5, 5, 5, 5], [3, 1, 2, 0], 1),
        (scores.regret(1), [5, 5, 5, 5], [3, 1, 2, 0], 0),
        (scores.normalized_regret(1), [5, 5, 5, 5], [3, 1, 2, 0], 0),
        (scores.ndcg(3), [5, 5, 5, 5], [3, 1, 2, 0], 0),
        # A single candidate, and two.
        (scores.precision(1), [7], [0], 0),
        (scores.accuracy(1), [7], [0], 0),
        (scores.regret(1), [-7], [0], 0),
        (scores.normalized_regret(1), [-7], [0], 0),
        (scores.ndcg(1), [-7], [0], 0),
        (scores.correlation(2), [-3, -2], [0, 1], 2),
        (scores.spearman(), [-3, -2], [0, 1], 2),
        (scores.spearman(), [-3, -2], [1, 0], 0),
        (scores.kendall(), [-3, -2], [0, 1], 2),
        (scores.kendall(), [-3, -2], [1, 0], 0),
        (scores.regret(1), [-3, -2], [0, 1], 1),
        (scores.normalized_regret(1), [-3, -2], [0, 1], 1),
        (scores.ndcg(1), [-3, -2], [0, 1], 1),
        # Gains 0 and 1: 1 / log2(3) instead of 1.
        (scores.ndcg(2), [-3, -2], [0, 1], 1 - math.log(2) / math.log(3)),
        # The best is 4 above the worst; what is listed is 1, or 3, below the best.
        (scores.normalized_regret(1), [3, 2, 1, -1], [1, 0, 2, 3], 0.25),
        (scores.normalized_regret(2), [3, 2, 0, -1], [2, 3, 0, 1], 0.75),
        (scores.normalized_regret(1), [3, 2, 1, -1], [3, 0, 1, 2], 1),
        (scores.normalized_regret(4), [3, 2, 1, -1], [3, 2, 1, 0], 0),
        (scores.normalized_regret(1), [1, 1, 0], [1, 2, 0], 0),
        (scores.regret(1), [-1, -2, -4], [2, 0, 1], 3),
        # Gains 4, 3, 2 and 0, whatever the worst is worth.
        (scores.ndcg(1), [3, 2, 1, -1], [1, 0, 2, 3], 0.25),
        (scores.ndcg(1), [3, 2, 1, -1], [3, 0, 1, 2], 1),
        (
            scores.ndcg(3),
            [3, 2, 1, -1],
            [2, 3, 0, 1],
            1 - (2 + 4 / 2) / (4 + 3 / math.log2(3) + 2 / 2),
        ),
        (scores.ndcg(2), [1, 1, 0], [1, 0, 2], 0),
        # Sum of squared differences of places 6: 1 - 6 * 6 / (4 * 15) = 0.4.
        (scores.spearman(), [3, 2, 1, 0], [1, 2, 0, 3], 0.6),
        (scores.spearman(), [3, 2, 1, 0], [3, 2, 1, 0], 2),
        # Places 1.5, 1.5, 3 against 1, 2, 3: covariance 1.5 over 2.
        (scores.spearman(), [1, 1, 0], [0, 1, 2], 0.25),
        # Four pairs listed rightly, two wrongly.
        (scores.kendall(), [3, 2, 1, 0], [1, 2, 0, 3], 1 - 2 / 6),
        (scores.kendall(), [3, 2, 1, 0], [3, 2, 1, 0], 2),
        # Two pairs rightly, one tied.
        (scores.kendall(), [1, 1, 0], [0, 1, 2], 1 / 3),
        (scores.kendall(), [1, 1, 0], [2, 0, 1], 5 / 3),
        (scores.safe_improvement("a"), [3, 2, 1, 0], [1, 0, 2, 3], 1),
        (scores.safe_improvement("a", k=2), [3, 2, 1, 0.5], [3, 2, 1, 0], 2),
    ],
)
def test_worked_by_hand(score, values, ranking, expected):
    assert loss(score, values, ranking) == pytest.approx(expected, abs=1e-12)


def test_a_published_example_of_ndcg():
    """Wikipedia's "Discounted cumulative gain": 6.861 of 8.740, to the digits given there."""
    found = 1 - loss(scores.ndcg(6), [3, 2, 3, 0, 1, 2, 3, 2], range(8))
    assert found == pytest.approx(0.785, abs=0.0005)


def test_zero_and_minus_zero_are_tied():
    assert loss(scores.precision(1), [0.0, -0.0], [1, 0]) == 0.5


def test_depth_name_and_order():
    for word, make in MAKERS.items():
        score = make(3)
        assert score.name == f"{word.replace('_', ' ')}@3"
        assert score.depth(7) == (7 if word == "correlation" else 3)
        assert score.ordered == (word in {"accuracy", "correlation", "ndcg"})
        assert score.launches(7) == score.k == 3
        assert repr(score) == f"Score({score.name!r})"
    for score in (scores.spearman(), scores.kendall()):
        assert (score.depth(7), score.k, score.launches(7), score.ordered) == (7, None, None, True)
    safe = scores.safe_improvement("a", k=3)
    assert (safe.depth(7), safe.k, safe.launches(7), safe.ordered) == (3, 3, 3, False)


@pytest.mark.parametrize("make", [*MAKERS.values(), lambda k: scores.safe_improvement("a", k=k)])
@pytest.mark.parametrize("k", [0, -1, 1.0, True, "2", None, np.bool_(1), np.nan])
def test_bad_k_is_refused_at_once(make, k):
    with pytest.raises(SettingsError, match="k: expected a whole number of at least"):
        make(k)


def test_k_beyond_the_candidates_and_correlation_of_one():
    for make in MAKERS.values():
        with pytest.raises(ScoreError, match="expected at least 4 candidates, found 3"):
            make(4).check(3)
        make(np.int64(3)).check(3)
    with pytest.raises(SettingsError, match="at least 2"):
        scores.correlation(1)


def test_a_single_candidate_has_no_rank_correlation():
    for score in (scores.spearman(), scores.kendall()):
        with pytest.raises(ScoreError, match="expected at least 2 candidates, found 1"):
            loss(score, [1.0], [0])
        score.check(2)


@pytest.mark.parametrize("word", literal.WORDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(word, bad):
    values = np.ones((4, 3))
    values[2, 1] = bad
    score, rankings = literal.make(word, 2, 3), np.array([[0, 1, 2]])
    with pytest.raises(ScoreError, match="policy 1 has values that are not finite"):
        score.losses(values, rankings)
    assert np.isfinite(score.losses(np.nan_to_num(values, posinf=1, neginf=1), rankings)).all()


@pytest.mark.parametrize("ranking", [[0, 0, 1], [0, 1, 3], [-1, 0, 1], [0.0, 1.0, 2.0], [0, 1]])
def test_what_is_no_ranking_is_refused(ranking):
    with pytest.raises(ScoreError, match="ranking"):
        loss(scores.accuracy(3), [0, 1, 2], ranking)


def test_values_of_a_wrong_shape_are_refused():
    with pytest.raises(ScoreError, match="shape"):
        scores.regret(1).losses(np.zeros(3), np.array([[0]]))


def test_places_by_hand():
    block = ties.places(np.array([[1.0, 3.0, 1.0, 0.0], [2.0, 2.0, 2.0, 2.0]]))
    np.testing.assert_array_equal(block.first, [[1, 0, 1, 3], [0, 0, 0, 0]])
    np.testing.assert_array_equal(block.size, [[2, 1, 2, 1], [4, 4, 4, 4]])
    np.testing.assert_allclose(ties.expected_places(block)[0], [2.5, 1, 2.5, 4])
    shares = ties.place_shares(block)
    np.testing.assert_allclose(shares.sum(axis=0), 1)
    np.testing.assert_allclose(shares[0], [0.125, 0.375, 0.375, 0.125])


def test_too_many_tie_breaks_is_an_error_and_not_an_approximation():
    values, ranking = np.zeros((1, 40)), np.arange(40)[None]
    with pytest.raises(ScoreError, match="40 policies are tied around place 20"):
        scores.correlation(20).losses(values, ranking)
    # The others need no list of tie-breaks, nor does correlation over the whole ranking.
    assert scores.precision(20).losses(values, ranking) == pytest.approx(0.5)
    assert scores.correlation(40).losses(values, ranking) == pytest.approx(1.0)
