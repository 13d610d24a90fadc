"""Tails: the index that ArviZ finds, and logs whose next reward may be larger than all before."""

import json

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.fitting.tails import tail_index


@pytest.mark.parametrize("size", [150, 2000])
@pytest.mark.parametrize("kind", ["lognormal", "exponential", "uniform", "pareto"])
def test_the_index_is_that_of_arviz(kind, size):
    from arviz_stats.base import array_stats

    rng = np.random.default_rng(1)
    values = rng.pareto(1.5, size=size) if kind == "pareto" else getattr(rng, kind)(size=size)
    known = array_stats.pareto_khat(
        values[None, :], chain_axis=0, draw_axis=1, r_eff=1.0, tail="right"
    )
    assert tail_index(values) == pytest.approx(float(known), rel=1e-9)


def test_the_index_of_a_pareto_law_is_one_over_its_exponent():
    values = np.random.default_rng(0).pareto(2.0, size=100_000)
    # Standard error of the index from 948 values, and the draw to 1/2.
    assert tail_index(values) == pytest.approx(0.5, abs=5 * 1.5 / np.sqrt(948))


def test_values_alike_have_no_index():
    assert np.isnan(tail_index(np.repeat([0.0, 1.0], [400, 100])))
    assert np.isnan(tail_index(np.zeros(500)))


def believed(reward, seed=0, **columns):
    rng = np.random.default_rng(seed)
    n = len(reward)
    frame = pl.DataFrame({"state": 0, "action": rng.integers(4, size=n), "reward": reward})
    return bd.fit(
        bd.Logs.from_dataframe(frame.with_columns(**columns)),
        {"it": bd.TabularPolicy([[0.4, 0.3, 0.2, 0.1]])},
        gamma=0.0,
        rng_key=jax.random.key(0),
        draws=200,
    )


def warnings_of(belief):
    return json.loads(belief.attrs["support_warnings"])


def test_a_heavy_tail_abstains_and_says_why():
    belief = believed(np.random.default_rng(2).lognormal(0.0, 2.0, size=1000))
    (found,) = warnings_of(belief)
    assert found["abstain"]
    assert "heavy tail" in found["reason"]
    known = belief["constant_data"]
    assert known["tail_index"].item() > 0.5
    assert known["effective_errors"].item() < 30.0


@pytest.mark.parametrize("kind", ["normal", "uniform", "exponential", "bernoulli", "rare"])
def test_light_tails_are_left_alone(kind):
    rng = np.random.default_rng(3)
    reward = {
        "normal": lambda: rng.normal(size=1000),
        "uniform": lambda: rng.uniform(size=1000),
        "exponential": lambda: rng.exponential(size=1000),
        "bernoulli": lambda: (rng.random(1000) < 0.5).astype(float),
        "rare": lambda: (rng.random(5000) < 0.005).astype(float),
    }[kind]()
    assert warnings_of(believed(reward)) == []


def test_few_rewards_that_differ_are_named():
    reward = np.zeros(1000)
    reward[0] = 1.0
    found = warnings_of(believed(reward))
    assert any("effective errors" in each["reason"] and each["abstain"] for each in found)
