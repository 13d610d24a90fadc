"""Names in the lists of options: whatever a column or a candidate is called can be said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesdice_ppl.cli.texts import (
    read_actions,
    read_columns,
    read_costs,
    read_limits,
    read_list,
    read_weights,
)
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.plain import listed_word

names = st.text(st.sampled_from("ab1 ,=<>\"'.-é"), min_size=1, max_size=8)


@given(st.lists(names, min_size=1, max_size=4, unique=True))
def test_what_is_written_for_a_list_is_read_from_it(given_names):
    words = [listed_word(name) for name in given_names]
    assert read_list("--x", ",".join(words)) == given_names
    numbers = {name: float(k) for k, name in enumerate(given_names)}
    pairs = ",".join(f"{word}={k}" for k, word in enumerate(words))
    assert read_weights("--weights", pairs) == numbers
    assert read_costs(pairs) == numbers
    limits = ",".join(f"{word}<={k}" for k, word in enumerate(words))
    assert read_limits("--limits", limits) == {name: (None, k) for name, k in numbers.items()}
    ours = {f"obs_{k}": name for k, name in enumerate(given_names)}
    mapped = ",".join(f"{key}={word}" for key, word in zip(ours, words, strict=True))
    assert read_columns(mapped) == ours


def test_lists_are_read_as_they_look():
    assert read_list("--x", 'a, "b,c" ,d') == ["a", "b,c", "d"]
    assert read_list("--x", 'a "b",5"') == ['a "b"', '5"']
    assert read_columns('state="a=b",action=c=d') == {"state": "a=b", "action": "c=d"}
    assert read_costs('"a=1,b"=2,c=d=3') == {"a=1,b": 2.0, "c=d": 3.0}
    assert read_limits("--limits", '"cost, $"<=2,"cost, $">=1') == {"cost, $": (1.0, 2.0)}
    assert read_actions('"a,b",c') == ["a,b", "c"]


@pytest.mark.parametrize("text", ["a,b=3", '"a,b=3', "a"])
def test_a_list_that_cannot_be_read_says_how_names_are_quoted(text):
    with pytest.raises(SettingsError, match="stands in double quotes"):
        read_costs(text)
