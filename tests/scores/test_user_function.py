"""Functions of a user's own: how they are called, and what is refused of what they return."""

from functools import partial

import numpy as np
import pytest

from bayesdice_ppl import risk, scores
from bayesdice_ppl.errors import ScoreError, SettingsError
from tests.scores import literal


def first(values, ranking):
    return values[:, ranking[0]]


def test_is_called_with_full_rankings():
    seen = []

    def function(values, ranking):
        seen.append(ranking.tolist())
        return values[:, ranking[0]]

    score = scores.custom(function, depth=1)
    losses = score.losses(np.array([[1.0, 2.0, 3.0]]), np.array([[2], [0]]))
    assert losses.tolist() == [[3.0], [1.0]]
    assert seen == [[2, 0, 1], [0, 1, 2]]
    assert (score.name, score.k, score.depth(3)) == ("function", None, 1)


def test_what_it_looks_at_goes_live_if_that_was_declared():
    assert scores.custom(first, depth=2).launches(5) == 2
    assert scores.custom(first).launches(5) is None
    assert scores.custom(first).depth(5) == 5


def test_its_name():
    class Judge:
        def __call__(self, values, ranking):
            return values[:, ranking[0]]

    assert scores.custom(first).name == "first"
    assert scores.custom(first, name="mine").name == "mine"
    assert scores.custom(Judge()).name == "Judge"
    assert scores.custom(partial(first)).name == "partial"


def test_higher_is_better_turns_the_sign():
    score = scores.custom(lambda v, r: v[:, r[0]], name="first", higher_is_better=True)
    assert score.losses(np.array([[1.0, 2.0]]), np.array([[1, 0]])).tolist() == [[-2.0]]
    assert (score.name, score.depth(2)) == ("first", 2)


def test_the_worst_draws_are_those_of_the_highest_loss():
    values, rankings = (
        np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0]]),
        np.array([[0, 1]]),
    )
    worst = risk.cvar(0.5)
    own = literal.objective(scores.custom(first, risk=worst), values)
    assert own(rankings).tolist() == [3.5]
    better = scores.custom(first, higher_is_better=True, risk=worst)
    assert literal.objective(better, values)(rankings).tolist() == [-1.5]


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.float16, np.float32, np.float64])
def test_takes_numbers_of_any_kind(dtype):
    score = scores.custom(lambda v, r: (v[:, r[0]] > 0).astype(dtype), higher_is_better=True)
    losses = score.losses(np.array([[1.0, 2.0], [-1.0, 2.0]]), np.array([[0, 1]]))
    assert losses.dtype == np.float64
    assert losses.tolist() == [[-1.0, 0.0]]


def test_takes_jax():
    jnp = pytest.importorskip("jax.numpy")
    score = scores.custom(lambda v, r: jnp.asarray(v)[:, r[0]])
    assert score.losses(np.array([[1.0, 2.0]]), np.array([[1, 0]])).tolist() == [[2.0]]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda v, r: 1.0, "shape"),
        (lambda v, r: v, "shape"),
        (lambda v, r: None, "one number per draw"),
        (lambda v, r: np.full(len(v), np.nan), "returned nan for draw 0: not finite"),
        (lambda v, r: np.array([0.0, 0.0, -np.inf]), "returned -inf for draw 2: not finite"),
        (lambda v, r: np.full(len(v), 1j), "one number per draw"),
        (lambda v, r: np.full(len(v), "a"), "one number per draw"),
        (lambda v, r: np.full(len(v), None), "one number per draw"),
    ],
)
def test_what_it_returns_is_checked(function, message):
    with pytest.raises(ScoreError, match=message):
        scores.custom(function).losses(np.zeros((3, 2)), np.array([[0, 1]]))


def test_cannot_change_the_draws():
    def function(values, ranking):
        values[0] = 0.0
        return values[:, 0]

    values = np.ones((3, 2))
    with pytest.raises(ValueError, match="read-only"):
        scores.custom(function).losses(values, np.array([[0, 1]]))
    assert values.flags.writeable
    assert (values == 1.0).all()


def test_bad_arguments():
    with pytest.raises(SettingsError, match="custom: expected a function, found 3"):
        scores.custom(3)
    with pytest.raises(ScoreError, match="expected at least 3 candidates, its depth, found 2"):
        scores.custom(first, depth=3).check(2)
    scores.custom(first, depth=3).check(3)


@pytest.mark.parametrize("depth", [0, -1, 1.0, True, "2"])
def test_bad_depth(depth):
    with pytest.raises(SettingsError, match="depth: expected a whole number of at least 1"):
        scores.custom(first, depth=depth)


def test_a_function_that_looks_past_its_depth_is_found_out():
    def second(values, ranking):
        return values[:, ranking[1]]

    values = literal.random_draws(1, 5, 20, ties=False)
    ranking = [3, 1, 4, 0, 2]
    scores.custom(second, depth=2).check_depth(values, ranking)
    scores.custom(second).check_depth(values, ranking)
    with pytest.raises(ScoreError, match="second: expected a loss of the first 1 places"):
        scores.custom(second, depth=1).check_depth(values, ranking)


def test_the_function_sees_policies_in_the_order_that_it_knows():
    seen = []

    def by_cost(values, ranking):
        seen.append((values.tolist(), ranking.tolist()))
        return values[:, ranking[0]] + np.array([10.0, 20.0, 30.0])[ranking[0]]

    values, order = np.array([[1.0, 2.0, 3.0]]), [2, 0, 1]
    score = scores.custom(by_cost, depth=1).permuted(order)
    losses = score.losses(values[:, order], np.array([[0], [1], [2]]))
    # Policy 0 was 2, policy 1 was 0, policy 2 was 1.
    assert losses.tolist() == [[33.0], [11.0], [22.0]]
    assert [whole for whole, _ in seen] == [[[1.0, 2.0, 3.0]]] * 3
    assert [ranking[0] for _, ranking in seen] == order
