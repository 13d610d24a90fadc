"""ArviZ's own functions on a belief, with no adapter, after the groups that they need."""

import arviz as az
import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.belief import make_belief
from bayesdice_ppl.errors import BayesDiceError

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def world(plain):
    return plain.log(4, n_episodes=150, rewards="continuous"), plain.policies(4, 2)


@pytest.fixture(scope="module")
def belief(world):
    return bd.fit(*world, gamma=0.9, rng_key=KEY, draws=400, include_logged=True)


@pytest.fixture(scope="module")
def full(world, belief):
    found = bd.add_log_likelihood(belief, *world)
    found = bd.add_prior(found, *world, rng_key=KEY, draws=300)
    return bd.add_posterior_predictive(found, *world, rng_key=KEY)


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda b: az.plot_forest(b, var_names="value", backend="none"), id="forest"),
        pytest.param(lambda b: az.plot_dist(b, var_names="value", backend="none"), id="dist"),
        pytest.param(lambda b: az.plot_pair(b, var_names="value", backend="none"), id="pair"),
        pytest.param(
            lambda b: az.plot_prior_posterior(b, var_names="value", backend="none"), id="prior"
        ),
        pytest.param(lambda b: az.plot_ppc_dist(b, backend="none"), id="ppc"),
        pytest.param(
            lambda b: az.plot_psense_dist(b, var_names="value", backend="none"), id="psense"
        ),
        pytest.param(lambda b: az.plot_khat(az.loo(b, pointwise=True), backend="none"), id="khat"),
    ],
)
def test_the_figure_is_made(draw, full):
    assert draw(full).backend == "none"


def test_loo_counts_each_episode_for_each_candidate(full):
    found = az.loo(full, pointwise=True)
    assert found.n_data_points == 3 * 150
    assert found.pareto_k.dims == ("policy", "episode")
    assert np.isfinite(found.pareto_k).all()
    # Of a sound belief no one episode holds all.
    assert float(found.pareto_k.max()) < 0.7


@pytest.mark.slow
def test_compare_takes_beliefs(full, world):
    pinned = bd.fit(
        *world,
        gamma=0.9,
        rng_key=KEY,
        draws=400,
        include_logged=True,
        prior=bd.Prior(0.05, rare_share=0.0),
    )
    other = bd.add_log_likelihood(pinned, *world)
    table = az.compare({"wide": full, "pinned": other})
    assert set(table.index) == {"wide", "pinned"}
    assert table.index[0] == "wide"


def test_sensitivity_is_to_the_data_and_not_to_a_wide_prior(full):
    one = {"policy": "p0"}
    table = az.psense_summary(
        full, var_names="value", coords=one, prior_coords=one, likelihood_coords=one
    )
    assert table.loc["value", "likelihood"] > 0.05
    assert table.loc["value", "prior"] < 0.05


def test_the_prior_is_that_of_the_belief(full, belief):
    prior = full["prior/value"].values[0]
    mean = belief["constant_data/prior_mean"].values
    sd = belief["constant_data/prior_sd"].values
    n = len(prior)
    assert np.all(np.abs(prior.mean(axis=0) - mean) < 5 * sd / np.sqrt(n))
    assert np.all(np.abs(prior.std(axis=0) - sd) < 5 * sd / np.sqrt(2 * n))
    weights = full["prior/weights"].values[0]
    assert weights.shape == (n, 3, belief["posterior"].sizes["pair"])
    np.testing.assert_allclose(weights[:, 0].mean(), 1.0, atol=5 * 10 / np.sqrt(weights[:, 0].size))


def test_the_log_prior_is_a_sum_of_normal_densities(full, world, belief):
    from scipy.stats import norm

    value = belief["posterior/value"].values
    known = belief["constant_data"]
    expected = norm.logpdf(value, known["prior_mean"].values, known["prior_sd"].values)
    np.testing.assert_allclose(full["log_prior/value"], expected, rtol=1e-5)
    count = known["pair_count"].values
    sd = 10.0 * np.maximum(1.0, 0.1 * count.sum() / count)
    weights = belief["posterior/weights"].sel(policy="p0").values.astype(float)
    expected = norm.logpdf(weights, 1.0, sd).sum(axis=-1)
    np.testing.assert_allclose(full["log_prior/weights"].sel(policy="p0"), expected, rtol=1e-4)


def test_predicted_rewards_have_the_mean_that_the_ratio_says(full, world, belief):
    # Of the logging policy: the mean of ratio times reward, by the mean of the draws.
    logs, _ = world
    predicted = full["posterior_predictive/reward"]
    assert set(np.unique(predicted.values)) <= set(logs.reward.astype(np.float32).tolist())
    assert predicted.shape == (1, 400, logs.n_transitions)
    value = belief["posterior/value"].sel(policy="logged").values
    # Value and predicted mean differ by the noise of rewards, not by more.
    error = logs.reward.std() / np.sqrt(logs.n_transitions)
    assert abs(predicted.values.mean() - value.mean()) < 4 * error / np.sqrt(400) + 0.2 * error


def test_whose_rewards_has_to_be_clear(world, belief):
    plain = bd.fit(*world, gamma=0.9, rng_key=KEY, draws=50)
    with pytest.raises(BayesDiceError, match="include_logged=True"):
        bd.add_posterior_predictive(plain, *world, rng_key=KEY)
    with pytest.raises(BayesDiceError, match="found 'nobody'"):
        bd.add_posterior_predictive(belief, *world, rng_key=KEY, policy="nobody")
    with pytest.raises(BayesDiceError, match="draws"):
        bd.add_prior(belief, *world, rng_key=KEY, draws=2000)


def test_all_groups_go_to_a_file_and_back(full, tmp_path):
    back = bd.load_belief(bd.save_belief(full, tmp_path / "belief.nc"))
    assert set(back.children) == set(full.children)
    for group in ("log_likelihood", "prior", "log_prior", "posterior_predictive"):
        for name, array in full[group].data_vars.items():
            np.testing.assert_array_equal(back[group][name], array)


def test_a_summary_has_r_hat_only_where_chains_mixed(belief):
    table = bd.summary(belief)
    assert "r_hat" not in table
    assert "ess" not in table
    assert "independent" in table.attrs["chains"]
    assert not table.isna().to_numpy().any()
    value = belief["posterior/value"].values[0]
    np.testing.assert_allclose(table["mcse_mean"], value.std(axis=0, ddof=1) / np.sqrt(400))
    chains = np.random.default_rng(0).normal(size=(2, 100, 1))
    sampled = make_belief(
        chains, ["a"], r_hat=[1.01], effective_draws=[50.0], chains="2 chains of nuts."
    )
    table = bd.summary(sampled, round_to=3)
    assert table.loc["a", "r_hat"] == 1.01
    assert table.loc["a", "ess"] == 50.0
    np.testing.assert_allclose(table.loc["a", "mcse_mean"], chains.std(ddof=1) / 50**0.5, atol=1e-3)
    assert table.attrs["chains"] == "2 chains of nuts."
