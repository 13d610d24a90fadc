"""Which launches are safe against a baseline, by counting draws."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesdice_ppl import risk, scores
from bayesdice_ppl.errors import ScoreError, SettingsError
from tests.scores import literal

# Below "old" in none, one, two and all of the ten draws; "even" is never below, only tied.
OLD = [0.0] * 10
VALUES = np.array([OLD, [1.0] * 10, [-1.0] + [1.0] * 9, [-1.0] * 2 + [1.0] * 8, [-1.0] * 10, OLD]).T
NAMES = ("old", "never", "once", "twice", "always", "even")


def safe(xi, baseline="old", values=VALUES):
    admissible = scores.safe_improvement(baseline, xi=xi).bind(NAMES).admissible(values)
    return {name for name, is_safe in zip(NAMES, admissible, strict=True) if is_safe}


@pytest.mark.parametrize(
    ("xi", "expected"),
    [
        (1e-9, {"old", "never", "even"}),
        (0.05, {"old", "never", "even"}),
        # The probability has to be below xi, not at it.
        (0.1, {"old", "never", "even"}),
        (0.11, {"old", "never", "even", "once"}),
        (0.2, {"old", "never", "even", "once"}),
        (0.21, {"old", "never", "even", "once", "twice"}),
        (1.0, {"old", "never", "even", "once", "twice"}),
    ],
)
def test_what_is_safe_by_hand(xi, expected):
    assert safe(xi) == expected


def test_the_baseline_itself_is_always_safe():
    assert safe(0.05, baseline="never") == {"never"}
    assert safe(1.0, baseline="always") == set(NAMES)
    # "once" is worse than "twice" in no draw, and better in one.
    assert safe(0.05, baseline="twice") == {"twice", "once", "never"}


def test_admissible_takes_a_single_draw():
    assert safe(1.0, values=VALUES[:1]) == {"old", "never", "even"}
    assert safe(1e-9, values=VALUES[-1:]) == {"old", "never", "once", "twice", "even"}


@settings(max_examples=40, deadline=None)
@given(rows=literal.tables(), data=st.data())
def test_what_is_safe_by_counting(rows, data):
    n = len(rows[0])
    baseline = data.draw(st.integers(0, n - 1))
    xi = data.draw(st.sampled_from([0.05, 0.25, 1 / 3, 0.5, 0.75, 1.0]))
    score = scores.safe_improvement(f"policy {baseline}", xi=xi).bind(literal.names(n))
    expected = [
        i == baseline or Fraction(sum(row[i] < row[baseline] for row in rows), len(rows)) < xi
        for i in range(n)
    ]
    values = np.array(rows)
    assert score.admissible(values).tolist() == expected
    order = data.draw(st.permutations(range(n)))
    elsewhere = score.permuted(order).admissible(values[:, order])
    assert elsewhere.tolist() == [expected[i] for i in order]


def test_bind_looks_up_the_baseline():
    score = scores.safe_improvement("old", xi=0.2, k=2, risk=risk.cvar(0.1))
    assert score.admissible(VALUES) is None
    bound = score.bind(NAMES)
    assert (bound.k, bound.xi, bound.baseline, bound.risk) == (2, 0.2, "old", risk.cvar(0.1))
    assert bound.place_of_baseline == 0
    assert score.bind(NAMES[::-1]).place_of_baseline == 5
    assert score.permuted(range(6)) == score


def test_a_baseline_that_is_not_there():
    with pytest.raises(ScoreError, match=r"policies, 'old', 'never', .* found 'new'") as one:
        scores.safe_improvement("new").bind(NAMES)
    assert "include_logged" not in str(one.value)
    with pytest.raises(ScoreError, match=r"found 'logged'\. Fit .* with include_logged=True"):
        scores.safe_improvement("logged").bind(NAMES)
    assert scores.safe_improvement("logged").bind(("a", "logged")).place_of_baseline == 1


def test_losses_are_held_against_all_policies():
    score = scores.safe_improvement("old").bind(NAMES)
    values = np.array([[0.0, 1.0, 5.0, 2.0, 0.0, 0.0]])
    assert score.losses(values, np.array([[0], [1], [2]])).tolist() == [[5], [4], [0]]
    assert literal.form(score, values).values.tolist() == values.T.tolist()


def test_names():
    assert scores.safe_improvement("old").name == "safe improvement on old, xi = 0.05"
    assert scores.safe_improvement("old", xi=1, k=3, risk=risk.cvar(0.1)).name == (
        "cvar(0.1) of safe improvement on old, xi = 1, @3"
    )


@pytest.mark.parametrize("xi", [0, 0.0, -0.1, 1.0001, np.nan, np.inf, True, "0.1", None, 1j])
def test_bad_xi(xi):
    with pytest.raises(SettingsError, match=r"xi: expected a number in \(0, 1\]"):
        scores.safe_improvement("old", xi=xi)


@pytest.mark.parametrize("baseline", ["", None, 3, ("old",), b"old"])
def test_bad_baseline(baseline):
    with pytest.raises(SettingsError, match="baseline: expected the name of a policy"):
        scores.safe_improvement(baseline)


def test_numbers_of_numpy_are_numbers():
    score = scores.safe_improvement("old", xi=np.float32(0.5), k=np.int64(2))
    assert (type(score.xi), score.xi, score.k) == (float, 0.5, 2)
    assert scores.safe_improvement("old", xi=1).xi == 1.0
    with pytest.raises(SettingsError, match="xi: expected"):
        scores.safe_improvement("old", xi=np.complex128(0.5))
