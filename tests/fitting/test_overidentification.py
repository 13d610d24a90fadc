"""J on functions that were not fitted, against its formula on raw rows."""

import importlib
import json

import jax
import numpy as np
import polars as pl
import pytest
from scipy.stats import f

import bayesdice_ppl as bd
from bayesdice_ppl.belief.schema import BeliefView
from bayesdice_ppl.fitting.other_functions import other_functions
from benchmarks.gauge_logs import process
from benchmarks.overidentification import Linear, N, bandit_log
from tests.linear_world import GAMMA, POLICIES, chain_log

SHIFTED, NARROWER = Linear(0.5, 0.4, 1.0), Linear(0.5, 0.0, 0.7)
GIVEN = {"gamma": 0.0, "behavior": "none", "features": bd.features.polynomial(1)}


class Even:
    """Both actions alike."""

    def probs(self, obs):
        return np.full((len(obs), 2), 0.5)


def fitted(logs, policies, **given):
    return bd.fit(logs, policies, rng_key=jax.random.key(0), draws=50, **given)


@pytest.mark.parametrize("policy", [SHIFTED, NARROWER])
def test_it_is_hotellings_statistic_of_what_the_fitted_functions_leave(policy, monkeypatch):
    """With squares as the other functions; a linear map of them, or of the fitted, is no matter."""
    featured = importlib.import_module("bayesdice_ppl.fitting.featured")
    squares = bd.features.polynomial(2)
    monkeypatch.setattr(featured, "other_functions", lambda *_, **__: squares)
    logs = bandit_log(3)
    belief = fitted(
        logs,
        {"one": policy.policy},
        model=bd.models.linear(),
        prior=bd.Prior(ratio_sd=1e4),
        **GIVEN,
    )
    frame = logs.to_dataframe()
    s, a = frame["obs_0"].to_numpy(), frame["action_0"].to_numpy()
    mean = policy.slope * s + policy.shift
    one = np.ones_like(s)
    fitted_at, fitted_under = np.stack([one, s, a]), np.stack([one, s, mean])
    other_at = np.stack([s**2, s * a, a**2])
    other_under = np.stack([s**2, s * mean, mean**2 + policy.sd**2])
    weights = np.linalg.solve(fitted_at @ fitted_at.T, fitted_under.sum(axis=1))
    zeta = weights @ fitted_at
    explained = (other_at @ fitted_at.T) @ np.linalg.inv(fitted_at @ fitted_at.T)
    left = zeta * other_at - other_under - explained @ (zeta * fitted_at - fitted_under)
    average, covariance = left.mean(axis=1), np.cov(left)
    expected = N * average @ np.linalg.solve(covariance, average)
    data = belief["constant_data"]
    assert int(data["j_tests"][0]) == 3
    np.testing.assert_allclose(data["j_statistic"][0], expected, rtol=1e-3)
    p_value = f.sf(expected * (N - 3) / (3 * (N - 1)), 3, N - 3)
    np.testing.assert_allclose(data["j_p_value"][0], p_value, rtol=2e-2)


def test_features_that_cannot_express_a_candidate_make_the_belief_abstain():
    policies = {"shifted": SHIFTED.policy, "narrower": NARROWER.policy}
    belief = fitted(bandit_log(0), policies, model=bd.models.linear("exp"), **GIVEN)
    view = BeliefView(belief)
    # The constraint that was fitted is met by both.
    assert np.all(view.constraint_probability > 0.9)
    p_value = belief["constant_data/j_p_value"].values
    assert p_value[0] > 0.01
    assert p_value[1] < 1e-6
    told = [each for each in view.support_warnings if each.name == "other functions"]
    assert [(each.policy, each.abstain) for each in told] == [("narrower", True)]
    assert "cannot express" in told[0].reason


@pytest.mark.parametrize("cluster", [None, "transition"])
def test_the_logging_policy_passes_where_terminations_restart(cluster):
    """At gamma = 1 its ratio is one, whatever the features, and however episodes end."""
    rng = np.random.default_rng(4)
    rows = []
    for episode in range(150):
        s = rng.normal()
        for step in range(40):
            a = 0.5 * rng.normal()
            following = 0.8 * s + a + 0.3
            ended = rng.uniform() < 1.0 / (1.0 + np.exp(3.0 - 2.0 * following))
            density = np.exp(-2.0 * a**2) / np.sqrt(0.5 * np.pi)
            rows.append((episode, step, s, a, -(s**2), following, ended, density))
            s = following
            if ended:
                break
    names = [
        "episode_id",
        "step",
        "obs_0",
        "action_0",
        "reward",
        "next_obs_0",
        "terminated",
        "propensity",
    ]
    logs = bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"))
    same = {"same": bd.GaussianPolicy(lambda obs: 0.0 * np.asarray(obs)[:, :1], 0.5)}
    given = {"gamma": 1.0, "features": bd.features.polynomial(1, of="state"), "cluster": cluster}
    data = fitted(logs, same, **given)["constant_data"]
    assert int(data["j_tests"][0]) > 0
    assert float(data["j_p_value"][0]) > 1e-3


