"""Beliefs as DataTrees: layout, saving and loading, and what ArviZ can do with them."""

import json
from importlib.metadata import version

import arviz as az
import jax
import numpy as np
import pytest
import xarray as xr

import bayesdice_ppl as bd
from bayesdice_ppl.belief import belief_settings, make_belief
from bayesdice_ppl.errors import BeliefError, OutputError
from bayesdice_ppl.inference import Svi

KEY = jax.random.key(4)
NAMES = ["gut", "größer", "третий"]


@pytest.fixture(scope="module")
def belief(plain):
    pulls = [(0, 1.0)] * 8 + [(0, 0.0)] * 5 + [(1, 1.0)] * 3 + [(1, 0.0)] * 9
    tables = ([[0.9, 0.1]], [[0.4, 0.6]], [[0.0, 1.0]])
    policies = {name: bd.TabularPolicy(t) for name, t in zip(NAMES, tables, strict=True)}
    return bd.fit(
        plain.bandit(pulls),
        policies,
        gamma=0.0,
        rng_key=KEY,
        draws=500,
        inference=Svi(steps=300),
    )


def test_draws_are_one_chain(belief):
    value = belief["posterior/value"]
    assert value.dims == ("chain", "draw", "policy")
    assert value.shape == (1, 500, 3)
    assert value.policy.values.tolist() == NAMES
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


def test_attributes_hold_settings_versions_and_the_seed(belief):
    settings = belief_settings(belief)
    assert settings["gamma"] == 0.0
    assert settings["inference"] == "svi"
    assert settings["draws"] == 500
    assert settings["svi"]["steps"] == 300
    versions = json.loads(belief.attrs["versions"])
    for package in ("bayesdice-ppl", "jax", "numpyro", "arviz", "numpy"):
        assert versions[package] == version(package)
    words = json.loads(belief.attrs["rng_key"])
    assert words == np.asarray(jax.random.key_data(KEY)).tolist()
    assert belief.attrs["n_transitions"] == 25
    assert belief.attrs["n_episodes"] == 25


def test_the_recorded_seed_is_the_key(belief):
    words = np.array(json.loads(belief.attrs["rng_key"]), dtype=np.uint32)
    key = jax.random.wrap_key_data(words)
    assert key == KEY


def test_constraint_probability_is_the_share_of_draws_within_epsilon_where_q_is_no_gaussian(plain):
    belief = bd.fit(
        plain.log(1),
        plain.policies(2, 2),
        gamma=0.5,
        rng_key=KEY,
        model=bd.models.linear("softplus"),
        inference=Svi(windows=1, steps=50),
        draws=50,
    )
    loss = belief["sample_stats/loss"].values[0]
    constant = belief["constant_data"]
    np.testing.assert_array_equal(
        constant.constraint_probability, (loss <= constant.epsilon.values).mean(axis=0)
    )


def test_a_saved_belief_loads_as_it_was(belief, tmp_path):
    path = tmp_path / "belief.nc"
    assert bd.save_belief(belief, path) == path
    loaded = bd.load_belief(path)
    assert set(loaded.children) == set(belief.children)
    for name, group in belief.children.items():
        assert loaded[name].to_dataset().equals(group.to_dataset())
        for key, variable in group.data_vars.items():
            assert loaded[name][key].dtype.kind == variable.dtype.kind
    for key, attribute in belief.attrs.items():
        assert loaded.attrs[key] == attribute or (
            np.isnan(attribute) and np.isnan(loaded.attrs[key])
        )
    assert [p.name for p in tmp_path.iterdir()] == ["belief.nc"]


def test_a_loaded_belief_does_not_hold_its_file(belief, tmp_path):
    path = tmp_path / "belief.nc"
    bd.save_belief(belief, path)
    loaded = bd.load_belief(str(path))
    path.unlink()
    assert np.isfinite(loaded["posterior/value"].values).all()
    bd.save_belief(loaded, path)
    assert bd.load_belief(path)["posterior"].to_dataset().equals(loaded["posterior"].to_dataset())


def test_saving_replaces_what_was_there(belief, tmp_path):
    path = tmp_path / "belief.nc"
    path.write_text("old")
    bd.save_belief(belief, path)
    assert bd.load_belief(path)["posterior/value"].shape == (1, 500, 3)


def test_a_place_that_cannot_be_written_is_an_output_error(belief, tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        bd.save_belief(belief, tmp_path / "no" / "such" / "belief.nc")
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OutputError, match="cannot be written"):
        bd.save_belief(belief, folder)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder"]


def other_netcdf(path):
    xr.Dataset({"temperature": ("x", np.arange(3.0))}).to_netcdf(path, engine="h5netcdf")


def empty_posterior(path):
    xr.DataTree.from_dict({"posterior": xr.Dataset({"mu": ("draw", np.arange(3.0))})}).to_netcdf(
        path, engine="h5netcdf"
    )


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_text("policy,state,action,prob\n"),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + b"\0" * 50),
        lambda path: path.write_bytes(b"CDF\x01" + b"\0" * 50),
        lambda path: path.mkdir(),
        lambda path: None,
        other_netcdf,
        empty_posterior,
    ],
    ids=["text", "empty", "broken hdf", "broken cdf", "folder", "missing", "other", "no value"],
)
def test_what_is_no_belief_is_refused_with_its_path(write, tmp_path):
    path = tmp_path / "thing.nc"
    write(path)
    with pytest.raises(BeliefError, match=r"thing\.nc: "):
        bd.load_belief(path)


def test_a_truncated_belief_is_refused(belief, tmp_path):
    path = tmp_path / "belief.nc"
    bd.save_belief(belief, path)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(BeliefError, match=r"belief\.nc: "):
        bd.load_belief(path)


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


def test_settings_of_a_foreign_tree_are_an_empty_dict():
    assert belief_settings(xr.DataTree()) == {}


def test_made_beliefs_add_the_chain_to_draws_only():
    made = make_belief(
        {
            "posterior": {"value": np.zeros((4, 2))},
            "constant_data": {"guide_mean": np.zeros(2)},
        },
        {"policy": ["a", "b"]},
        {"note": "x", "numbers": [1, 2]},
    )
    assert made["posterior/value"].shape == (1, 4, 2)
    assert made["constant_data/guide_mean"].shape == (2,)
    assert made.attrs["note"] == "x"
    assert json.loads(made.attrs["numbers"]) == [1, 2]
