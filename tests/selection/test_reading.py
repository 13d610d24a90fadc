"""Beliefs and settings that selection refuses, and what it says."""

import arviz as az
import numpy as np
import pytest
import xarray as xr

from bayesdice_ppl import scores
from bayesdice_ppl.errors import BeliefError, ScoreError, SettingsError
from bayesdice_ppl.selection import select


def belief_of(values, names=None):
    names = names or [f"p{i}" for i in range(values.shape[-1])]
    return az.from_dict(
        {"posterior": {"value": values[None]}}, coords={"policy": names}, dims={"value": ["policy"]}
    )


@pytest.fixture
def draws():
    return np.random.default_rng(0).normal(size=(400, 5))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_by_name(draws, bad):
    draws[7, 2] = draws[9, 2] = bad
    belief = belief_of(draws, names=["a", "b", "thompson", "d", "e"])
    with pytest.raises(BeliefError, match="'thompson' has values that are NaN or infinite in 2 of"):
        select(belief, scores.regret(2))


def test_k_too_large(draws):
    with pytest.raises(ScoreError, match="needs at least 6 candidates, got 5"):
        select(belief_of(draws), scores.precision(6))


@pytest.mark.parametrize("limit", [0, -1, 2.5, True, "many"])
def test_max_evaluations(draws, limit):
    with pytest.raises(SettingsError, match="max_evaluations"):
        select(belief_of(draws), scores.regret(2), max_evaluations=limit)
    assert select(belief_of(draws), scores.regret(2)).certificate.method == "exhaustive"
    beyond = select(belief_of(draws), scores.regret(2), max_evaluations=9)
    assert beyond.certificate.method == "branch and bound"


def test_names(draws):
    with pytest.raises(BeliefError, match="two candidates are named 'a'"):
        select(belief_of(draws, names=["a", "b", "a", "c", "d"]), scores.regret(2))
    with pytest.raises(BeliefError, match="must be strings, got 0"):
        select(belief_of(draws, names=[0, 1, 2, 3, 4]), scores.regret(2))
    dataset = xr.Dataset({"value": (("draw", "policy"), draws)})
    with pytest.raises(BeliefError, match="no coordinate `policy`"):
        select(xr.DataTree.from_dict({"posterior": dataset}), scores.regret(2))


def test_no_draws_to_speak_of(draws):
    with pytest.raises(BeliefError, match="two draws"):
        select(belief_of(draws[:1]), scores.regret(2))


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
        select(belief, scores.regret(1))


def test_strange_dims_and_dtypes():
    dataset = xr.Dataset({"value": (("draw", "arm"), np.zeros((3, 2)))})
    with pytest.raises(BeliefError, match="dims draw, arm: expected chain, draw, policy"):
        select(xr.DataTree.from_dict({"posterior": dataset}), scores.regret(1))
    text = xr.Dataset({"value": (("draw", "policy"), [["x"], ["y"]])}, coords={"policy": ["a"]})
    with pytest.raises(BeliefError, match="real numbers"):
        select(xr.DataTree.from_dict({"posterior": text}), scores.regret(1))
