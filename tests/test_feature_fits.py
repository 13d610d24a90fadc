"""Fits on features: against the tabular form, and in a linear-Gaussian world with known values."""

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from tests.linear_world import GAMMA, POLICIES, TARGETS, TRUTH, chain_log, chain_value

FEATURES = bd.features.polynomial(2)


def fit_chain(logs, **given):
    given = {"features": FEATURES, "inference": "exact", "draws": 50, **given}
    return bd.fit(logs, POLICIES, gamma=GAMMA, rng_key=jax.random.key(1), **given)


def test_beliefs_cover_the_values_of_a_linear_gaussian_world():
    # Action values are quadratic, and so are the features; 90 % intervals over 60 logs.
    inside = []
    for seed in range(60):
        belief = fit_chain(chain_log(seed, n_episodes=40, n_steps=15), action_draws=16)
        known = belief["constant_data"]
        distance = np.abs(known["guide_mean"].values - TRUTH) / known["guide_sd"].values
        inside.append(distance < 1.685)  # Student t, 39 degrees of freedom
    share = np.mean(inside, axis=0)
    error = np.sqrt(0.9 * 0.1 / 60)
    np.testing.assert_allclose(share, 0.9, atol=4 * error)


def test_svi_finds_the_closed_form_on_features():
    logs = chain_log(3, n_episodes=40, n_steps=15)
    exact = fit_chain(logs)["constant_data"]
    svi = fit_chain(logs, inference="svi")["constant_data"]
    sd = exact["guide_sd"].values
    assert np.all(np.abs(svi["guide_mean"].values - exact["guide_mean"].values) < 0.05 * sd)
    np.testing.assert_allclose(svi["guide_sd"].values, sd, rtol=0.03)


def test_sampled_actions_leave_the_error_that_is_reported():
    logs = chain_log(4, n_episodes=40, n_steps=15)
    means, claimed = [], []
    for seed in range(40):
        belief = bd.fit(
            logs,
            POLICIES,
            gamma=GAMMA,
            rng_key=jax.random.key(seed),
            features=FEATURES,
            inference="exact",
            draws=2,
            action_draws=4,
        )
        means.append(belief["constant_data/guide_mean"].values)
        claimed.append(belief["constant_data/action_standard_error"].values)
    ratio = np.std(means, axis=0, ddof=1) / np.mean(claimed, axis=0)
    # An sd from 40 repeats is known to 11 %.
    np.testing.assert_allclose(ratio, 1.0, atol=5 * 0.113)
    assert np.all(np.mean(claimed, axis=0) > 0.0)


def test_softplus_ratios_agree_between_engines_and_are_positive():
    logs = chain_log(5, n_episodes=20, n_steps=10)
    given = {"features": bd.features.polynomial(1), "link": "softplus", "draws": 2000}
    svi = fit_chain(logs, inference="svi", **given)["constant_data"]
    nuts = fit_chain(logs, inference="nuts", **given)["constant_data"]
    np.testing.assert_array_less(nuts["r_hat"].values, 1.05)
    sd = nuts["guide_sd"].values
    assert np.all(np.abs(svi["guide_mean"].values - nuts["guide_mean"].values) < 0.2 * sd)
    np.testing.assert_allclose(svi["guide_sd"].values, sd, rtol=0.15)


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_one_hot_features_by_function_agree_with_the_tabular_form(plain, gamma):
    logs, candidates = plain.log(3, rewards="continuous"), plain.policies(5, 2)
    seen = {(s, a) for s, a in zip(logs.state.tolist(), logs.action.tolist(), strict=True)}
    pairs = sorted((logs.state_labels[s], logs.action_labels[a]) for s, a in seen)

    def indicator(obs, action):
        table = np.zeros((len(obs), len(pairs)))
        for i, key in enumerate(zip(obs.tolist(), action.tolist(), strict=True)):
            if key in pairs:
                table[i, pairs.index(key)] = 1.0
        return table

    given = {"inference": "exact", "draws": 2, "prior_sd": 1e4, "small_sample": False}
    by_table = bd.fit(logs, candidates, gamma=gamma, rng_key=jax.random.key(0), **given)
    by_function = bd.fit(
        logs,
        candidates,
        gamma=gamma,
        rng_key=jax.random.key(0),
        features=bd.features.function(indicator),
        cluster="transition",
        **given,
    )
    # Where a pair was not logged, the tabular form renormalizes and features extrapolate.
    assert len(pairs) == 8
    for name in ("guide_mean", "guide_sd"):
        np.testing.assert_allclose(
            by_function[f"constant_data/{name}"].values,
            by_table[f"constant_data/{name}"].values,
            rtol=1e-4,
        )


