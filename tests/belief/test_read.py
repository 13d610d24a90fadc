"""Beliefs of any program that selection reads or refuses, and what it says."""

import numpy as np
import pytest
import xarray as xr

from bayesdice_ppl.belief import make_belief, read_statistic, read_support, read_values
from bayesdice_ppl.errors import BeliefError


def belief_of(values, names=None):
    names = names or [f"p{i}" for i in range(values.shape[-1])]
    return make_belief(values, names)


@pytest.fixture
def draws():
    return np.random.default_rng(0).normal(size=(400, 5))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_by_name(draws, bad):
    draws[7, 2] = draws[9, 2] = bad
    belief = belief_of(draws, names=["a", "b", "thompson", "d", "e"])
    with pytest.raises(BeliefError, match="in 2 of 400 draws of policy 'thompson'"):
        read_values(belief)


def test_names(draws):
    with pytest.raises(BeliefError, match="two policies are named 'a'"):
        read_values(belief_of(draws, names=["a", "b", "a", "c", "d"]))
    with pytest.raises(BeliefError, match="as text, found 0"):
        read_values(belief_of(draws, names=[0, 1, 2, 3, 4]))
    dataset = xr.Dataset({"value": (("draw", "policy"), draws)})
    with pytest.raises(BeliefError, match="expected a coordinate policy"):
        read_values(xr.DataTree.from_dict({"posterior": dataset}))


def test_no_draws_to_speak_of(draws):
    with pytest.raises(BeliefError, match="two draws"):
        read_values(belief_of(draws[:1]))


@pytest.mark.parametrize(
    "belief",
    [
        None,
        xr.Dataset(),
        xr.DataTree(),
        xr.DataTree.from_dict({"posterior": xr.Dataset({"beta": ("draw", [1.0])})}),
    ],
)
def test_what_is_no_belief(belief):
    with pytest.raises(BeliefError, match="posterior/value"):
        read_values(belief)


def test_strange_dims_and_dtypes():
    dataset = xr.Dataset({"value": (("draw", "arm"), np.zeros((3, 2)))})
    with pytest.raises(BeliefError, match=r"expected dims chain, draw, policy .* found draw, arm"):
        read_values(xr.DataTree.from_dict({"posterior": dataset}))
    text = xr.Dataset({"value": (("draw", "policy"), [["x"], ["y"]])}, coords={"policy": ["a"]})
    with pytest.raises(BeliefError, match="real numbers"):
        read_values(xr.DataTree.from_dict({"posterior": text}))


def test_a_statistic_that_was_not_fitted_is_refused_with_those_that_were(draws):
    belief = make_belief(draws, list("abcde"), statistics={"cvar(0.1)": draws})
    np.testing.assert_array_equal(read_values(belief, "cvar(0.1)").values[0], draws)
    with pytest.raises(BeliefError, match=r"one of value, cvar\(0.1\), found 'median'"):
        read_values(belief, "median")


def test_what_a_belief_does_not_say_is_left_out(draws):
    belief = make_belief(draws[:, :2], ["a", "b"], moved_mass=np.array([0.1, 0.2]))
    assert read_support(belief, ("a", "c"))["a"] == {"moved_mass": 0.1}
    assert np.isnan(read_support(belief, ("a", "c"))["c"]["moved_mass"])
    assert read_statistic(belief) == "mean"
    belief.attrs["settings"] = "not ours"
    assert read_statistic(belief) == "mean"
