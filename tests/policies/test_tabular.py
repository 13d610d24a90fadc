"""Tables of action probabilities."""

import numpy as np
import pytest

from bayesdice_ppl import TabularPolicy
from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.policies import Policy


def test_a_table_answers_for_its_states_in_any_order():
    policy = TabularPolicy([[0.2, 0.8], [1.0, 0.0]], ["x", "long name"], ["l", "r"])
    np.testing.assert_array_equal(policy.probs(["long name", "x", "x"])[:, 0], [1.0, 0.2, 0.2])
    assert policy.probs(np.array([], dtype=object)).shape == (0, 2)
    assert isinstance(policy, Policy)


def test_a_table_is_a_copy_and_cannot_be_written_to():
    source = np.array([[0.5, 0.5]])
    policy = TabularPolicy(source)
    source[0] = [1.0, 0.0]
    np.testing.assert_array_equal(policy.probs([0]), [[0.5, 0.5]])
    with pytest.raises(ValueError, match="read-only"):
        policy.probabilities[0, 0] = 1.0


@pytest.mark.parametrize(
    ("obs", "words"),
    [
        (["y"], "found 'y'"),
        ([0], "found 0"),
        (["x-ray"], "found 'x-ray'"),
        ("x", "shape"),
        ([["x"]], "shape"),
    ],
    ids=str,
)
def test_states_that_a_table_does_not_have_are_refused(obs, words):
    with pytest.raises(PoliciesError, match=words):
        TabularPolicy([[1.0]], ["x"]).probs(obs)


def test_a_fraction_is_not_rounded_to_a_state():
    with pytest.raises(PoliciesError, match=r"found 0\.5"):
        TabularPolicy([[1.0], [1.0]]).probs([0.5])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([0.5, 0.5], r"expected shape \(states, actions\)"),
        ([], "expected shape"),
        ([[]], "expected shape"),
        (None, "expected shape"),
        ([[0.5, 0.6]], "state 0: .*found a sum of 1.1"),
        ([[1.0, 0.0], [-0.1, 1.1]], "state 1, action 0: expected a probability"),
        ([[np.nan, 1.0]], "state 0, action 0"),
        ([["a", "b"]], "array of numbers"),
        ([[1.0], [0.5, 0.5]], "array of numbers"),
    ],
    ids=str,
)
def test_tables_that_are_none_are_refused(table, words):
    with pytest.raises(PoliciesError, match=words):
        TabularPolicy(table)


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (["a"], "2 states|1 states"),
        (["a", "a"], "'a' is given twice"),
        (["a", 1], "all integers or all strings"),
        ([0.5, 1.5], "all integers or all strings"),
        ([True, False], "all integers or all strings"),
        (7, "expected a list"),
    ],
    ids=str,
)
def test_labels_that_do_not_fit_are_refused(states, words):
    with pytest.raises(PoliciesError, match=words):
        TabularPolicy([[1.0], [1.0]], states)
