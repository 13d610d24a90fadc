"""Losses against a literal oracle (a Python loop over tie-breaks) and numbers worked by hand."""

import math
import statistics
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesdice_ppl import scores, ties
from bayesdice_ppl.errors import ScoreError

MAKERS = {
    "precision": scores.precision,
    "accuracy": scores.accuracy,
    "regret": scores.regret,
    "correlation": scores.correlation,
}


def tie_breaks(values):
    """Every true order, best first, that is consistent with the values."""
    return [
        order
        for order in permutations(range(len(values)))
        if all(values[a] >= values[b] for a, b in pairwise(order))
    ]


def literal_loss(word, k, values, ranking):
    def one(truth):
        top = truth[:k]
        if word == "precision":
            return 1 - len(set(top) & set(ranking[:k])) / k
        if word == "accuracy":
            return 1 - sum(truth[j] == ranking[j] for j in range(k)) / k
        if word == "regret":
            return max(values) - max(values[i] for i in ranking[:k])
        places = [list(ranking).index(i) + 1 for i in top]
        return 1 - statistics.correlation(list(range(1, k + 1)), places)

    return statistics.fmean(one(truth) for truth in tie_breaks(values))


def loss(score, values, ranking):
    return score.losses(np.array([values], float), np.array([ranking]))[0, 0]


values_of = st.integers(1, 5).flatmap(
    lambda n: st.lists(st.lists(st.integers(-2, 2), min_size=n, max_size=n), min_size=1, max_size=4)
)


@pytest.mark.parametrize("word", list(MAKERS))
@settings(max_examples=40, deadline=None)
@given(rows=values_of, data=st.data())
def test_losses_are_the_literal_ones(word, rows, data):
    n = len(rows[0])
    lowest = 2 if word == "correlation" else 1
    if n < lowest:
        return
    k = data.draw(st.integers(lowest, n))
    ranking = data.draw(st.permutations(range(n)))
    score, values = MAKERS[word](k), np.array(rows, float)
    losses = score.losses(values, np.array([ranking, ranking[::-1]]))
    expected = [[literal_loss(word, k, row, r) for row in rows] for r in (ranking, ranking[::-1])]
    np.testing.assert_allclose(losses, expected, atol=1e-12)
    mean = score.mean_loss(values)(np.array([ranking, ranking[::-1]])[:, : score.depth(n)])
    np.testing.assert_allclose(mean, losses.mean(axis=1), atol=1e-12)


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
        (scores.precision(1), [7], [0], 0),
        (scores.accuracy(1), [7], [0], 0),
    ],
)
def test_worked_by_hand(score, values, ranking, expected):
    assert loss(score, values, ranking) == pytest.approx(expected, abs=1e-12)


def test_zero_and_minus_zero_are_tied():
    assert loss(scores.precision(1), [0.0, -0.0], [1, 0]) == 0.5


def test_depth_name_and_order():
    for word, make in MAKERS.items():
        score = make(3)
        assert score.name == f"{word}@3"
        assert score.depth(7) == (7 if word == "correlation" else 3)
        assert score.ordered == (word in {"accuracy", "correlation"})
        assert repr(score) == f"Score('{word}@3')"


@pytest.mark.parametrize("make", MAKERS.values())
@pytest.mark.parametrize("k", [0, -1, 1.0, True, "2", None])
def test_bad_k_is_refused_at_once(make, k):
    with pytest.raises(ScoreError, match="k of"):
        make(k)


def test_k_beyond_the_candidates_and_correlation_of_one():
    for make in MAKERS.values():
        with pytest.raises(ScoreError, match="needs at least 4 candidates, got 3"):
            make(4).check(3)
        make(np.int64(3)).check(3)
    with pytest.raises(ScoreError, match="at least 2"):
        scores.correlation(1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad):
    with pytest.raises(ScoreError, match="policy 1 has values"):
        loss(scores.regret(1), [0.0, bad, 1.0], [0, 1, 2])


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


class TestCustom:
    def test_is_called_with_full_rankings(self):
        seen = []

        def function(values, ranking):
            seen.append(ranking.tolist())
            return values[:, ranking[0]]

        score = scores.custom(function, depth=1)
        losses = score.losses(np.array([[1.0, 2.0, 3.0]]), np.array([[2], [0]]))
        assert losses.tolist() == [[3.0], [1.0]]
        assert seen == [[2, 0, 1], [0, 1, 2]]
        assert (score.name, score.k, score.depth(3)) == ("function", None, 1)

    def test_higher_is_better_turns_the_sign(self):
        score = scores.custom(lambda v, r: v[:, r[0]], name="first", higher_is_better=True)
        assert score.losses(np.array([[1.0, 2.0]]), np.array([[1, 0]])).tolist() == [[-2.0]]
        assert (score.name, score.depth(2)) == ("first", 2)

    def test_takes_jax(self):
        jnp = pytest.importorskip("jax.numpy")
        score = scores.custom(lambda v, r: jnp.asarray(v)[:, r[0]])
        assert score.losses(np.array([[1.0, 2.0]]), np.array([[1, 0]])).tolist() == [[2.0]]

    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (lambda v, r: 1.0, "shape"),
            (lambda v, r: v, "shape"),
            (lambda v, r: np.full(len(v), np.nan), "not finite"),
            (lambda v, r: np.full(len(v), 1j), "one number per draw"),
            (lambda v, r: np.full(len(v), "a"), "one number per draw"),
        ],
    )
    def test_what_it_returns_is_checked(self, function, message):
        with pytest.raises(ScoreError, match=message):
            scores.custom(function).losses(np.zeros((3, 2)), np.array([[0, 1]]))

    def test_cannot_change_the_draws(self):
        def function(values, ranking):
            values[0] = 0.0
            return values[:, 0]

        with pytest.raises(ValueError, match="read-only"):
            scores.custom(function).losses(np.ones((3, 2)), np.array([[0, 1]]))

    def test_bad_arguments(self):
        with pytest.raises(ScoreError, match="needs a function"):
            scores.custom(3)
        with pytest.raises(ScoreError, match="depth"):
            scores.custom(lambda v, r: v[:, 0], depth=0)
        with pytest.raises(ScoreError, match="first 3 places"):
            scores.custom(lambda v, r: v[:, 0], depth=3).check(2)
