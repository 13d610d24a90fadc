"""Beliefs from Gaussian processes: inducing points against the process itself, and known values."""

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from tests.linear_world import GAMMA, POLICIES, TRUTH, chain_log

KERNEL = bd.features.kernels.squared_exponential(1.5)


@pytest.mark.slow
def test_a_process_covers_the_values_of_the_linear_world():
    inside = []
    for seed in range(30):
        belief = bd.fit(
            chain_log(seed, n_episodes=160, n_steps=15),
            POLICIES,
            gamma=GAMMA,
            rng_key=jax.random.key(seed),
            inference="exact",
            draws=2,
            features=bd.features.gaussian_process(KERNEL, n_inducing=15),
            action_draws=16,
        )
        known = belief["constant_data"]
        inside.append(np.abs(known["guide_mean"].values - TRUTH) / known["guide_sd"].values < 1.685)
    error = np.sqrt(0.9 * 0.1 / 30)
    np.testing.assert_allclose(np.mean(inside, axis=0), 0.9, atol=4 * error)


def test_more_inducing_points_change_the_width_of_a_smooth_process_little():
    logs = chain_log(0, n_episodes=160, n_steps=15)

    def believe(n_inducing):
        belief = bd.fit(
            logs,
            POLICIES,
            gamma=GAMMA,
            rng_key=jax.random.key(0),
            inference="exact",
            draws=2,
            features=bd.features.gaussian_process(KERNEL, n_inducing=n_inducing),
        )
        return belief["constant_data"], belief.attrs["support_warnings"]

    (few, quiet), (many, _) = believe(15), believe(30)
    for known in (few, many):
        distance = np.abs(known["guide_mean"].values - TRUTH)
        assert np.all(distance < 4.5 * known["guide_sd"].values)
    np.testing.assert_allclose(few["guide_sd"].values, many["guide_sd"].values, rtol=0.25)
    assert "features" not in quiet


def test_too_many_features_for_a_log_are_said():
    belief = bd.fit(
        chain_log(0, n_episodes=40, n_steps=15),
        POLICIES,
        gamma=GAMMA,
        rng_key=jax.random.key(0),
        inference="exact",
        draws=2,
        features=bd.features.gaussian_process(KERNEL, n_inducing=40),
    )
    assert "40 features" in belief.attrs["support_warnings"]
