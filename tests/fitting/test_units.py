"""A constant added to all rewards, or a factor, changes a belief by that and by no more."""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from tests.marks import slow

POLICIES = {
    "first": bd.TabularPolicy([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]),
    "second": bd.TabularPolicy([[0.5, 0.4, 0.1], [0.6, 0.2, 0.2]]),
}
SHIFTS = {"cvar(0.3)": 1.0, "variance": 0.0, "mean_variance(0.5)": 1.0, "quantile(0.3)": 1.0}


def belief_of(factor=1.0, shift=0.0, gamma=0.9, **options):
    rng = np.random.default_rng(0)
    state, action = rng.integers(2, size=400), rng.integers(3, size=400)
    # Multiples of 2^-10, which 1e8 and 1e6 times a thousandth leave exact.
    reward = np.round((0.3 * action + 0.2 * state + rng.normal(size=400)) * 1024) / 1024
    frame = pl.DataFrame(
        {
            "episode_id": np.arange(400) // 20,
            "state": state,
            "action": action,
            "reward": factor * reward + shift,
        }
    )
    settings = {"rng_key": jax.random.key(0), "draws": 60, **options}
    return bd.fit(bd.Logs.from_dataframe(frame), POLICIES, gamma=gamma, **settings)


@pytest.mark.parametrize("gamma", [0.0, slow(0.9), slow(1.0)])
@pytest.mark.parametrize("shift", [1e5, -1e8, slow(1e9)])
def test_rewards_far_from_zero_have_the_belief_of_those_at_zero(gamma, shift):
    plain, moved = belief_of(gamma=gamma), belief_of(gamma=gamma, shift=shift)
    lost = abs(shift) * 1e-15
    for name in ("posterior/value", "constant_data/guide_mean", "constant_data/prior_mean"):
        np.testing.assert_allclose(
            moved[name].to_numpy() - shift, plain[name].to_numpy(), rtol=1e-6, atol=10.0 * lost
        )
    np.testing.assert_allclose(
        moved["constant_data/guide_sd"], plain["constant_data/guide_sd"], rtol=1e-6
    )
    assert moved.attrs["logged_value"] == pytest.approx(
        plain.attrs["logged_value"] + shift, abs=10.0 * lost
    )
    assert moved.attrs["support_warnings"] == plain.attrs["support_warnings"]
    np.testing.assert_allclose(
        moved["observed_data/reward"] - shift, plain["observed_data/reward"], atol=10.0 * lost
    )


@pytest.mark.parametrize("statistic", ["cvar(0.3)", *map(slow, [*SHIFTS][1:])])
def test_so_do_statistics(statistic):
    shift = 1e8
    plain = belief_of(statistic=["mean", statistic])[f"posterior/{statistic}"].to_numpy()
    moved = belief_of(statistic=["mean", statistic], shift=shift)
    found = moved[f"posterior/{statistic}"].to_numpy() - SHIFTS[statistic] * shift
    np.testing.assert_allclose(found, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("factor", [1e-6, slow(1e8)])
def test_a_factor_is_a_factor(factor):
    plain, scaled = belief_of(), belief_of(factor=factor)
    for name in ("posterior/value", "constant_data/guide_sd"):
        np.testing.assert_allclose(scaled[name] / factor, plain[name], rtol=1e-8)
