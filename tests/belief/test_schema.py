"""The table of a belief's entries: a fit stays within it, and reading follows it."""

import numpy as np
import pytest
import xarray as xr

from bayesdice_ppl.belief import GROUPS, Attribute, BeliefView, Variable, entries, make_belief
from bayesdice_ppl.errors import BeliefError

OF_THE_RATIO = {"weights", "pair_state", "pair_action", "pair_count"}


def test_the_table_has_every_variable_and_attribute_of_a_fit(belief):
    table = entries()
    for group, held in belief.children.items():
        for name in set(held.data_vars) - OF_THE_RATIO:
            entry = table[name]
            assert isinstance(entry, Variable)
            assert entry.group == group
            assert held[name].dims[-len(entry.dims) :] == entry.dims
    for name in set(belief.attrs) - {"created_at", "creation_library"}:
        if name in table:
            assert isinstance(table[name], Attribute)
    assert {"settings", "versions", "rng_key", "support_warnings"} <= set(belief.attrs) & set(table)


def test_every_entry_says_what_it_is():
    for name, entry in entries().items():
        assert entry.name == name
        assert entry.meaning.endswith((".", "done."))
        if isinstance(entry, Variable):
            assert entry.group in GROUPS


def test_a_view_reads_arrays_and_attributes(belief):
    view = BeliefView(belief)
    np.testing.assert_array_equal(view.guide_mean, belief["constant_data/guide_mean"])
    assert view.value.shape == (1, 500, 3)
    assert view.names == belief["posterior"].policy.values.tolist()
    assert view.settings["draws"] == 500
    assert view.n_transitions == 25
    assert view.method == ""
    assert view.seed is None
    assert view.earned.value == belief.attrs["logged_value"]
    assert view.has(BeliefView.elbo)


def test_what_a_belief_lacks_is_an_error_or_empty():
    view = BeliefView(make_belief(np.zeros((4, 2)), ["a", "b"]))
    with pytest.raises(BeliefError, match="expected constant_data/guide_mean, found none"):
        view.guide_mean  # noqa: B018
    assert not view.has(BeliefView.elbo)
    assert view.support_warnings is None
    assert view.earned is None
    assert view.rows_left_out == 0
    assert BeliefView(xr.DataTree()).settings == {}


@pytest.mark.parametrize(
    ("name", "stored"),
    [("settings", "[]"), ("settings", "{"), ("logged_value", np.nan), ("seed", "many")],
)
def test_an_attribute_of_another_kind_is_refused_by_name(name, stored):
    belief = make_belief(np.zeros((4, 2)), ["a", "b"])
    belief.attrs[name] = stored
    with pytest.raises(BeliefError, match=f"attribute {name} of the belief: expected"):
        getattr(BeliefView(belief), name)
