"""Saving a belief, and loading it as it was."""

import numpy as np
import pytest
import xarray as xr

import bayesdice_ppl as bd
from bayesdice_ppl.errors import BeliefError, OutputError


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
