"""Fits on features: against the tabular form, and in a linear-Gaussian world with known values."""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.fitting import fit_flat
from tests.linear_world import GAMMA, POLICIES, TRUTH, Drawn, chain_log
from tests.marks import slow

FEATURES = bd.features.polynomial(2)
DRAWN = {name: Drawn(policy) for name, policy in POLICIES.items()}


def fit_chain(logs, **given):
    given = {"features": FEATURES, "inference": "exact", "draws": 50, **given}
    return fit_flat(logs, POLICIES, gamma=GAMMA, rng_key=jax.random.key(1), **given)


@pytest.mark.slow
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
            DRAWN,
            gamma=GAMMA,
            rng_key=jax.random.key(seed),
            features=FEATURES,
            inference="exact",
            draws=2,
            numerics=bd.Numerics(action_draws=4),
        )
        means.append(belief["constant_data/guide_mean"].values)
        claimed.append(belief["constant_data/action_standard_error"].values)
    ratio = np.std(means, axis=0, ddof=1) / np.mean(claimed, axis=0)
    # An sd from 40 repeats is known to 11 %.
    np.testing.assert_allclose(ratio, 1.0, atol=5 * 0.113)
    assert np.all(np.mean(claimed, axis=0) > 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [slow(0.0), GAMMA])
def test_a_fit_with_exact_means_is_the_limit_of_fits_with_many_draws(gamma):
    logs = chain_log(4, n_episodes=40, n_steps=15)
    given = {"gamma": gamma, "inference": "exact", "draws": 2, "action_draws": 1000}
    given["features"] = bd.features.concatenate(FEATURES, bd.features.fourier(6, of="action"))
    mixed = {**POLICIES, "calm": DRAWN["calm"]}
    key = jax.random.key(3)
    exact, drawn, both = (
        fit_flat(logs, policies, rng_key=key, **given)["constant_data"]
        for policies in (POLICIES, DRAWN, mixed)
    )
    error = drawn["action_standard_error"].values
    difference = drawn["guide_mean"].values - exact["guide_mean"].values
    assert np.all(error > 0.0)
    assert np.all(np.abs(difference) < 5 * error)
    assert np.all(difference != 0.0)
    # Each candidate for itself: those that say that they are normal are as if all did.
    np.testing.assert_array_equal(exact["action_standard_error"].values, 0.0)
    np.testing.assert_array_equal(both["action_standard_error"].values[:2], 0.0)
    np.testing.assert_allclose(
        both["guide_mean"].values[:2], exact["guide_mean"].values[:2], rtol=1e-9
    )
    np.testing.assert_allclose(both["guide_mean"].values[2], drawn["guide_mean"].values[2])


def test_no_key_is_needed_where_nothing_is_random():
    logs = chain_log(4, n_episodes=12, n_steps=5)
    prepared = bd.prepare(logs, POLICIES, gamma=GAMMA, features=FEATURES)
    assert prepared.inputs.sampling is None
    with pytest.raises(bd.errors.SettingsError, match=r"rng_key: .* 'damping'"):
        bd.prepare(logs, DRAWN, gamma=GAMMA, features=FEATURES)


@pytest.mark.slow
def test_softplus_ratios_agree_between_engines_and_are_positive():
    logs = chain_log(5, n_episodes=20, n_steps=10)
    given = {"features": bd.features.polynomial(1), "link": "softplus", "draws": 2000}
    svi = fit_chain(logs, inference="svi", **given)["constant_data"]
    nuts = fit_chain(logs, inference="nuts", **given)["constant_data"]
    np.testing.assert_array_less(nuts["r_hat"].values, 1.05)
    sd = nuts["guide_sd"].values
    assert np.all(np.abs(svi["guide_mean"].values - nuts["guide_mean"].values) < 0.2 * sd)
    np.testing.assert_allclose(svi["guide_sd"].values, sd, rtol=0.15)


