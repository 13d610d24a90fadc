"""Tables of action probabilities."""

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bayesdice_ppl import Logs, Policies, TabularPolicy
from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.policies import Policy, align_policies


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


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=40).filter(lambda w: sum(w) > 0.1),
    st.integers(2, 8),
)
def test_probabilities_that_were_rounded_are_made_to_sum_to_one(weights, digits):
    """However many actions and decimals: what rounding can do is mended, and told."""
    exact = np.array(weights) / sum(weights)
    written = np.round(exact, digits)
    off = abs(written.sum() - 1.0)
    # Two numbers round to a sum of 1, but for a tie.
    assume(len(weights) > 2 or off < 1e-9)
    assume(off < 0.0199 and not np.array_equal(written, np.round(written, 1)))
    policy = TabularPolicy([written])
    np.testing.assert_allclose(policy.probabilities.sum(), 1.0, atol=1e-6)
    np.testing.assert_allclose(policy.probabilities[0], exact, atol=(1 + off) * 10.0**-digits + off)
    assert policy.rounding == (pytest.approx(off) if off > 1e-6 else 0.0)
    note = Policies({"p": policy}).notes
    assert len(note) == (policy.rounding > 0.0)
    if note:
        assert f"p were written with few decimals, and sums were off by up to {off:.2g}" in note[0]


@pytest.mark.parametrize(
    "row",
    [
        [0.333333] * 3,
        [0.33] * 3,
        [0.143] * 7,
        [0.0294] * 34,
        [0.17, 0.17, 0.17, 0.17, 0.17, 0.17],
    ],
    ids=str,
)
def test_shares_of_equal_actions_are_mended_exactly(row):
    np.testing.assert_allclose(TabularPolicy([row]).probabilities, 1.0 / len(row), rtol=1e-12)


@pytest.mark.parametrize(
    "row",
    [
        [0.3, 0.3, 0.3],  # one decimal
        [0.5, 0.49],  # two numbers leave no rest
        [0.99],
        [0.333, 0.333, 0.332],  # more than half of the last decimal for each
        [0.01] * 95,  # 0.05 is more than any rounding that is believed
        [1 / 3, 1 / 3, 1 / 3 - 1e-5],  # computed, not written
        [0.3, 0.3, 0.4003],
    ],
    ids=lambda row: str(row[:4]),
)
def test_what_no_rounding_explains_is_refused(row):
    with pytest.raises(PoliciesError, match="expected probabilities that sum to 1 within"):
        TabularPolicy([row])


def test_what_a_function_computes_is_not_taken_for_rounded():
    frame = pl.DataFrame({"state": [0, 0], "action": [0, 1], "reward": [0.0, 1.0]})
    logs = Logs.from_dataframe(frame, actions=[0, 1, 2])
    with pytest.raises(PoliciesError, match=r"sum to 1 within 1e-06, found a sum of 0\.99"):
        align_policies(logs, {"p": lambda states: [[0.33] * 3] * len(states)})


def test_only_rows_that_are_off_are_changed():
    table = [[0.1, 0.2, 0.7], [0.333] * 3]
    policy = TabularPolicy(table)
    np.testing.assert_array_equal(policy.probabilities[0], table[0])
    assert policy.rounding == pytest.approx(0.001)


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