def test_a_belief_on_features_says_what_its_weights_are(tmp_path):
    logs = chain_log(6, n_episodes=12, n_steps=5)
    belief = fit_chain(logs)
    assert belief["posterior/weights"].dims == ("chain", "draw", "policy", "feature")
    assert belief["constant_data/pilot_ratio"].shape == (3, 60)
    assert "polynomial(2" in belief.attrs["settings"]
    bd.save_belief(belief, tmp_path / "belief.nc")
    again = bd.load_belief(tmp_path / "belief.nc")
    assert bd.select(again, bd.scores.regret(k=1)).order
    assert "self-check" in str(bd.diagnose(belief, logs, POLICIES))


def test_copies_of_a_continuous_policy_share_their_draws():
    logs = chain_log(7, n_episodes=12, n_steps=5)
    policies = {"one": POLICIES["calm"], "other": POLICIES["pushing"], "same": POLICIES["calm"]}
    belief = bd.fit(
        logs,
        policies,
        gamma=GAMMA,
        rng_key=jax.random.key(0),
        features=FEATURES,
        draws=20,
        inference="exact",
    )
    value = belief["posterior/value"].values
    np.testing.assert_array_equal(value[..., 0], value[..., 2])
    assert np.abs(value[..., 0] - value[..., 1]).max() > 0.0


def test_what_does_not_fit_is_refused():
    logs = chain_log(8, n_episodes=12, n_steps=5)
    error = bd.errors.SettingsError
    with pytest.raises(error, match="one_hot"):
        fit_chain(logs, features=bd.features.one_hot())
    with pytest.raises(error, match="does not look at the action"):
        fit_chain(logs, features=bd.features.polynomial(2, of="state"))
    with pytest.raises(error, match="feature map"):
        fit_chain(logs, features="fourier")
    with pytest.raises(error, match="small_sample"):
        fit_chain(logs, small_sample=True)
    with pytest.raises(error, match="action_draws"):
        fit_chain(logs, action_draws=5)
    with pytest.raises(error, match="rng_key"):
        bd.prepare(logs, POLICIES, gamma=GAMMA)
    with pytest.raises(bd.errors.LogsError, match="10"):
        fit_chain(chain_log(9, n_episodes=3, n_steps=5))
    table = bd.TabularPolicy(np.array([[1.0]]), np.array([0]), np.array([0]))
    with pytest.raises(bd.errors.PoliciesError, match="sample"):
        bd.fit(logs, {"table": table}, gamma=GAMMA, rng_key=jax.random.key(0))


def test_a_constant_among_the_features_does_not_bind_by_its_rounding():
    # At gamma = 1 its row is zero but for rounding; the average reward follows from the others.
    logs = chain_log(12, n_episodes=40, n_steps=15)
    features = bd.features.polynomial(2)
    belief = bd.fit(
        logs,
        POLICIES,
        gamma=1.0,
        rng_key=jax.random.key(0),
        features=features,
        inference="exact",
        draws=2,
        action_draws=64,
    )
    inner = features.build

    class WithoutConstant:
        sees = features.sees

        def build(self, space, rng_key):
            built = inner(space, rng_key)
            return lambda points: built(points)[:, 1:]

    other = bd.fit(
        logs,
        POLICIES,
        gamma=1.0,
        rng_key=jax.random.key(0),
        features=WithoutConstant(),
        inference="exact",
        draws=2,
        action_draws=64,
    )
    truth = [chain_value(*numbers, 1.0) for numbers in TARGETS.values()]
    known = belief["constant_data"]
    assert np.all(np.abs(known["guide_mean"].values - truth) < 4.5 * known["guide_sd"].values)
    sd = known["guide_sd"].values
    shift = np.abs(other["constant_data/guide_mean"].values - known["guide_mean"].values)
    assert np.all(shift < 0.1 * sd)
    np.testing.assert_allclose(other["constant_data/guide_sd"].values, sd, rtol=0.05)
