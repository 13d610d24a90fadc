"""The action space as declared."""

import pytest

from tests.logs.good_log import build, refusal


def test_an_action_outside_the_declared_space_is_refused():
    message = refusal(actions=["x", "z"])
    assert "row 2, column 'action': expected an action of the declared action space" in message
    assert "found 'y'" in message
    assert "--actions" in message


def test_a_declared_space_of_another_kind_is_refused():
    assert "expected strings, as in the column 'action', found integers" in refusal(actions=[0, 1])


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        (["x", "y", "x"], "'x' is given twice"),
        (["x", 1], "all integers or all strings"),
        ("xy", "expected a list"),
        (5, "expected a list"),
    ],
    ids=str,
)
def test_declared_spaces_that_make_no_sense_are_refused(actions, words):
    message = refusal(actions=actions)
    assert message.startswith("actions: ")
    assert words in message


def test_a_declared_space_is_kept_in_its_order():
    assert build(actions=["z", "y", "x"]).declared_actions.tolist() == ["z", "y", "x"]
