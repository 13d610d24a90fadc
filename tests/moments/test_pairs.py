"""Logged pairs, renormalization over them, and what a policy can reach, against plain loops."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesdice_ppl.moments import logged_pairs, reach, renormalize


def test_pairs_are_those_of_the_rows_that_are_used(plain):
    logs = plain.log(1)
    mask = np.arange(logs.n_transitions) % 3 > 0
    found = logged_pairs(logs, np.arange(2), mask)
    seen = list(zip(logs.state[mask].tolist(), logs.action[mask].tolist(), strict=True))
    assert list(zip(found.state.tolist(), found.action.tolist(), strict=True)) == sorted(set(seen))
    for row, pair in zip(found.of_row, seen, strict=True):
        assert (found.state[row], found.action[row]) == pair


def test_actions_are_coded_in_the_action_space(plain):
    logs = plain.bandit([(0, 1.0), (1, 0.0)])
    found = logged_pairs(logs, np.array([5, 2]), np.ones(2, dtype=bool))
    assert found.action.tolist() == [2, 5]
    assert found.of_row.tolist() == [1, 0]


def test_renormalization_by_hand():
    probabilities = np.array([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0]])
    state, action = np.array([0, 0, 1]), np.array([0, 2, 0])
    with jax.enable_x64(True):
        found = renormalize(probabilities, state, action, np.ones(3))
        target, kept = (np.asarray(x) for x in found)
    np.testing.assert_allclose(target, [0.5 / 0.7, 0.2 / 0.7, 0.0])
    np.testing.assert_allclose(kept, [0.7, 0.0])


def test_a_pair_that_was_not_logged_gets_nothing():
    with jax.enable_x64(True):
        found = renormalize(
            np.array([[0.5, 0.5]]), np.array([0, 0]), np.array([0, 1]), np.array([1.0, 0.0])
        )
        target, kept = (np.asarray(x) for x in found)
    np.testing.assert_array_equal(target, [1.0, 0.0])
    np.testing.assert_array_equal(kept, [0.5])


@pytest.mark.parametrize("n_states", [4])
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_reach_is_what_random_walks_find(n_states, data):
    pair_state = np.repeat(np.arange(n_states), 2)
    target = np.array(
        [data.draw(st.sampled_from([0.0, 0.5]), label=f"pair {k}") for k in range(2 * n_states)]
    )
    edges = data.draw(
        st.lists(st.tuples(st.integers(0, 2 * n_states - 1), st.integers(0, n_states - 1)))
    )
    initial = np.array([data.draw(st.booleans()) for _ in range(n_states)])
    pair = np.array([e[0] for e in edges], dtype=np.int64)
    successor = np.array([e[1] for e in edges], dtype=np.int64)
    found = reach(target, pair_state, (pair, successor), initial)

    visited = {s for s in range(n_states) if initial[s]}
    for _ in range(n_states):
        for k, following in edges:
            if k // 2 in visited and target[k] > 0:
                visited.add(following)
    acts = {k // 2 for k in range(2 * n_states) if target[k] > 0}
    assert {k for k in range(2 * n_states) if found.pair[k]} == {
        k for k in range(2 * n_states) if target[k] > 0 and k // 2 in visited
    }
    assert {s for s in range(n_states) if found.dead_state[s]} == visited - acts
