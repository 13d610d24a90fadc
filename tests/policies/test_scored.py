"""Softmax and epsilon-greedy, by hand."""

import math

import numpy as np
import pytest

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.policies import epsilon_greedy, softmax

SCORES = np.array([[1.0, 2.0, 4.0], [3.0, 3.0, -1.0]])


def test_softmax_by_hand():
    found = softmax(lambda obs: SCORES[obs], 2.0).probs(np.array([0, 1]))
    for row, scores in zip(found, SCORES, strict=True):
        weights = [math.exp(score / 2.0) for score in scores]
        np.testing.assert_allclose(row, [w / sum(weights) for w in weights], rtol=1e-12)


def test_large_scores_do_not_overflow():
    found = softmax(lambda obs: SCORES[obs] * 1e6).probs(np.array([0]))
    np.testing.assert_array_equal(found, [[0.0, 0.0, 1.0]])


def test_epsilon_greedy_by_hand_with_ties():
    found = epsilon_greedy(lambda obs: SCORES[obs], 0.3).probs(np.array([0, 1]))
    np.testing.assert_allclose(found, [[0.1, 0.1, 0.8], [0.45, 0.45, 0.1]], rtol=1e-12)


def test_tables_become_tables():
    policy = epsilon_greedy(SCORES, 0.0, states=["x", "y"], actions=["a", "b", "c"])
    np.testing.assert_array_equal(policy.probabilities, [[0, 0, 1], [0.5, 0.5, 0]])
    assert policy.states.tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: softmax(SCORES, 0.0), "a temperature above 0"),
        (lambda: softmax(SCORES, float("nan")), "a temperature above 0"),
        (lambda: epsilon_greedy(SCORES, 1.5), r"an epsilon in \[0, 1\]"),
        (lambda: softmax(SCORES[0]), "shape .states, actions."),
        (lambda: softmax(SCORES * np.nan), "finite numbers"),
        (lambda: softmax(lambda obs: SCORES, actions=["a"]), "beside a table of scores alone"),
        (lambda: softmax(lambda obs: SCORES).probs(np.zeros(5)), r"shape \(5, actions\)"),
        (lambda: softmax(["a", "b"]), "scores"),
    ],
    ids=["zero", "nan", "epsilon", "one row", "scores", "labels", "rows", "text"],
)
def test_what_is_no_rule_is_refused(make, words):
    with pytest.raises(PoliciesError, match=words):
        make()