@pytest.mark.parametrize("gamma", [slow(0.0), 0.9, slow(1.0)])
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
    by_table = fit_flat(logs, candidates, gamma=gamma, rng_key=jax.random.key(0), **given)
    by_function = fit_flat(
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
    with pytest.raises(error, match="same whatever the action"):
        fit_chain(logs, features=bd.features.function(lambda obs, action: np.c_[obs, obs**2]))
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
    # One state and orthogonal features of two actions, one of them constant: at gamma = 1 its row
    # is zero but for rounding, and empty cells are counted into by-episode logs.
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, 330)
    frame = pl.DataFrame(
        {
            "episode_id": np.arange(330) // 5,
            "state": np.zeros(330, dtype=int),
            "action": action,
            "reward": np.where(action == 1, 0.1, 0.9) + 0.1 * rng.normal(size=330),
            "next_state": np.zeros(330, dtype=int),
        }
    )
    logs = bd.Logs.from_dataframe(frame)
    third = 1.0 / 3.0
    values = np.array([[[1.0 + third, 1.0], [1.0 + third, -1.0]]])
    target = {"p": bd.TabularPolicy([[0.25, 0.75]])}
    given = {"gamma": 1.0, "rng_key": jax.random.key(0), "inference": "exact", "draws": 2}
    found = bd.fit(
        logs, target, features=bd.features.table(values, states=[0], actions=[0, 1]), **given
    )["constant_data"]
    truth = 0.25 * 0.9 + 0.75 * 0.1
    sd = found["guide_sd"].item()
    assert 0.002 < sd < 0.05
    assert abs(found["guide_mean"].item() - truth) < 4.5 * sd


def test_the_surplus_of_episodes_is_the_difference_of_two_variances_by_hand():
    logs = chain_log(2, n_episodes=30, n_steps=6)
    prepared = bd.prepare(
        logs, POLICIES, gamma=GAMMA, features=FEATURES, rng_key=jax.random.key(1),
        numerics=bd.Numerics(jackknife=0),
    )  # fmt: skip
    alone = bd.prepare(
        logs, POLICIES, gamma=GAMMA, features=FEATURES, rng_key=jax.random.key(1),
        cluster="transition",
    )  # fmt: skip
    problem, n, m = prepared.problem, logs.n_transitions, logs.n_episodes
    for j in range(3):
        moments = problem.of(j)[0].moments
        slope = np.asarray(problem.pilots.slope[j])
        ratio = np.asarray(problem.pilots.ratio[j])[prepared.inputs.cell_of_row]
        rows = np.asarray(moments.design)[prepared.inputs.cell_of_row].copy()
        rows[:, -1] += logs.reward
        each = ratio * (rows @ slope)
        start = np.asarray(moments.initial) @ slope
        start = start - start.mean()
        entry = float(problem.pilots.start_weight[j])
        by_transition = np.mean((each - each.mean()) ** 2) + n / m * entry**2 * np.mean(start**2)
        psi = np.array(
            [
                m / n * np.sum(each[logs.episode == e] - each.mean()) + entry * start[e]
                for e in range(m)
            ]
        )
        by_episode = n / m * np.mean((psi - psi.mean()) ** 2)
        gained = problem.pilots.covariance[j][-1, -1] - alone.problem.pilots.covariance[j][-1, -1]
        assert float(gained) == pytest.approx(max(by_episode - by_transition, 0.0), rel=1e-6)
        assert float(problem.pilots.degrees_of_freedom[j]) == m - 1


def test_states_in_which_nothing_was_done_are_unknown():
    # Two steps; the second state was never acted in, and everybody goes there.
    frame = pl.DataFrame(
        {
            "state": np.zeros(200, dtype=int),
            "action": np.arange(200) % 2,
            "reward": np.arange(200) % 2 + 0.0,
            "next_state": np.ones(200, dtype=int),
        }
    )
    both = bd.features.product(bd.features.one_hot(of="state"), bd.features.one_hot(of="action"))
    belief = bd.fit(
        bd.Logs.from_dataframe(frame), {"p": bd.TabularPolicy([[0.5, 0.5]] * 2)}, gamma=0.9,
        rng_key=jax.random.key(0), inference="exact", draws=2, features=both,
    )  # fmt: skip
    assert belief["constant_data/lost_mass"].item() > 0.1
    assert not bd.select(belief, bd.scores.regret(k=1)).recommended


def test_one_action_alone_is_refused():
    logs = bd.Logs.from_dataframe(
        pl.DataFrame({"obs_0": np.arange(40.0), "action_0": [0.3] * 40, "reward": [0.0, 1.0] * 20})
    )
    with pytest.raises(bd.errors.LogsError, match="one action only"):
        bd.fit(logs, POLICIES, gamma=0.0, rng_key=jax.random.key(0))


def test_the_papers_form_on_features_has_no_student_t():
    prepared = bd.prepare(
        chain_log(2, n_episodes=8, n_steps=6), POLICIES, gamma=GAMMA, features=FEATURES,
        rng_key=jax.random.key(1), preset="paper",
    )  # fmt: skip
    assert np.isinf(np.asarray(prepared.problem.pilots.degrees_of_freedom)).all()
