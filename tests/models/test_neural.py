"""A neural ratio: its slopes, its start, the exact belief on labels, and features that fail."""

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.fitting import FitSettings, fit_flat, read_inputs
from bayesdice_ppl.fitting.defaults import with_defaults
from bayesdice_ppl.models import linear, neural
from bayesdice_ppl.moments import Prior, build_moments, state_features
from tests.linear_world import GAMMA, POLICIES, TRUTH, chain_log, gaussian
from tests.marks import slow

KEY = jax.random.key(4)


def ratio_of(model, logs, policies, gamma, **given):
    """The ratio of the first candidate, as a fit builds it."""
    settings = FitSettings(gamma, **with_defaults(logs, gamma, {"model": model, **given}))
    found = read_inputs(logs, policies, settings, KEY)
    first = jax.tree.map(lambda x: None if x is None else jnp.asarray(x)[0], found.candidates)
    moments = build_moments(found.cells, state_features(found.cells, first), settings.form.moments)
    return model.build(found.cells, moments, Prior()), moments


@pytest.fixture(scope="module")
def vectors():
    logs = chain_log(1, n_episodes=20, n_steps=10)
    frame = logs.to_dataframe()
    behavior = gaussian(0.2, 0.0, 1.0)
    density = np.exp(behavior.log_prob(logs.state_labels[logs.state], logs.action_vector))
    return bd.Logs.from_dataframe(frame.with_columns(propensity=pl.Series(np.asarray(density))))


