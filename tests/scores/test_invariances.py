"""What changes no loss: names, a constant, and a scale; and what a loss can be at all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scores import literal

RELATIVE = ["normalized_regret", "ndcg", *literal.WHOLE, "precision", "accuracy"]
MOST = {"correlation": 2.0, "spearman": 2.0, "kendall": 2.0}


def problem(data, word):
    rows = data.draw(literal.tables(fewest_policies=literal.fewest(word), most=7))
    n = len(rows[0])
    k = n if word in literal.WITHOUT_K else data.draw(st.integers(literal.fewest(word), n))
    return np.array(rows), k, np.array([data.draw(st.permutations(range(n))) for _ in range(3)])


@pytest.mark.parametrize("word", literal.WORDS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_new_numbers_for_the_policies_change_nothing(word, data):
    values, k, rankings = problem(data, word)
    n = values.shape[1]
    order = data.draw(st.permutations(range(n)))
    score = literal.make(word, k, n)
    before = score.losses(values, rankings)
    renumbered = np.argsort(order)[rankings]
    # Policy i was order[i].
    after = score.losses(values[:, order], renumbered)
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-12)
    if word != "custom":
        return
    # A callable that is told of the order sees the policies as they were.
    last = score.permuted(order).losses(values[:, order], renumbered)
    np.testing.assert_array_equal(last, before)


@pytest.mark.parametrize("word", [w for w in literal.WORDS if w != "custom"])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_constant_and_a_scale_change_nothing(word, data):
    values, k, rankings = problem(data, word)
    score = literal.make(word, k, values.shape[1])
    before = score.losses(values, rankings)
    # In quarters and powers of 2, so that all sums and products are exact.
    constant = data.draw(st.sampled_from([-1000.0, -0.25, 0.5, 1024.0]))
    np.testing.assert_array_equal(score.losses(values + constant, rankings), before)
    scale = data.draw(st.sampled_from([0.125, 2.0, 2.0**30]))
    scaled = score.losses(scale * values, rankings)
    np.testing.assert_array_equal(scaled, before if word in RELATIVE else scale * before)


@pytest.mark.parametrize("word", [w for w in literal.WORDS if w != "custom"])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_losses_are_in_their_range(word, data):
    values, k, rankings = problem(data, word)
    losses = literal.make(word, k, values.shape[1]).losses(values, rankings)
    most = np.ptp(values, axis=1) if word in {"regret", "safe_improvement"} else MOST.get(word, 1.0)
    assert (losses >= -1e-12).all()
    assert (losses <= most + 1e-12).all()
    if word in {"regret", "safe_improvement", "normalized_regret", "precision"}:
        assert (losses >= 0).all()
        assert (losses <= most).all()


@pytest.mark.parametrize("word", [w for w in literal.WORDS if w != "custom"])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_the_true_order_has_no_loss_and_the_worst_has_the_most(word, data):
    n = data.draw(st.integers(literal.fewest(word), 7))
    k = n if word in literal.WITHOUT_K else data.draw(st.integers(literal.fewest(word), n))
    ranks = data.draw(st.permutations(range(n)))
    values = np.array([ranks], float)
    truth = np.argsort(-values[0])
    score = literal.make(word, k, n)
    best, worst = score.losses(values, np.array([truth, truth[::-1]]))[:, 0]
    assert best == pytest.approx(0, abs=1e-12)
    if word in literal.WHOLE:
        assert worst == pytest.approx(2, abs=1e-12)
    if word == "precision":
        # Of the last k as many are among the first k as do not fit past them.
        assert worst == pytest.approx(1 - max(0, 2 * k - n) / k, abs=1e-12)
    if word in {"regret", "safe_improvement"}:
        assert worst == n - k


@pytest.mark.parametrize("word", literal.WORDS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_twins_are_exchangeable(word, data):
    values, k, rankings = problem(data, word)
    n = values.shape[1]
    values[:, -1] = values[:, 0]
    swapped = np.arange(n)
    swapped[[0, -1]] = swapped[[-1, 0]]
    score = literal.make(word, k, n)
    before, after = (score.losses(values, rows) for rows in (rankings, swapped[rankings]))
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-12)
