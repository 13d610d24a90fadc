"""Beliefs as DataTrees: their layout, and what ArviZ can do with them."""

import json
from importlib.metadata import version

import arviz as az
import jax
import numpy as np
import pytest
import xarray as xr

import bayesdice_ppl as bd
from bayesdice_ppl.belief import BeliefView, OwnVariables, SupportWarning, annotate, make_belief


def test_draws_are_one_chain(belief):
    value = belief["posterior/value"]
    assert value.dims == ("chain", "draw", "policy")
    assert value.shape == (1, 500, 3)
    assert value.policy.values.tolist() == ["gut", "größer", "третий"]
    assert belief["posterior/weights"].dims == ("chain", "draw", "policy", "pair")
    assert belief["sample_stats/loss"].dims == ("chain", "draw", "policy")


def test_groups_are_those_of_arviz(belief):
    assert set(belief.children) == {
        "posterior",
        "sample_stats",
        "fit_data",
        "observed_data",
        "constant_data",
    }
    assert belief["fit_data/elbo"].dims == ("policy", "step")
    assert belief["observed_data/reward"].shape == (25,)
    for name in ("guide_mean", "guide_sd", "moved_mass", "degrees_of_freedom"):
        assert belief["constant_data"][name].dims == ("policy",)


def test_attributes_hold_settings_versions_and_the_seed(belief, key):
    settings = BeliefView(belief).settings
    assert settings["gamma"] == 0.0
    assert settings["inference"] == "svi"
    assert settings["draws"] == 500
    assert settings["svi"]["steps"] == 300
    versions = json.loads(belief.attrs["versions"])
    for package in ("bayesdice-ppl", "jax", "numpyro", "arviz", "numpy"):
        assert versions[package] == version(package)
    words = json.loads(belief.attrs["rng_key"])
    assert words == np.asarray(jax.random.key_data(key)).tolist()
    assert belief.attrs["n_transitions"] == 25
    assert belief.attrs["n_episodes"] == 25


def test_the_recorded_seed_is_the_key(belief, key):
    words = np.array(json.loads(belief.attrs["rng_key"]), dtype=np.uint32)
    assert jax.random.wrap_key_data(words) == key


@pytest.mark.slow
def test_constraint_probability_is_the_share_of_draws_within_epsilon_where_q_is_no_gaussian(
    plain, key
):
    belief = bd.fit(
        plain.log(1),
        plain.policies(2, 2),
        gamma=0.5,
        rng_key=key,
        model=bd.models.linear("softplus"),
        inference=bd.inference.Svi(windows=1, steps=50),
        draws=50,
    )
    loss = belief["sample_stats/loss"].values[0]
    constant = belief["constant_data"]
    np.testing.assert_array_equal(
        constant.constraint_probability, (loss <= constant.epsilon.values).mean(axis=0)
    )


def test_arviz_summarizes_it(belief):
    table = az.summary(belief, var_names=["value"], ci_prob=0.9, round_to="none")
    assert len(table) == 3
    draws = belief["posterior/value"].values[0]
    np.testing.assert_allclose(table["mean"], draws.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(table["sd"], draws.std(axis=0, ddof=1), rtol=1e-2)


def test_arviz_statistics_work_on_it(belief):
    interval = az.hdi(belief, var_names=["value"], prob=0.9)["value"]
    assert interval.shape == (3, 2)
    assert (interval[:, 0] < interval[:, 1]).all()
    assert az.ess(belief, var_names=["value"])["value"].shape == (3,)
    stacked = az.extract(belief, var_names="value")
    assert stacked.sizes["sample"] == 500


def test_beliefs_of_two_fits_can_be_put_side_by_side(belief):
    both = xr.concat([belief["posterior/value"]] * 2, dim="chain")
    assert both.shape == (2, 500, 3)


def test_values_and_names_alone_make_a_belief():
    values = np.arange(24.0).reshape(12, 2)
    made = make_belief(values, ["a", "b"])
    assert list(made.children) == ["posterior"]
    assert made["posterior/value"].dims == ("chain", "draw", "policy")
    np.testing.assert_array_equal(made["posterior/value"].values[0], values)
    chains = make_belief(values.reshape(3, 4, 2), ["a", "b"], loss=values)
    assert chains["posterior/value"].shape == (3, 4, 2)
    np.testing.assert_array_equal(chains["sample_stats/loss"], chains["posterior/value"])
    assert bd.select(chains, bd.scores.regret(k=1)).order == ["b", "a"]


def test_entries_go_to_their_groups_and_are_read_back():
    warned = SupportWarning("a", "was never seen.", True)
    made = make_belief(
        np.zeros((4, 2)),
        ["a", "b"],
        statistics={"cvar(0.1)": np.ones((4, 2))},
        own=OwnVariables(
            draws={"rate": (np.zeros((4, 2, 3)), ("policy", "knot"))},
            constants={"knot_place": (np.arange(3.0), ("knot",))},
            coords={"knot": ["x", "y", "z"]},
        ),
        guide_mean=np.zeros(2),
        elbo=None,
        support_warnings=[warned],
        steps_left_out=[1, 2],
    )
    assert made["posterior/cvar(0.1)"].dims == ("chain", "draw", "policy")
    assert made["posterior/rate"].dims == ("chain", "draw", "policy", "knot")
    assert made["posterior/rate"].knot.values.tolist() == ["x", "y", "z"]
    assert made["constant_data/knot_place"].dims == ("knot",)
    assert made["constant_data/guide_mean"].shape == (2,)
    assert "fit_data" not in made.children
    assert BeliefView(made).support_warnings == (warned,)
    assert BeliefView(made).steps_left_out == [1, 2]
    annotate(made, seed=7)
    assert BeliefView(made).seed == 7


def test_entries_that_the_schema_does_not_have_are_refused():
    with pytest.raises(TypeError, match="no entry 'guide_mena'"):
        make_belief(np.zeros((4, 2)), ["a", "b"], guide_mena=np.zeros(2))
    with pytest.raises(TypeError, match="no attribute 'guide_mean'"):
        annotate(make_belief(np.zeros((4, 2)), ["a", "b"]), guide_mean=np.zeros(2))