@pytest.mark.parametrize(
    "model",
    [slow(neural(5, 1)), slow(neural(4, 2, "softplus")), linear("exp"), linear(directions=3)],
    ids=str,
)
def test_slopes_are_those_of_differentiation(vectors, model):
    with jax.enable_x64(True):
        ratio, _ = ratio_of(model, vectors, POLICIES, GAMMA)
        size = ratio.prior_mean.shape[0] - 1
        # So near that no logarithm of a ratio is past its range.
        step = 0.05 * jax.random.normal(KEY, (size,))
        point = ratio.prior_mean[:-1] + step * ratio.prior_scale[:-1]
        for own, function in (
            (ratio.jacobian, ratio.residual),
            (ratio.pair_slopes, ratio.by_pair),
        ):
            expected = np.asarray(jax.jacfwd(function)(point))
            found = np.asarray(own(point))
            size = np.abs(expected).max()
            np.testing.assert_allclose(found / size, expected / size, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("link", ["exp", "softplus", "identity"])
def test_it_starts_at_the_action_ratio_and_draws_are_taken_one_by_one(vectors, link):
    with jax.enable_x64(True):
        ratio, moments = ratio_of(neural(6, link=link), vectors, POLICIES, GAMMA)
        start = ratio.prior_mean[:-1]
        np.testing.assert_allclose(ratio.by_pair(start), moments.action_ratio, rtol=1e-12)
        draws = start + 0.1 * jax.random.normal(KEY, (2, 3, start.shape[0]))
        for function in (ratio.by_pair, ratio.residual):
            together = np.asarray(function(draws))
            alone = np.asarray([[function(each) for each in some] for some in draws])
            np.testing.assert_allclose(together, alone, rtol=1e-10, atol=1e-12)
        expected = moments.residual(ratio.by_pair(start))
        np.testing.assert_allclose(ratio.residual(start), expected, rtol=1e-9, atol=1e-12)


def test_another_seed_is_another_network(vectors):
    with jax.enable_x64(True):
        one, again, other = (
            ratio_of(neural(6, seed=seed), vectors, POLICIES, GAMMA)[0] for seed in (0, 0, 1)
        )
    np.testing.assert_array_equal(one.prior_mean, again.prior_mean)
    assert not np.allclose(one.prior_mean, other.prior_mean)
    np.testing.assert_allclose(one.prior_scale[0], other.prior_scale[0])


@pytest.mark.parametrize(("gamma", "link"), [slow(0.9, "identity"), (0.9, "exp")])
def test_on_labels_it_reaches_the_exact_belief(plain, gamma, link):
    logs, policies = plain.log(3, n_episodes=200, rewards="continuous"), plain.policies(4, 2)
    given = {"gamma": gamma, "rng_key": KEY, "draws": 100}
    exact = fit_flat(logs, policies, inference="exact", **given)["constant_data"]
    found = fit_flat(logs, policies, inference="laplace", model=neural(16, link=link), **given)
    assert found["posterior/weights"].dims == ("chain", "draw", "policy", "weight")
    known, sd = found["constant_data"], exact["guide_sd"].values
    assert np.all(np.abs(known["guide_mean"].values - exact["guide_mean"].values) < 0.25 * sd)
    np.testing.assert_allclose(known["guide_sd"].values, sd, rtol=0.15)


def test_on_vectors_it_goes_through_fit_select_diagnose_and_a_file(tmp_path):
    logs = chain_log(5, n_episodes=60, n_steps=15)
    model = neural(8, 1, seed=2)
    belief = bd.fit(
        logs, POLICIES, gamma=GAMMA, rng_key=KEY, model=model, behavior="cloned", draws=200
    )
    known = belief["constant_data"]
    assert np.all(np.abs(known["guide_mean"].values - TRUTH) < 4.5 * known["guide_sd"].values)
    assert belief.attrs["engine"] == f"laplace (the model {model} has no closed form)"
    assert belief["posterior/weights"].shape[-1] == 2 * 8 + 9
    choice = bd.select(belief, bd.scores.regret(1))
    assert sorted(choice.order) == sorted(POLICIES)
    assert str(model) in belief.attrs["settings"]
    assert "cloned" in str(bd.diagnose(belief, logs))
    bd.save_belief(belief, tmp_path / "belief.nc")
    again = bd.load_belief(tmp_path / "belief.nc")
    np.testing.assert_array_equal(again["posterior/value"], belief["posterior/value"])


def stripes(seed, n=2000):
    """One-step logs: the reward is the action times a sine of the state."""
    rng = np.random.default_rng(seed)
    state, action = rng.uniform(-1.0, 1.0, n), rng.normal(size=n)
    reward = action * np.sin(5.0 * state) + 0.5 * rng.normal(size=n)
    return bd.Logs.from_dataframe(
        pl.DataFrame({"obs_0": state, "action_0": action, "reward": reward})
    )


@pytest.mark.slow
def test_where_coarse_features_fail_their_constraint_says_so_and_a_networks_does_not():
    logs = stripes(0)
    # The reward is as smooth as the tests, the ratio is not.
    striped = bd.GaussianPolicy(lambda obs: 0.8 * np.sign(np.sin(5.0 * obs)), 0.7)
    truth = 0.8 * (3.0 + np.cos(5.0)) / 5.0  # 0.8 times the mean of |sin(5 s)|
    given = {
        "gamma": 0.0,
        "rng_key": KEY,
        "behavior": "none",
        "features": bd.features.fourier(100, times_median=0.3),
        "draws": 50,
        "inference": "laplace",
    }
    coarse, network = (
        bd.fit(logs, {"striped": striped}, model=model, **given)
        for model in (linear("exp", directions=2), neural(16))
    )
    off = []
    for belief, met in ((coarse, False), (network, True)):
        known = belief["constant_data"]
        off.append(abs(known["guide_mean"].item() - truth) / known["guide_sd"].item())
        assert (known["constraint_probability"].item() > 0.5) is met
        assert ("constraint" in belief.attrs["support_warnings"]) is not met
    assert off[1] < 3.0
    assert off[0] > off[1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: neural(0), "neural: width"),
        (lambda: neural(8, 0), "neural: depth"),
        (lambda: neural(8, seed=-1), "neural: seed"),
        (lambda: neural(8, link="cube"), "link: expected one of"),
        (lambda: linear(directions=0), "linear: directions"),
    ],
)
def test_what_makes_no_network_is_refused(make, message):
    with pytest.raises(SettingsError, match=message):
        make()
