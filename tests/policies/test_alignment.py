"""Candidates on the log's own states and the action space."""

import numpy as np
import polars as pl
import pytest

from bayesdice_ppl import Logs, TabularPolicy
from bayesdice_ppl.errors import LogsError, PoliciesError
from bayesdice_ppl.policies import align_policies


def log(actions=None, **changes):
    table = {
        "episode_id": [0, 0, 1],
        "state": ["b", "a", "b"],
        "action": ["y", "x", "x"],
        "reward": [0.0, 1.0, 2.0],
        "next_state": ["a", "c", "end"],
        "terminated": [False, False, True],
    }
    return Logs.from_dataframe(pl.DataFrame({**table, **changes}), actions=actions)


STATES, ACTIONS = ["c", "b", "a"], ["y", "x", "z"]
TABLE = [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [1.0, 0.0, 0.0]]


class Uniform:
    def __init__(self, n_actions):
        self.n_actions = n_actions
        self.asked = None

    def probs(self, obs):
        self.asked = list(obs)
        return np.full((len(obs), self.n_actions), 1.0 / self.n_actions)


def test_rows_and_columns_are_brought_into_the_logs_order():
    found = align_policies(log(), {"p": TabularPolicy(TABLE, STATES, ACTIONS)})
    assert found.names == ("p",)
    assert found.actions.tolist() == ["x", "y", "z"]
    # States a, b, c, end; nobody acts in `end`, which only ever ended an episode.
    np.testing.assert_array_equal(
        found.probabilities[0],
        [[0.0, 1.0, 0.0], [0.3, 0.3, 0.4], [0.2, 0.1, 0.7], [0.0, 0.0, 0.0]],
    )
    assert "candidates" in found.source


def test_the_action_space_is_the_union_of_what_the_candidates_know():
    one = TabularPolicy([[1.0]] * 3, STATES, ["x"])
    other = TabularPolicy([[1.0]] * 3, STATES, ["y"])
    found = align_policies(log(), {"one": one, "other": other})
    assert found.actions.tolist() == ["x", "y"]
    np.testing.assert_array_equal(found.probabilities[:, 0], [[1.0, 0.0], [0.0, 1.0]])


def test_a_declared_action_space_keeps_its_order():
    policy = TabularPolicy(TABLE, STATES, ACTIONS)
    found = align_policies(log(actions=["z", "y", "x"]), {"p": policy})
    assert found.actions.tolist() == ["z", "y", "x"]
    assert found.source == "as declared"
    np.testing.assert_array_equal(found.probabilities[0, 2], [0.7, 0.1, 0.2])


def test_a_logged_action_outside_the_space_is_refused_with_its_row():
    policy = TabularPolicy([[1.0]] * 3, STATES, ["x"])
    with pytest.raises(LogsError, match=r"row 1 of the log: .*found 'y'.*--actions"):
        align_policies(log(), {"p": policy})


def test_a_candidates_action_outside_the_declared_space_is_refused():
    policy = TabularPolicy(TABLE, STATES, ACTIONS)
    with pytest.raises(PoliciesError, match=r"policy 'p': .*declared action space, found 'z'"):
        align_policies(log(actions=["x", "y"]), {"p": policy})


def test_an_action_outside_the_declared_space_that_is_never_taken_does_no_harm():
    policy = TabularPolicy([[0.5, 0.5, 0.0]] * 3, STATES, ACTIONS)
    found = align_policies(log(actions=["x", "y"]), {"p": policy})
    np.testing.assert_array_equal(found.probabilities[0, 0], [0.5, 0.5])


@pytest.mark.parametrize("state", ["a", "b", "c"])
def test_an_uncovered_logged_state_is_refused_by_name(state):
    kept = [i for i, name in enumerate(STATES) if name != state]
    policy = TabularPolicy([TABLE[i] for i in kept], [STATES[i] for i in kept], ACTIONS)
    with pytest.raises(PoliciesError, match=f"policy 'p': expected rows for state '{state}'"):
        align_policies(log(), {"p": policy})


def test_a_state_seen_as_a_successor_only_is_not_needed_at_gamma_zero():
    policy = TabularPolicy(TABLE[1:], STATES[1:], ACTIONS)
    found = align_policies(log(), {"p": policy}, needs_successors=False)
    np.testing.assert_array_equal(found.probabilities[0, 2], [0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (
            TabularPolicy([[0.5, 0.5]] * 3, [0, 1, 2], ["x", "y"]),
            "labeled with str.*integers",
        ),
        (TabularPolicy([[0.5, 0.5]] * 3, STATES, [0, 1]), "actions.* strings.*integers"),
    ],
    ids=["states", "actions"],
)
@pytest.mark.parametrize("declared", [None, ["x", "y"]])
def test_integer_labels_against_strings_are_refused_and_explained(policy, words, declared):
    with pytest.raises(PoliciesError, match=f"{words}.*same labels in both"):
        align_policies(log(actions=declared), {"p": policy})


def test_candidates_that_disagree_on_the_kind_of_actions_are_refused():
    one = TabularPolicy([[0.5, 0.5]] * 3, STATES, ["x", "y"])
    other = TabularPolicy([[0.5, 0.5]] * 3, STATES, [0, 1])
    with pytest.raises(PoliciesError, match="found integers in some and strings in others"):
        align_policies(log(), {"one": one, "other": other})


def test_objects_are_asked_about_the_states_in_which_they_act():
    policy = Uniform(2)
    found = align_policies(log(actions=["y", "x"]), {"p": policy})
    assert policy.asked == ["a", "b", "c"]
    np.testing.assert_array_equal(found.probabilities[0].sum(axis=1), [1.0, 1.0, 1.0, 0.0])


def test_objects_need_a_declared_action_space():
    with pytest.raises(PoliciesError, match="expected a declared action space"):
        align_policies(log(), {"p": Uniform(2)})


def test_objects_that_answer_in_the_wrong_shape_are_refused():
    with pytest.raises(PoliciesError, match=r"policy 'p': .* 3 states .* found \(3, 5\)"):
        align_policies(log(actions=["x", "y"]), {"p": Uniform(5)})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([[0.5, 0.6]] * 3, "policy 'p', state 'a': expected probabilities that sum to 1"),
        ([[np.nan, 1.0]] * 3, "policy 'p', state 'a', action 'x'"),
        ([["a", "b"]] * 3, "policy 'p': probs: expected an array of numbers"),
        (None, "policy 'p': expected probs"),
    ],
    ids=str,
)
def test_objects_that_answer_nonsense_are_refused(answer, words):
    class Odd:
        def probs(self, obs):
            return answer

    with pytest.raises(PoliciesError, match=words):
        align_policies(log(actions=["x", "y"]), {"p": Odd()})