def test_groups_of_episodes_are_its_units_where_they_are_the_unit_of_the_fit():
    logs = chain_log(2, n_episodes=60, n_steps=10)
    frame = logs.to_dataframe().with_columns(user_id=np.repeat(np.arange(15), 40))
    grouped = bd.Logs.from_dataframe(frame)
    given = {"gamma": GAMMA, "features": bd.features.polynomial(1), "behavior": "none"}
    by_episode = fitted(logs, POLICIES, **given)["constant_data/j_tests"].values
    by_user = fitted(grouped, POLICIES, cluster="user_id", **given)["constant_data/j_tests"].values
    # One direction for each five units: twelve, and three.
    assert by_episode.max() > 3
    assert by_user.max() <= 3


@pytest.mark.slow
def test_episodes_of_unequal_lengths_keep_its_size():
    """A mean over rows varies by the lengths as well, which are geometric here.

    At gamma = 1, where terminations restart, the ratio of the logging policy is one.
    """
    found = []
    names = ["episode_id", "step", "obs_0", "action_0", "reward", "next_obs_0"]
    names += ["terminated", "propensity"]
    same = {"same": bd.GaussianPolicy(lambda obs: 0.0 * np.asarray(obs)[:, :1], 0.5)}
    given = {"gamma": 1.0, "features": bd.features.polynomial(1, of="state")}
    for seed in range(50):
        rng = np.random.default_rng([7, seed])
        rows = []
        for episode in range(80):
            s, ended, step = rng.normal() ** 2, False, 0
            while not ended:
                a = 0.5 * rng.normal()
                following, ended = 0.6 * s + a + 1.0, rng.uniform() < 0.1
                density = np.exp(-2.0 * a**2) / np.sqrt(0.5 * np.pi)
                rows.append((episode, step, s, a, s, following, ended, density))
                s, step = following, step + 1
        logs = bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"))
        found.append(float(fitted(logs, same, **given)["constant_data/j_p_value"][0]))
    for size in (0.3, 0.7):
        share = np.mean(np.array(found) < size)
        assert abs(share - size) < 4.5 * np.sqrt(size * (1.0 - size) / len(found))


def test_state_features_of_labels_have_no_other_functions():
    columns = {"state": [0, 1, 0, 1], "action": [0, 1, 1, 0], "reward": [0.0, 1.0, 0.5, 0.2]}
    log = bd.Logs.from_dataframe(pl.DataFrame(columns), actions=[0, 1])
    assert other_functions(log, 1, sees_action=False) is None


@pytest.mark.parametrize("states", [1, 4], ids=["each state", "four states as one"])
def test_features_of_labels_are_judged_by_the_pairs(states):
    # With each state apart the features are the pairs, and nothing is left to judge by.
    rows = np.zeros((8, 3, 24 // states))
    for state, action in np.ndindex(8, 3):
        rows[state, action, 3 * (state // states) + action] = 1.0
    features = bd.features.table(rows, states=list(range(8)), actions=[0, 1, 2])
    logs = bd.Logs.from_dataframe(process(200, 20, 8))
    candidate = {"a": bd.TabularPolicy(np.tile([0.8, 0.15, 0.05], (8, 1)))}
    belief = fitted(logs, candidate, gamma=0.9, features=features)
    warnings = json.loads(belief.attrs["support_warnings"])
    said = [w for w in warnings if w["name"] == "other functions"]
    assert [w["abstain"] for w in said] == ([] if states == 1 else [True])


def test_episodes_that_repeat_each_other_are_not_judged():
    rows = [
        (e, t, 0.1 * t, 0.2 * (-1) ** t, 1.0, 0.1 * (t + 1)) for e in range(20) for t in range(20)
    ]
    names = ["episode_id", "step", "obs_0", "action_0", "reward", "next_obs_0"]
    logs = bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"))
    given = {"gamma": 0.9, "features": bd.features.polynomial(1), "behavior": "none"}
    data = fitted(logs, {"one": SHIFTED.policy}, **given)["constant_data"]
    assert int(data["j_tests"][0]) == 0
    assert np.isnan(float(data["j_p_value"][0]))


def test_one_hot_features_have_no_other_functions():
    columns = {"state": [0, 1, 0, 1], "action": [0, 1, 1, 0], "reward": [0.0, 1.0, 0.5, 0.2]}
    log = bd.Logs.from_dataframe(pl.DataFrame(columns), actions=[0, 1])
    belief = bd.fit(log, {"even": Even()}, gamma=0.0, rng_key=jax.random.key(0), draws=20)
    assert "j_p_value" not in belief["constant_data"]
