"""The mapping that holds candidates."""

import numpy as np
import pytest

from bayesdice_ppl import Policies, TabularPolicy
from bayesdice_ppl.errors import PoliciesError


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ({}, "at least one candidate"),
        (None, "at least one candidate"),
        ([TabularPolicy([[1.0]])], "expected a dict of name -> policy, found list"),
        (TabularPolicy([[1.0]]), "expected a dict of name -> policy, found TabularPolicy"),
        ({3: TabularPolicy([[1.0]])}, "printable strings and not blank, found 3"),
        ({"": TabularPolicy([[1.0]])}, "not blank"),
        ({"p": "lambda obs: obs"}, "policy 'p': expected an object with a method probs"),
    ],
    ids=["empty", "none", "list", "policy", "number", "no name", "text"],
)
def test_what_is_no_set_of_candidates_is_refused(policies, words):
    with pytest.raises(PoliciesError, match=words):
        Policies(policies)


def test_candidates_are_a_mapping_in_order():
    policies = Policies({"b": TabularPolicy([[1.0]]), "a": TabularPolicy([[1.0]])})
    assert list(policies) == ["b", "a"]
    assert len(policies) == 2
    assert "a" in policies
    assert repr(policies) == "Policies(b, a)"


def test_objects_without_a_table_cannot_be_written_as_one():
    class Coin:
        def probs(self, obs):
            return np.full((len(obs), 2), 0.5)

    with pytest.raises(PoliciesError, match="policy 'coin': expected a TabularPolicy"):
        Policies({"coin": Coin()}).to_dataframe()
