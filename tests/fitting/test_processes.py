"""Beliefs from Gaussian processes: kernel matrices alone, inducing points, and known values."""

import jax
import numpy as np
import polars as pl
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
            numerics=bd.Numerics(action_draws=16),
        )
        known = belief["constant_data"]
        inside.append(np.abs(known["guide_mean"].values - TRUTH) / known["guide_sd"].values < 1.685)
    error = np.sqrt(0.9 * 0.1 / 30)
    np.testing.assert_allclose(np.mean(inside, axis=0), 0.9, atol=4 * error)


@pytest.mark.slow
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
            numerics=bd.Numerics(jackknife=0),
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


class Sigmoid:
    """Takes action 1 more often in larger states."""

    def probs(self, obs):
        up = 1 / (1 + np.exp(-np.asarray(obs)[:, 0]))
        return np.column_stack([1 - up, up])


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.0, 0.6, 1.0])
def test_the_papers_form_is_the_kernel_norm_of_the_residual(gamma):
    """Kernel matrices of state-action points, and no features: the appendix, residual as it is."""
    rng = np.random.default_rng(0)
    m, length, price, prior_sd = 5, 6, 40.0, 2.0
    n = m * length
    state, following = rng.normal(size=(2, n))
    action, ended = rng.integers(2, size=n), np.arange(n) % 12 == 5
    reward = state + action + rng.normal(size=n)
    frame = pl.DataFrame(
        {
            "episode_id": np.repeat(np.arange(m), length),
            "obs_0": state,
            "action": action,
            "reward": reward,
            "terminated": ended,
            "next_obs_0": following,
        }
    )
    feature_map = bd.features.product(
        bd.features.gaussian_process(bd.features.kernels.matern(0.5, 1.0), of="state"),
        bd.features.one_hot(of="action"),
    )
    belief = bd.fit(
        bd.Logs.from_dataframe(frame, actions=[0, 1]),
        {"up": Sigmoid()},
        gamma=gamma,
        rng_key=jax.random.key(0),
        preset="paper",
        inference="exact",
        draws=2,
        features=feature_map,
        prior=bd.Prior(prior_sd),
        constraint=bd.Constraint(lam=price, epsilon=1.0),
    )["constant_data"]

    def kernel(s, a, t, b):
        distance = np.abs(s[:, None] - t) / state.std()
        return np.exp(-distance) * (np.asarray(a)[:, None] == b)

    def at_policy(s):
        probs = Sigmoid().probs(s[:, None])
        return sum(probs[:, [b]] * kernel(s, np.full(len(s), b), state, action) for b in (0, 1))

    # A function of the kernel's space, by its inner products with k(x_j, .) at the logged points.
    here, at_start = kernel(state, action, state, action), at_policy(state[::length]).mean(axis=0)
    D = gamma * np.where(ended[:, None], at_start, at_policy(following)) - here
    b = (1 - gamma) * at_start
    # Their norm in the span of these points, and a row for the normalization.
    rows = np.column_stack([D @ np.linalg.inv(np.linalg.cholesky(here)).T, np.ones(n)])
    offset = np.append(np.linalg.solve(np.linalg.cholesky(here), b), -1.0)
    prior = prior_sd**2 / 2 * (1 + here)
    precision = np.linalg.inv(prior) + price * rows @ rows.T / n**2
    mean = np.linalg.solve(precision, np.linalg.inv(prior) @ np.ones(n) - price * rows @ offset / n)
    assert belief["guide_mean"].item() == pytest.approx(mean @ reward / n, abs=1e-8)
    sd = np.sqrt(reward @ np.linalg.solve(precision, reward)) / n
    assert belief["guide_sd"].item() == pytest.approx(sd, abs=1e-8)
